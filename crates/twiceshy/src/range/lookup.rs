//! Lookups of one range or of many.
//!
//! Unlike changes, lookups are safe in a table with any contents: at worst the answer is wrong.

use super::boxes::{Piece, Shared};
use super::layout::Spelling;
use super::{MOST_PARTITIONS, MementoFilter, RangeKey};
use crate::Hash;
use crate::batch::{self, Lookup};
use crate::bits::machine::{Machine, dispatched};
use crate::hash::Scaled;
use crate::table::{Budget, Evidence, Kind, Place, RangeWidths, Slot, Wanted, Window};
use core::ops::{Bound, RangeBounds, RangeInclusive};

/// Number of ranges that are converted to pieces together. Operations on pieces don't depend on the
/// type of the keys, so they are compiled only in this crate.
const CHUNK: usize = 128;

/// Stands for a range that is empty or has more than two pieces. It contains no memento.
const NO_PAIR: [Piece; 2] = [Piece { partition: Hash::MIN, least: 1, most: 0 }; 2];

impl<K: RangeKey, const ADAPTIVE: bool> MementoFilter<K, ADAPTIVE> {
    /// Returns whether a key may be a member. "No" is certain.
    pub fn contains(&self, key: K) -> bool {
        self.contains_range((Bound::Included(key), Bound::Included(key)))
    }

    /// Returns whether a range may contain a member. "No" is certain. For an empty range the answer
    /// is "no".
    pub fn contains_range(&self, range: impl RangeBounds<K>) -> bool {
        K::numbers(&range).is_some_and(|numbers| self.may_contain(&numbers))
    }

    /// Looks up many ranges: clears `maybe`, and then pushes one answer per range, as
    /// [`contains_range`](Self::contains_range) gives it. If the filter is larger than the cache,
    /// this is faster than single lookups.
    pub fn contains_ranges<R: RangeBounds<K>>(&self, ranges: &[R], maybe: &mut Vec<bool>) {
        self.answer_many(ranges, maybe, K::numbers);
    }

    /// Looks up many keys: clears `maybe`, and then pushes one answer per key, as
    /// [`contains`](Self::contains) gives it. If the filter is larger than the cache, this is
    /// faster than single lookups.
    pub fn contains_many(&self, keys: &[K], maybe: &mut Vec<bool>) {
        self.answer_many(keys, maybe, |key| Some(key.number()..=key.number()));
    }

    /// Answers many queries. `numbers` returns the range of numbers that a query is about.
    fn answer_many<Q>(
        &self,
        queries: &[Q],
        maybe: &mut Vec<bool>,
        numbers: impl Fn(&Q) -> Option<RangeInclusive<u128>>,
    ) {
        batch::fill_answers(maybe, queries.len(), |maybe| {
            let mut pairs = [NO_PAIR; CHUNK];
            for (queries, maybe) in queries.chunks(CHUNK).zip(maybe.chunks_mut(CHUNK)) {
                let pairs = &mut pairs[..queries.len()];
                for (pair, query) in pairs.iter_mut().zip(queries) {
                    let found = numbers(query).and_then(|numbers| self.partitions.pair(&numbers));
                    *pair = found.unwrap_or(NO_PAIR);
                }
                have_any(&self.boxes, pairs, maybe);
                for ((pair, query), maybe) in pairs.iter().zip(queries).zip(maybe) {
                    if *pair == NO_PAIR {
                        *maybe = numbers(query).is_some_and(|each| self.may_contain(&each));
                    }
                }
            }
        });
    }

    /// Answers like [`contains_range`](Self::contains_range), with a fast path for short ranges.
    #[inline]
    pub(super) fn may_contain(&self, numbers: &RangeInclusive<u128>) -> bool {
        match self.partitions.pair(numbers) {
            Some(pair) => self.boxes.has_any(pair),
            None => self.search_each_partition(numbers),
        }
    }

