//! What one line tells of a run, without a loop and almost without a branch.
//!
//! Nine lookups in ten can be decided within the block of their quotient. There, the
//! run's slots are compared with the wanted value all at once: a window of the packed
//! slots, xor the value in each of them, has a slot of zeros exactly where they are
//! equal. Branches that depend on what is in the line are costly: one that is guessed
//! wrong throws away the lookups behind it, which the machine has already begun.

#![expect(clippy::needless_bitwise_bool, reason = "no branch where none is needed")]

use super::layout::{Geometry, Place, Plane, QuotientTable, stored_spill, window};
use crate::bits::machine::Machine;
use crate::bits::word::{bit_range, low_bits};

/// What a block tells of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scan {
    /// No entry of the run has that remainder.
    Absent,
    /// An entry that is only a remainder, the wanted one, is in the run.
    Present,
    /// The run leaves the block, is too long, or has extensions: look closely.
    Unsure,
}

impl QuotientTable {
    /// Looks for `remainder` in the run of the quotient at `place`.
    #[inline(always)]
    pub(crate) fn scan<M: Machine, const WIDTH: u32>(
        &self,
        machine: M,
        place: Place,
        remainder: u64,
    ) -> Scan {
        let geometry = self.geometry_of::<WIDTH>();
        let Place { block, lane } = place;
        let block = self.block(block);
        let occupied = geometry.raw_plane(block, Plane::Occupied);
        let extensions = geometry.raw_plane(block, Plane::Extension);
        let spill = stored_spill(block) as u32;
        // The bits behind the spill, of this block.
        let own = if spill < 64 { low_bits(geometry.lanes()) >> spill << spill } else { 0 };
        let ends = geometry.raw_plane(block, Plane::RunEnd) & !extensions & own;

        let runs_before = (occupied & ((1 << lane) - 1)).count_ones();
        let end = machine.select_bit(ends, runs_before);
        let behind_last = u64::BITS - (ends & end.wrapping_sub(1)).leading_zeros();
        let start = behind_last.max(lane).max(spill);
        let last = end.trailing_zeros();
        let length = last.wrapping_sub(start).wrapping_add(1);

        let here = occupied >> lane & 1 == 1;
        let whole = (end != 0) & (length <= geometry.slots_per_window());
        let wanted = remainder.wrapping_mul(geometry.lowest);
        let differs = window(block, geometry.slot_at(start)) ^ wanted;
        // The lowest slot that is zero borrows through all its bits; what is above it
        // may be wrong, but then it doesn't matter any more.
        let zeros = differs.wrapping_sub(geometry.lowest) & !differs & geometry.highest;
        let found = zeros & !(u64::MAX << (length.wrapping_mul(geometry.width()) % 64)) != 0;
        if !(here & (found | !whole)) {
            return Scan::Absent;
        }
        let extended = extensions & bit_range(start.min(63), (last + 1).min(63)) != 0;
        if whole & !extended & (last + 1 < geometry.lanes()) { Scan::Present } else { Scan::Unsure }
    }

    /// Walks through the run of the quotient at `place`, entry by entry; a quotient that
    /// has none is walked to where its run would begin.
    #[inline(always)]
    pub(crate) fn walk<M: Machine>(&self, machine: M, place: Place) -> Walk<'_> {
        let geometry = self.geometry();
        let lanes = geometry.lanes();
        let Place { block, lane } = place;
        let mut runs_before = (self.occupied(block) & ((1 << lane) - 1)).count_ones();
        let spill = self.spill(machine, block);
        let mut at = if spill < u64::from(lanes) {
            Place { block, lane: spill as u32 }
        } else {
            geometry.place(self.start_of(block) + spill)
        };
        while runs_before > 0 {
            let view = self.block(at.block);
            let ends = geometry.run_ends(view) & (u64::MAX << at.lane);
            let here = ends.count_ones();
            if here < runs_before {
                runs_before -= here;
                at = Place { block: at.block + 1, lane: 0 };
                continue;
            }
            at.lane = machine.select(ends, runs_before - 1) + 1;
            runs_before = 0;
        }
        let mut walk = Walk { table: self, geometry, at, last: false };
        walk.skip_extensions();
        if (walk.at.block, walk.at.lane) < (place.block, place.lane) {
            walk.at = place;
        }
        walk
    }
}

/// A place in a run.
pub(crate) struct Walk<'a> {
    table: &'a QuotientTable,
    geometry: Geometry,
    at: Place,
    /// Whether the last entry was passed.
    last: bool,
}

/// A spot where an entry can be inserted.
#[derive(Clone, Copy)]
pub(crate) struct Spot {
    pub(super) at: Place,
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
        let at = self.geometry.slot_at(self.at.lane);
        window(self.table.block(self.at.block), at) & low_bits(self.geometry.width())
    }

    /// Goes on to the next entry, or behind the last; whether there is one.
    #[inline(always)]
    pub(crate) fn advance(&mut self) -> bool {
        self.last =
            self.geometry.run_ends(self.table.block(self.at.block)) >> self.at.lane & 1 == 1;
        self.at.lane += 1;
        self.skip_extensions();
        !self.last
    }

    /// Goes on to the first slot that isn't an extension, from one block to the next if
    /// need be.
    #[inline(always)]
    fn skip_extensions(&mut self) {
        loop {
            if self.at.lane < self.geometry.lanes() {
                let extensions =
                    self.geometry.plane(self.table.block(self.at.block), Plane::Extension);
                let run = (extensions >> self.at.lane).trailing_ones();
                self.at.lane += run;
                if self.at.lane < self.geometry.lanes() {
                    return;
                }
            }
            self.at = Place { block: self.at.block + 1, lane: 0 };
        }
    }
}
