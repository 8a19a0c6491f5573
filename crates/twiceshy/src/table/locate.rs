//! Where a run is.
//!
//! The runs of a block's quotients lie one behind the other from the block's start
//! plus its spill on. So the run of the block's `k`-th occupied quotient ends at the
//! `k`-th run end from there: count the occupied bits before the quotient (rank),
//! find the run end of that number (select).

use super::budget::Budget;
use super::layout::{Place, Plane, QuotientTable, SATURATED};
use crate::bits::machine::Machine;
use crate::bits::word::low_bits;

impl QuotientTable {
    /// One past the last slot of the run of `quotient`, which must have one.
    #[inline(always)]
    pub(crate) fn run_end<M: Machine>(&self, machine: M, quotient: u64) -> u64 {
        debug_assert!(self.is_occupied(quotient));
        let home = self.place(quotient);
        let (block, lane) = (home.block(), home.lane());
        let runs = (self.occupied(block) & low_bits(lane + 1)).count_ones();
        let first = self.start_of(block) + self.spill(machine, block);
        self.end_of_nth_run(machine, first, runs)
    }

    /// The first unused slot from a place on, if there is one.
    ///
    /// A slot is unused if the runs of the quotients up to it end before it. Where they
    /// end behind it, that end is the next candidate.
    #[inline(always)]
    pub(super) fn first_unused<M: Machine, const WIDTH: u32>(
        &self,
        machine: M,
        from: Place,
    ) -> Option<Place> {
        let geometry = self.geometry_of::<WIDTH>();
        let mut from = from;
        let mut spill = self.spill(machine, from.block());
        while from.block() < self.blocks() {
            let block = self.block_of(from);
            let spilt = spill.min(geometry.lanes().into()) as u32;
            let extensions = geometry.plane(block, Plane::Extension);
            let clusters = Clusters {
                occupied: geometry.plane(block, Plane::Occupied),
                ends: geometry.run_ends(block) & !low_bits(spilt),
                extensions,
                lanes: geometry.lanes(),
            };
            if let Some(lane) = clusters.first_unused(machine, from.lane().max(spilt)) {
                let unused = Place::new(from.block(), lane);
                return (self.position(unused) < self.end()).then_some(unused);
            }
            let before = from.block();
            from = from.next_block();
            if from.block() < self.blocks() {
                // A saturated one is computed from the last, not from the beginning again.
                spill = match self.stored_spill(from.block()) {
                    SATURATED => self.spill_after(machine, before, spill),
                    exact => exact,
                };
            }
        }
        None
    }

    /// The first position from `position` on that isn't an extension; the table's last
    /// slot never is one.
    #[inline(always)]
    pub(crate) fn skip_extensions(&self, position: u64) -> u64 {
        self.try_skip_extensions(position, &mut { Budget::ENDLESS }).expect(VALID)
    }

    /// As [`skip_extensions`](Self::skip_extensions), of any table.
    #[inline(always)]
    fn try_skip_extensions(&self, mut position: u64, budget: &mut Budget) -> Option<u64> {
        loop {
            let place = self.place(position);
            let (block, lane) = (place.block(), place.lane());
            if block >= self.blocks() {
                return None;
            }
            let run = (!self.extensions(block) >> lane).trailing_zeros();
            if lane + run < self.geometry().lanes() {
                return Some(position + u64::from(run));
            }
            budget.spend()?;
            position = self.start_of(block + 1);
        }
    }

    /// The end of the `count`-th run that begins at `position` or later; `count` is
    /// at least 1. `position` is where one of the runs begins.
    #[inline(always)]
    pub(super) fn end_of_nth_run<M: Machine>(&self, machine: M, position: u64, count: u32) -> u64 {
        let mut budget = Budget::ENDLESS;
        self.try_end_of_nth_run(machine, position, count, &mut budget).expect(VALID)
    }

