//! The directory of a backend: how it is locked, and how it is created completely or not at all.

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::files::{create_directory, io_error, sync_directory};
use super::{BackendError, Result};

const LOCK: &str = "lock";

/// The name of each engine's data in the directory.
const ENGINES: [&str; 2] = ["fjall", "redb"];

/// A locked directory. Dropping this value unlocks it.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    /// The lock file. The operating system unlocks it when the process ends.
    lock: File,
}

impl Directory {
    /// Creates the directory if it is missing, and locks it.
    fn create(path: &Path) -> Result<Self> {
        create_directory(path)?;
        let lock_path = path.join(LOCK);
        if !exists(&lock_path)? {
            // A backend creates its lock file first, so without a lock file, unfinished data isn't ours and
            // must stay.
            for unfinished in ENGINES.map(|engine| path.join(unfinished(engine))) {
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

    /// Locks the directory. Returns an error if `create` is false and no engine has data in the directory.
    pub(super) fn open(path: &Path, create: bool) -> Result<Self> {
        if create || has_data(path)? {
            return Self::create(path);
        }
        Err(BackendError::Missing { path: path.to_owned() })
    }

    /// Creates and locks a directory. If it already exists, it must be empty, except for unfinished data.
    pub(super) fn open_new(path: &Path) -> Result<Self> {
        // Check twice: before creating the lock file, and again while holding the lock.
        if exists(path)? {
            check_new(path)?;
        }
        let directory = Self::create(path)?;
        check_new(path)?;
        Ok(directory)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of this engine's data. If the data is missing, calls `make` to create it
    /// under a temporary name, and then renames it. This is necessary because engines can't open
    /// data whose creation was interrupted.
    pub(super) fn data(
        &self,
        engine: &'static str,
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        for other in ENGINES.into_iter().filter(|&other| other != engine) {
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
            // The disk may be full, so remove the unfinished data. But keep a bad copy, so that people can
            // inspect it.
            if !matches!(error, BackendError::BadCopy { .. }) {
                let _ = remove(&unfinished);
            }
            return Err(error);
        }
        publish(&unfinished, &path, || self.sync())?;
        Ok(path)
    }

    /// Syncs the directory and its parent, so that new file names survive a power cut.
    fn sync(&self) -> Result<()> {
        sync_directory(&self.path).map_err(io_error("sync", &self.path))?;
        match self.path.canonicalize().map_err(io_error("find", &self.path))?.parent() {
            Some(parent) => sync_directory(parent).map_err(io_error("sync", parent)),
            None => Ok(()),
        }
    }

    /// Returns the number of bytes that the files take on disk.
    pub(super) fn bytes(&self) -> Result<u64> {
        let mut bytes = 0;
        let mut unseen = vec![self.path.clone()];
        while let Some(path) = unseen.pop() {
            // The engine may remove files in the meantime.
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
    /// Unlocks the file. Closing it is not enough, because a child process that is being spawned at this
    /// moment may have inherited the open file.
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

/// Returns the number of bytes that a file takes on disk. For sparse files such as journals, this is less
/// than the file's length.
fn occupied(metadata: &fs::Metadata) -> u64 {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        metadata.blocks() * 512
    }
    #[cfg(not(unix))]
    metadata.len()
}

/// Durably renames data to its final name. If the directory can't be synced, removes the data.
fn publish(unfinished: &Path, path: &Path, sync: impl FnOnce() -> Result<()>) -> Result<()> {
    fs::rename(unfinished, path).map_err(io_error("rename", unfinished))?;
    sync().inspect_err(|_| {
        if fs::rename(path, unfinished).is_ok() {
            let _ = remove(unfinished);
        }
    })
}

/// Returns whether an engine has data in a directory.
pub(crate) fn has_data(path: &Path) -> Result<bool> {
    for engine in ENGINES {
        if exists(&path.join(engine))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether a directory holds only a backend whose creation was interrupted.
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

/// Returns an error if a directory holds anything except a lock file and unfinished data. Unfinished data
/// without a lock file is an error, too, because a backend creates the lock file first.
fn check_new(path: &Path) -> Result<()> {
    let has_lock = exists(&path.join(LOCK))?;
    for entry in fs::read_dir(path).map_err(io_error("list", path))? {
        let name = entry.map_err(io_error("list", path))?.file_name();
        let is_unfinished = ENGINES.iter().any(|engine| name == *unfinished(engine));
        if name != LOCK && !(is_unfinished && has_lock) {
            return Err(BackendError::Occupied { path: path.join(name) });
        }
    }
    Ok(())
}

/// Returns the temporary name of an engine's data while it is being created.
fn unfinished(engine: &str) -> String {
    format!("{engine}.new")
}

fn exists(path: &Path) -> Result<bool> {
    match path.try_exists() {
        // The parent is a file, so nothing exists at this path.
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
    fn publish_removes_data_that_cannot_be_synced() {
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
    fn unfinished_directory_without_a_lock_is_never_removed() {
        let directory = tempfile::tempdir().unwrap();
        let [unfinished, lock] = ["fjall.new", LOCK].map(|name| directory.path().join(name));
        fs::create_dir(&unfinished).unwrap();
        let file = unfinished.join("thesis.txt");
        fs::write(&file, "years of work").unwrap();
        for opened in [Directory::create, Directory::open_new].map(|open| open(directory.path())) {
            assert!(matches!(opened, Err(BackendError::Occupied { .. })), "{opened:?}");
        }
        assert!(file.exists() && !lock.exists());
        // With a lock file beside it, an unfinished directory is ours: a killed process left it.
        fs::write(&lock, "").unwrap();
        assert!(Directory::open_new(directory.path()).is_ok());
    }

    #[test]
    fn drop_unlocks_the_directory_even_if_its_file_was_inherited() {
        let path = tempfile::tempdir().unwrap();
        let directory = Directory::create(path.path()).unwrap();
        let _inherited = directory.lock.try_clone().unwrap();
        assert!(matches!(Directory::create(path.path()), Err(BackendError::Locked { .. })));
        drop(directory);
        Directory::create(path.path()).unwrap();
    }
}
