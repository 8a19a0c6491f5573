//! Lookups of one range or of many.
//!
//! Unlike changes, lookups are safe in a table with any contents: at worst the answer is wrong.

use super::boxes::{Boxes, Piece};
use super::layout::Spelling;
use super::query::Span;
use super::{MOST_PARTITIONS, MementoFilter, RangeKey};
use crate::batch::{self, Lookup};
use crate::bits::machine::{Machine, Operation};
use crate::hash::Scaled;
use crate::table::{Budget, Evidence, Kind, Place, RangeWidths, Scan, Slot, Wanted, Window};
use core::ops::{Bound, RangeBounds};

/// Number of ranges that are converted to pieces at once. Operations on pieces don't depend on the
/// type of the keys, so they are compiled only in this crate.
const CHUNK: usize = 128;

impl<K: RangeKey, const ADAPTIVE: bool> MementoFilter<K, ADAPTIVE> {
    /// Returns whether a key may be a member. "No" is certain.
    pub fn contains(&self, key: K) -> bool {
        self.contains_range((Bound::Included(key), Bound::Included(key)))
    }

    /// Returns whether a range may contain a member. "No" is certain. For an empty range the answer
    /// is "no".
    pub fn contains_range(&self, range: impl RangeBounds<K>) -> bool {
        self.may_contain(&range)
    }

    /// Looks up many ranges: clears `maybe`, and then pushes one answer per range, as
    /// [`contains_range`](Self::contains_range) gives it. If the filter is larger than the cache,
    /// this is several times as fast.
    pub fn contains_ranges<R: RangeBounds<K>>(&self, ranges: &[R], maybe: &mut Vec<bool>) {
        batch::fill_answers(maybe, ranges.len(), |maybe| {
            let mut pairs = [None; CHUNK];
            for (ranges, maybe) in ranges.chunks(CHUNK).zip(maybe.chunks_mut(CHUNK)) {
                let pairs = &mut pairs[..ranges.len()];
                for (pair, range) in pairs.iter_mut().zip(ranges) {
                    *pair = self.pair(range);
                }
                self.boxes.have_any(pairs, maybe);
                for ((pair, range), maybe) in pairs.iter().zip(ranges).zip(maybe) {
                    if pair.is_none() {
                        *maybe = self.contains_range_of_any_length(range);
                    }
                }
            }
        });
    }

    /// Returns the numbers in a range, or `None` if it can't contain a member.
    pub(super) fn span(&self, range: &impl RangeBounds<K>) -> Option<Span> {
        Span::of(range).filter(|_| !self.is_empty())
    }

    /// Returns the two pieces of a range, or the same piece twice if it has one.
    #[inline(always)]
    fn pair(&self, range: &impl RangeBounds<K>) -> Option<[Piece; 2]> {
        self.partitions.pair(self.span(range)?)
    }

    /// Answers as [`contains_range`](Self::contains_range), with a fast path for short ranges.
    #[inline]
    pub(super) fn may_contain(&self, range: &impl RangeBounds<K>) -> bool {
        match self.pair(range) {
            Some(pair) => self.boxes.has_any(pair),
            None => self.contains_range_of_any_length(range),
        }
    }

    /// Answers as [`contains_range`](Self::contains_range), partition by partition.
    fn contains_range_of_any_length(&self, range: &impl RangeBounds<K>) -> bool {
        let Some(span) = self.span(range) else { return false };
        let borders = self.partitions.borders(span);
        if borders >= MOST_PARTITIONS {
            return true;
        }
        let mut budget = self.boxes.budget.of_many(borders as u64 + 1);
        let mut pieces = self.partitions.pieces(span);
        pieces.any(|piece| self.boxes.may_have_within(piece, &mut budget))
    }
}

/// Looks up the two pieces of a range.
struct HasAny<'a> {
    boxes: &'a Boxes,
    pair: [Piece; 2],
}

impl Operation for HasAny<'_> {
    type Argument = ();
    type Output = bool;
    type Shapes = RangeWidths;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) -> bool {
        let Self { boxes, pair } = self;
        let probes = pair.map(|piece| boxes.begin::<SHAPE>(piece));
        boxes.ask::<M, SHAPE>(machine, probes).unwrap_or_else(|| boxes.look_closely(pair))
    }
}

/// Looks up many pairs of pieces. Skips those that are `None`.
struct HaveAny<'a> {
    boxes: &'a Boxes,
    pairs: &'a [Option<[Piece; 2]>],
    maybe: &'a mut [bool],
}

impl Operation for HaveAny<'_> {
    type Argument = ();
    type Output = ();
    type Shapes = RangeWidths;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) {
        let Self { boxes, pairs, maybe } = self;
        batch::answer(&Steps::<_, SHAPE> { machine, boxes }, pairs, maybe);
    }
}

struct Steps<'a, M, const SHAPE: u32> {
    machine: M,
    boxes: &'a Boxes,
}

/// The probes of a pair, if there is one.
#[derive(Clone, Copy, Default)]
struct Begun {
    probes: [Probe; 2],
    is_pair: bool,
}

