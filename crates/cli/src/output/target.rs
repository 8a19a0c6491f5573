//! Output files.

use super::{Output, Report};
use crate::interrupt::{self, Held};
use anyhow::{Context as _, Result, bail};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// A path where a file will be written.
pub(crate) struct Target {
    path: PathBuf,
    /// Whether the path is a device or a pipe, which is written to instead of being replaced.
    is_special: bool,
}

impl Target {
    /// Checks that a file can be written there, before any work is done.
    pub(crate) fn new(path: &Path) -> Result<Self> {
        let name = || path.display().to_string();
        if path == Path::new("-") {
            bail!("-: use /dev/stdout for the standard output, or ./- for a file with this name");
        }
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                bail!("{}: this is a directory; name a file in it", name())
            }
            Ok(metadata) if !metadata.is_file() => Ok(Self { path: path.into(), is_special: true }),
            // Follow a link, so that its target is replaced.
            Ok(_) => Self::file(fs::canonicalize(path).with_context(name)?),
            Err(error) if error.kind() == ErrorKind::NotFound => Self::new_file(path),
            Err(error) => Err(error).with_context(name),
        }
    }

    fn new_file(path: &Path) -> Result<Self> {
        let folder = folder(path);
        fs::metadata(folder).with_context(|| folder.display().to_string())?;
        if path.is_symlink() {
            bail!("{}: this is a broken link", path.display());
        }
        Self::file(path.into())
    }

    /// Checks that files can be created in the same folder.
    fn file(path: PathBuf) -> Result<Self> {
        tempfile::tempfile_in(folder(&path)).with_context(|| path.display().to_string())?;
        Ok(Self { path, is_special: false })
    }

    /// Returns an error if the output would replace this file, which is `what`.
    pub(crate) fn keep_off(&self, path: &Path, what: &str) -> Result<()> {
        if !self.is_special && is_same(&self.path, path) {
            bail!("{}: this is {what}; write the output to a different file", path.display());
        }
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn is_special(&self) -> bool {
        self.is_special
    }

    /// Delays signals while a file is written. Does not delay them for a pipe, which may never be
    /// read.
    pub(crate) fn hold(&self) -> Option<Held> {
        (!self.is_special).then(interrupt::hold)
    }

    /// Prints a report about the file. Prints nothing for a device or a pipe, because the file may
    /// have gone to the standard output, too.
    pub(crate) fn report(&self, report: &Report, output: &mut Output) -> Result<()> {
        Ok(if self.is_special { Ok(()) } else { output.report(report) }?)
    }

    /// Writes a file that everybody may read. If this fails, an existing file is unchanged.
    pub(crate) fn write(&self, content: impl AsRef<[u8]>) -> Result<()> {
        let content = content.as_ref();
        let _held = self.hold();
        let written = if self.is_special {
            let file = File::options().write(true).open(&self.path);
            file.and_then(|mut file| file.write_all(content))
        } else {
            self.replace(content)
        };
        written.with_context(|| self.path.display().to_string())
    }

    fn replace(&self, content: &[u8]) -> io::Result<()> {
        let mut builder = tempfile::Builder::new();
        // The user's mask is applied to these permissions.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let mut file = builder.prefix(".twiceshy-").tempfile_in(folder(&self.path))?;
        file.write_all(content)?;
        file.as_file().sync_all()?;
        file.persist(&self.path)?;
        Ok(())
    }
}

/// Returns whether both paths are the same file, which need not exist.
fn is_same(one: &Path, other: &Path) -> bool {
    let in_folder =
        |path: &Path| Some(fs::canonicalize(folder(path)).ok()?.join(path.file_name()?));
    let resolved = |path: &Path| fs::canonicalize(path).ok().or_else(|| in_folder(path));
    resolved(one).is_some_and(|one| Some(one) == resolved(other))
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}
