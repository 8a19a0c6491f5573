//! What one line tells of a run, without a loop and almost without a branch.
//!
//! Most lookups can be decided within the block of their quotient: with 9-bit slots at
//! 90 % load, 93 of 100 for absent keys, and 85 for members. There, the
//! run's slots are compared with the wanted value all at once: a window of the packed
//! slots, xor the value in each of them, has a slot of zeros exactly where they are
//! equal. Branches that depend on what is in the line are costly: one that is guessed
//! wrong throws away the lookups behind it, which the machine has already begun.

#![expect(clippy::needless_bitwise_bool, reason = "no branch where none is needed")]

use super::layout::{Place, Plane, QuotientTable, stored_spill, window};
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
}
