//! Locates unused slots and runs that may lie in later blocks, and walks through a run.
//!
//! A search with a [`Budget`] returns `None` if the budget is spent, or if the table is not valid.

use super::block::{Place, Plane, SATURATED};
use super::scan::Runs;
use super::{QuotientTable, Slot};
use crate::bits::machine::Machine;
use crate::bits::word::low_bits;
use core::ops::Range;

/// The `expect` message of searches that can't fail, because only valid tables are changed.
pub(super) const VALID: &str = "a valid table";

impl QuotientTable {
    /// Starts a search.
    #[inline(always)]
    fn search<M: Machine, const SHAPE: u32>(
        &self,
        machine: M,
        budget: Budget,
    ) -> Search<'_, M, SHAPE> {
        Search { table: self, machine, budget }
    }

    /// Returns the place right after the run of the quotient at `home`. If the quotient has no run,
    /// returns the place where it would begin.
    #[inline(always)]
    pub(super) fn run_end_at<M: Machine, const SHAPE: u32>(
        &self,
        machine: M,
        home: Place,
    ) -> Place {
        let mut search = self.search::<M, SHAPE>(machine, Budget::ENDLESS);
        search.behind_runs_up_to(home, home.lane() + 1).expect(VALID)
    }

    /// Returns the first slot of the run of `quotient`. If it has no run, returns the slot where
    /// the run would begin.
    pub(crate) fn run_start<M: Machine>(&self, machine: M, quotient: u64) -> u64 {
        let home = self.place(quotient);
        let mut search = self.search::<M, 0>(machine, Budget::ENDLESS);
        self.position(search.behind_runs_up_to(home, home.lane()).expect(VALID))
    }

    /// Returns the position right after the run of `quotient`. If it has no run, returns the slot
    /// where the run would begin.
    pub(crate) fn run_end<M: Machine>(&self, machine: M, quotient: u64) -> u64 {
        self.position(self.run_end_at::<M, 0>(machine, self.place(quotient)))
    }

    /// Returns the slots of the run of `quotient`, or an empty range if it has no run.
    pub(crate) fn run<M: Machine>(&self, machine: M, quotient: u64) -> Range<u64> {
        self.run_start(machine, quotient)..self.run_end(machine, quotient)
    }

    /// Returns the end of the run that begins at `position`, or `None` if the table is not valid.
    pub(super) fn end_of_run_from<M: Machine>(&self, machine: M, position: u64) -> Option<u64> {
        let mut search = self.search::<M, 0>(machine, Budget::ENDLESS);
        search.behind_next_runs(self.place(position), 1).map(|end| self.position(end))
    }

    /// Returns the first position from `position` on that isn't an extension. There always is one,
    /// because the last slot of a table is never an extension.
    #[inline(always)]
    pub(crate) fn skip_extensions(&self, position: u64) -> u64 {
        let mut budget = Budget::ENDLESS;
        let at = self.try_skip_extensions::<0>(self.place(position), &mut budget);
        self.position(at.expect(VALID))
    }

    /// Returns the first place from `at` on that isn't an extension.
    #[inline(always)]
    fn try_skip_extensions<const SHAPE: u32>(
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
        self.search::<M, 0>(machine, Budget::ENDLESS).spill(block).expect(VALID)
    }

    /// Returns the spill of the block after `block`. `spill` is the spill of `block`.
    pub(super) fn spill_after<M: Machine>(&self, machine: M, block: usize, spill: u64) -> u64 {
        let mut search = self.search::<M, 0>(machine, Budget::ENDLESS);
        search.spill_after(block, spill).expect(VALID)
    }

    /// Returns the slots of those entries of `quotient` that have this remainder. The remainder is
    /// the part of a slot above its lowest `other_bits` bits. If there is no such entry, returns an
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

    /// Returns the slot at `position` if it continues an entry, else `None`. The table may be
    /// invalid, and `position` may lie past its end.
    #[inline(always)]
    pub(crate) fn continuation(&self, position: u64) -> Option<Slot> {
        let goes_on = position <= self.end() && self.is_extension(position);
        goes_on.then(|| Slot { value: self.value(position), kind: self.kind(position) })
    }

    /// Returns an iterator over the slots from `position` on that continue an entry. The table may
    /// be invalid; the iterator stops when the budget is spent.
    #[inline(always)]
    pub(crate) fn continuations(
        &self,
        position: u64,
        budget: &mut Budget,
    ) -> impl Iterator<Item = Slot> {
        (position..).map_while(|position| {
            if self.place(position).lane() == 0 {
                budget.spend()?;
            }
            self.continuation(position)
        })
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

    /// Starts a walk as [`walk`](Self::walk) does, in a table that may be invalid.
    #[inline(always)]
    pub(crate) fn try_walk<M: Machine, const SHAPE: u32>(
        &self,
        machine: M,
        place: Place,
        budget: Budget,
    ) -> Option<Walk<'_, SHAPE>> {
        let mut search = self.search::<M, SHAPE>(machine, budget);
        let at = search.behind_runs_up_to(place, place.lane())?;
        Some(Walk { table: self, at, last: false, lost: false, budget: search.budget })
    }

    /// Walks to the spot after all smaller entries of the run of the quotient at `home`. The
    /// remainder is the part of `value` above its lowest `other_bits` bits. Returns `None` if the
    /// run has an entry with this remainder.
    #[inline(always)]
    pub(crate) fn spot_for<M: Machine, const SHAPE: u32>(
        &self,
        machine: M,
        home: Place,
        value: u64,
        other_bits: u32,
    ) -> Option<Spot> {
        let mut walk = self.walk::<M, SHAPE>(machine, home);
        let mut is_entry = self.is_occupied_at::<SHAPE>(home);
        while is_entry && walk.remainder() >> other_bits <= value >> other_bits {
            if walk.remainder() >> other_bits == value >> other_bits {
                return None;
            }
            is_entry = walk.advance();
        }
        Some(Spot { at: walk.at, last: walk.last })
    }
}

