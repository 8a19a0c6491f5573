//! Creates directories of stores and lists, so that a directory is either complete or does not
//! exist.

use crate::interrupt::{self, Undo};
use anyhow::{Context as _, Result, bail};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The name of the subdirectory for the data of a store or lists.
pub(super) const DATA: &str = "data";

/// A store or lists that are being created. They are in a hidden directory inside their own
/// directory, and are moved out of it when they are complete. After a failure or a signal, only the
/// hidden directory is removed.
///
/// The process that creates a hidden directory locks it. If the lock is free, that process was
/// killed.
pub(super) struct Making {
    directory: PathBuf,
    is_directory_new: bool,
    hidden: PathBuf,
    // This field is declared before the lock, so the hidden directory is removed while it is still
    // locked.
    _removal: Undo,
    _lock: Option<File>,
}

const HIDDEN: &str = ".twiceshy-making-";

/// The number of random characters after the prefix of a hidden directory's name.
const RANDOM_BYTES: usize = 6;

impl Making {
    /// Begins to create a store or lists in a new or empty directory. `kind` names them in
    /// messages.
    pub(super) fn begin(directory: &Path, kind: &str) -> Result<Self> {
        let name = || directory.display().to_string();
        let mut held = interrupt::hold();
        let is_directory_new = match fs::create_dir(directory) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
            Err(error) => return Err(error).with_context(name),
        };
        for entry in fs::read_dir(directory).with_context(name)? {
            // Ignore hidden directories, in which other processes may be creating a store or lists.
            if !is_hidden(&entry.with_context(name)?) {
                bail!(
                    "{}: this directory is neither {kind} nor empty; choose a new directory",
                    name()
                );
            }
        }
        let parent = directory.to_path_buf();
        let remove_parent = move || {
            if is_directory_new {
                // This removes the directory only if it is empty.
                let _ = fs::remove_dir(&parent);
            }
        };
        let hidden = create_hidden(directory);
        let (hidden, lock) = hidden.inspect_err(|_| remove_parent()).with_context(name)?;
        let removed = hidden.clone();
        let removal = held.undo(move || {
            interrupt::remove(&removed);
            remove_parent();
        });
        let directory = directory.into();
        Ok(Self { directory, is_directory_new, hidden, _removal: removal, _lock: lock })
    }

    /// Returns the hidden directory.
    pub(super) fn path(&self) -> &Path {
        &self.hidden
    }

    /// Moves the store or the lists to their directory. They must be closed.
    pub(super) fn finish(self) -> Result<()> {
        let _held = interrupt::hold();
        self.publish().with_context(|| self.directory.display().to_string())
    }

    fn publish(&self) -> io::Result<()> {
        let (hidden, visible) = (self.hidden.join(DATA), self.directory.join(DATA));
        fs::rename(&hidden, &visible).map_err(|error| match error.kind() {
            ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists => io::Error::other(
                "another process has just created a store or lists here; run the command again",
            ),
            _ => error,
        })?;
        self.sync().or_else(|error| fs::rename(&visible, &hidden).and(Err(error)))?;
        // Move the saved filter, too. If this fails, the filter is built again when the store is
        // next opened.
        for entry in fs::read_dir(&self.hidden).into_iter().flatten().flatten() {
            let _ = fs::rename(entry.path(), self.directory.join(entry.file_name()));
        }
        Ok(())
    }

    /// Syncs the directories that have new entries. Does nothing on systems where directories
    /// cannot be opened.
    fn sync(&self) -> io::Result<()> {
        let absolute = fs::canonicalize(&self.directory)?;
        let parent = absolute.parent().filter(|_| self.is_directory_new);
        for directory in [Some(&*absolute), parent].into_iter().flatten() {
            if let Ok(directory) = File::open(directory) {
                directory.sync_all()?;
            }
        }
        Ok(())
    }
}

/// Removes the hidden directories that killed processes have left.
pub(super) fn remove_abandoned(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten().filter(is_hidden) {
        // Hold the lock until the directory is removed.
        if let Ok(hidden) = File::open(entry.path())
            && hidden.try_lock().is_ok()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns whether an entry is a directory with a name that [`create_hidden`] chooses.
fn is_hidden(entry: &fs::DirEntry) -> bool {
    let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
    let name = entry.file_name();
    let random = name.to_str().and_then(|name| name.strip_prefix(HIDDEN));
    is_directory
        && random.is_some_and(|random| {
            random.len() == RANDOM_BYTES && random.bytes().all(|byte| byte.is_ascii_alphanumeric())
        })
}

/// Creates a hidden directory, and locks it on systems where directories can be locked.
fn create_hidden(directory: &Path) -> io::Result<(PathBuf, Option<File>)> {
    loop {
        let mut builder = tempfile::Builder::new();
        let hidden = builder.prefix(HIDDEN).rand_bytes(RANDOM_BYTES).tempdir_in(directory)?.keep();
        let lock = File::open(&hidden).ok().filter(|hidden| hidden.lock().is_ok());
        // Another process may have removed the directory before it was locked. If so, create a new
        // one.
        if hidden.exists() {
            return Ok((hidden, lock));
        }
    }
}