impl<M: Machine, const SHAPE: u32> Lookup<Option<[Piece; 2]>> for Steps<'_, M, SHAPE> {
    type Begun = Begun;

    #[inline(always)]
    fn begin(&self, pair: &Option<[Piece; 2]>) -> Begun {
        let Some(pair) = pair else { return Begun::default() };
        Begun { probes: pair.map(|piece| self.boxes.begin::<SHAPE>(piece)), is_pair: true }
    }

    #[inline(always)]
    fn scan(&self, begun: &Begun) -> (bool, bool) {
        match self.boxes.ask::<M, SHAPE>(self.machine, begun.probes) {
            Some(answer) if begun.is_pair => (answer, false),
            _ => (false, begun.is_pair),
        }
    }

    /// Does nothing: the lines that follow were prefetched at first.
    #[inline(always)]
    fn defer(&self, _: &Option<[Piece; 2]>) {}

    #[inline(always)]
    fn contains(&self, &pair: &Option<[Piece; 2]>) -> bool {
        pair.is_some_and(|pair| self.boxes.has_any(pair))
    }
}

/// A lookup of a piece: the position of its boxes, the remainder of its partition, and the bounds
/// of mementos.
#[derive(Clone, Copy, Default)]
struct Probe {
    place: Place,
    remainder: u64,
    least: u64,
    most: u64,
}

/// A probe, and the layout of boxes.
#[derive(Clone, Copy)]
struct Wants(Spelling, Probe);

impl Wanted for Wants {
    #[inline(always)]
    fn of<M: Machine>(self, machine: M, window: Window) -> u64 {
        let Self(spelling, Probe { remainder, least, most, .. }) = self;
        if spelling.has_ages {
            window.such_as(|first| spelling.shows(first, remainder, least, most))
        } else {
            let (least, most) = (spelling.first(remainder, least), spelling.first(remainder, most));
            window.between(machine, least..=most)
        }
    }
}

impl Boxes {
    /// Returns whether one of two pieces may contain a member.
    fn has_any(&self, pair: [Piece; 2]) -> bool {
        self.table.target().run(HasAny { boxes: self, pair })
    }

    /// Answers as [`has_any`](Self::has_any) for many pairs. Skips those that are `None`. All
    /// answers must be false at first.
    fn have_any(&self, pairs: &[Option<[Piece; 2]>], maybe: &mut [bool]) {
        self.table.target().run(HaveAny { boxes: self, pairs, maybe });
    }

    /// Returns whether a piece may contain a member.
    pub(super) fn may_have(&self, piece: Piece) -> bool {
        self.may_have_within(piece, &mut { self.budget })
    }

    /// Answers as [`may_have`](Self::may_have), within a budget of lines to read.
    fn may_have_within(&self, piece: Piece, budget: &mut Budget) -> bool {
        let target = self.table.target();
        let maybe = target.run(MayHave { boxes: self, piece });
        maybe.unwrap_or_else(|| target.run(LookClosely { boxes: self, piece, budget }))
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

    /// Returns whether one of two pieces may contain a member, or `None` if scanning their lines
    /// is not enough to decide.
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
        match evidence.scan() {
            Scan::Unsure if evidence.goes_on() => {
                self.table.target().run(AskAcross { boxes: self, probe })
            }
            scan => decision(scan),
        }
    }

    /// Returns whether one of two pieces may contain a member, by looking at each slot.
    #[inline(never)]
    fn look_closely(&self, [one, other]: [Piece; 2]) -> bool {
        let (target, budget) = (self.table.target(), &mut self.budget.of_many(2));
        let mut look = |piece| target.run(LookClosely { boxes: self, piece, budget });
        look(one) || (other.partition != one.partition && look(other))
    }

    /// Returns whether the box at `start`, whose remainder covers a piece's partition, covers the
    /// partition with its whole fingerprint and has a memento in the piece. Returns `true` if the
    /// box is malformed or too long.
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

#[inline(always)]
fn decision(scan: Scan) -> Option<bool> {
    match scan {
        Scan::Absent => Some(false),
        Scan::Present => Some(true),
        Scan::Unsure => None,
    }
}

/// Scans for one probe whose run may continue in the next line.
struct AskAcross<'a> {
    boxes: &'a Boxes,
    probe: Probe,
}

impl Operation for AskAcross<'_> {
    type Argument = ();
    type Output = Option<bool>;
    type Shapes = RangeWidths;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) -> Option<bool> {
        let Self { boxes: Boxes { table, spelling, .. }, probe } = self;
        let wants = Wants(*spelling, probe);
        decision(table.scan_across_for::<M, SHAPE>(machine, probe.place, wants).scan())
    }
}

/// Searches the run of a piece slot by slot. In an invalid table, where the run is missing or too
/// long, the answer is `true`.
struct LookClosely<'a> {
    boxes: &'a Boxes,
    piece: Piece,
    budget: &'a mut Budget,
}

impl Operation for LookClosely<'_> {
    type Argument = ();
    type Output = bool;
    type Shapes = RangeWidths;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) -> bool {
        let Self { boxes, piece, budget } = self;
        let Boxes { table, spelling, .. } = boxes;
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

struct MayHave<'a> {
    boxes: &'a Boxes,
    piece: Piece,
}

impl Operation for MayHave<'_> {
    type Argument = ();
    type Output = Option<bool>;
    type Shapes = RangeWidths;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) -> Option<bool> {
        let Self { boxes, piece } = self;
        let probe = boxes.begin::<SHAPE>(piece);
        let wants = Wants(boxes.spelling, probe);
        let evidence = boxes.table.scan_for::<M, SHAPE>(machine, probe.place, wants, false);
        boxes.ask_on(probe, evidence)
    }
}
