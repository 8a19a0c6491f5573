//! Zeroed memory whose allocation can fail, and borrowed memory that is read in place.
//!
//! A table that is too large causes an error instead of an abort. Zeroed memory costs nothing until
//! its pages are touched.
#![expect(unsafe_code, reason = "aligned and fallible zeroed memory needs the allocator")]

use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::sync::Arc;

/// Size of a cache line, in bytes.
pub(crate) const LINE: usize = 64;

/// Number of bytes that can be read from the start of a line. It is more than a line, because a
/// word may begin in the line's last byte.
pub(crate) const VIEW: usize = LINE + 8;

/// Size of a huge page. Memory of at least this size is aligned to it, and asks for huge pages.
const HUGE_PAGE: usize = 2 << 20;

/// An owner of bytes.
pub(crate) trait Source: Send + Sync {
    fn bytes(&self) -> &[u8];
}

impl<T: AsRef<[u8]> + Send + Sync> Source for T {
    fn bytes(&self) -> &[u8] {
        self.as_ref()
    }
}

/// Cache lines. They are either owned, aligned and initially zero; or a read-only part of the bytes
/// of a [`Source`], with any alignment.
///
/// With small pages, nearly every random lookup in a large table misses the TLB, so large tables
/// ask the kernel for huge pages.
pub(crate) struct Lines {
    /// The first line.
    first: NonNull<u8>,
    /// Number of bytes of all lines. One more line after them can be read.
    size: usize,
    /// Number of bytes that may be written: all if the memory is owned, none if it is shared.
    writable: usize,
    memory: Memory,
}

/// The owner of the memory.
enum Memory {
    /// Memory from the allocator. The first line is somewhere in it.
    Ours { start: NonNull<u8>, layout: Layout },
    /// Memory that belongs to a source. The `Arc` keeps the source alive, and moving the `Lines`
    /// doesn't move the bytes.
    Shared { _source: Arc<dyn Source> },
}

impl Lines {
    /// Returns `lines` lines of zeros, or `None` if there is not enough memory.
    pub(crate) fn zeroed(lines: usize) -> Option<Self> {
        // Add one line, because a view of the last line also reads bytes after it.
        let size = lines.checked_add(1)?.checked_mul(LINE)?;
        // Align by hand. If an allocator is asked for aligned zeros, it writes zeros to every page.
        // If no alignment is required, it returns fresh pages, which are zero already.
        let align = if size >= HUGE_PAGE { HUGE_PAGE } else { LINE };
        let layout = Layout::array::<u64>(size.checked_add(align)? / size_of::<u64>()).ok()?;
        // SAFETY: the layout isn't empty.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        // SAFETY: the offset is at most `align` bytes, and the layout has `align` bytes to spare.
        let first = unsafe { start.add(start.align_offset(align)) };
        // This is a hint, which the kernel may ignore.
        #[cfg(all(target_os = "linux", not(miri)))]
        if size >= HUGE_PAGE {
            use rustix::mm::{Advice, madvise};
            let whole = size / HUGE_PAGE * HUGE_PAGE;
            // SAFETY: the range is owned and begins at a page, and the advice changes no content.
            let _ = unsafe { madvise(first.as_ptr().cast(), whole, Advice::LinuxHugepage) };
        }
        let (size, memory) = (lines * LINE, Memory::Ours { start, layout });
        Some(Self { first, size, writable: size, memory })
    }

    /// Returns `lines` lines of the source, starting at byte `at`. Returns `None` unless the source
    /// has these and one more line.
    pub(crate) fn shared(source: Arc<dyn Source>, at: usize, lines: usize) -> Option<Self> {
        let size = lines.checked_mul(LINE)?;
        let end = at.checked_add(size)?.checked_add(LINE)?;
        // Call `bytes` only once. The result stays valid as long as the source is kept.
        let first = NonNull::from(source.bytes().get(at..end)?).cast();
        Some(Self { first, size, writable: 0, memory: Memory::Shared { _source: source } })
    }

    /// Returns an owned copy, or `None` if there is not enough memory.
    pub(crate) fn copied(&self) -> Option<Self> {
        self.extended(0)
    }

    /// Returns a copy as [`copied`](Self::copied) does, followed by `more` lines of zeros.
    pub(crate) fn extended(&self, more: usize) -> Option<Self> {
        let mut copy = Self::zeroed(self.len().checked_add(more)?)?;
        copy.bytes_mut()[..self.size].copy_from_slice(self.as_ref());
        Some(copy)
    }

