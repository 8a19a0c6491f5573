//! Comparing a copy with its original.

/// Returns whether two iterators return the same items.
pub(super) fn same<T: PartialEq, E>(
    mut original: impl Iterator<Item = Result<T, E>>,
    mut copy: impl Iterator<Item = Result<T, E>>,
) -> Result<bool, E> {
    loop {
        match (original.next().transpose()?, copy.next().transpose()?) {
            (None, None) => return Ok(true),
            (original, copy) if original != copy => return Ok(false),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_is_false_if_items_are_missing_added_or_different() {
        let same = |a: &[i32], b: &[i32]| {
            same(a.iter().map(|&item| Ok::<_, ()>(item)), b.iter().map(|&item| Ok(item))).unwrap()
        };
        assert!(same(&[], &[]) && same(&[1, 2], &[1, 2]));
        assert!(!same(&[1, 2], &[1]) && !same(&[1], &[1, 2]) && !same(&[1, 2], &[1, 3]));
    }

    #[test]
    fn same_returns_read_errors() {
        assert_eq!(same([Ok(1)].into_iter(), [Err("torn")].into_iter()), Err("torn"));
    }
}
