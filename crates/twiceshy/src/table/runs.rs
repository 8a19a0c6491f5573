//! The runs of one block: the only code that locates a run by rank and select.
//!
//! The runs of a block's quotients follow each other, starting after the block's spill. So the run
//! of the block's `k`-th occupied quotient ends at the `k`-th run end after the spill. To find it,
//! count the occupied bits before the quotient (rank), then find the run end with that number
//! (select).

use super::block::{Block, Geometry, Plane, stored_spill};
use crate::bits::machine::Machine;
use crate::bits::word::low_bits;

/// The information about runs in the planes of one block. Bit `i` of each word is lane `i`.
#[derive(Clone, Copy)]
pub(super) struct Runs {
    /// Quotients that have a run. Bits above the last lane are arbitrary.
    pub(super) occupied: u64,
    /// Slots that are not the first of their entry. All bits above the last lane are set.
    pub(super) extensions: u64,
    /// Number of slots that belong to runs of earlier blocks. It may exceed the slots of the block.
    pub(super) spill: u32,
    /// The first `spill` slots.
    pub(super) spilt: u64,
    /// Last remainders of the runs of this block's quotients.
    pub(super) ends: u64,
    lanes: u32,
}

/// A run within one block.
#[derive(Clone, Copy)]
pub(super) struct Located {
    /// Lane of its first slot. If the run ends in a different block, it begins here or later.
    pub(super) start: u32,
    /// Bit of its last remainder, or 0 if that is in a different block.
    pub(super) end: u64,
}

impl Runs {
    #[inline(always)]
    pub(super) fn of<M: Machine>(machine: M, geometry: Geometry, block: &Block) -> Self {
        let extensions = geometry.raw_plane(block, Plane::Extension) | !low_bits(geometry.lanes());
        let spill = stored_spill(block) as u32;
        let spilt = machine.low_bits(spill);
        Self {
            occupied: geometry.raw_plane(block, Plane::Occupied),
            extensions,
            spill,
            spilt,
            ends: geometry.raw_plane(block, Plane::RunEnd) & !(extensions | spilt),
            lanes: geometry.lanes(),
        }
    }

    /// Returns 1 if the quotient at `lane` has a run, else 0.
    #[inline(always)]
    pub(super) fn exists(self, lane: u32) -> u64 {
        self.occupied >> lane & 1
    }

    /// Returns the number of runs of the quotients before `lane`.
    #[inline(always)]
    pub(super) fn rank<M: Machine>(self, machine: M, lane: u32) -> u32 {
        machine.lowest(self.occupied, lane).count_ones()
    }

    /// Locates the run of the quotient at `lane` if `wanted` is 1.
    ///
    /// To find where a quotient without a run would have one, pass 1. Otherwise pass
    /// [`exists`](Self::exists). If `wanted` is 0, the result has no end, and its start is
    /// arbitrary.
    #[inline(always)]
    pub(super) fn locate<M: Machine>(self, machine: M, lane: u32, wanted: u64) -> Located {
        // The run begins after the spill and after the previous run, but not before its home.
        let before = self.spilt | machine.low_bits(lane);
        let end = machine.deposit_bit(wanted << self.rank(machine, lane), self.ends);
        let before = before | self.ends & end.wrapping_sub(1);
        Located { start: u64::BITS - before.leading_zeros(), end }
    }

    /// Returns the number of runs of the quotients up to `lane` that don't end before it. If that
    /// is 0, the slot is unused, unless it is spilt or an extension.
    #[inline(always)]
    pub(super) fn unfinished<M: Machine>(self, machine: M, lane: u32) -> u32 {
        self.rank(machine, lane + 1) - machine.lowest(self.ends, lane).count_ones()
    }

    /// Returns which of the 32 slots from `lane` on are unused, given the number of
    /// [unfinished](Self::unfinished) runs there. None of these slots may be spilt.
    #[inline(always)]
    pub(super) fn unused<M: Machine>(self, machine: M, lane: u32, unfinished: u32) -> u64 {
        // `unfinished` includes the run of the lane's own quotient. An end takes effect at the next
        // lane.
        let begins = (self.occupied >> lane) as u32 & !1;
        let ends = ((self.ends >> lane) as u32) << 1;
        u64::from(machine.balanced(begins, ends, unfinished)) & !self.extensions >> lane
    }

    /// Returns which slots after the spill are unused.
    #[inline(always)]
    pub(super) fn all_unused<M: Machine>(self, machine: M) -> u64 {
        let (mut unused, mut lane) = (0, self.spill);
        while lane < self.lanes {
            unused |= self.unused(machine, lane, self.unfinished(machine, lane)) << lane;
            lane += 32;
        }
        unused
    }

    /// Returns the first unused slot from `lane` on. `lane` must not be spilt.
    #[inline(always)]
    pub(super) fn first_unused<M: Machine>(self, machine: M, mut lane: u32) -> Option<u32> {
        while lane < self.lanes {
            let unused = self.unused(machine, lane, self.unfinished(machine, lane));
            if unused != 0 {
                return Some(lane + unused.trailing_zeros());
            }
            lane += 32;
        }
        None
    }
}

impl Located {
    /// Returns one bit per slot of the run, from its start on. Returns no bits if `exists` is 0,
    /// and all bits if the run ends in a different block.
    #[inline(always)]
    pub(super) fn slots(self, exists: u64) -> u64 {
        let end = self.end.wrapping_shr(self.start);
        end ^ end.wrapping_sub(exists)
    }
}
