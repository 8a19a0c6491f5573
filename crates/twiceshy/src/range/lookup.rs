//! Asking boxes, for one range or for many.
//!
//! All that leads to an answer goes through tables that hold anything, unlike what changes them: at
//! worst the answer is wrong.

use super::boxes::{Boxes, Piece};
use super::keepsake::Spelling;
use super::{AdaptiveRangeFilter, MOST_PARTITIONS, RangeFilter, RangeKey};
use crate::bits::machine::{Machine, Operation};
use crate::hash::Scaled;
use crate::table::{Budget, Evidence, Kind, Place, Scan, Slot, Wanted, Window, with_range_width};
use core::ops::RangeBounds;

/// How many ranges are begun at once.
const GROUP: usize = 16;

/// A group of ranges whose lines were asked for.
#[derive(Clone, Copy, Default)]
struct Begun {
    probes: [[Probe; 2]; GROUP],
    /// Those that have more than two pieces, or none: one bit for each.
    others: u32,
}

impl<K: RangeKey> RangeFilter<K> {
    /// Answers for many ranges: `maybe` is cleared and then has one answer per range, as of
    /// [`contains_range`](Self::contains_range). Several times as fast where the filter is larger
    /// than the cache.
    pub fn contains_ranges<R: RangeBounds<K>>(&self, ranges: &[R], maybe: &mut Vec<bool>) {
        maybe.clear();
        maybe.resize(ranges.len(), false);
        self.boxes.table.level().run(ContainsRanges { filter: self, ranges, maybe });
    }

    /// The two pieces of a range that has no more; twice the same, if it has one.
    #[inline(always)]
    fn pair(&self, range: &impl RangeBounds<K>) -> Option<[Piece; 2]> {
        self.partitions.pair(self.span(range)?)
    }

    #[inline(always)]
    fn answer<M: Machine, const WIDTH: u32, R: RangeBounds<K>>(
        &self,
        machine: M,
        ranges: &[R],
        maybe: &mut [bool],
    ) {
        let (groups, rest) = ranges.as_chunks::<GROUP>();
        let mut begun = [Begun::default(); 2];
        // Behind the last group there is nothing to begin, and before the first nothing to ask.
        for number in 0..=groups.len() {
            let [even, odd] = &mut begun;
            let (coming, arrived) = if number % 2 == 0 { (even, odd) } else { (odd, even) };
            if let Some(group) = groups.get(number) {
                coming.others = 0;
                for (lane, range) in group.iter().enumerate() {
                    match self.pair(range) {
                        Some([one, other]) => {
                            let probes = &mut coming.probes[lane];
                            probes[0] = self.boxes.begin::<WIDTH>(one);
                            probes[1] = self.boxes.begin::<WIDTH>(other);
                        }
                        None => coming.others |= 1 << lane,
                    }
                }
            }
            let Some(before) = number.checked_sub(1) else { continue };
            for (lane, (range, probes)) in groups[before].iter().zip(&arrived.probes).enumerate() {
                let answer = self.boxes.ask::<M, WIDTH>(machine, *probes);
                let is_other = arrived.others >> lane & 1 == 1;
                maybe[before * GROUP + lane] = match answer {
                    Some(answer) if !is_other => answer,
                    _ => self.contains_short_range(range),
                };
            }
        }
        for (range, maybe) in rest.iter().zip(&mut maybe[groups.len() * GROUP..]) {
            *maybe = self.contains_short_range(range);
        }
    }

    /// As [`contains_range`](Self::contains_range).
    pub(super) fn contains_range_of_any_length(&self, range: &impl RangeBounds<K>) -> bool {
        let Some(span) = self.span(range) else { return false };
        if self.partitions.borders(span) >= MOST_PARTITIONS {
            return true;
        }
        let boxes = &self.boxes;
        let mut budget = boxes.budget.of_many(self.partitions.borders(span) as u64 + 1);
        let mut pieces = self.partitions.pieces(span);
        pieces.any(|piece| boxes.may_have_within(piece, &mut budget))
    }

    /// As [`contains_range`](Self::contains_range), quickly for a short one.
    #[inline]
    pub(super) fn contains_short_range(&self, range: &impl RangeBounds<K>) -> bool {
        let answer = self.boxes.table.level().run(ContainsRange { filter: self, range });
        answer.unwrap_or_else(|| self.contains_range_of_any_length(range))
    }
}

impl<K: RangeKey> AdaptiveRangeFilter<K> {
    /// As [`RangeFilter::contains_ranges`].
    pub fn contains_ranges<R: RangeBounds<K>>(&self, ranges: &[R], maybe: &mut Vec<bool>) {
        self.filter.contains_ranges(ranges, maybe);
    }
}

/// Asks for a range of up to two pieces.
struct ContainsRange<'a, K, R> {
    filter: &'a RangeFilter<K>,
    range: &'a R,
}

impl<K: RangeKey, R: RangeBounds<K>> Operation for ContainsRange<'_, K, R> {
    type Output = Option<bool>;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Option<bool> {
        let Self { filter, range } = self;
        let boxes = &filter.boxes;
        let pieces = filter.pair(range)?;
        let [one, other] = pieces;
        let answer = with_range_width!(boxes.table.width(), WIDTH => {
            boxes.ask::<M, WIDTH>(machine, [boxes.begin::<WIDTH>(one), boxes.begin::<WIDTH>(other)])
        });
        answer.or_else(|| Some(boxes.look_closely(pieces)))
    }
}

struct ContainsRanges<'a, K, R> {
    filter: &'a RangeFilter<K>,
    ranges: &'a [R],
    maybe: &'a mut [bool],
}

