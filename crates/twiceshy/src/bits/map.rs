//! Files mapped into memory.
#![expect(
    unsafe_code,
    reason = "nobody but the caller can keep others from changing a mapped file"
)]

use core::fmt;
use memmap2::Mmap;
use std::fs::File;
use std::io;
use std::path::Path;

/// A file mapped into memory, for [`Frozen::from_bytes`](crate::Frozen::from_bytes).
///
/// The system reads a page of the file when a lookup first touches it, and may drop the page again
/// when it needs the memory. Even a large filter opens instantly, and several processes share
/// its pages.
///
/// If another process might change the file, use [`Frozen::open`](crate::Snapshot::open) instead,
/// which reads the file into memory.
///
/// # Examples
/// ```
/// use twiceshy::{QuotientFilter, Frozen, Keyed, SecretMode};
/// use twiceshy::snapshot::{KeyedSnapshot, MappedFile};
/// # let path = std::env::temp_dir().join(format!("twiceshy-mapped-{}", std::process::id()));
/// let mut filter = QuotientFilter::builder().capacity(1000).build_keyed::<str>()?;
/// filter.insert("alice")?;
/// filter.save(&path, SecretMode::Omit)?;
///
/// // SAFETY: nobody else writes to this file; `save` replaces files, and never changes one.
/// let mapped = unsafe { MappedFile::open(&path) }?;
/// let secret = filter.secret().clone();
/// let frozen = Keyed::<str, Frozen<QuotientFilter>>::from_bytes(mapped, Some(secret))?;
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
    /// Until the `MappedFile` is dropped, no process may write to the file or truncate it. The
    /// bytes of a `&[u8]` must not change, and the system kills a process that reads a page past
    /// the file's new end.
    ///
    /// Replacing the file, as [`save`](crate::Snapshot::save) does, is allowed: the old file stays
    /// unchanged as long as it is mapped.
    ///
    /// # Errors
    /// Returns an error if the file can't be opened or mapped.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Frozen, Hash, QuotientFilter, Snapshot};

    #[test]
    fn mapped_file_keeps_its_contents_when_the_file_is_replaced() {
        let path = std::env::temp_dir().join(format!("twiceshy-map-{}", std::process::id()));
        let filter = |key: u128| {
            let mut filter = QuotientFilter::builder().capacity(100).build().unwrap();
            filter.insert(Hash::from_u128(key << 124)).unwrap();
            filter
        };
        filter(1).save(&path).unwrap();
        // SAFETY: only this test uses the file, and `save` replaces it.
        let mapped = unsafe { MappedFile::open(&path) }.unwrap();
        let frozen = Frozen::<QuotientFilter>::from_bytes(mapped).unwrap();
        filter(2).save(&path).unwrap();
        frozen.validate().unwrap();
        assert!(frozen.contains(Hash::from_u128(1 << 124)));
        assert!(!frozen.contains(Hash::from_u128(2 << 124)));
        std::fs::remove_file(&path).unwrap();
    }
}
