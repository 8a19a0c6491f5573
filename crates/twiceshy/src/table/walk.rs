//! Walking through a run, entry by entry.

use super::budget::Budget;
use super::{Place, Words};
use crate::bits::machine::Machine;
use core::ops::Range;

impl Words {
    /// Returns the slots of the entries of `quotient` with this remainder. The remainder is the
    /// part of a slot above its lowest `other_bits` bits. If there is no such entry, returns an
    /// empty range where it would be.
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

    /// Starts a walk at the first entry of the run of the quotient at `place`. If there is no run,
    /// the walk starts where the run would begin.
    #[inline(always)]
    pub(crate) fn walk<M: Machine, const SHAPE: u32>(
        &self,
        machine: M,
        place: Place,
    ) -> Walk<'_, SHAPE> {
        self.try_walk::<M, SHAPE>(machine, place, Budget::ENDLESS).expect("a valid table")
    }

    /// Starts a walk as [`walk`](Self::walk) does, in a table that may be invalid. Returns `None`
    /// if the run can't be found, or is too far away.
    #[inline(always)]
    pub(crate) fn cautious_walk<M: Machine, const SHAPE: u32>(
        &self,
        machine: M,
        place: Place,
    ) -> Option<Walk<'_, SHAPE>> {
        self.try_walk::<M, SHAPE>(machine, place, Budget::LOOKUP)
    }

    /// Starts a walk as [`cautious_walk`](Self::cautious_walk) does, with a given budget.
    #[inline(always)]
    pub(crate) fn try_walk<M: Machine, const SHAPE: u32>(
        &self,
        machine: M,
        place: Place,
        mut budget: Budget,
    ) -> Option<Walk<'_, SHAPE>> {
        let at = self.try_run_start::<M, SHAPE>(machine, place, &mut budget)?;
        Some(Walk { table: self, at, last: false, lost: false, budget })
    }
}

/// A walk through a run, which is at one of its entries.
pub(crate) struct Walk<'a, const SHAPE: u32> {
    table: &'a Words,
    at: Place,
    /// Whether the walk has passed the last entry.
    last: bool,
    /// Whether the walk left the table or spent its budget. Its place is then meaningless.
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

impl<const SHAPE: u32> Walk<'_, SHAPE> {
    /// Returns the current spot of the walk.
    #[inline(always)]
    pub(crate) fn spot(&self) -> Spot {
        Spot { at: self.at, last: self.last }
    }

    /// Returns the position of the first slot of the current entry.
    #[inline(always)]
    pub(crate) fn position(&self) -> u64 {
        self.table.position(self.at)
    }

    /// Returns the remainder of the current entry.
    #[inline(always)]
    pub(crate) fn remainder(&self) -> u64 {
        self.table.geometry_of::<SHAPE>().slot(self.table.block_of(self.at), self.at.lane())
    }

    /// Advances to the next entry, or past the last one. Returns whether there is a next entry.
    #[inline(always)]
    pub(crate) fn advance(&mut self) -> bool {
        let geometry = self.table.geometry_of::<SHAPE>();
        self.last = geometry.run_ends(self.table.block_of(self.at)) >> self.at.lane() & 1 == 1;
        match self.table.try_skip_extensions::<SHAPE>(self.at.up(1), &mut self.budget) {
            Some(next) => self.at = next,
            None => self.lost = true,
        }
        !self.last && !self.lost
    }

    /// Returns whether the walk ended before the run did. In a valid table, that happens only to a
    /// [cautious](Words::cautious_walk) walk that went very far.
    #[inline(always)]
    pub(crate) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Returns the remaining budget of the walk.
    #[inline(always)]
    pub(crate) fn budget(&mut self) -> &mut Budget {
        &mut self.budget
    }
}
