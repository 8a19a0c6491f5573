//! Zeroed memory, or a refusal: a table that is too large must be an error, not an
//! abort, and one that is granted costs nothing until its pages are touched.
#![expect(unsafe_code, reason = "aligned and fallible zeroed memory needs the allocator")]

use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc};

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

/// Bytes that can be read from a line's first one: a word may begin in its last byte.
pub(crate) const VIEW: usize = LINE + 8;

/// A huge page; memory of that size and more begins at one, and asks for them.
const HUGE_PAGE: usize = 2 << 20;

/// Cache lines, aligned, zero at first.
///
/// Random lookups in a large table miss the translation buffers with nearly every
/// access where pages are small; so large ones ask the kernel for huge pages.
pub(crate) struct Lines {
    /// What the allocator gave.
    memory: NonNull<u8>,
    layout: Layout,
    /// The first line, aligned, in it.
    first: NonNull<u8>,
    /// Bytes of all lines.
    size: usize,
}

impl Lines {
    /// `lines` lines of zeros, or `None` if there is no such memory.
    pub(crate) fn zeroed(lines: usize) -> Option<Self> {
        // One more, so that the last one can be viewed, too.
        let size = lines.checked_add(1)?.checked_mul(LINE)?;
        // Aligned by hand: an allocator that is asked for aligned zeros writes them, and
        // so touches every page, while zeros without alignment come as fresh pages.
        let align = if size >= HUGE_PAGE { HUGE_PAGE } else { LINE };
        let layout = Layout::array::<u64>(size.checked_add(align)? / size_of::<u64>()).ok()?;
        // SAFETY: the layout isn't empty.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        // SAFETY: it is at most `align` bytes off, and there are that many to spare.
        let first = unsafe { memory.add(memory.align_offset(align)) };
        let lines = Self { memory, layout, first, size: lines * LINE };
        lines.ask_for_huge_pages(size);
        Some(lines)
    }

    /// A hint, which the kernel may follow or not.
    fn ask_for_huge_pages(&self, size: usize) {
        #[cfg(all(target_os = "linux", not(miri)))]
        if size >= HUGE_PAGE {
            use rustix::mm::{Advice, madvise};
            let whole = size / HUGE_PAGE * HUGE_PAGE;
            // SAFETY: the range is ours, begins at a page, and the advice changes no
            // content.
            let _ = unsafe { madvise(self.first.as_ptr().cast(), whole, Advice::LinuxHugepage) };
        }
        #[cfg(not(all(target_os = "linux", not(miri))))]
        let _ = size;
    }

    /// How many lines there are.
    pub(crate) fn len(&self) -> usize {
        self.size / LINE
    }

    /// The line that has byte number `at` of all, and the first bytes of the next.
    ///
    /// # Panics
    /// If there is no such line.
    #[inline(always)]
    pub(crate) fn view(&self, at: usize) -> &[u8; VIEW] {
        assert!(at < self.size, "no such line");
        // SAFETY: the line exists.
        let line = unsafe { self.first.add(at / LINE * LINE) };
        // SAFETY: there is one more line behind the last one; all bytes are initialised,
        // and borrowed as long as `self` is.
        unsafe { line.cast().as_ref() }
    }

    /// As [`view`](Self::view), to be changed.
    #[inline(always)]
    pub(crate) fn view_mut(&mut self, at: usize) -> &mut [u8; VIEW] {
        assert!(at < self.size, "no such line");
        // SAFETY: the line exists.
        let line = unsafe { self.first.add(at / LINE * LINE) };
        // SAFETY: as in `view`, and `self` is borrowed mutably.
        unsafe { line.cast().as_mut() }
    }

    /// All of it, as words.
    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: so many bytes are ours, initialised, aligned to a line, and borrowed as
        // long as `self` is.
        unsafe { core::slice::from_raw_parts_mut(self.first.cast().as_ptr(), self.size / 8) }
    }

    /// Makes all of it zero again.
    pub(crate) fn clear(&mut self) {
        // SAFETY: so many bytes are ours.
        unsafe { self.first.write_bytes(0, self.size) };
    }

    /// Asks the machine to fetch the line that has byte number `at`; it need not exist.
    #[inline(always)]
    pub(crate) fn prefetch(&self, at: usize) {
        #[cfg(target_arch = "x86_64")]
        super::x86_64::prefetch(self.first.as_ptr().wrapping_add(at));
        #[cfg(not(target_arch = "x86_64"))]
        let _ = at;
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        // SAFETY: allocated by `zeroed` with that layout.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}

impl Clone for Lines {
    fn clone(&self) -> Self {
        let copy = Self::zeroed(self.len()).expect("memory for a copy");
        let size = self.size;
        // SAFETY: both have so many bytes, initialised, in different memory.
        unsafe { core::ptr::copy_nonoverlapping(self.first.as_ptr(), copy.first.as_ptr(), size) };
        copy
    }
}

// SAFETY: `Lines` owns its memory, as a `Vec<u64>` does.
unsafe impl Send for Lines {}
// SAFETY: `&Lines` only reads, as `&Vec<u64>` does.
unsafe impl Sync for Lines {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_zero_aligned_and_copied() {
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
            lines.clear();
            assert!((0..count).all(|line| lines.view(line * LINE) == &[0; VIEW]));
        }
    }

    #[test]
    #[should_panic(expected = "no such line")]
    fn there_is_no_line_behind_the_last() {
        Lines::zeroed(3).unwrap().view(3 * LINE);
    }

    #[test]
    fn absurd_sizes_are_refused() {
        assert!(Lines::zeroed(usize::MAX).is_none());
        assert!(Lines::zeroed(isize::MAX as usize / 64).is_none());
    }
}