/// A search for the end of a run.
struct Search<'a, M, const SHAPE: u32> {
    table: &'a QuotientTable,
    machine: M,
    budget: Budget,
}

impl<M: Machine, const SHAPE: u32> Search<'_, M, SHAPE> {
    /// Returns the place right after the runs of the quotients before `lane` in `home`'s block, or
    /// `home` if that is later.
    #[inline(always)]
    fn behind_runs_up_to(&mut self, home: Place, lane: u32) -> Option<Place> {
        let geometry = self.table.geometry_of::<SHAPE>();
        let occupied = geometry.plane(self.table.block_of(home), Plane::Occupied);
        let count = (occupied & low_bits(lane)).count_ones();
        let spill = self.spill(home.block())?;
        let first = if spill < geometry.lanes.into() {
            Place::new(home.block(), spill as u32)
        } else {
            geometry.place(self.table.start_of(home.block()) + spill)
        };
        Some(self.behind_next_runs(first, count)?.max(home))
    }

    /// Returns the place right after the next `count` runs. The first of them begins at or after
    /// `at`.
    #[inline(always)]
    fn behind_next_runs(&mut self, mut at: Place, mut count: u32) -> Option<Place> {
        let geometry = self.table.geometry_of::<SHAPE>();
        while count > 0 {
            if at.block() >= self.table.blocks() {
                return None;
            }
            let ends = geometry.run_ends(self.table.block_of(at)) & (u64::MAX << at.lane());
            let here = ends.count_ones();
            if here >= count {
                at = Place::new(at.block(), self.machine.select(ends, count - 1) + 1);
                break;
            }
            count -= here;
            at = at.next_block();
            self.budget.spend()?;
        }
        self.table.try_skip_extensions::<SHAPE>(at, &mut self.budget)
    }

    #[inline(always)]
    fn spill(&mut self, block: usize) -> Option<u64> {
        match self.table.stored_spill(block) {
            SATURATED => self.spill_from_before(block),
            exact => Some(exact),
        }
    }

    /// Computes the spill of a block whose spill byte is saturated. Starts at the nearest earlier
    /// block whose byte isn't saturated, and goes on block by block. (Block 0 has no spill, so
    /// there is such a block.)
    #[cold]
    #[inline(never)]
    fn spill_from_before(&mut self, block: usize) -> Option<u64> {
        let mut exact = block;
        while self.table.stored_spill(exact) == SATURATED {
            self.budget.spend()?;
            exact = exact.checked_sub(1)?;
        }
        (exact..block).try_fold(self.table.stored_spill(exact), |spill, before| {
            self.budget.spend()?;
            self.spill_after(before, spill)
        })
    }

    /// Returns the spill of the block after `block`. `spill` is the spill of `block`.
    fn spill_after(&mut self, block: usize, spill: u64) -> Option<u64> {
        let first = self.table.place(self.table.start_of(block) + spill);
        let runs = self.table.occupied(block).count_ones();
        let end = self.table.position(self.behind_next_runs(first, runs)?);
        Some(end.saturating_sub(self.table.start_of(block + 1)))
    }
}

/// A walk through the entries of a run.
pub(crate) struct Walk<'a, const SHAPE: u32> {
    table: &'a QuotientTable,
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
    /// Whether all entries of the run are before this spot.
    pub(super) last: bool,
}

impl<const SHAPE: u32> Walk<'_, SHAPE> {
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

    /// Returns whether the walk ended before the run did, because the table is invalid or the
    /// budget is spent.
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

/// Maximum number of blocks of a cluster that a lookup always searches completely. In a larger
/// cluster it may give up, and answer "maybe".
const BLOCKS: u64 = 1 << 16;

/// Number of times that a lookup may pass through a cluster. A lookup goes back to a block whose
/// spill is known, forward again to the ends of all runs there, then to its own run, and through
/// that run. The remaining passes are a safety margin.
const PASSES: u64 = 8;

/// The number of blocks that a search may still visit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget(u64);

impl Budget {
    /// An unlimited budget, for valid tables, where every search ends.
    pub(crate) const ENDLESS: Self = Self(u64::MAX);
    /// The budget for one lookup in a table that may be invalid.
    pub(crate) const LOOKUP: Self = Self(BLOCKS * PASSES);

    #[cfg(test)]
    pub(crate) fn of(blocks: u64) -> Self {
        Self(blocks)
    }

    /// Returns this budget plus a few blocks for each of `lookups` lookups. That is enough if only
    /// a few lookups visit many blocks.
    pub(crate) fn of_many(self, lookups: u64) -> Self {
        Self(self.0.saturating_add(lookups.saturating_mul(PASSES)))
    }

    /// Returns whether no block may be visited any more.
    #[inline(always)]
    pub(crate) fn is_spent(self) -> bool {
        self.0 == 0
    }

    /// Takes one block from the budget. Returns `None` if the budget is spent.
    #[inline(always)]
    pub(super) fn spend(&mut self) -> Option<()> {
        self.0 = self.0.checked_sub(1)?;
        Some(())
    }
}