    /// As [`end_of_nth_run`](Self::end_of_nth_run), of any table.
    #[inline(always)]
    fn try_end_of_nth_run<M: Machine>(
        &self,
        machine: M,
        position: u64,
        count: u32,
        budget: &mut Budget,
    ) -> Option<u64> {
        let place = self.place(position);
        let (mut block, mut passed) = (place.block(), low_bits(place.lane()));
        let mut rank = count - 1;
        while block < self.blocks() {
            let ends = self.run_ends(block) & !passed;
            let here = ends.count_ones();
            if rank < here {
                let last = self.start_of(block) + u64::from(machine.select(ends, rank));
                return self.try_skip_extensions(last + 1, budget);
            }
            budget.spend()?;
            rank -= here;
            block += 1;
            passed = 0;
        }
        None
    }

    /// How many slots from the block's start on belong to runs of earlier blocks.
    #[inline(always)]
    pub(super) fn spill<M: Machine>(&self, machine: M, block: usize) -> u64 {
        self.try_spill(machine, block, &mut { Budget::ENDLESS }).expect(VALID)
    }

    /// As [`spill`](Self::spill), of any table.
    #[inline(always)]
    pub(super) fn try_spill<M: Machine>(
        &self,
        machine: M,
        block: usize,
        budget: &mut Budget,
    ) -> Option<u64> {
        match self.stored_spill(block) {
            SATURATED => self.spill_from_before(machine, block, budget),
            exact => Some(exact),
        }
    }

    /// The spill of a block whose byte is saturated: from the nearest block before it
    /// whose isn't, block by block. (Block 0 has no spill.)
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

    /// The spill of the block after `block`, whose own is `spill`.
    pub(super) fn spill_after<M: Machine>(&self, machine: M, block: usize, spill: u64) -> u64 {
        let mut budget = Budget::ENDLESS;
        self.try_spill_after(machine, block, spill, &mut budget).expect(VALID)
    }

    /// As [`spill_after`](Self::spill_after), of any table.
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
            count => self.try_end_of_nth_run(machine, first, count, budget)?,
        };
        Some(end.saturating_sub(self.start_of(block + 1)))
    }
}

/// What is expected of a table that is changed.
const VALID: &str = "a valid table";

/// What of a block tells which slots are used.
#[derive(Clone, Copy)]
pub(super) struct Clusters {
    pub(super) occupied: u64,
    /// The ends of the runs of the block's own quotients.
    pub(super) ends: u64,
    pub(super) extensions: u64,
    pub(super) lanes: u32,
}

impl Clusters {
    /// How many runs of the quotients up to a lane don't end before it. If that is none,
    /// the lane is unused, unless it is spilt or an extension.
    #[inline(always)]
    pub(super) fn unfinished<M: Machine>(self, machine: M, lane: u32) -> u32 {
        machine.lowest(self.occupied, lane + 1).count_ones()
            - machine.lowest(self.ends, lane).count_ones()
    }

    /// Which of 32 lanes from `lane` on are unused, if so many runs are
    /// [unfinished](Self::unfinished) there. None of them may be spilt.
    #[inline(always)]
    pub(super) fn unused<M: Machine>(self, machine: M, lane: u32, unfinished: u32) -> u64 {
        // The lane's own quotient has been counted; an end counts from the next lane on.
        let begins = (self.occupied >> lane) as u32 & !1;
        let ends = ((self.ends >> lane) as u32) << 1;
        let possible = (low_bits(self.lanes) & !self.extensions) >> lane;
        u64::from(machine.balanced(begins, ends, unfinished)) & possible
    }

    /// Which lanes from `lane` on, which aren't spilt, are unused.
    #[inline(always)]
    pub(super) fn all_unused<M: Machine>(self, machine: M, mut lane: u32) -> u64 {
        let mut unused = 0;
        while lane < self.lanes {
            unused |= self.unused(machine, lane, self.unfinished(machine, lane)) << lane;
            lane += 32;
        }
        unused
    }

    /// The first unused lane from `lane` on, which isn't spilt; it may be behind the last.
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
