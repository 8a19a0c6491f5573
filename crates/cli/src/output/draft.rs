//! Output files that are written in parts.

use super::Target;
use super::target::folder;
use crate::interrupt::{self, Undo};
use anyhow::{Context as _, Result};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;

/// An output that is being written: a hidden file that replaces the target when it is complete, or
/// a device or a pipe. After a failure or a signal, the hidden file is removed.
pub(crate) struct Draft<'a> {
    target: &'a Target,
    // This field is declared before `hidden`, so the file is closed before it is removed.
    writer: BufWriter<File>,
    hidden: Option<Hidden>,
}

struct Hidden {
    path: PathBuf,
    _removal: Undo,
}

impl<'a> Draft<'a> {
    pub(super) fn begin(target: &'a Target) -> io::Result<Self> {
        let (file, hidden) = if target.is_special() {
            (File::options().write(true).open(target.path())?, None)
        } else {
            let (file, hidden) = Hidden::create(target)?;
            (file, Some(hidden))
        };
        Ok(Self { target, writer: BufWriter::with_capacity(1 << 16, file), hidden })
    }

    /// Appends bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.writer.write_all(bytes).with_context(|| self.name())
    }

    /// Replaces the target.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.publish().with_context(|| self.name())
    }

    fn publish(&mut self) -> io::Result<()> {
        self.writer.flush()?;
        if let Some(hidden) = &self.hidden {
            self.writer.get_ref().sync_all()?;
            let _held = interrupt::hold();
            fs::rename(&hidden.path, self.target.path())?;
        }
        Ok(())
    }

    fn name(&self) -> String {
        self.target.path().display().to_string()
    }
}

impl Hidden {
    /// Creates a file next to the target.
    fn create(target: &Target) -> io::Result<(File, Self)> {
        let mut builder = tempfile::Builder::new();
        // The operating system removes the permissions in the user's umask.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let mut held = interrupt::hold();
        let file = builder.prefix(".twiceshy-").tempfile_in(folder(target.path()))?;
        let (file, path) = file.keep()?;
        let removed = path.clone();
        let removal = held.undo(move || {
            // This fails if the file was already renamed to the target.
            let _ = fs::remove_file(&removed);
        });
        Ok((file, Self { path, _removal: removal }))
    }
}