    /// Answers like [`contains_range`](Self::contains_range), partition by partition.
    fn search_each_partition(&self, numbers: &RangeInclusive<u128>) -> bool {
        let borders = self.partitions.borders(numbers);
        // The range is too long to search.
        if borders >= MOST_PARTITIONS {
            return !self.is_empty();
        }
        let mut budget = self.boxes.budget.of_many(borders as u64 + 1);
        let mut pieces = self.partitions.pieces(numbers.clone());
        let pair = || pieces.next().map(|one| [one, pieces.next().unwrap_or(one)]);
        core::iter::from_fn(pair).any(|pair| self.boxes.has_any_within(pair, &mut budget))
    }
}

dispatched! {
    /// Looks up two pieces. Returns `None` if scanning their lines is not enough to decide.
    #[inline(always)]
    fn ask<'a>(boxes: &'a Shared, pair: [Piece; 2]) -> Option<bool>
    => boxes.table.target(), RangeWidths, |machine| {
        boxes.ask::<M, SHAPE>(machine, pair.map(|piece| boxes.begin::<SHAPE>(piece)))
    }
}

dispatched! {
    /// Answers like [`Shared::has_any`] for many pairs. All of `maybe` must be false at first.
    fn have_any<'a>(boxes: &'a Shared, pairs: &'a [[Piece; 2]], maybe: &'a mut [bool]) -> ()
    => boxes.table.target(), RangeWidths, |machine| {
        batch::answer(&Steps::<_, SHAPE> { machine, boxes }, pairs, maybe);
    }
}

struct Steps<'a, M, const SHAPE: u32> {
    machine: M,
    boxes: &'a Shared,
}

impl<M: Machine, const SHAPE: u32> Lookup<[Piece; 2]> for Steps<'_, M, SHAPE> {
    type Begun = [Probe; 2];

    #[inline(always)]
    fn begin(&self, pair: &[Piece; 2]) -> [Probe; 2] {
        pair.map(|piece| self.boxes.begin::<SHAPE>(piece))
    }

    #[inline(always)]
    fn scan(&self, &probes: &[Probe; 2]) -> (bool, bool) {
        let answer = self.boxes.ask::<M, SHAPE>(self.machine, probes);
        (answer == Some(true), answer.is_none())
    }

    #[inline(always)]
    fn contains(&self, &pair: &[Piece; 2]) -> bool {
        self.boxes.has_any(pair)
    }
}

/// A piece whose lines were prefetched: the place and remainder of its partition, and its mementos.
#[derive(Clone, Copy, Default)]
struct Probe {
    place: Place,
    remainder: u64,
    least: u64,
    most: u64,
}

/// Selects the slots that may answer a probe, given the layout of boxes.
#[derive(Clone, Copy)]
struct Wants(Spelling, Probe);

impl Wanted for Wants {
    #[inline(always)]
    fn of<M: Machine>(self, machine: M, window: Window) -> u64 {
        let Self(spelling, Probe { remainder, least, most, .. }) = self;
        if spelling.has_ages {
            window.slots_where(|first| spelling.shows(first, remainder, least, most))
        } else {
            let (least, most) = (spelling.first(remainder, least), spelling.first(remainder, most));
            window.between(machine, least..=most)
        }
    }
}

impl Shared {
    /// Returns whether one of two pieces may contain a member.
    pub(super) fn has_any(&self, pair: [Piece; 2]) -> bool {
        let answer = ask(self, pair);
        answer.unwrap_or_else(|| self.look_closely(pair, &mut self.budget.of_many(2)))
    }

    /// Answers like [`has_any`](Self::has_any), within a budget of lines to read.
    fn has_any_within(&self, pair: [Piece; 2], budget: &mut Budget) -> bool {
        ask(self, pair).unwrap_or_else(|| self.look_closely(pair, budget))
    }

    /// Starts a lookup of a piece: prefetches its lines.
    #[inline(always)]
    fn begin<const SHAPE: u32>(&self, piece: Piece) -> Probe {
        let Piece { partition, least, most } = piece;
        let scaled = self.scale(partition);
        let place = self.table.home::<SHAPE>(scaled.quotient);
        self.table.prefetch(place);
        self.table.prefetch_across::<SHAPE>(place);
        Probe { place, remainder: scaled.leading(self.spelling.digits.remainder), least, most }
    }

