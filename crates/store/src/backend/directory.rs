//! The directory of a backend: locked, and never half made.

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{BackendError, Result};
use crate::home::{create_directory, io_error, sync_directory};

const LOCK: &str = "lock";

/// What a backend of each engine keeps in the directory.
const FOREIGN: [&str; 2] = ["fjall", "redb"];

/// A directory that is ours until this is dropped.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    /// Locks of the operating system go with the process, so none is ever left behind.
    lock: File,
}

impl Directory {
    /// Makes the directory if it isn't there, and locks it.
    pub(super) fn open(path: &Path) -> Result<Self> {
        create_directory(path)?;
        let lock_path = path.join(LOCK);
        if !exists(&lock_path)? {
            // We make nothing before the lock. What is here is somebody else's, and must stay.
            for unfinished in FOREIGN.map(|engine| path.join(unfinished(engine))) {
                if exists(&unfinished)? {
                    return Err(BackendError::Occupied { path: unfinished });
                }
            }
        }
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(io_error("open", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), lock }),
            Err(TryLockError::WouldBlock) => Err(BackendError::Locked { path: path.to_owned() }),
            Err(TryLockError::Error(error)) => Err(io_error("lock", &lock_path)(error)),
        }
    }

    /// Locks the directory, if an engine has data in it; makes nothing.
    pub(super) fn open_existing(path: &Path) -> Result<Self> {
        if has_data(path)? {
            return Self::open(path);
        }
        Err(BackendError::Missing { path: path.to_owned() })
    }

    /// Makes the directory and locks it; there may be nothing in it.
    pub(super) fn open_new(path: &Path) -> Result<Self> {
        // Before there is a lock in it, and again.
        if exists(path)? {
            check_new(path)?;
        }
        let directory = Self::open(path)?;
        check_new(path)?;
        Ok(directory)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of this engine's data, which is made if it isn't there: elsewhere, and then
    /// moved, because engines can't open what they were killed in the middle of making.
    pub(super) fn data(
        &self,
        engine: &'static str,
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        for other in FOREIGN.into_iter().filter(|&other| other != engine) {
            let path = self.path.join(other);
            if exists(&path)? {
                return Err(BackendError::Occupied { path });
            }
        }
        let path = self.path.join(engine);
        if exists(&path)? {
            return Ok(path);
        }
        let unfinished = self.path.join(unfinished(engine));
        remove(&unfinished)?;
        if let Err(error) = make(&unfinished) {
            // It may be what there is no room for. A bad copy is for people to look at.
            if !matches!(error, BackendError::BadCopy { .. }) {
                let _ = remove(&unfinished);
            }
            return Err(error);
        }
        publish(&unfinished, &path, || self.sync())?;
        Ok(path)
    }

    /// Makes the names in it, and its own, survive a power cut.
    fn sync(&self) -> Result<()> {
        sync_directory(&self.path).map_err(io_error("sync", &self.path))?;
        match self.path.canonicalize().map_err(io_error("find", &self.path))?.parent() {
            Some(parent) => sync_directory(parent).map_err(io_error("sync", parent)),
            None => Ok(()),
        }
    }

    /// How much of the disk its files take.
    pub(super) fn bytes(&self) -> Result<u64> {
        let mut bytes = 0;
        let mut unseen = vec![self.path.clone()];
        while let Some(path) = unseen.pop() {
            // The engine may remove files, but never the directory of one that it keeps.
            let metadata = match fs::symlink_metadata(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                metadata => metadata.map_err(io_error("measure", &path))?,
            };
            if metadata.is_dir() {
                for entry in fs::read_dir(&path).map_err(io_error("list", &path))? {
                    unseen.push(entry.map_err(io_error("list", &path))?.path());
                }
            } else {
                bytes += occupied(&metadata);
            }
        }
        Ok(bytes)
    }
}

impl Drop for Directory {
    /// Closing the file would do, but for a process that is being spawned at this moment, and
    /// has it open, too, until it becomes another program.
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

/// Journals are created longer than they are, and the rest takes no room.
fn occupied(metadata: &fs::Metadata) -> u64 {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        metadata.blocks() * 512
    }
    #[cfg(not(unix))]
    metadata.len()
}

