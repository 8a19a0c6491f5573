//! Asking boxes, for one range or for many.

use super::boxes::{Boxes, Piece};
use super::{AdaptiveRangeFilter, RangeFilter, RangeKey};
use crate::bits::machine::{Machine, Operation};
use crate::hash::Scaled;
use crate::table::{Evidence, Kind, Place, Slot, with_range_width};
use core::ops::RangeBounds;

/// How many ranges are begun at once.
const GROUP: usize = 16;

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
        let begin = |range: &R| self.pair(range).map(|pieces| self.boxes.begin::<WIDTH>(pieces));
        let mut begun: [Option<[Probe; 2]>; GROUP] = [None; GROUP];
        let mut groups = ranges.chunks(GROUP);
        for (probes, range) in begun.iter_mut().zip(groups.next().unwrap_or_default()) {
            *probes = begin(range);
        }
        for (number, group) in ranges.chunks(GROUP).enumerate() {
            let arrived = begun;
            for (probes, range) in begun.iter_mut().zip(groups.next().unwrap_or_default()) {
                *probes = begin(range);
            }
            for (lane, range) in group.iter().enumerate() {
                maybe[number * GROUP + lane] = match arrived[lane] {
                    Some(probes) => self.boxes.answer::<M, WIDTH>(machine, probes),
                    None => self.contains_range_of_any_length(range),
                };
            }
        }
    }

    /// As [`contains_range`](Self::contains_range).
    pub(super) fn contains_range_of_any_length(&self, range: &impl RangeBounds<K>) -> bool {
        let Some(span) = self.span(range) else { return false };
        self.is_hopeless(span)
            || self.partitions.pieces(span).any(|piece| self.boxes.may_have(piece))
    }

    /// As [`contains_range`](Self::contains_range), quickly for a short one.
    #[inline]
    pub(super) fn contains_short_range(&self, range: &impl RangeBounds<K>) -> bool {
        match self.pair(range) {
            Some(pieces) => self.boxes.may_have_either(pieces),
            None => self.contains_range_of_any_length(range),
        }
    }
}

impl<K: RangeKey> AdaptiveRangeFilter<K> {
    /// As [`RangeFilter::contains_ranges`].
    pub fn contains_ranges<R: RangeBounds<K>>(&self, ranges: &[R], maybe: &mut Vec<bool>) {
        self.filter.contains_ranges(ranges, maybe);
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

/// A piece, and where its boxes are.
#[derive(Clone, Copy)]
struct Probe {
    scaled: Scaled,
    place: Place,
    least: u64,
    most: u64,
}

impl Boxes {
    /// Whether a member may be in a piece.
    pub(super) fn may_have(&self, piece: Piece) -> bool {
        self.may_have_either([piece; 2])
    }

    /// Whether a member may be in one of two pieces.
    #[inline]
    pub(super) fn may_have_either(&self, pieces: [Piece; 2]) -> bool {
        self.table.level().run(MayHave { boxes: self, pieces })
    }

    /// Finds the lines of two pieces, and asks for them.
    #[inline(always)]
    fn begin<const WIDTH: u32>(&self, pieces: [Piece; 2]) -> [Probe; 2] {
        pieces.map(|Piece { partition, least, most }| {
            let scaled = self.scale(partition);
            let place = self.table.home::<WIDTH>(scaled.quotient);
            self.table.prefetch(place);
            Probe { scaled, place, least, most }
        })
    }

    #[inline(always)]
    fn answer<M: Machine, const WIDTH: u32>(&self, machine: M, probes: [Probe; 2]) -> bool {
        let [first, second] =
            probes.map(|probe| self.evidence::<M, WIDTH>(machine, &probe).flags());
        if first.0 | second.0 {
            return true;
        }
        first.1 && self.look_closely(machine, &probes[0])
            || second.1 && self.look_closely(machine, &probes[1])
    }

    /// What the line of a probe tells.
    #[inline(always)]
    fn evidence<M: Machine, const WIDTH: u32>(&self, machine: M, probe: &Probe) -> Evidence {
        let Self { table, spelling, .. } = self;
        let Probe { scaled, place, least, most } = *probe;
        let remainder = scaled.leading(spelling.digits.remainder);
        if spelling.has_ages {
            let shows = |first| spelling.shows(first, remainder, least, most);
            table.scan_where::<M, WIDTH>(machine, place, shows)
        } else {
            let [least, most] = [least, most].map(|memento| spelling.first(remainder, memento));
            table.scan_between::<M, WIDTH>(machine, place, least..=most)
        }
    }

    /// Looks through the run of a probe.
    #[inline(never)]
    fn look_closely<M: Machine>(&self, machine: M, probe: &Probe) -> bool {
        let Self { table, spelling, .. } = self;
        let remainder = probe.scaled.leading(spelling.digits.remainder);
        let mut walk = table.walk::<M, 0>(machine, probe.place);
        loop {
            let first = walk.remainder();
            if spelling.begins_with(first, remainder) && self.has(walk.position(), first, probe) {
                return true;
            }
            if !walk.advance() {
                return false;
            }
        }
    }

    /// Whether the box at `start`, whose remainder covers a probe's partition, covers it and has
    /// one of its mementos.
    #[inline(always)]
    fn has(&self, start: u64, first: u64, probe: &Probe) -> bool {
        let Self { table, spelling, .. } = self;
        let digits = spelling.digits_at(spelling.age(first));
        let mut at = start + 1;
        while let Some(Slot { value, kind: Kind::Extension }) = table.continuation(at) {
            let index = (at - start) as u32;
            if !digits.has(index) || value != digits.digit(probe.scaled.fraction, index) {
                return false;
            }
            at += 1;
        }
        let others = spelling.cells((at..).map_while(|at| Some(table.continuation(at)?.value)));
        let mut all = core::iter::once(spelling.memento(first)).chain(others);
        all.any(|memento| (probe.least..=probe.most).contains(&memento))
    }
}

struct MayHave<'a> {
    boxes: &'a Boxes,
    pieces: [Piece; 2],
}

impl Operation for MayHave<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> bool {
        let Self { boxes, pieces } = self;
        with_range_width!(boxes.table.width(), WIDTH => {
            boxes.answer::<M, WIDTH>(machine, boxes.begin::<WIDTH>(pieces))
        })
    }
}
