//! Zeroed memory, or a refusal: a table that is too large must be an error, not an
//! abort, and one that is granted costs nothing until its pages are touched.
#![expect(unsafe_code, reason = "no fallible zeroed vector in the standard library")]
#![expect(clippy::cast_ptr_alignment, reason = "the layout asks for the alignment")]
#![expect(clippy::same_length_and_capacity, reason = "exactly the memory asked for")]

use std::alloc::{Layout, alloc_zeroed};

/// `count` zero words, or `None` if there is no such memory.
pub(crate) fn zeroed_words(count: usize) -> Option<Vec<u64>> {
    if count == 0 {
        return Some(Vec::new());
    }
    let layout = Layout::array::<u64>(count).ok()?;
    // SAFETY: the layout isn't empty, because `count` isn't 0.
    let words = unsafe { alloc_zeroed(layout) }.cast::<u64>();
    if words.is_null() {
        return None;
    }
    // SAFETY: the global allocator gave this memory for exactly this layout, and all
    // `count` words are initialised, to zero.
    Some(unsafe { Vec::from_raw_parts(words, count, count) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_and_absurd_sizes_are_refused() {
        assert_eq!(zeroed_words(0), Some(vec![]));
        assert_eq!(zeroed_words(1000), Some(vec![0; 1000]));
        assert_eq!(zeroed_words(usize::MAX), None);
        assert_eq!(zeroed_words(isize::MAX as usize / 8), None);
    }
}
