//! Output files.

use super::{Draft, Output, Report};
use crate::interrupt::{self, Held};
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A path that the output will be written to.
pub(crate) struct Target {
    path: PathBuf,
    /// Whether the path is a device or a pipe. The output is then written into it and does not
    /// replace it.
    is_special: bool,
}

impl Target {
    /// Checks that the output can be written to this path. Commands call this before they do any
    /// work.
    pub(crate) fn new(path: &Path) -> Result<Self> {
        let name = || path.display().to_string();
        if path == Path::new("-") {
            bail!("-: use /dev/stdout for standard output, or ./- for a file with this name");
        }
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                bail!("{}: this is a directory; name a file in it", name())
            }
            Ok(metadata) if !metadata.is_file() => Ok(Self { path: path.into(), is_special: true }),
            // Follow a link, so that the file it leads to is replaced, and not the link.
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

    /// Checks that a file can be created in the folder of this path.
    fn file(path: PathBuf) -> Result<Self> {
        tempfile::tempfile_in(folder(&path)).with_context(|| path.display().to_string())?;
        Ok(Self { path, is_special: false })
    }

    /// Returns an error if the output would replace this file. `what` describes the file in the
    /// message.
    pub(crate) fn keep_off(&self, path: &Path, what: &str) -> Result<()> {
        if !self.is_special && is_same(&self.path, path) {
            bail!("{}: this is {what}; write the output to a different file", path.display());
        }
        Ok(())
    }

    /// Returns an error if the output would be a file in this directory. `what` describes the
    /// directory in the message.
    pub(crate) fn keep_out_of(&self, directory: &Path, what: &str) -> Result<()> {
        let resolved = |path| fs::canonicalize(path).ok();
        let inside = resolved(folder(&self.path)).zip(resolved(directory));
        if inside.is_some_and(|(folder, directory)| folder.starts_with(directory)) {
            let name = self.path.display();
            bail!("{name}: this is inside {what}; write the output to a different directory");
        }
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn is_special(&self) -> bool {
        self.is_special
    }

    /// Delays signals while a file is written. Does not delay them for a pipe, because its reader
    /// may never read.
    pub(crate) fn hold(&self) -> Option<Held> {
        (!self.is_special).then(interrupt::hold)
    }

    /// Prints a report about the written file. Prints nothing if the path is a device or a pipe,
    /// because that may be standard output itself.
    pub(crate) fn report(&self, report: &Report, output: &mut Output) -> Result<()> {
        Ok(if self.is_special { Ok(()) } else { output.report(report) }?)
    }

    /// Begins to write a file that everybody may read, in parts.
    pub(crate) fn begin(&self) -> Result<Draft<'_>> {
        Draft::begin(self).with_context(|| self.path.display().to_string())
    }

    /// Writes a whole file. If this fails, an existing file is unchanged.
    pub(crate) fn write(&self, content: impl AsRef<[u8]>) -> Result<()> {
        let mut draft = self.begin()?;
        draft.write(content.as_ref())?;
        draft.finish()
    }
}

/// Returns whether two paths lead to the same file. The file need not exist.
fn is_same(one: &Path, other: &Path) -> bool {
    let in_folder =
        |path: &Path| Some(fs::canonicalize(folder(path)).ok()?.join(path.file_name()?));
    let resolved = |path: &Path| fs::canonicalize(path).ok().or_else(|| in_folder(path));
    resolved(one).is_some_and(|one| Some(one) == resolved(other))
}

/// Returns the directory of a file.
pub(super) fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}
