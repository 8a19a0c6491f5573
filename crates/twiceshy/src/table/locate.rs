//! Locating unused slots and runs that may lie in later blocks, and walking through a run.

use super::block::{Place, Plane, SATURATED};
use super::scan::Runs;
use super::words::Words;
use crate::bits::machine::Machine;
use crate::bits::word::low_bits;
use core::ops::Range;

/// The reason why a search can't fail while a table is being changed.
const VALID: &str = "a valid table";

impl Words {
    /// Returns the place where the run of the quotient at `home` begins, or would begin.
    /// Returns `None` if the budget is spent, or the table is not valid.
    #[inline(always)]
    pub(super) fn try_run_start<M: Machine, const SHAPE: u32>(
        &self,
        machine: M,
        home: Place,
        budget: &mut Budget,
    ) -> Option<Place> {
        let runs = self.runs_up_to::<SHAPE>(home, home.lane());
        Some(self.behind_runs::<M, SHAPE>(machine, home.block(), runs, budget)?.max(home))
    }

    /// Returns the place right after the run of the quotient at `home`. If the quotient has no run,
    /// returns the place where it would begin.
    #[inline(always)]
    pub(super) fn run_end_at<M: Machine, const SHAPE: u32>(
        &self,
        machine: M,
        home: Place,
    ) -> Place {
        let runs = self.runs_up_to::<SHAPE>(home, home.lane() + 1);
        let mut budget = Budget::ENDLESS;
        let end = self.behind_runs::<M, SHAPE>(machine, home.block(), runs, &mut budget);
        end.expect(VALID).max(home)
    }

    /// Returns the first slot of the run of `quotient`, or the slot where it would begin.
    pub(crate) fn run_start<M: Machine>(&self, machine: M, quotient: u64) -> u64 {
        let (home, mut budget) = (self.place(quotient), Budget::ENDLESS);
        let start = self.try_run_start::<M, 0>(machine, home, &mut budget);
        self.position(start.expect(VALID))
    }

    /// Returns the position right after the run of `quotient`. If it has no run, returns the slot
    /// where the run would begin.
    pub(crate) fn run_end<M: Machine>(&self, machine: M, quotient: u64) -> u64 {
        self.position(self.run_end_at::<M, 0>(machine, self.place(quotient)))
    }

    /// Returns the slots of the run of `quotient`, which are none if it has no run.
    pub(crate) fn run<M: Machine>(&self, machine: M, quotient: u64) -> Range<u64> {
        self.run_start(machine, quotient)..self.run_end(machine, quotient)
    }

    /// Returns the number of runs of the quotients before `lane` in the block of `home`.
    #[inline(always)]
    fn runs_up_to<const SHAPE: u32>(&self, home: Place, lane: u32) -> u32 {
        let occupied = self.geometry_of::<SHAPE>().plane(self.block_of(home), Plane::Occupied);
        (occupied & low_bits(lane)).count_ones()
    }

    /// Returns the place right after the first `count` runs of a block's quotients. Returns `None`
    /// if the budget is spent, or if the table is not valid.
    #[inline(always)]
    fn behind_runs<M: Machine, const SHAPE: u32>(
        &self,
        machine: M,
        block: usize,
        count: u32,
        budget: &mut Budget,
    ) -> Option<Place> {
        let geometry = self.geometry_of::<SHAPE>();
        let spill = self.try_spill(machine, block, budget)?;
        let first = if spill < geometry.lanes.into() {
            Place::new(block, spill as u32)
        } else {
            geometry.place(self.start_of(block) + spill)
        };
        self.behind_next_runs::<M, SHAPE>(machine, first, count, budget)
    }

    /// Returns the place right after the next `count` runs. The first of them begins at or after
    /// `at`. Returns `None` as [`behind_runs`](Self::behind_runs) does.
    #[inline(always)]
    fn behind_next_runs<M: Machine, const SHAPE: u32>(
        &self,
        machine: M,
        mut at: Place,
        mut count: u32,
        budget: &mut Budget,
    ) -> Option<Place> {
        let geometry = self.geometry_of::<SHAPE>();
        while count > 0 {
            if at.block() >= self.blocks() {
                return None;
            }
            let ends = geometry.run_ends(self.block_of(at)) & (u64::MAX << at.lane());
            let here = ends.count_ones();
            if here >= count {
                at = Place::new(at.block(), machine.select(ends, count - 1) + 1);
                break;
            }
            count -= here;
            at = at.next_block();
            budget.spend()?;
        }
        self.try_skip_extensions::<SHAPE>(at, budget)
    }

    /// Returns the first position from `position` on that isn't an extension. There always is one,
    /// because the last slot of a table is never an extension.
    #[inline(always)]
    pub(crate) fn skip_extensions(&self, position: u64) -> u64 {
        let mut budget = Budget::ENDLESS;
        let at = self.try_skip_extensions::<0>(self.place(position), &mut budget);
        self.position(at.expect(VALID))
    }

    /// Returns the first place from `at` on that isn't an extension. Returns `None` if the budget
    /// is spent, or the table ends.
    #[inline(always)]
    pub(super) fn try_skip_extensions<const SHAPE: u32>(
        &self,
        mut at: Place,
        budget: &mut Budget,
    ) -> Option<Place> {
        let geometry = self.geometry_of::<SHAPE>();
        while at.block() < self.blocks() {
            if at.lane() < geometry.lanes {
                let extensions = geometry.plane(self.block_of(at), Plane::Extension);
                at = at.up((extensions >> at.lane()).trailing_ones());
                if at.lane() < geometry.lanes {
                    return Some(at);
                }
            }
            budget.spend()?;
            at = at.next_block();
        }
        None
    }

