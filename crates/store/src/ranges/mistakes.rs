//! The mistakes that are kept: spans of numbers that are known to be empty.
//!
//! Each span lies in one partition. Adjacent spans of a partition are joined, because a filter that says
//! "empty" to both also says it to their union. So the spans of a partition neither overlap nor touch. A
//! longer range is kept as one span per partition. A new member cuts a span in two.
//!
//! # Records
//! The backend has a *record* of each span, which is read when the store is opened. A repair
//! changes only the spans in memory, so a lookup never writes. The repair marks the records that
//! are out of date. They are written later, for example by the next put or by closing.
//!
//! 1. If a place isn't marked, its record is equal to the span in memory, or it has neither.
//! 2. Records are written under the locks of their stripes, so a record never overwrites a newer
//!    one.
//! 3. The batch that writes a member also writes all marked records of the member's partition. A
//!    crash loses only the last batches, so no record claims that a member isn't there. The only
//!    exception is a member whose write has failed and takes effect after all. So every reader of
//!    the spans subtracts the members.

use super::key::Span;
use std::collections::BTreeMap;
use std::ops::{Bound, RangeInclusive};
use twiceshy::Hash;

/// Empty spans, sorted by the hash of their partition.
#[derive(Default)]
pub(super) struct Mistakes {
    /// Maps the place of each span to its last number.
    pieces: BTreeMap<Place, u128>,
    /// The records that are out of date. The value tells whether the backend may have a record there.
    marked: BTreeMap<Place, bool>,
}

/// The partition and the first number of a span.
pub(super) type Place = (Hash, u128);

/// The approximate memory of a span, and of a marked record, in bytes. Tree nodes are about two
/// thirds full.
pub(super) const BYTES_PER_SPAN: usize = size_of::<(Place, u128)>() * 3 / 2;
pub(super) const BYTES_PER_MARK: usize = (size_of::<Place>() + 1) * 3 / 2;

/// The result of an insert: the whole new span, and the number of earlier spans that were joined into it.
pub(super) struct Inserted {
    pub(super) whole: Span,
    joined: usize,
}

impl Mistakes {
    pub(super) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Returns the number of records that are out of date.
    pub(super) fn marked(&self) -> usize {
        self.marked.len()
    }

    /// Returns the outdated records of all partitions in an interval, each with the last number
    /// that it should have. `None` means that the record should be deleted.
    pub(super) fn outdated(
        &self,
        hashes: &RangeInclusive<Hash>,
    ) -> impl Iterator<Item = (Place, Option<u128>)> {
        let bounds = (*hashes.start(), 0)..=(*hashes.end(), u128::MAX);
        self.marked.range(bounds).map(|(&place, _)| (place, self.pieces.get(&place).copied()))
    }

    /// Notes that a record is about to be written. If the write fails, the backend may or may not have the
    /// record.
    pub(super) fn writing(&mut self, place: Place) {
        self.marked.insert(place, true);
    }

    /// Notes that a record was written.
    pub(super) fn written(&mut self, place: Place) {
        self.marked.remove(&place);
    }

    /// Loads a span from its record.
    pub(super) fn load(&mut self, partition: Hash, span: Span) {
        // Mark the record as outdated until the span is in memory. If the span is joined with others, the
        // mark stays.
        self.marked.insert((partition, span.first), true);
        if self.insert(partition, span).joined == 0 {
            self.marked.remove(&(partition, span.first));
        }
    }

    /// Sets or removes the span at a place, and marks its record.
    fn set(&mut self, place: Place, last: Option<u128>) {
        let was_there = match last {
            Some(last) => self.pieces.insert(place, last),
            None => self.pieces.remove(&place),
        };
        let may_be_written = *self.marked.entry(place).or_insert(was_there.is_some());
        if !may_be_written && last.is_none() {
            self.marked.remove(&place);
        }
    }

    /// Returns the spans of all partitions whose hashes lie in an interval, in order.
    pub(super) fn within(&self, hashes: &RangeInclusive<Hash>) -> impl Iterator<Item = Span> {
        let bounds = (*hashes.start(), 0)..=(*hashes.end(), u128::MAX);
        self.pieces.range(bounds).map(|(&(_, first), &last)| Span { first, last })
    }

