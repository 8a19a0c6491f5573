//! Tables whose blocks have a code: one number per block that describes all entries whose *home* is
//! in the block.
//!
//! Each entry of such a table is one slot. A code refers to entries by their *ordinals*. The
//! ordinals count the entries of all runs of the block's quotients from 0, in order, even where a
//! run lies in a later block. So inserting or removing an entry changes only the ordinals of
//! entries with the same home block, however many slots move.

use super::block::{Block, Geometry, set_window, window};
use super::locate::Spot;
use super::scan::{Located, Runs};
use super::{Editor, Place, QuotientTable, TableFull};
use crate::bits::machine::Machine;
use crate::bits::word::low_bits;
use core::ops::Range;

/// Maximum number of bits of a code that are read or written in one step.
const STEP: u32 = 56;

impl QuotientTable {
    /// Returns the number of bits of a block's code.
    pub(crate) fn code_bits(&self) -> u32 {
        self.header.geometry.code_bits
    }

    /// Returns [`code_bits`](Self::code_bits), which is known at compile time if `SHAPE` isn't 0.
    #[inline(always)]
    pub(crate) fn code_bits_of<const SHAPE: u32>(&self) -> u32 {
        self.geometry_of::<SHAPE>().code_bits
    }

    /// Returns the number of slots per block.
    pub(crate) fn lanes(&self) -> u32 {
        self.header.geometry.lanes
    }

    /// Returns the code of the block that a place is in.
    #[inline(always)]
    pub(crate) fn code<const SHAPE: u32>(&self, place: Place) -> u128 {
        self.geometry_of::<SHAPE>().code(self.block_of(place))
    }

    pub(crate) fn set_code(&mut self, place: Place, code: u128) {
        let geometry = self.header.geometry;
        let block = self.block_mut_of(place);
        for done in (0..geometry.code_bits).step_by(STEP as usize) {
            let bits = (geometry.code_bits - done).min(STEP);
            let part = (code >> done) as u64 & low_bits(bits);
            set_window(block, geometry.code_at() + done, bits, part);
        }
    }

    /// Returns the quotients whose home slots are in the block of a place.
    pub(crate) fn homes(&self, place: Place) -> Range<u64> {
        let first = self.start_of(place.block());
        first..(first + u64::from(self.lanes())).min(self.slots())
    }

    /// Returns the ordinal of the entry at `position`, in a run whose home is the block of `home`.
    /// If `position` is the end of such a run, returns the ordinal of the next entry.
    #[inline(always)]
    pub(crate) fn ordinal<M: Machine>(&self, machine: M, home: Place, position: u64) -> usize {
        let (block, geometry) = (self.block_of(home), self.header.geometry);
        let start = self.start_of(home.block());
        let spill = self.spill(machine, home.block());
        let before = position - start - spill;
        if spill >= u64::from(geometry.lanes) {
            return before as usize;
        }
        let runs = Runs::of(machine, geometry, block);
        let behind = (position - start).min(geometry.lanes.into()) as u32;
        let unused = runs.all_unused(machine) & low_bits(behind);
        before as usize - unused.count_ones() as usize
    }

    /// Returns the lanes of the run of the quotient at `home`, and the ordinal of the run's first
    /// entry. Returns `None` unless the whole run is in the home block.
    #[inline(always)]
    pub(crate) fn run_at_home<M: Machine, const SHAPE: u32>(
        &self,
        machine: M,
        home: Place,
    ) -> Option<(Range<u32>, usize)> {
        let (block, geometry) = (self.block_of(home), self.geometry_of::<SHAPE>());
        let runs = Runs::of(machine, geometry, block);
        let Located { start, end } = runs.locate(machine, home.lane(), runs.exists(home.lane()));
        if end == 0 || runs.spill >= geometry.lanes {
            return None;
        }
        let unused = runs.all_unused(machine) & low_bits(start);
        let ordinal = start - runs.spill - unused.count_ones();
        Some((start..end.trailing_zeros() + 1, ordinal as usize))
    }
}

impl Editor<'_> {
    /// Appends an entry to the run of the quotient at `home`.
    #[inline(always)]
    pub(crate) fn append<M: Machine, const SHAPE: u32>(
        &mut self,
        machine: M,
        home: Place,
        value: u64,
    ) -> Result<(), TableFull> {
        let at = self.run_end_at::<M, SHAPE>(machine, home);
        self.insert_at::<M, SHAPE>(machine, home, Spot { at, last: true }, at, value)
    }

    /// Removes the entry at `position` from the run of `quotient`. The entries after it in the run
    /// keep their order.
    pub(crate) fn take_entry<M: Machine>(&mut self, machine: M, quotient: u64, position: u64) {
        let run = self.run(machine, quotient);
        debug_assert!(run.contains(&position));
        let (vanish, mut closed) = (run.end - run.start == 1, position);
        if position + 1 == run.end && !vanish {
            // The last slot has the run-end bit, so it must stay. Move the previous value into it,
            // and close the slot before it.
            closed -= 1;
            let before = self.value(closed);
            self.set_value(position, before);
        }
        self.close(machine, quotient, closed, vanish);
    }
}

impl Geometry {
    #[inline(always)]
    pub(super) fn code(self, block: &Block) -> u128 {
        let (at, bits) = (self.code_at(), self.code_bits);
        let part = |done: u32| match bits.checked_sub(done) {
            Some(rest) => u128::from(window(block, at + done) & low_bits(rest.min(STEP))) << done,
            None => 0,
        };
        part(0) | part(STEP) | part(2 * STEP)
    }
}
