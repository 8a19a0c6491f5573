//! Tables whose blocks have a code: a number for each block, about all entries whose *home* is
//! there.
//!
//! An entry of such a table is one slot. A code speaks of the entries by their *ordinals*: the
//! first of the runs of the block's quotients is number 0, and so on, wherever they are. So an
//! entry that comes or goes changes the ordinals of its home's entries alone, however far it
//! pushes others.

use super::TableFull;
use super::layout::{
    Block, Geometry, Place, Plane, QuotientTable, set_window, stored_spill, window,
};
use super::locate::Clusters;
use super::walk::Spot;
use crate::bits::machine::Machine;
use crate::bits::word::low_bits;
use core::ops::Range;

/// Bits of a code that are read or written at once.
const STEP: u32 = 56;

impl QuotientTable {
    /// Bits of a block's code.
    pub(crate) fn code_bits(&self) -> u32 {
        self.geometry().code_bits()
    }

    /// The same, by way of [`with_shape`](super::with_shape).
    #[inline(always)]
    pub(crate) fn code_bits_of<const SHAPE: u32>(&self) -> u32 {
        self.geometry_of::<SHAPE>().code_bits()
    }

    /// Slots of a block.
    pub(crate) fn lanes(&self) -> u32 {
        self.geometry().lanes()
    }

    /// The code of the block at a place.
    #[inline(always)]
    pub(crate) fn code<const SHAPE: u32>(&self, place: Place) -> u128 {
        self.geometry_of::<SHAPE>().code(self.block_of(place))
    }

    pub(crate) fn set_code(&mut self, place: Place, code: u128) {
        let geometry = self.geometry();
        let block = self.block_mut_of(place);
        for done in (0..geometry.code_bits()).step_by(STEP as usize) {
            let bits = (geometry.code_bits() - done).min(STEP);
            set_window(
                block,
                geometry.code_at() + done,
                bits,
                (code >> done) as u64 & low_bits(bits),
            );
        }
    }

    /// The quotients whose home is the block at a place.
    pub(crate) fn homes(&self, place: Place) -> Range<u64> {
        let first = self.start_of(place.block());
        first..(first + u64::from(self.lanes())).min(self.slots())
    }

    /// The ordinal of the entry at `position`, of a run whose home is the block at `home`; of
    /// the first that is behind it, if it is the end of such a run.
    #[inline(always)]
    pub(crate) fn ordinal<M: Machine>(&self, machine: M, home: Place, position: u64) -> usize {
        let (block, geometry) = (self.block_of(home), self.geometry());
        let start = self.start_of(home.block());
        let spill = self.spill(machine, home.block());
        let before = position - start - spill;
        if spill >= u64::from(geometry.lanes()) {
            return before as usize;
        }
        let spill = spill as u32;
        let clusters = Clusters {
            occupied: geometry.plane(block, Plane::Occupied),
            ends: geometry.run_ends(block) & !low_bits(spill),
            extensions: 0,
            lanes: geometry.lanes(),
        };
        let behind = (position - start).min(geometry.lanes().into()) as u32;
        let unused = clusters.all_unused(machine, spill) & low_bits(behind);
        before as usize - unused.count_ones() as usize
    }

    /// The lanes of the run of the quotient at `home`, and the ordinal of its first entry, if all
    /// of it is in the home's block.
    #[inline(always)]
    pub(crate) fn run_at_home<M: Machine, const SHAPE: u32>(
        &self,
        machine: M,
        home: Place,
    ) -> Option<(Range<u32>, usize)> {
        let (block, geometry) = (self.block_of(home), self.geometry_of::<SHAPE>());
        let spill = stored_spill(block) as u32;
        let occupied = geometry.plane(block, Plane::Occupied);
        let spilt = machine.low_bits(spill);
        let ends = geometry.run_ends(block) & !spilt;
        let rank = machine.lowest(occupied, home.lane()).count_ones();
        let end = machine.deposit_bit((occupied >> home.lane() & 1) << rank, ends);
        if end == 0 || spill >= geometry.lanes() {
            return None;
        }
        let before = ends & (end - 1) | spilt | machine.low_bits(home.lane());
        let start = u64::BITS - before.leading_zeros();
        let clusters = Clusters { occupied, ends, extensions: 0, lanes: geometry.lanes() };
        let unused = clusters.all_unused(machine, spill) & low_bits(start);
        let ordinal = start - spill - unused.count_ones();
        Some((start..end.trailing_zeros() + 1, ordinal as usize))
    }

    /// The value at a place, by way of [`with_shape`](super::with_shape).
    #[inline(always)]
    pub(crate) fn value_at<const SHAPE: u32>(&self, place: Place) -> u64 {
        self.geometry_of::<SHAPE>().slot(self.block_of(place), place.lane())
    }

    /// Where the run of `quotient` is; empty, where it would begin, if there is none.
    pub(crate) fn run<M: Machine>(&self, machine: M, quotient: u64) -> Range<u64> {
        let start = self.run_start(machine, quotient);
        let end = if self.is_occupied(quotient) { self.run_end(machine, quotient) } else { start };
        start..end
    }

    /// Puts an entry behind the others of the run of the quotient at `home`.
    #[inline(always)]
    pub(crate) fn append<M: Machine, const SHAPE: u32>(
        &mut self,
        machine: M,
        home: Place,
        value: u64,
    ) -> Result<(), TableFull> {
        let geometry = self.geometry_of::<SHAPE>();
        let occupied = geometry.plane(self.block_of(home), Plane::Occupied);
        // The runs of the block up to it: it is behind them, and not before its home.
        let runs = machine.lowest(occupied, home.lane() + 1).count_ones();
        let first = self.start_of(home.block()) + self.spill(machine, home.block());
        let end = match runs {
            0 => first,
            _ => self.end_of_nth_run(machine, first, runs),
        };
        let at = geometry.place(end).max(home);
        self.insert_at::<M, SHAPE>(machine, home, Spot { at, last: true }, at, value)
    }

    /// Takes the entry at `position`, of the run of `quotient`, away. Those behind it in its run
    /// keep their order.
    pub(crate) fn take_entry<M: Machine>(&mut self, machine: M, quotient: u64, position: u64) {
        let run = self.run(machine, quotient);
        debug_assert!(run.contains(&position));
        let is_last = position + 1 == run.end;
        if run.end - run.start == 1 {
            self.close(machine, quotient, position, true);
        } else if is_last {
            // The run's end moves down, and takes the value of the one before it along.
            self.set_value(position, self.value(position - 1));
            self.close(machine, quotient, position - 1, false);
        } else {
            self.close(machine, quotient, position, false);
        }
    }

    /// Changes the value of an entry.
    pub(crate) fn rewrite_value(&mut self, position: u64, value: u64) {
        self.set_value(position, value);
    }
}

impl Geometry {
    #[inline(always)]
    pub(super) fn code(self, block: &Block) -> u128 {
        let (at, bits) = (self.code_at(), self.code_bits());
        let part = |done: u32| match bits.checked_sub(done) {
            Some(rest) => u128::from(window(block, at + done) & low_bits(rest.min(STEP))) << done,
            None => 0,
        };
        part(0) | part(STEP) | part(2 * STEP)
    }
}
