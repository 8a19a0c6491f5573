//! Files as memory.
#![expect(unsafe_code, reason = "the content of a mapped file is not in our hands")]

use memmap2::Mmap;
use std::fs::File;
use std::io;

/// The content of a file, read when it is touched.
///
/// Whoever asks for it has been told not to let anyone change the file in place while it is
/// mapped: see [`FrozenFilter::map`](crate::FrozenFilter::map).
pub(crate) fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: nobody changes the file, as above.
    unsafe { Mmap::map(file) }
}