impl<K: RangeKey, R: RangeBounds<K>> Operation for ContainsRanges<'_, K, R> {
    type Output = ();

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        let Self { filter, ranges, maybe } = self;
        with_range_width!(filter.boxes.table.width(), WIDTH => {
            filter.answer::<M, WIDTH, R>(machine, ranges, maybe);
        });
    }
}

/// Where the boxes of a piece are, and what they must have: a remainder that covers its partition,
/// and a memento within bounds.
#[derive(Clone, Copy, Default)]
struct Probe {
    place: Place,
    remainder: u64,
    least: u64,
    most: u64,
}

/// A probe, for boxes that are written like this.
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
    /// Whether a member may be in a piece.
    pub(super) fn may_have(&self, piece: Piece) -> bool {
        self.may_have_within(piece, &mut { self.budget })
    }

    /// As [`may_have`](Self::may_have), as far as a budget allows.
    fn may_have_within(&self, piece: Piece, budget: &mut Budget) -> bool {
        let level = self.table.level();
        let maybe = level.run(MayHave { boxes: self, piece });
        maybe.unwrap_or_else(|| level.run(LookClosely { boxes: self, piece, budget }))
    }

    /// Finds the line of a piece, and asks for it.
    #[inline(always)]
    fn begin<const WIDTH: u32>(&self, piece: Piece) -> Probe {
        let Piece { partition, least, most } = piece;
        let scaled = self.scale(partition);
        let place = self.table.home::<WIDTH>(scaled.quotient);
        self.table.prefetch(place);
        self.table.prefetch_across::<WIDTH>(place);
        Probe { place, remainder: scaled.leading(self.spelling.digits.remainder), least, most }
    }

    /// Whether a member may be in one of two pieces, by what their lines tell; `None` if these
    /// don't tell enough.
    #[inline(always)]
    fn ask<M: Machine, const WIDTH: u32>(&self, machine: M, probes: [Probe; 2]) -> Option<bool> {
        let Self { table, spelling, .. } = self;
        let [one, other] = probes;
        let first = table.scan_for::<M, WIDTH>(machine, one.place, Wants(*spelling, one));
        let second = table.scan_for::<M, WIDTH>(machine, other.place, Wants(*spelling, other));
        let [(here, unsure), (there, also_unsure)] = [first.flags(), second.flags()];
        if !(unsure | also_unsure) {
            return Some(here | there);
        }
        match (self.ask_on::<WIDTH>(one, first), self.ask_on::<WIDTH>(other, second)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        }
    }

    /// Goes on asking, if what a line says isn't sure, and the next one may tell more.
    #[inline]
    fn ask_on<const WIDTH: u32>(&self, probe: Probe, evidence: Evidence) -> Option<bool> {
        match evidence.scan() {
            Scan::Absent => Some(false),
            Scan::Present => Some(true),
            Scan::Unsure if evidence.goes_on() => {
                self.table.level().run(AskAcross::<WIDTH> { boxes: self, probe })
            }
            Scan::Unsure => None,
        }
    }

    /// Whether a member may be in one of two pieces, slot by slot.
    #[inline(never)]
    fn look_closely(&self, [one, other]: [Piece; 2]) -> bool {
        let (level, budget) = (self.table.level(), &mut self.budget.of_many(2));
        let mut look = |piece| level.run(LookClosely { boxes: self, piece, budget });
        look(one) || (other.partition != one.partition && look(other))
    }

    /// Whether the box at `start`, whose remainder covers a piece's partition, covers it and has
    /// one of its mementos; or may, if it isn't written as it should be, or goes on too far.
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

/// As [`Boxes::ask`], for one probe whose run may go on in the next line.
struct AskAcross<'a, const WIDTH: u32> {
    boxes: &'a Boxes,
    probe: Probe,
}

impl<const WIDTH: u32> Operation for AskAcross<'_, WIDTH> {
    type Output = Option<bool>;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Option<bool> {
        let Self { boxes: Boxes { table, spelling, .. }, probe } = self;
        let wants = Wants(*spelling, probe);
        match table.scan_across_for::<M, WIDTH>(machine, probe.place, wants).scan() {
            Scan::Absent => Some(false),
            Scan::Present => Some(true),
            Scan::Unsure => None,
        }
    }
}

/// Looks through the run of a piece. Where the table is no valid one, and the run is nowhere or
/// goes on too far, a member may be there.
struct LookClosely<'a> {
    boxes: &'a Boxes,
    piece: Piece,
    budget: &'a mut Budget,
}

impl Operation for LookClosely<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> bool {
        with_range_width!(self.boxes.table.width(), WIDTH => self.look::<M, WIDTH>(machine))
    }
}

impl LookClosely<'_> {
    #[inline(always)]
    fn look<M: Machine, const WIDTH: u32>(self, machine: M) -> bool {
        let Self { boxes, piece, budget } = self;
        let Boxes { table, spelling, .. } = boxes;
        let scaled = boxes.scale(piece.partition);
        let remainder = scaled.leading(spelling.digits.remainder);
        let place = table.home::<WIDTH>(scaled.quotient);
        if !table.is_occupied_at::<WIDTH>(place) {
            return false;
        }
        let Some(mut walk) = table.try_walk::<M, WIDTH>(machine, place, *budget) else {
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
    type Output = Option<bool>;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Option<bool> {
        let Self { boxes, piece } = self;
        with_range_width!(boxes.table.width(), WIDTH => {
            let probe = boxes.begin::<WIDTH>(piece);
            let wants = Wants(boxes.spelling, probe);
            let evidence = boxes.table.scan_for::<M, WIDTH>(machine, probe.place, wants);
            boxes.ask_on::<WIDTH>(probe, evidence)
        })
    }
}
