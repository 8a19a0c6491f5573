//! Zeroed memory, or a refusal: a table that is too large must be an error, not an
//! abort, and one that is granted costs nothing until its pages are touched.
#![expect(unsafe_code, reason = "aligned and fallible zeroed memory needs the allocator")]

use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc};

/// Words of a cache line.
pub(crate) const LINE: usize = 8;

/// A huge page; memory of that size and more begins at one, and asks for them.
const HUGE_PAGE: usize = 2 << 20;

/// Cache lines of words, aligned to lines, zero at first.
///
/// Random lookups in a large table miss the translation buffers with nearly every
/// access where pages are small; so large ones ask the kernel for huge pages.
pub(crate) struct Lines {
    words: NonNull<u64>,
    count: usize,
}

impl Lines {
    /// `lines` lines of zeros, or `None` if there is no such memory.
    pub(crate) fn zeroed(lines: usize) -> Option<Self> {
        let count = lines.checked_mul(LINE)?;
        let layout = Self::layout(count)?;
        if count == 0 {
            return Some(Self { words: NonNull::dangling(), count });
        }
        // SAFETY: the layout isn't empty, because `count` isn't 0.
        let memory = unsafe { alloc_zeroed(layout) };
        let words = NonNull::new(memory)?.cast();
        let lines = Self { words, count };
        if layout.size() >= HUGE_PAGE {
            lines.ask_for_huge_pages();
        }
        Some(lines)
    }

    /// Asks the machine to fetch a line; it need not exist.
    #[inline(always)]
    pub(crate) fn prefetch(&self, line: usize) {
        #[cfg(target_arch = "x86_64")]
        super::x86_64::prefetch(self, line.wrapping_mul(LINE));
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }

    fn layout(count: usize) -> Option<Layout> {
        let bytes = count.checked_mul(size_of::<u64>())?;
        let align = if bytes >= HUGE_PAGE { HUGE_PAGE } else { LINE * size_of::<u64>() };
        Layout::from_size_align(bytes, align).ok()
    }

    /// A hint, which the kernel may follow or not.
    fn ask_for_huge_pages(&self) {
        #[cfg(target_os = "linux")]
        {
            use rustix::mm::{Advice, madvise};
            let bytes = self.count * size_of::<u64>() / HUGE_PAGE * HUGE_PAGE;
            // SAFETY: the range is ours, begins at a page, and the advice changes no
            // content.
            let _ = unsafe { madvise(self.words.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        }
    }
}

impl Deref for Lines {
    type Target = [u64];
    #[inline(always)]
    fn deref(&self) -> &[u64] {
        // SAFETY: `count` initialised words that live as long as `self`.
        unsafe { core::slice::from_raw_parts(self.words.as_ptr(), self.count) }
    }
}

impl DerefMut for Lines {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u64] {
        // SAFETY: `count` initialised words that live as long as `self`, which is
        // borrowed mutably.
        unsafe { core::slice::from_raw_parts_mut(self.words.as_ptr(), self.count) }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if let Some(layout) = Self::layout(self.count).filter(|layout| layout.size() > 0) {
            // SAFETY: allocated by `zeroed` with the same layout.
            unsafe { dealloc(self.words.as_ptr().cast(), layout) };
        }
    }
}

impl Clone for Lines {
    fn clone(&self) -> Self {
        let mut copy = Self::zeroed(self.count / LINE).expect("memory for a copy");
        copy.copy_from_slice(self);
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
        for count in [0, 1, 1000, HUGE_PAGE / 64, HUGE_PAGE / 64 + 7] {
            let mut lines = Lines::zeroed(count).unwrap();
            assert_eq!(lines.len(), count * LINE);
            assert!(lines.iter().all(|&word| word == 0));
            assert!(count == 0 || lines.as_ptr().addr().is_multiple_of(64));
            if let Some(last) = lines.last_mut() {
                *last = 7;
            }
            assert_eq!(lines.clone()[..], lines[..]);
        }
    }

    #[test]
    fn absurd_sizes_are_refused() {
        assert!(Lines::zeroed(usize::MAX).is_none());
        assert!(Lines::zeroed(isize::MAX as usize / 64).is_none());
    }
}
