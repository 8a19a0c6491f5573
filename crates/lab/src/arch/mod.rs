//! Prefetching, huge pages and memory maps for measurements.
#![expect(unsafe_code, reason = "prefetch intrinsics, huge pages and memory maps")]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::Deref;
use std::path::Path;
use std::ptr::NonNull;
use twiceshy::snapshot::MappedFile;

/// Prefetches the cache line that contains `line`.
#[inline(always)]
pub(crate) fn prefetch<T>(line: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 machine has SSE, and a prefetch doesn't access memory.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(line).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

/// Maps a file that the benchmark created.
pub(crate) fn map(path: &Path) -> std::io::Result<MappedFile> {
    // SAFETY: the file is in a directory of this process, which doesn't write to it again.
    unsafe { MappedFile::open(path) }
}

/// A cache line.
#[repr(align(64))]
pub(crate) struct Line(pub(crate) [u64; 8]);

/// Cache lines in huge pages, if the kernel grants them. Each line was written once. A filter's
/// memory is allocated in the same way, so the measured limit applies to filters.
pub(crate) struct Lines {
    first: NonNull<Line>,
    layout: Layout,
    count: usize,
}

const HUGE_PAGE: usize = 2 << 20;

impl Lines {
    #[expect(clippy::cast_ptr_alignment, reason = "it is aligned to a huge page")]
    pub(crate) fn new(count: usize) -> Self {
        let size = (count * size_of::<Line>()).next_multiple_of(HUGE_PAGE);
        let layout = Layout::from_size_align(size, HUGE_PAGE).expect("a table that fits memory");
        // SAFETY: the layout isn't empty.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(first) = NonNull::new(memory.cast::<Line>()) else { handle_alloc_error(layout) };
        #[cfg(target_os = "linux")]
        {
            use rustix::mm::{Advice, madvise};
            // SAFETY: the range is ours, and the advice changes no content.
            let _ = unsafe { madvise(memory.cast(), size, Advice::LinuxHugepage) };
        }
        // SAFETY: `size` bytes were allocated.
        unsafe { memory.write_bytes(1, size) };
        Self { first, layout, count }
    }
}

impl Deref for Lines {
    type Target = [Line];

    #[inline(always)]
    fn deref(&self) -> &[Line] {
        // SAFETY: `count` lines were allocated and initialised.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        // SAFETY: `new` allocated this memory with this layout.
        unsafe { dealloc(self.first.as_ptr().cast(), self.layout) };
    }
}
