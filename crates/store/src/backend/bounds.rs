//! Ranges of keys.

use std::ops::Bound::{self, Excluded, Included, Unbounded};

/// Where a range of keys begins and ends.
pub type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Where the keys that begin with these bytes end.
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

/// Whether no key can be within. Engines differ in what they do then, some panic.
pub(super) fn is_empty(bounds: Bounds<'_>) -> bool {
    match bounds {
        (Unbounded, _) | (_, Unbounded) => false,
        (Included(start), Included(end)) => start > end,
        (Included(start) | Excluded(start), Included(end) | Excluded(end)) => start >= end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_its_successor() {
        assert_eq!(after_prefix(b"bee"), Excluded(b"bef".to_vec()));
        assert_eq!(after_prefix(b"a\xff\xff"), Excluded(b"b".to_vec()));
        assert_eq!(after_prefix(b"\xff"), Unbounded);
        assert_eq!(after_prefix(b""), Unbounded);
    }
}
