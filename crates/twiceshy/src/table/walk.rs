//! Walking through a run, entry by entry, block by block.

use super::budget::Budget;
use super::layout::{Geometry, Place, Plane, QuotientTable, window};
use crate::bits::machine::Machine;
use crate::bits::word::low_bits;
use core::ops::Range;

impl QuotientTable {
    /// The first slot of the run of `quotient`, or where it would begin.
    pub(crate) fn run_start<M: Machine>(&self, machine: M, quotient: u64) -> u64 {
        self.walk::<M, 0>(machine, self.place(quotient)).position()
    }

    /// The slots of the entries of `quotient` that have this remainder, above so many other bits;
    /// if there are none, an empty range where they would be.
    #[inline(always)]
    pub(crate) fn minirun<M: Machine>(
        &self,
        machine: M,
        quotient: u64,
        remainder: u64,
        other_bits: u32,
    ) -> Range<u64> {
        let mut walk = self.walk::<M, 0>(machine, self.place(quotient));
        if !self.is_occupied(quotient) {
            return walk.position()..walk.position();
        }
        let mut start = None;
        loop {
            let value = walk.remainder() >> other_bits;
            if value >= remainder && start.is_none() {
                start = Some(walk.position());
            }
            if value > remainder || !walk.advance() {
                return start.unwrap_or(walk.position())..walk.position();
            }
        }
    }

    /// Walks through the run of the quotient at `place`, entry by entry; a quotient that
    /// has none is walked to where its run would begin.
    #[inline(always)]
    pub(crate) fn walk<M: Machine, const WIDTH: u32>(&self, machine: M, place: Place) -> Walk<'_> {
        self.try_walk::<M, WIDTH>(machine, place, Budget::ENDLESS).expect("a valid table")
    }

    /// As [`walk`](Self::walk), of any table: `None` if the run can't be found, or is too
    /// far away.
    #[inline(always)]
    pub(crate) fn cautious_walk<M: Machine, const WIDTH: u32>(
        &self,
        machine: M,
        place: Place,
    ) -> Option<Walk<'_>> {
        self.try_walk::<M, WIDTH>(machine, place, Budget::LOOKUP)
    }

    /// As [`cautious_walk`](Self::cautious_walk), as far as a budget allows.
    #[inline(always)]
    pub(crate) fn try_walk<M: Machine, const WIDTH: u32>(
        &self,
        machine: M,
        place: Place,
        mut budget: Budget,
    ) -> Option<Walk<'_>> {
        let geometry = self.geometry_of::<WIDTH>();
        let lanes = geometry.lanes();
        let (block, lane) = (place.block(), place.lane());
        let mut runs_before = (self.occupied(block) & ((1 << lane) - 1)).count_ones();
        let spill = self.try_spill(machine, block, &mut budget)?;
        let mut at = if spill < u64::from(lanes) {
            Place::new(block, spill as u32)
        } else {
            geometry.place(self.start_of(block) + spill)
        };
        while runs_before > 0 {
            if at.block() >= self.blocks() {
                return None;
            }
            let view = self.block_of(at);
            let ends = geometry.run_ends(view) & (u64::MAX << at.lane());
            let here = ends.count_ones();
            if here < runs_before {
                runs_before -= here;
                at = at.next_block();
                budget.spend()?;
                continue;
            }
            at = Place::new(at.block(), machine.select(ends, runs_before - 1) + 1);
            runs_before = 0;
        }
        let mut walk = Walk { table: self, geometry, at, last: false, lost: false, budget };
        walk.skip_extensions();
        walk.at = walk.at.max(place);
        (!walk.lost).then_some(walk)
    }
}

/// A place in a run.
pub(crate) struct Walk<'a> {
    table: &'a QuotientTable,
    geometry: Geometry,
    at: Place,
    /// Whether the last entry was passed.
    last: bool,
    /// Whether the walk left the table or came too far, so that it is nowhere.
    lost: bool,
    budget: Budget,
}

/// A spot where an entry can be inserted.
#[derive(Clone, Copy)]
pub(crate) struct Spot {
    pub(crate) at: Place,
    /// Whether all entries of the run are before it.
    pub(super) last: bool,
}

impl Walk<'_> {
    /// Where the walk is.
    #[inline(always)]
    pub(crate) fn spot(&self) -> Spot {
        Spot { at: self.at, last: self.last }
    }

    /// The first slot of the entry that the walk is at.
    #[inline(always)]
    pub(crate) fn position(&self) -> u64 {
        self.table.position(self.at)
    }

    /// The remainder of the entry that the walk is at.
    #[inline(always)]
    pub(crate) fn remainder(&self) -> u64 {
        let at = self.geometry.slot_at(self.at.lane());
        window(self.table.block_of(self.at), at) & low_bits(self.geometry.width())
    }

    /// Goes on to the next entry, or behind the last; whether there is one.
    #[inline(always)]
    pub(crate) fn advance(&mut self) -> bool {
        self.last = self.geometry.run_ends(self.table.block_of(self.at)) >> self.at.lane() & 1 == 1;
        self.at = self.at.up(1);
        self.skip_extensions();
        !self.last && !self.lost
    }

    /// Whether the walk ended before the run did; never in a valid table, unless a
    /// [cautious](QuotientTable::cautious_walk) one had to go very far.
    #[inline(always)]
    pub(crate) fn is_lost(&self) -> bool {
        self.lost
    }

    /// How far the walk may still go.
    #[inline(always)]
    pub(crate) fn budget(&mut self) -> &mut Budget {
        &mut self.budget
    }

    /// Goes on to the first slot that isn't an extension, from one block to the next if
    /// need be.
    #[inline(always)]
    fn skip_extensions(&mut self) {
        while self.at.block() < self.table.blocks() {
            if self.at.lane() < self.geometry.lanes() {
                let extensions =
                    self.geometry.plane(self.table.block_of(self.at), Plane::Extension);
                let run = (extensions >> self.at.lane()).trailing_ones();
                self.at = self.at.up(run);
                if self.at.lane() < self.geometry.lanes() {
                    return;
                }
            }
            if self.budget.spend().is_none() {
                break;
            }
            self.at = self.at.next_block();
        }
        self.lost = true;
    }
}
