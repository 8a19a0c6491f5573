//! Ranges of keys.

use std::ops::Bound::{self, Excluded, Included, Unbounded};

#[cfg(feature = "fjall")]
use super::MAX_KEY_BYTES;

/// The bounds of a range of keys.
pub type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Returns the upper bound of the keys that begin with `prefix`.
pub(super) fn after_prefix(prefix: &[u8]) -> Bound<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return Excluded(end);
        }
    }
    Unbounded
}

/// Returns whether no key can lie within these bounds. Some engines panic when they get such bounds.
pub(super) fn is_empty(bounds: Bounds<'_>) -> bool {
    match bounds {
        (Unbounded, _) | (_, Unbounded) => false,
        (Included(start), Included(end)) => start > end,
        (Included(start) | Excluded(start), Included(end) | Excluded(end)) => start >= end,
    }
}

/// Shortens bounds that are longer than any key, without excluding a key. Some engines panic when they get
/// longer bounds.
#[cfg(feature = "fjall")]
pub(super) fn shortened((start, end): Bounds<'_>) -> Bounds<'_> {
    let shorten = |bound: &[u8]| bound.len() > MAX_KEY_BYTES;
    // No key lies between a bound that is too long and the first `MAX_KEY_BYTES` bytes of that bound.
    let start = match start {
        Included(bound) | Excluded(bound) if shorten(bound) => Excluded(&bound[..MAX_KEY_BYTES]),
        start => start,
    };
    let end = match end {
        Included(bound) | Excluded(bound) if shorten(bound) => Included(&bound[..MAX_KEY_BYTES]),
        end => end,
    };
    (start, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_range_ends_at_the_next_prefix() {
        assert_eq!(after_prefix(b"bee"), Excluded(b"bef".to_vec()));
        assert_eq!(after_prefix(b"a\xff\xff"), Excluded(b"b".to_vec()));
        assert_eq!(after_prefix(b"\xff"), Unbounded);
        assert_eq!(after_prefix(b""), Unbounded);
    }
}
