//! The filter as it was when a store was closed.
//!
//! A saved filter is named after a random number, and only the one that the backend names is
//! used. With the name it keeps the end of the file, which has a checksum of all of it: an older
//! file that somebody puts back under the name isn't used either. That name is removed, durably,
//! before anything is written that the filter doesn't have. So whatever is named is exact, and
//! whatever happened before that is built again from the members and the mistakes.

use crate::backend::{Backend, BackendError, Batch, Durability, Keyspace};
use crate::error::Result;
use crate::layout::CLEAN;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use twiceshy::{Secret, SnapshotError};

/// Where a store's filter is saved, and whether what is there is still true.
pub(crate) struct Saved {
    /// None, if it isn't saved.
    directory: Option<PathBuf>,
    /// Whether the saved filter, if any, is not that of the backend any more.
    is_dirty: AtomicBool,
    dirtying: Mutex<()>,
    /// See [`is_doubtful`](Self::is_doubtful).
    is_doubtful: AtomicBool,
}

impl Saved {
    /// In a directory, which is made if need be; and the filter that was saved there, if nothing
    /// was written since.
    ///
    /// One that is named but can't be used loses its name at once, durably: it may be readable
    /// again next time, when it isn't exact any more.
    pub(crate) fn open<F>(
        backend: &impl Backend,
        directory: Option<&Path>,
        restore: impl FnOnce(&Path) -> Result<F, SnapshotError>,
    ) -> Result<(Self, Option<F>)> {
        let filter = match backend.get(Keyspace::Meta, CLEAN)? {
            Some(name) => {
                let file = directory.and_then(|directory| named(directory, &name));
                let filter = file.and_then(|file| restore(&file).ok());
                if filter.is_none() {
                    unname(backend, directory)?;
                }
                filter
            }
            None => None,
        };
        let saved = Self {
            directory: directory.map(PathBuf::from),
            is_dirty: AtomicBool::new(filter.is_none()),
            dirtying: Mutex::new(()),
            is_doubtful: AtomicBool::new(false),
        };
        Ok((saved, filter))
    }

    /// Writes to the backend, which has no saved filter then.
    pub(crate) fn write(
        &self,
        backend: &impl Backend,
        batch: &Batch,
        durability: Durability,
    ) -> Result<()> {
        self.dirty(backend)?;
        let written = backend.write(batch, durability);
        if written.is_err() {
            // It may be there after reopening all the same, and the filter mustn't be saved.
            self.is_doubtful.store(true, Ordering::Release);
        }
        Ok(written?)
    }

    /// Whether a write has failed, so that only reopening tells what the backend has.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.is_doubtful.load(Ordering::Acquire)
    }

    /// Says, the first time, that the saved filter is not to be trusted any more.
    pub(crate) fn dirty(&self, backend: &impl Backend) -> Result<()> {
        if !self.is_dirty.load(Ordering::Acquire) {
            let _one = self.dirtying.lock().unwrap_or_else(PoisonError::into_inner);
            if !self.is_dirty.load(Ordering::Acquire) {
                unname(backend, self.directory.as_deref())?;
                self.is_dirty.store(true, Ordering::Release);
            }
        }
        Ok(())
    }

    /// Saves the filter, if that is of use, and names it. In any case the backend is synced.
    pub(crate) fn save(
        &self,
        backend: &impl Backend,
        is_exact: bool,
        save: impl FnOnce(&Path) -> Result<(), SnapshotError>,
    ) -> Result<()> {
        let is_exact = is_exact && !self.is_doubtful();
        let Some(directory) = self.directory.as_ref().filter(|_| is_exact) else {
            return Ok(backend.sync()?);
        };
        if !self.is_dirty.load(Ordering::Acquire) {
            return Ok(());
        }
        let number = *Secret::generate()?.expose();
        let name = file_name(number);
        let file = directory.join(&name);
        save(&file)?;
        let seal = read_seal(&file).map_err(SnapshotError::from)?;
        let mut batch = Batch::new();
        batch.insert(Keyspace::Meta, CLEAN, [&number[..], &seal].concat());
        backend.write(&batch, Durability::Synced)?;
        self.is_dirty.store(false, Ordering::Release);
        remove_saved(directory, Some(&name));
        Ok(())
    }
}

/// Makes the directory of a store, if there is none.
pub(crate) fn create_directory(directory: &Path) -> Result<()> {
    let fails = |source| {
        let path = directory.to_owned();
        BackendError::Io { operation: "create", path, source }
    };
    Ok(std::fs::create_dir_all(directory).map_err(fails)?)
}

/// The file of this name, if it is the one that was saved under it.
fn named(directory: &Path, name: &[u8]) -> Option<PathBuf> {
    let (&number, seal) = name.split_first_chunk()?;
    let file = directory.join(file_name(number));
    (read_seal(&file).ok()? == seal).then_some(file)
}

/// How long a file is, and its end.
fn read_seal(file: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(file)?;
    let length = file.metadata()?.len();
    let mut seal = length.to_be_bytes().to_vec();
    file.seek(SeekFrom::Start(length.saturating_sub(END_BYTES)))?;
    file.take(END_BYTES).read_to_end(&mut seal)?;
    Ok(seal)
}

/// Has the backend name no saved filter, from now on and whatever happens. The file goes, too: if
/// somebody damages the engine's journal, the name may be back.
fn unname(backend: &impl Backend, directory: Option<&Path>) -> Result<()> {
    let mut batch = Batch::new();
    batch.remove(Keyspace::Meta, CLEAN);
    backend.write(&batch, Durability::Synced)?;
    if let Some(directory) = directory {
        remove_saved(directory, None);
    }
    Ok(())
}

/// The file of a filter that is saved under a number.
fn file_name(number: [u8; 16]) -> OsString {
    format!("{PREFIX}{:032x}{SUFFIX}", u128::from_be_bytes(number)).into()
}

/// A snapshot's last line.
const END_BYTES: u64 = 64;

const PREFIX: &str = "filter-";
const SUFFIX: &str = ".snapshot";

/// Removes filters that were saved, but for this one, and what is left of one that wasn't saved
/// to the end. If any stays, it only takes room.
fn remove_saved(directory: &Path, but: Option<&OsString>) {
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let is_old = |path: &PathBuf| {
        path.file_name().is_some_and(|file| {
            let text = file.to_string_lossy();
            let is_saved = text.starts_with(PREFIX) && text.ends_with(SUFFIX);
            let is_unfinished = text.starts_with(&format!(".{PREFIX}")) && text.ends_with(".tmp");
            Some(file) != but.map(OsString::as_os_str) && (is_saved || is_unfinished)
        })
    };
    for path in files.map(|file| file.path()).filter(is_old) {
        let _ = std::fs::remove_file(path);
    }
}