    /// Scans the lines of two pieces, and answers like the function [`ask`].
    #[inline(always)]
    fn ask<M: Machine, const SHAPE: u32>(&self, machine: M, probes: [Probe; 2]) -> Option<bool> {
        let Self { table, spelling, .. } = self;
        let [one, other] = probes;
        let first = table.scan_for::<M, SHAPE>(machine, one.place, Wants(*spelling, one), false);
        let second =
            table.scan_for::<M, SHAPE>(machine, other.place, Wants(*spelling, other), false);
        let [(here, unsure), (there, also_unsure)] = [first.flags(), second.flags()];
        if !(unsure | also_unsure) {
            return Some(here | there);
        }
        match (self.ask_on(one, first), self.ask_on(other, second)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        }
    }

    /// Continues in the next line if the first one was not enough to decide.
    #[inline]
    fn ask_on(&self, probe: Probe, evidence: Evidence) -> Option<bool> {
        let (is_present, is_unsure) = evidence.flags();
        if is_unsure && evidence.goes_on() {
            return ask_across(self, probe);
        }
        (!is_unsure).then_some(is_present)
    }

    /// Returns whether one of two pieces may contain a member, by looking at each slot.
    #[inline(never)]
    fn look_closely(&self, [one, other]: [Piece; 2], budget: &mut Budget) -> bool {
        let mut look = |piece| search_run(self, piece, budget);
        look(one) || (other.partition != one.partition && look(other))
    }

    /// Returns whether the box at `start` covers a piece's partition and has a memento in the
    /// piece. The caller has already checked that its remainder covers the partition. Returns
    /// `true` if the box is malformed or too long.
    #[inline(always)]
    fn has(
        &self,
        start: u64,
        first: u64,
        scaled: Scaled,
        piece: Piece,
        budget: &mut Budget,
    ) -> bool {
        let Self { table, spelling, .. } = self;
        let age = spelling.age(first);
        if age > spelling.greatest_age() {
            return true;
        }
        let digits = spelling.digits_at(age);
        let mut at = start + 1;
        while let Some(Slot { value, kind: Kind::Extension }) = table.continuation(at) {
            let index = (at - start) as u32;
            if !digits.has(index) || value != digits.digit(scaled.fraction, index) {
                return false;
            }
            at += 1;
        }
        let others = table.continuations(at, budget).map(|slot| slot.value);
        piece.has(spelling.memento(first))
            || spelling.cells(others).any(|memento| piece.has(memento))
            || budget.is_spent()
    }
}

dispatched! {
    /// Scans for one probe whose run may continue in the next line.
    fn ask_across<'a>(boxes: &'a Shared, probe: Probe) -> Option<bool>
    => boxes.table.target(), RangeWidths, |machine| {
        let Shared { table, spelling, .. } = boxes;
        let wants = Wants(*spelling, probe);
        let evidence = table.scan_across_for::<M, SHAPE>(machine, probe.place, wants);
        let (is_present, is_unsure) = evidence.flags();
        (!is_unsure).then_some(is_present)
    }
}

dispatched! {
    /// Searches the run of a piece slot by slot. In an invalid table, where the run is missing or
    /// too long, the answer is `true`.
    fn search_run<'a>(boxes: &'a Shared, piece: Piece, budget: &'a mut Budget) -> bool
    => boxes.table.target(), RangeWidths, |machine| {
        let Shared { table, spelling, .. } = boxes;
        let scaled = boxes.scale(piece.partition);
        let remainder = scaled.leading(spelling.digits.remainder);
        let place = table.home::<SHAPE>(scaled.quotient);
        if !table.is_occupied_at::<SHAPE>(place) {
            return false;
        }
        let Some(mut walk) = table.try_walk::<M, SHAPE>(machine, place, *budget) else {
            return true;
        };
        loop {
            let (start, first) = (walk.position(), walk.remainder());
            if spelling.begins_with(first, remainder)
                && boxes.has(start, first, scaled, piece, walk.budget())
            {
                return true;
            }
            if !walk.advance() {
                *budget = *walk.budget();
                return walk.is_lost();
            }
        }
    }
}