    /// Returns the bytes of all lines, and of the extra line after them.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `size + LINE` bytes are allocated, initialised, and borrowed as long as `self` is.
        unsafe { core::slice::from_raw_parts(self.first.as_ptr(), self.size + LINE) }
    }

    /// Returns the bytes of all lines, or no bytes if the lines are shared.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: `writable` bytes are owned, initialised, and borrowed as long as `self` is.
        unsafe { core::slice::from_raw_parts_mut(self.first.as_ptr(), self.writable) }
    }

    /// Returns the number of lines.
    pub(crate) fn len(&self) -> usize {
        self.size / LINE
    }

    /// Returns the line that contains byte `at`, and the first bytes of the next line. Panics if
    /// there is no such line.
    #[inline(always)]
    pub(crate) fn view(&self, at: usize) -> &[u8; VIEW] {
        assert!(at < self.size, "no such line");
        // SAFETY: the line exists.
        let line = unsafe { self.first.add(at / LINE * LINE) };
        // SAFETY: one more line follows the last one. All bytes are initialised, and borrowed as
        // long as `self` is.
        unsafe { line.cast().as_ref() }
    }

    /// Returns the line as [`view`](Self::view) does, but mutable. Also panics if the lines are
    /// shared.
    #[inline(always)]
    pub(crate) fn view_mut(&mut self, at: usize) -> &mut [u8; VIEW] {
        assert!(at < self.writable, "no such line");
        // SAFETY: the line exists.
        let line = unsafe { self.first.add(at / LINE * LINE) };
        // SAFETY: as in `view`. Also, the line is owned, and `self` is borrowed mutably.
        unsafe { line.cast().as_mut() }
    }

    /// Returns all lines as words, or no words if the lines are shared.
    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        let first = if self.writable > 0 { self.first.cast() } else { NonNull::dangling() };
        // SAFETY: `writable` bytes are owned, initialised, aligned to a line, and borrowed as long
        // as `self` is; or there are none.
        unsafe { core::slice::from_raw_parts_mut(first.as_ptr(), self.writable / 8) }
    }

    /// Prefetches the line that contains byte `at`. The line need not exist.
    #[inline(always)]
    pub(crate) fn prefetch(&self, at: usize) {
        #[cfg(target_arch = "x86_64")]
        super::x86_64::prefetch(self.first.as_ptr().wrapping_add(at));
        #[cfg(not(target_arch = "x86_64"))]
        let _ = at;
    }
}

/// Returns the bytes of all lines, without the extra line.
impl AsRef<[u8]> for Lines {
    fn as_ref(&self) -> &[u8] {
        &self.bytes()[..self.size]
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if let Memory::Ours { start, layout } = self.memory {
            // SAFETY: `zeroed` allocated this memory with this layout.
            unsafe { dealloc(start.as_ptr(), layout) };
        }
    }
}

/// A clone always owns its memory.
impl Clone for Lines {
    fn clone(&self) -> Self {
        self.copied().expect("memory for a copy")
    }
}

// SAFETY: `Lines` owns its memory, as a `Vec<u64>` does, or shares a source that is `Send` and
// `Sync`.
unsafe impl Send for Lines {}
// SAFETY: `&Lines` only reads, as `&Vec<u64>` does. A shared source is `Sync`.
unsafe impl Sync for Lines {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_zeroed_aligned_and_copied() {
        for count in [0, 1, 1000, HUGE_PAGE / LINE, HUGE_PAGE / LINE + 7] {
            let mut lines = Lines::zeroed(count).unwrap();
            assert_eq!(lines.len(), count);
            for line in 0..count {
                assert_eq!(lines.view(line * LINE), &[0; VIEW]);
                assert!(lines.view(line * LINE).as_ptr().addr().is_multiple_of(LINE));
                lines.view_mut(line * LINE)[LINE - 1] = line as u8;
            }
            let copy = lines.clone();
            assert!((0..count * LINE).all(|at| copy.view(at) == lines.view(at)));
            let longer = lines.extended(2).unwrap();
            assert_eq!((longer.len(), &longer.bytes()[..count * LINE]), (count + 2, copy.as_ref()));
            assert!(longer.bytes()[count * LINE..].iter().all(|&byte| byte == 0));
            lines.bytes_mut().fill(0);
            assert!((0..count).all(|line| lines.view(line * LINE) == &[0; VIEW]));
        }
    }

    #[test]
    #[should_panic(expected = "no such line")]
    fn view_past_the_last_line_panics() {
        Lines::zeroed(3).unwrap().view(3 * LINE);
    }

    #[test]
    fn zeroed_returns_none_for_huge_sizes() {
        assert!(Lines::zeroed(usize::MAX).is_none());
        assert!(Lines::zeroed(isize::MAX as usize / 64).is_none());
    }

    fn bytes(count: usize) -> Vec<u8> {
        (0..count).map(|at| at as u8).collect()
    }

    #[test]
    fn shared_lines_are_read_in_place_until_they_are_copied() {
        let lines = Lines::shared(Arc::new(bytes(3 * LINE + 1)), 1, 2).unwrap();
        assert_eq!((lines.len(), lines.bytes().len()), (2, 3 * LINE));
        assert_eq!(lines.view(LINE)[0], 1 + LINE as u8);
        let mut moved = Box::new(lines);
        assert!(moved.bytes_mut().is_empty() && moved.words_mut().is_empty());
        let mut copy = moved.copied().unwrap();
        drop(moved);
        copy.view_mut(0)[1] = 7;
        assert_eq!((copy.view(0)[..3].to_vec(), copy.view(LINE)[63]), (vec![1, 7, 3], 128));
    }

    #[test]
    fn shared_returns_none_if_the_source_is_too_short() {
        let lines = |at, lines| Lines::shared(Arc::new(bytes(3 * LINE)), at, lines);
        assert!(lines(0, 2).is_some() && lines(LINE, 1).is_some());
        assert!(lines(1, 2).is_none() && lines(0, 3).is_none());
        assert!(lines(usize::MAX, 1).is_none() && lines(0, usize::MAX).is_none());
    }

    #[test]
    #[should_panic(expected = "no such line")]
    fn view_mut_of_shared_lines_panics() {
        Lines::shared(Arc::new(bytes(3 * LINE)), 0, 2).unwrap().view_mut(0);
    }
}
