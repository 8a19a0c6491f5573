//! Reads and writes files with secrets.

use crate::output::Target;
use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use twiceshy::Secret;

/// The option that names the file with the secret. Keys are hashed with this secret.
#[derive(Args)]
pub(super) struct SecretArgs {
    /// The file with the secret, if the secret is not in the filter
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
}

impl SecretArgs {
    /// Returns whether the secret is in a separate file.
    pub(super) fn is_apart(&self) -> bool {
        self.secret_file.is_some()
    }

    /// Returns an error if writing the filter would replace the file with the secret.
    pub(super) fn keep_off(&self, target: &Target) -> Result<()> {
        self.secret_file
            .iter()
            .try_for_each(|path| target.keep_off(path, "the file with the secret"))
    }

    /// Reads the secret from the file, if the option was given.
    pub(super) fn read(&self) -> Result<Option<Secret>> {
        self.secret_file
            .as_deref()
            .map(|path| read(path)?.with_context(|| missing(path)))
            .transpose()
    }

    /// Decides where a new filter gets its secret from. Reads the secret if its file exists, and
    /// writes nothing.
    pub(super) fn read_or_plan(&self) -> Result<Planned<'_>> {
        let Some(path) = self.secret_file.as_deref() else { return Ok(Planned::InFilter) };
        match read(path)? {
            Some(secret) => Ok(Planned::Existing(secret)),
            None => Ok(Planned::New(path)),
        }
    }
}

/// Where a new filter's secret comes from, and where it is saved.
pub(super) enum Planned<'a> {
    /// The secret is saved in the filter.
    InFilter,
    /// The secret was read from its file.
    Existing(Secret),
    /// A new secret will be written to this file.
    New(&'a Path),
}

impl Planned<'_> {
    /// Writes the secret to its file, if it is new, and calls `then`. If either fails, removes the
    /// new file again.
    pub(super) fn keep(&self, secret: &Secret, then: impl FnOnce() -> Result<()>) -> Result<()> {
        let Self::New(path) = self else { return then() };
        let name = || path.display().to_string();
        // Never replace a file that another process has created meanwhile.
        let mut file = create(path).with_context(name)?;
        let written = write(&mut file, secret).with_context(name);
        written.and_then(|()| then()).inspect_err(|_| {
            // Report the first error only.
            let _ = fs::remove_file(path);
        })
    }
}

fn missing(path: &Path) -> String {
    format!("{}: this file does not exist", path.display())
}

/// Reads the secret from a file, if the file exists.
fn read(path: &Path) -> Result<Option<Secret>> {
    match fs::read_to_string(path) {
        Ok(text) => {
            let wrong = || {
                anyhow!(
                    "{}: this file must contain a secret of 32 hexadecimal digits",
                    path.display()
                )
            };
            parsed(text.trim()).map(Some).ok_or_else(wrong)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

fn parsed(text: &str) -> Option<Secret> {
    let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten()?;
    Some(Secret::from_bytes(number.to_be_bytes()))
}

/// Creates a file that only its owner can read.
fn create(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn write(file: &mut File, secret: &Secret) -> io::Result<()> {
    let mut text = String::with_capacity(33);
    for byte in secret.expose() {
        let _ = write!(text, "{byte:02x}");
    }
    text.push('\n');
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