    /// Returns the end of the run that begins at `position`, or `None` if the table is not valid.
    pub(super) fn end_of_run_from<M: Machine>(&self, machine: M, position: u64) -> Option<u64> {
        let (at, mut budget) = (self.place(position), Budget::ENDLESS);
        let end = self.behind_next_runs::<M, 0>(machine, at, 1, &mut budget)?;
        Some(self.position(end))
    }

    /// Returns the first unused slot at or after a place, if there is one.
    #[inline(always)]
    pub(super) fn first_unused<M: Machine, const SHAPE: u32>(
        &self,
        machine: M,
        mut from: Place,
    ) -> Option<Place> {
        let geometry = self.geometry_of::<SHAPE>();
        while from.block() < self.blocks() {
            let runs = Runs::of(machine, geometry, self.block_of(from));
            if let Some(lane) = runs.first_unused(machine, from.lane().max(runs.spill)) {
                let unused = Place::new(from.block(), lane);
                return (self.position(unused) < self.end()).then_some(unused);
            }
            from = from.next_block();
        }
        None
    }

    /// Returns the number of slots, from the start of a block on, that belong to runs of earlier
    /// blocks. The number may exceed the number of slots in the block.
    #[inline(always)]
    pub(super) fn spill<M: Machine>(&self, machine: M, block: usize) -> u64 {
        self.try_spill(machine, block, &mut { Budget::ENDLESS }).expect(VALID)
    }

    /// Returns the [spill](Self::spill) of a block. Returns `None` if the budget is spent, or the
    /// table is not valid.
    #[inline(always)]
    fn try_spill<M: Machine>(&self, machine: M, block: usize, budget: &mut Budget) -> Option<u64> {
        match self.stored_spill(block) {
            SATURATED => self.spill_from_before(machine, block, budget),
            exact => Some(exact),
        }
    }

    /// Computes the spill of a block whose byte is saturated. Starts at the nearest earlier block
    /// whose byte isn't saturated, and goes on block by block. (Block 0 has no spill.)
    #[cold]
    #[inline(never)]
    fn spill_from_before<M: Machine>(
        &self,
        machine: M,
        block: usize,
        budget: &mut Budget,
    ) -> Option<u64> {
        let mut exact = block;
        while self.stored_spill(exact) == SATURATED {
            budget.spend()?;
            exact = exact.checked_sub(1)?;
        }
        (exact..block).try_fold(self.stored_spill(exact), |spill, before| {
            budget.spend()?;
            self.try_spill_after(machine, before, spill, budget)
        })
    }

    /// Returns the spill of the block after `block`. `spill` is the spill of `block`.
    pub(super) fn spill_after<M: Machine>(&self, machine: M, block: usize, spill: u64) -> u64 {
        let mut budget = Budget::ENDLESS;
        self.try_spill_after(machine, block, spill, &mut budget).expect(VALID)
    }

    /// Returns what [`spill_after`](Self::spill_after) does. Returns `None` if the budget is spent,
    /// or if the table is not valid.
    fn try_spill_after<M: Machine>(
        &self,
        machine: M,
        block: usize,
        spill: u64,
        budget: &mut Budget,
    ) -> Option<u64> {
        let first = self.start_of(block) + spill;
        let end = match self.occupied(block).count_ones() {
            0 => first,
            count => {
                let at = self.place(first);
                self.position(self.behind_next_runs::<M, 0>(machine, at, count, budget)?)
            }
        };
        Some(end.saturating_sub(self.start_of(block + 1)))
    }

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
        self.try_walk::<M, SHAPE>(machine, place, Budget::ENDLESS).expect(VALID)
    }

    /// Starts a walk as [`walk`](Self::walk) does, in a table that may be invalid. Returns `None`
    /// if the run can't be found, or is too far away.
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
        self.table.value_at::<SHAPE>(self.at)
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
    /// walk with a limited budget that went very far.
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

/// Number of blocks in the largest cluster that a lookup always searches completely.
const BLOCKS: u64 = 1 << 16;

/// Number of times a lookup may pass through a cluster. It goes back to a block whose spill is
/// known and forward again, to the ends of all runs there, to its own run, and through that run.
/// The rest is a safety margin.
const PASSES: u64 = 8;

/// The number of blocks that a search may still visit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget(u64);

impl Budget {
    /// No limit, for valid tables, where every search ends.
    pub(crate) const ENDLESS: Self = Self(u64::MAX);
    /// The limit for one lookup in a table that may be invalid.
    pub(crate) const LOOKUP: Self = Self(BLOCKS * PASSES);

    #[cfg(test)]
    pub(crate) fn of(blocks: u64) -> Self {
        Self(blocks)
    }

    /// Returns this budget, enlarged for `lookups` lookups of which only a few search far.
    pub(crate) fn of_many(self, lookups: u64) -> Self {
        Self(self.0.saturating_add(lookups.saturating_mul(PASSES)))
    }

    /// Returns whether no block may be visited any more.
    #[inline(always)]
    pub(crate) fn is_spent(self) -> bool {
        self.0 == 0
    }

    /// Spends one block. Returns `None` if the budget is spent.
    #[inline(always)]
    pub(super) fn spend(&mut self) -> Option<()> {
        self.0 = self.0.checked_sub(1)?;
        Some(())
    }
}
