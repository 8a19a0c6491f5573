//! The filter that a store saves when it is closed.
//!
//! A saved filter is a cache: without it, the next open builds the filter from the members and the mistakes.
//! The file's name contains a random number, and the backend records which file is valid. The record also
//! holds the end of the file, which contains a checksum of the whole file, so that an older file under the
//! same name is not used. Before the first write of a member after the filter was saved, the record is durably
//! removed, so a file with a record always holds exactly the members.
//!
//! A repair or a rebuild changes no members, so it only makes the saved filter *outdated*. It stays valid, also
//! after a kill, and the filter is saved again when the store is closed. The new file is written first, then
//! the record changes to name it, and then the old file is removed. After a kill at any moment, the record
//! names a file that holds exactly the members.

use crate::backend::{Backend, Batch, Durability, Keyspace};
use crate::error::{Result, StoreError};
use crate::layout::CLEAN;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use scopeguard::ScopeGuard;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use twiceshy::{Secret, snapshot::SnapshotError};

/// The location of a store's saved filter, and whether that filter is valid.
pub(crate) struct SavedFilter {
    /// The directory of the saved filter, or `None` if the filter isn't saved.
    directory: Option<PathBuf>,
    /// Whether the backend has no record of a saved filter, so that none is valid.
    is_invalid: AtomicBool,
    invalidating: Mutex<()>,
    /// See [`is_doubtful`](Self::is_doubtful).
    is_doubtful: AtomicBool,
    /// Whether the store was closed. Dropping it then saves nothing.
    is_closed: AtomicBool,
}

impl SavedFilter {
    /// Opens the directory for saved filters, and restores the filter that was saved there if nothing
    /// was written since.
    ///
    /// If a recorded filter can't be used, its record is durably removed immediately. Otherwise the next open
    /// might be able to read the file, although it isn't exact any more.
    pub(crate) fn open<F>(
        backend: &impl Backend,
        directory: Option<&Path>,
        restore: impl FnOnce(&Path) -> Result<F, SnapshotError>,
    ) -> Result<(Self, Option<F>)> {
        let filter = match backend.get(Keyspace::Meta, CLEAN)? {
            Some(record) => {
                let file = directory.and_then(|directory| recorded_file(directory, &record));
                let filter = file.and_then(|file| restore(&file).ok());
                if filter.is_none() {
                    remove_record(backend, directory)?;
                }
                filter
            }
            None => None,
        };
        let saved = Self {
            directory: directory.map(PathBuf::from),
            is_invalid: AtomicBool::new(filter.is_none()),
            invalidating: Mutex::new(()),
            is_doubtful: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        };
        Ok((saved, filter))
    }

    /// Writes to the backend. The saved filter is invalid from then on.
    pub(crate) fn write(
        &self,
        backend: &impl Backend,
        batch: &Batch,
        durability: Durability,
    ) -> Result<()> {
        self.invalidate(backend)?;
        // If the write doesn't succeed, it may still take effect after reopening, so the filter must not be
        // saved.
        let in_doubt = scopeguard::guard((), |()| self.is_doubtful.store(true, Ordering::Release));
        backend.write(batch, durability)?;
        ScopeGuard::into_inner(in_doubt);
        Ok(())
    }

    /// Returns whether a write has failed, so that only reopening shows what the backend holds.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.is_doubtful.load(Ordering::Acquire)
    }

    /// Removes the record of the saved filter, if there is one.
    pub(crate) fn invalidate(&self, backend: &impl Backend) -> Result<()> {
        if !self.is_invalid.load(Ordering::Acquire) {
            let _one = self.invalidating.lock().unwrap_or_else(PoisonError::into_inner);
            if !self.is_invalid.load(Ordering::Acquire) {
                remove_record(backend, self.directory.as_deref())?;
                self.is_invalid.store(true, Ordering::Release);
            }
        }
        Ok(())
    }

    /// Returns whether [`close`](Self::close) may save the filter, provided that it is exact.
    pub(crate) fn may_save(&self) -> bool {
        let is_closed = self.is_closed.load(Ordering::Acquire);
        self.directory.is_some() && !is_closed && !self.is_doubtful()
    }

    /// Syncs the backend, and saves the filter if it is exact and the saved one is invalid or outdated. Only
    /// the first call does anything, because a store is also dropped after it is closed.
    pub(crate) fn close(
        &self,
        backend: &impl Backend,
        is_exact: bool,
        is_outdated: bool,
        save: impl FnOnce(&Path) -> Result<(), SnapshotError>,
    ) -> Result<()> {
        if self.is_closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        // Sync first, so that all data is safe if a later step fails.
        backend.sync()?;
        let is_old = is_outdated || self.is_invalid.load(Ordering::Acquire);
        match &self.directory {
            Some(directory) if is_exact && is_old && !self.is_doubtful() => {
                let unsaved = |source| StoreError::FilterNotSaved { source: Box::new(source) };
                replace(backend, directory, save).map_err(unsaved)
            }
            _ => Ok(()),
        }
    }
}