/// Moves data to where it is opened, durably. If that fails, it isn't there.
fn publish(unfinished: &Path, path: &Path, sync: impl FnOnce() -> Result<()>) -> Result<()> {
    fs::rename(unfinished, path).map_err(io_error("rename", unfinished))?;
    sync().inspect_err(|_| {
        if fs::rename(path, unfinished).is_ok() {
            let _ = remove(unfinished);
        }
    })
}

/// Whether an engine has data in a directory.
pub(crate) fn has_data(path: &Path) -> Result<bool> {
    for engine in FOREIGN {
        if exists(&path.join(engine))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a directory has only what a backend leaves that was never finished.
#[cfg(feature = "fjall")]
pub(crate) fn is_unfinished(path: &Path) -> Result<bool> {
    if !path.is_dir() {
        return Ok(false);
    }
    match check_new(path) {
        Err(BackendError::Occupied { .. }) => Ok(false),
        checked => checked.map(|()| true),
    }
}

/// Refuses a directory that has anything in it, except what was never finished. That is only beside a
/// lock, which is made first.
fn check_new(path: &Path) -> Result<()> {
    let has_lock = exists(&path.join(LOCK))?;
    for entry in fs::read_dir(path).map_err(io_error("list", path))? {
        let name = entry.map_err(io_error("list", path))?.file_name();
        let is_unfinished = FOREIGN.iter().any(|engine| name == *unfinished(engine));
        if name != LOCK && !(is_unfinished && has_lock) {
            return Err(BackendError::Occupied { path: path.join(name) });
        }
    }
    Ok(())
}

/// What data is called while it is being made.
fn unfinished(engine: &str) -> String {
    format!("{engine}.new")
}

fn exists(path: &Path) -> Result<bool> {
    match path.try_exists() {
        // A file has nothing in it.
        Err(error) if error.kind() == ErrorKind::NotADirectory => Ok(false),
        exists => exists.map_err(io_error("look for", path)),
    }
}

fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(io_error("remove", path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn data_whose_publication_fails_is_not_there() {
        let directory = tempfile::tempdir().unwrap();
        let [unfinished, path] = ["fjall.new", "fjall"].map(|name| directory.path().join(name));
        fs::create_dir(&unfinished).unwrap();
        let error = || io_error("sync", &path)(io::Error::other("no"));
        assert!(publish(&unfinished, &path, || Err(error())).is_err());
        assert!(!unfinished.exists() && !path.exists());
        fs::create_dir(&unfinished).unwrap();
        publish(&unfinished, &path, || Ok(())).unwrap();
        assert!(!unfinished.exists() && path.exists());
    }

    #[test]
    fn files_of_others_stay_whatever_their_name() {
        let directory = tempfile::tempdir().unwrap();
        let [unfinished, lock] = ["fjall.new", LOCK].map(|name| directory.path().join(name));
        fs::create_dir(&unfinished).unwrap();
        let file = unfinished.join("thesis.txt");
        fs::write(&file, "years of work").unwrap();
        for opened in [Directory::open, Directory::open_new].map(|open| open(directory.path())) {
            assert!(matches!(opened, Err(BackendError::Occupied { .. })), "{opened:?}");
        }
        assert!(file.exists() && !lock.exists());
        // Beside a lock, it is what a process has left that was killed.
        fs::write(&lock, "").unwrap();
        assert!(Directory::open_new(directory.path()).is_ok());
    }

    #[test]
    fn is_free_when_it_is_dropped_whoever_has_the_file() {
        let path = tempfile::tempdir().unwrap();
        let directory = Directory::open(path.path()).unwrap();
        let _inherited = directory.lock.try_clone().unwrap();
        assert!(matches!(Directory::open(path.path()), Err(BackendError::Locked { .. })));
        drop(directory);
        Directory::open(path.path()).unwrap();
    }
}
