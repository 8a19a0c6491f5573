//! Filter files.

use super::secret::SecretArgs;
use crate::output::{Output, Report};
use anyhow::{Context as _, Result, anyhow, bail};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use twiceshy::{AdaptiveQuotientFilter, Keyed, SnapshotError};

/// A filter of lines.
pub(super) type LineFilter = Keyed<[u8], AdaptiveQuotientFilter>;

/// Reads a filter, with the secret that is in it, or with the one that was given.
pub(super) fn load(path: &Path, secret: &SecretArgs) -> Result<LineFilter> {
    Ok(match secret.read()? {
        Some(secret) => Keyed::restore_from(path, secret)?,
        None => Keyed::restore_with_secret_from(path).map_err(|error| match error.cause() {
            SnapshotError::NoSecret => {
                anyhow!("{}: the secret isn't in the filter; give --secret-file", path.display())
            }
            _ => error.into(),
        })?,
    })
}

/// Reads a filter of which nothing will be asked, so that no secret is needed; whether one is in
/// it.
pub(super) fn load_unasked(path: &Path) -> Result<(AdaptiveQuotientFilter, bool)> {
    match LineFilter::restore_with_secret_from(path) {
        Ok(filter) => Ok((filter.filter().clone(), true)),
        Err(error) if matches!(error.cause(), SnapshotError::NoSecret) => {
            Ok((AdaptiveQuotientFilter::restore_from(path)?, false))
        }
        Err(error) => Err(error.into()),
    }
}

/// Where a filter will be written.
pub(super) struct Target {
    path: PathBuf,
    /// A device or a pipe: it is written to, because putting a file in its place is not what
    /// anybody means.
    is_special: bool,
}

impl Target {
    /// Looks whether a file can be there, before any work is done for it.
    pub(super) fn new(path: &Path) -> Result<Self> {
        let name = || path.display().to_string();
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                bail!("{}: this is a directory; name a file in it", name())
            }
            Ok(metadata) if !metadata.is_file() => Ok(Self { path: path.into(), is_special: true }),
            // A link is followed, so that it is the file behind it that is replaced.
            Ok(_) => {
                Ok(Self { path: fs::canonicalize(path).with_context(name)?, is_special: false })
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Self::new_file(path),
            Err(error) => Err(error).with_context(name),
        }
    }

    fn new_file(path: &Path) -> Result<Self> {
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        let folder = folder.unwrap_or(Path::new("."));
        fs::metadata(folder).with_context(|| folder.display().to_string())?;
        if path.is_symlink() {
            bail!("{}: this is a link that leads nowhere", path.display());
        }
        Ok(Self { path: path.into(), is_special: false })
    }

    /// Tells about a filter that was saved, unless that may have gone the same way as what is
    /// told: to the standard output.
    pub(super) fn report(&self, report: &Report, output: &mut Output) -> Result<()> {
        Ok(if self.is_special { Ok(()) } else { output.report(report) }?)
    }

    /// Writes a filter, whole or not at all.
    pub(super) fn save(&self, filter: &LineFilter, with_secret: bool) -> Result<()> {
        let path = &self.path;
        if self.is_special {
            let written = File::options().write(true).open(path).map_err(SnapshotError::from);
            let save = |file| {
                if with_secret { filter.save_with_secret(file) } else { filter.save(file) }
            };
            let written = written.and_then(save);
            return written.with_context(|| path.display().to_string());
        }
        Ok(if with_secret { filter.save_with_secret_to(path) } else { filter.save_to(path) }?)
    }
}
