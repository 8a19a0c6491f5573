//! A new store, made out of sight: there is all of it or nothing.

use super::open::DATA;
use crate::interrupt::{self, Undo};
use anyhow::{Context as _, Result, bail};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// A store that is made in a hidden directory within its own, and moved out of it when it is
/// done. What is removed if that fails, or is interrupted, is only what nobody else has seen.
pub(super) struct Making {
    directory: PathBuf,
    hidden: PathBuf,
    _removal: Undo,
}

const HIDDEN: &str = ".twiceshy-making-";

impl Making {
    /// Begins, in a directory that has no store in it.
    pub(super) fn begin(directory: &Path) -> Result<Self> {
        let name = || directory.display().to_string();
        let mut held = interrupt::hold();
        let is_directory_new = match fs::create_dir(directory) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
            Err(error) => return Err(error).with_context(name),
        };
        for entry in fs::read_dir(directory).with_context(name)? {
            let file = entry.with_context(name)?.file_name();
            // Others may be making one, too, or have been killed when they were.
            if !file.to_string_lossy().starts_with(HIDDEN) {
                bail!("{}: this is no store, and not empty; name a new directory", name());
            }
        }
        let parent = directory.to_path_buf();
        let remove_parent = move || {
            if is_directory_new {
                // Does nothing if there is a store in it now.
                let _ = fs::remove_dir(&parent);
            }
        };
        // A new one: what others have left there is theirs, and never opened.
        let hidden = tempfile::Builder::new().prefix(HIDDEN).tempdir_in(directory);
        let hidden = hidden.inspect_err(|_| remove_parent()).with_context(name)?.keep();
        let removed = hidden.clone();
        let removal = held.undo(move || {
            interrupt::remove(&removed);
            remove_parent();
        });
        Ok(Self { directory: directory.into(), hidden, _removal: removal })
    }

    /// Where it is made.
    pub(super) fn path(&self) -> &Path {
        &self.hidden
    }

    /// Moves the store, which must be closed, to where it belongs.
    pub(super) fn finish(self) -> Result<()> {
        let _held = interrupt::hold();
        self.publish().with_context(|| self.directory.display().to_string())
    }

    fn publish(&self) -> io::Result<()> {
        // This is the moment: it fails if there is one already. The saved filter, which follows,
        // would be built again if it were missing.
        fs::rename(self.hidden.join(DATA), self.directory.join(DATA))?;
        for entry in fs::read_dir(&self.hidden)? {
            let entry = entry?;
            fs::rename(entry.path(), self.directory.join(entry.file_name()))?;
        }
        if cfg!(unix) { File::open(&self.directory)?.sync_all() } else { Ok(()) }
    }
}
