//! Files as memory: mapped, or read as a whole.
#![expect(
    unsafe_code,
    reason = "nobody but the caller can keep others from changing a mapped file"
)]

use super::memory::{LINE, Lines};
use core::fmt;
use memmap2::Mmap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// A file that is mapped into memory, for [`FrozenFilter::open`](crate::FrozenFilter::open) and
/// [`FrozenRangeFilter::open`](crate::FrozenRangeFilter::open).
///
/// The system reads a page of the file when a lookup first touches it, and may drop it again when it
/// needs the memory. So a large filter is open at once, and several processes share its pages.
///
/// If you can't rule out that somebody else changes the file, use
/// [`FrozenFilter::open_file`](crate::FrozenFilter::open_file), which reads it into memory.
///
/// # Examples
/// ```
/// use twiceshy::{AdaptiveQuotientFilter, FrozenFilter, Keyed, MappedFile};
/// # let path = std::env::temp_dir().join(format!("twiceshy-mapped-{}", std::process::id()));
/// let mut filter = AdaptiveQuotientFilter::builder().capacity(1000).build_keyed::<str>()?;
/// filter.insert("alice")?;
/// filter.save_to(&path)?;
///
/// // SAFETY: nobody else writes to this file; `save_to` replaces files, and never changes one.
/// let mapped = unsafe { MappedFile::open(&path) }?;
/// let frozen = Keyed::<str, FrozenFilter>::open(mapped, filter.secret().clone())?;
/// assert!(frozen.contains("alice"));
/// # drop(frozen);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MappedFile(Mmap);

impl MappedFile {
    /// Maps a file into memory.
    ///
    /// # Safety
    /// Until the `MappedFile` is dropped, no process may write to the file or truncate it. Memory
    /// behind a `&[u8]` must not change, and the system kills a process that reads a page that the
    /// file no longer has.
    ///
    /// Replacing the file is fine, as [`save_to`](crate::AdaptiveQuotientFilter::save_to) does it:
    /// the old file stays as it is for as long as it is mapped.
    ///
    /// # Errors
    /// If the file can't be opened or mapped.
    pub unsafe fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let file = File::open(path)?;
        // SAFETY: the caller promises that nobody changes the file.
        unsafe { Mmap::map(&file) }.map(Self)
    }
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for MappedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MappedFile").field("bytes", &self.0.len()).finish()
    }
}

/// The content of a file in memory that begins at a cache line.
pub(crate) struct FileBytes {
    lines: Lines,
    size: usize,
}

impl FileBytes {
    /// Reads a file as a whole. If it gets shorter or longer meanwhile, the bytes are those that
    /// were there, and no more than its first size.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let no_memory = || io::Error::from(io::ErrorKind::OutOfMemory);
        let size = usize::try_from(file.metadata()?.len()).map_err(|_| no_memory())?;
        let mut lines = Lines::zeroed(size.div_ceil(LINE)).ok_or_else(no_memory)?;
        let mut read = 0;
        while read < size {
            match file.read(&mut lines.bytes_mut()[read..size]) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { lines, size: read })
    }
}

impl AsRef<[u8]> for FileBytes {
    fn as_ref(&self) -> &[u8] {
        &self.lines.bytes()[..self.size]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AdaptiveQuotientFilter, FrozenFilter, Hash};

    #[test]
    fn mapped_file_stays_as_it_was_when_it_is_replaced() {
        let path = std::env::temp_dir().join(format!("twiceshy-map-{}", std::process::id()));
        let filter = |key: u128| {
            let mut filter = AdaptiveQuotientFilter::builder().capacity(100).build().unwrap();
            filter.insert(Hash::from_u128(key << 124)).unwrap();
            filter
        };
        filter(1).save_to(&path).unwrap();
        // SAFETY: only this test knows the file, and `save_to` replaces it.
        let mapped = unsafe { MappedFile::open(&path) }.unwrap();
        let frozen = FrozenFilter::open(mapped).unwrap();
        filter(2).save_to(&path).unwrap();
        frozen.verify().unwrap();
        assert!(frozen.contains(Hash::from_u128(1 << 124)));
        assert!(!frozen.contains(Hash::from_u128(2 << 124)));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn file_is_read_whole_and_begins_at_a_line() {
        let path = std::env::temp_dir().join(format!("twiceshy-read-{}", std::process::id()));
        for size in [0, 1, LINE - 1, LINE, 10_001] {
            let bytes: Vec<u8> = (0..size).map(|at| at as u8).collect();
            std::fs::write(&path, &bytes).unwrap();
            let read = FileBytes::read(&path).unwrap();
            assert_eq!(read.as_ref(), bytes);
            assert!(size == 0 || read.as_ref().as_ptr().addr().is_multiple_of(LINE));
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(FileBytes::read(&path).err().unwrap().kind(), io::ErrorKind::NotFound);
    }
}