    /// Returns the span of a partition that contains a number, if any.
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
        let mut joined = 0;
        // Go backwards from the last span that may touch the piece.
        let start = (partition, 0);
        while let Some((&(_, other), &end)) =
            self.pieces.range(start..=(partition, last.saturating_add(1))).next_back()
        {
            if end < before(first) {
                break;
            }
            self.remove(partition, other);
            joined += 1;
            (first, last) = (first.min(other), last.max(end));
        }
        self.set((partition, first), Some(last));
        Inserted { whole: Span { first, last }, joined }
    }

    pub(super) fn remove(&mut self, partition: Hash, first: u128) {
        self.set((partition, first), None);
    }

    /// Removes some span and returns it. Prefers any other span to the one that begins with `first`
    /// in `partition`.
    pub(super) fn evict(&mut self, partition: Hash, first: u128) -> Option<Span> {
        let after = (Bound::Excluded((partition, first)), Bound::Unbounded);
        let other = self.pieces.range(after).next().or(self.pieces.first_key_value());
        let (&key, &last) = other?;
        self.set(key, None);
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
    fn insert_does_not_change_spans_of_other_partitions() {
        let mut mistakes = Mistakes::default();
        for partition in [6, 7, 8] {
            let inserted = mistakes.insert(Hash::from_u128(partition), span(3, 5));
            assert_eq!(inserted.joined, 0);
        }
        assert_eq!(all(&mistakes), [(3, 5); 3]);
        assert_eq!(mistakes.within(&(HERE..=HERE)).count(), 1);
        assert_eq!(mistakes.around(HERE, 6), None);
        assert_eq!(mistakes.evict(HERE, 3), Some(span(3, 5)));
        assert_eq!(mistakes.within(&(HERE..=HERE)).count(), 1, "a different span was forgotten");
    }

    #[test]
    fn spans_may_contain_the_smallest_and_the_largest_number() {
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
        fn records_equal_the_spans_unless_marked_as_outdated(
            steps in prop::collection::vec((0u8..60, 0u8..9, 0u8..8), 0..60)
        ) {
            let mut mistakes = Mistakes::default();
            let mut backend = BTreeMap::new();
            let all_hashes = Hash::MIN..=Hash::MAX;
            for (first, length, step) in steps {
                let first = u128::from(first);
                match step {
                    0..4 => drop(mistakes.insert(HERE, span(first, first + u128::from(length)))),
                    4 => {
                        if let Some(piece) = mistakes.around(HERE, first) {
                            mistakes.remove(HERE, piece.first);
                            for part in piece.without(first) {
                                mistakes.insert(HERE, part);
                            }
                        }
                    }
                    5 => { mistakes.evict(HERE, first); }
                    _ => {
                        // Depending on `length`, the write fails before it is done, fails after it
                        // is done, or succeeds.
                        let outdated: Vec<_> = mistakes.outdated(&all_hashes).collect();
                        for &(place, last) in &outdated {
                            mistakes.writing(place);
                            match last {
                                _ if length == 0 => {}
                                Some(last) => { backend.insert(place, last); }
                                None => { backend.remove(&place); }
                            }
                            if length > 1 {
                                mistakes.written(place);
                            }
                        }
                    }
                }
                for number in 0..80 {
                    let place = (HERE, number);
                    let (there, record) = (mistakes.pieces.get(&place), backend.get(&place));
                    match mistakes.marked.get(&place) {
                        None => prop_assert_eq!(there, record),
                        Some(false) => prop_assert!(there.is_some() && record.is_none()),
                        Some(true) => {}
                    }
                }
            }
            let mut loaded = Mistakes::default();
            for (place, &last) in &backend {
                loaded.load(place.0, span(place.1, last));
            }
            if mistakes.marked() == 0 {
                prop_assert_eq!(all(&loaded), all(&mistakes));
                prop_assert_eq!(loaded.marked(), 0);
            }
            // After failed writes, records may overlap. Then loading joins their spans, which are
            // written here.
            for (place, last) in loaded.outdated(&all_hashes) {
                match last {
                    Some(last) => { backend.insert(place, last); }
                    None => { backend.remove(&place); }
                }
            }
            prop_assert_eq!(backend, loaded.pieces);
        }

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
                    prop_assert_eq!(before + 1 - inserted.joined, all(&mistakes).len());
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
