//! The mistakes that are kept: spans of numbers that are known to be empty.
//!
//! Each span lies in one partition, and spans of one partition neither overlap nor touch: adjacent spans
//! are joined, because the filter says "empty" to their union if it does to both. A longer range is kept as
//! one span per partition. A new member cuts a span in two.

use super::key::Span;
use std::collections::BTreeMap;
use std::ops::{Bound, RangeInclusive};
use twiceshy::Hash;

/// Empty spans, sorted by the hash of their partition.
#[derive(Default)]
pub(super) struct Mistakes {
    /// The last number of each span, by partition and first number.
    pieces: BTreeMap<(Hash, u128), u128>,
}

/// A span that was inserted, and those that it was joined with.
pub(super) struct Inserted {
    pub(super) whole: Span,
    pub(super) joined: Vec<Span>,
}

impl Mistakes {
    /// Returns the spans of partitions with hashes in an interval, in order.
    pub(super) fn within(&self, hashes: &RangeInclusive<Hash>) -> impl Iterator<Item = Span> {
        let bounds = (*hashes.start(), 0)..=(*hashes.end(), u128::MAX);
        self.pieces.range(bounds).map(|(&(_, first), &last)| Span { first, last })
    }

    /// Returns the span that contains a number of a partition.
    pub(super) fn around(&self, partition: Hash, number: u128) -> Option<Span> {
        let before = self.pieces.range((partition, 0)..=(partition, number)).next_back();
        let span = before.map(|(&(_, first), &last)| Span { first, last });
        span.filter(|span| span.contains(number))
    }

    /// Returns whether a whole piece is known to be empty.
    pub(super) fn has(&self, partition: Hash, piece: Span) -> bool {
        self.around(partition, piece.first).is_some_and(|span| span.contains(piece.last))
    }

    /// Inserts a piece, and joins it with the spans that it touches.
    pub(super) fn insert(&mut self, partition: Hash, piece: Span) -> Inserted {
        let Span { mut first, mut last } = piece;
        let before = |number: u128| number.saturating_sub(1);
        let mut joined = Vec::new();
        // Go backwards from the last span that may touch the piece.
        let start = (partition, 0);
        while let Some((&(_, other), &end)) =
            self.pieces.range(start..=(partition, last.saturating_add(1))).next_back()
        {
            if end < before(first) {
                break;
            }
            self.remove(partition, other);
            joined.push(Span { first: other, last: end });
            (first, last) = (first.min(other), last.max(end));
        }
        self.pieces.insert((partition, first), last);
        Inserted { whole: Span { first, last }, joined }
    }

    pub(super) fn remove(&mut self, partition: Hash, first: u128) {
        self.pieces.remove(&(partition, first));
    }

    /// Evicts a span, preferring one that doesn't begin with `first` in `partition`, and returns it.
    pub(super) fn evict(&mut self, partition: Hash, first: u128) -> Option<Span> {
        let after = (Bound::Excluded((partition, first)), Bound::Unbounded);
        let other = self.pieces.range(after).next().or(self.pieces.first_key_value());
        let (&key, &last) = other?;
        self.pieces.remove(&key);
        Some(Span { first: key.1, last })
    }
}

impl Span {
    /// Returns the parts before and after a number in the span.
    pub(super) fn without(self, number: u128) -> impl Iterator<Item = Self> {
        let left = number.checked_sub(1).map(|last| Self { last, ..self });
        let right = number.checked_add(1).map(|first| Self { first, ..self });
        [left, right].into_iter().flatten().filter(|span| span.first <= span.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const HERE: Hash = Hash::from_u128(7);

    fn span(first: u128, last: u128) -> Span {
        Span { first, last }
    }

    fn all(mistakes: &Mistakes) -> Vec<(u128, u128)> {
        mistakes.within(&(Hash::MIN..=Hash::MAX)).map(|span| (span.first, span.last)).collect()
    }

    #[test]
    fn insert_leaves_other_partitions_alone() {
        let mut mistakes = Mistakes::default();
        for partition in [6, 7, 8] {
            let inserted = mistakes.insert(Hash::from_u128(partition), span(3, 5));
            assert!(inserted.joined.is_empty());
        }
        assert_eq!(all(&mistakes), [(3, 5); 3]);
        assert_eq!(mistakes.within(&(HERE..=HERE)).count(), 1);
        assert_eq!(mistakes.around(HERE, 6), None);
        assert_eq!(mistakes.evict(HERE, 3), Some(span(3, 5)));
        assert_eq!(mistakes.within(&(HERE..=HERE)).count(), 1, "a different span was forgotten");
    }

    #[test]
    fn spans_may_begin_and_end_at_the_limits() {
        let mut mistakes = Mistakes::default();
        mistakes.insert(HERE, span(u128::MAX, u128::MAX));
        mistakes.insert(HERE, span(0, 0));
        mistakes.insert(HERE, span(u128::MAX - 1, u128::MAX - 1));
        assert_eq!(all(&mistakes), [(0, 0), (u128::MAX - 1, u128::MAX)]);
        assert!(span(0, 0).without(0).next().is_none());
        assert!(span(u128::MAX, u128::MAX).without(u128::MAX).next().is_none());
        assert!(span(0, 2).without(1).eq([span(0, 0), span(2, 2)]));
    }

    proptest! {
        #[test]
        fn spans_agree_with_a_set_of_numbers(pieces in prop::collection::vec((0u8..60, 0u8..9, any::<bool>()), 0..40)) {
            let mut mistakes = Mistakes::default();
            let mut model = BTreeSet::new();
            for (first, length, cuts) in pieces {
                let first = u128::from(first);
                if cuts {
                    if let Some(piece) = mistakes.around(HERE, first) {
                        mistakes.remove(HERE, piece.first);
                        for part in piece.without(first) {
                            mistakes.insert(HERE, part);
                        }
                    }
                    model.remove(&first);
                } else {
                    let piece = span(first, first + u128::from(length));
                    let before = all(&mistakes).len();
                    let inserted = mistakes.insert(HERE, piece);
                    prop_assert!(mistakes.has(HERE, piece));
                    prop_assert_eq!(before + 1 - inserted.joined.len(), all(&mistakes).len());
                    let whole = (inserted.whole.first, inserted.whole.last);
                    prop_assert!(all(&mistakes).contains(&whole));
                    model.extend(piece.first..=piece.last);
                }
                let known = all(&mistakes);
                prop_assert!(known.windows(2).all(|two| two[0].1 + 1 < two[1].0), "{:?}", known);
                let numbers = known.iter().flat_map(|&(first, last)| first..=last);
                prop_assert!(numbers.eq(model.iter().copied()));
                for number in 0..80 {
                    let is_known = mistakes.around(HERE, number).is_some();
                    prop_assert_eq!(is_known, model.contains(&number));
                }
            }
        }
    }
}