/// Saves a filter under a new name, and removes the files of earlier filters.
fn replace(
    backend: &impl Backend,
    directory: &Path,
    save: impl FnOnce(&Path) -> Result<(), SnapshotError>,
) -> Result<()> {
    let number = *Secret::generate()?.expose();
    let name = file_name(number);
    let file = directory.join(&name);
    save(&file)?;
    let seal = read_seal(&file).map_err(SnapshotError::from)?;
    let mut batch = Batch::new();
    batch.insert(Keyspace::Meta, CLEAN, [&[RECORD], &number[..], &seal].concat());
    backend.write(&batch, Durability::Synced)?;
    remove_saved(directory, Some(&name));
    Ok(())
}

/// The version of the record of a saved filter. Records of version 1 began with the number of the
/// file. They aren't trusted, because range stores of version 1 could save a filter that they had
/// never built. A program that knows only version 1 finds no file for a record of version 2.
const RECORD: u8 = 2;

/// Returns the file that a record names, if the file matches the record.
fn recorded_file(directory: &Path, record: &[u8]) -> Option<PathBuf> {
    let [RECORD, rest @ ..] = record else { return None };
    let (&number, seal) = rest.split_first_chunk()?;
    let file = directory.join(file_name(number));
    (read_seal(&file).ok()? == seal).then_some(file)
}

/// Reads the length of a file and its last bytes.
fn read_seal(file: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(file)?;
    let length = file.metadata()?.len();
    let mut seal = length.to_be_bytes().to_vec();
    file.seek(SeekFrom::Start(length.saturating_sub(END_BYTES)))?;
    file.take(END_BYTES).read_to_end(&mut seal)?;
    Ok(seal)
}

/// Durably removes the record of the saved filter. Also removes the file, because the record may come back if
/// the engine's journal is damaged.
fn remove_record(backend: &impl Backend, directory: Option<&Path>) -> Result<()> {
    let mut batch = Batch::new();
    batch.remove(Keyspace::Meta, CLEAN);
    backend.write(&batch, Durability::Synced)?;
    if let Some(directory) = directory {
        remove_saved(directory, None);
    }
    Ok(())
}

/// Returns the name of the saved filter's file with this number.
fn file_name(number: [u8; 16]) -> OsString {
    format!("{PREFIX}{:032x}{SUFFIX}", u128::from_be_bytes(number)).into()
}

/// The length of a snapshot's last line, in bytes.
const END_BYTES: u64 = 64;

const PREFIX: &str = "filter-";
const SUFFIX: &str = ".snapshot";

/// Returns whether a file name is that of a saved filter, or of one that is being written.
pub(crate) fn is_our_file(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let unfinished = || {
        // `save` first writes to a hidden temporary file, whose name contains the process number and a
        // count.
        let (name, rest) = name.strip_prefix('.')?.rsplit_once(SUFFIX)?;
        let (process, count) = rest.strip_prefix('.')?.strip_suffix(".tmp")?.split_once('-')?;
        (is_number(process, 10) && is_number(count, 10)).then_some(name)
    };
    let number = name.strip_suffix(SUFFIX).or_else(unfinished).and_then(|n| n.strip_prefix(PREFIX));
    number.is_some_and(|number| number.len() == 32 && is_number(number, 16))
}

/// Returns whether a text consists of digits of this radix, in lower case.
fn is_number(digits: &str, radix: u32) -> bool {
    let is_digit = |digit: char| digit.is_digit(radix) && !digit.is_ascii_uppercase();
    !digits.is_empty() && digits.chars().all(is_digit)
}

/// Removes the files of saved filters except this one, and the files of unfinished saves. Ignores files that
/// can't be removed, because they only take space.
fn remove_saved(directory: &Path, except: Option<&OsString>) {
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    for name in files.map(|file| file.file_name()) {
        if is_our_file(&name) && Some(&name) != except {
            let _ = std::fs::remove_file(directory.join(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_our_file_accepts_only_names_of_saved_filters() {
        let digits = "0123456789abcdef0123456789abcdef";
        for ours in [
            format!("filter-{digits}.snapshot"),
            format!(".filter-{digits}.snapshot.1234-0.tmp"),
            file_name([255; 16]).into_string().unwrap(),
        ] {
            assert!(is_our_file(OsStr::new(&ours)), "{ours}");
        }
        for other in [
            "filter-.snapshot".into(),
            "filter-backup.snapshot".into(),
            format!("filter-{digits}0.snapshot"),
            format!("filter-{}.snapshot", digits.to_uppercase()),
            format!("filter-{digits}.snapshot.old"),
            format!("filter-+{}.snapshot", &digits[1..]),
            format!("my-filter-{digits}.snapshot"),
            ".filter-notes.tmp".into(),
            format!(".filter-{digits}.tmp"),
            format!(".filter-{digits}.snapshot.tmp"),
            format!(".filter-{digits}.snapshot.a-b.tmp"),
            format!(".filter-{digits}.snapshot.1-.tmp"),
        ] {
            assert!(!is_our_file(OsStr::new(&other)), "{other}");
        }
    }
}
