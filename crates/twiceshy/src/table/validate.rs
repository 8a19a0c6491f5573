//! Checks all invariants of a table, in one pass. The table may hold any bytes.

use super::block::{Block, Plane, SATURATED, window};
use super::scan::Runs;
use super::{QuotientTable, Widths};
use crate::bits::machine::{Machine, dispatched};
use crate::bits::memory::LINE;
use crate::bits::word::low_bits;
use crate::error::Invalid;
use core::ops::Range;

/// A run: its quotient and its slots.
pub(crate) struct Run {
    pub(crate) quotient: u64,
    pub(crate) slots: Range<u64>,
}

/// The end of a block's runs, and the number of their slots.
struct Checked {
    end: u64,
    slots: u64,
}

impl QuotientTable {
    /// Checks every invariant of the [module](super), and that `used` slots are used. In blocks
    /// with only remainders, also checks that the remainders of each run are in order, are all
    /// different, and have at most `remainder_bits` bits. Returns the number of these remainders.
    /// Calls `check` with every other run, in order.
    pub(crate) fn validate(
        &self,
        used: u64,
        remainder_bits: u32,
        mut check: impl FnMut(Run) -> Result<(), Invalid>,
    ) -> Result<u64, Invalid> {
        validate(self, used, remainder_bits, &mut check)
    }

    /// Checks the runs of a block's quotients one by one. The previous runs must end at `end`.
    fn check_runs<M: Machine>(
        &self,
        machine: M,
        block: usize,
        mut end: u64,
        check: &mut impl FnMut(Run) -> Result<(), Invalid>,
    ) -> Result<Checked, Invalid> {
        let (mut occupied, mut used) = (self.occupied(block), 0);
        while occupied != 0 {
            let quotient = self.start_of(block) + u64::from(occupied.trailing_zeros());
            occupied &= occupied - 1;
            if quotient >= self.slots() {
                return Err(Invalid(format!("quotient {quotient} is in the tail")));
            }
            let start = end.max(quotient);
            self.check_blank(end, start)?;
            if start >= self.end() || self.is_extension(start) {
                let problem = format!("the run of {quotient} doesn't begin with a remainder");
                return Err(Invalid(problem));
            }
            let no_end = || Invalid(format!("the run of {quotient} has no end"));
            end = self.end_of_run_from(machine, start).ok_or_else(no_end)?;
            used += end - start;
            check(Run { quotient, slots: start..end })?;
        }
        // Check the rest of this block here. The check of the next block covers it only if that
        // block isn't plain.
        self.check_blank(end.max(self.start_of(block)), self.start_of(block + 1))?;
        Ok(Checked { end, slots: used })
    }

    /// Checks the spill of a block, and the bits before and after its slots. The runs of earlier
    /// blocks must end at `end`.
    #[inline(always)]
    fn check_border<const SHAPE: u32>(&self, block: usize, end: u64) -> Result<(), Invalid> {
        let spill = u64::saturating_sub(end, self.start_of(block));
        let stored = self.stored_spill(block);
        if stored != spill.min(SATURATED) {
            return Err(Invalid(format!("block {block} has spill {stored}, not {spill}")));
        }
        let geometry = self.geometry_of::<SHAPE>();
        let gap = geometry.gap();
        if !is_zero(self.block(block), geometry.slot_at(geometry.lanes), 8 * LINE as u32)
            || !is_zero(self.block(block), gap.start, gap.end)
        {
            return Err(Invalid(format!("unused bits of block {block} aren't zero")));
        }
        Ok(())
    }

    /// Checks a plain block and the runs of its quotients in one step. A plain block has only
    /// remainders, and its runs end in it or in the next block. For slots in the next block, checks
    /// only their number. Returns `None` if the block isn't plain, or if anything is wrong.
    #[inline(always)]
    fn check_plain<M: Machine, const SHAPE: u32>(
        &self,
        machine: M,
        block: usize,
        end: u64,
        remainder_bits: u32,
    ) -> Option<Checked> {
        let (geometry, start) = (self.geometry_of::<SHAPE>(), self.start_of(block));
        let lanes = low_bits(geometry.lanes);
        let spill = u64::saturating_sub(end, start) as u32;
        if spill >= geometry.lanes || block + 1 >= self.blocks() {
            return None;
        }
        let (view, next) = (self.block(block), self.block(block + 1));
        let extended = geometry.plane(view, Plane::Extension);
        let occupied = geometry.plane(view, Plane::Occupied);
        let behind = start + u64::from(u64::BITS - occupied.leading_zeros());
        if extended != 0 || behind > self.slots() {
            return None;
        }
        let run_ends = geometry.plane(view, Plane::RunEnd);
        let runs = Runs::of(machine, geometry, view);
        let Runs { ends, spilt, .. } = runs;
        let unused = runs.all_unused(machine);
        // For each slot: whether it is less than the next slot, whether it isn't zero, and which of
        // its bits above the remainder are set.
        let (mut rising, mut nonzero, mut high) = (0, 0, 0);
        let whole = geometry.lowest * low_bits(geometry.width);
        let too_high = whole & !(geometry.lowest * low_bits(remainder_bits));
        let last = geometry.lanes - 1;
        for lane in (0..last).step_by(geometry.slots_per_window() as usize) {
            let slots = window(view, geometry.slot_at(lane)) & whole;
            let others = window(view, geometry.slot_at(lane + 1));
            rising |= geometry.less(machine, slots, others) << lane;
            nonzero |= geometry.less(machine, 0, slots) << lane;
            high |= slots & too_high;
        }
        // The last window may extend past the slots.
        let (this, that) = (geometry.slot(view, last), geometry.slot(next, 0));
        rising = rising & low_bits(last) | u64::from(this < that) << last;
        nonzero = nonzero & low_bits(last) | u64::from(this != 0) << last;
        // A run can end only in a used slot, so there are never more ends than runs.
        let used = lanes & !unused;
        let wrong = used & !run_ends & !rising | unused & (nonzero | ends);
        if wrong | high != 0 || this > low_bits(remainder_bits) {
            return None;
        }
        let unfinished = occupied.count_ones() - ends.count_ones();
        let next_ends = geometry.plane(next, Plane::RunEnd);
        let next_end = machine.deposit_bit(1 << unfinished >> 1, next_ends);
        let further = u64::BITS - next_end.leading_zeros();
        // The last entry may have more slots in later blocks. If so, this block isn't plain.
        let extended = geometry.plane(next, Plane::Extension) & low_bits(further + 1);
        if extended != 0 || further == geometry.lanes || unfinished > 0 && next_end == 0 {
            return None;
        }
        let slots = (used & !spilt).count_ones() + further;
        let behind = match further {
            0 => u64::BITS - ends.leading_zeros(),
            _ => geometry.lanes + further,
        };
        let end = if slots == 0 { end } else { start + u64::from(behind) };
        Some(Checked { end, slots: slots.into() })
    }

    /// Checks that the slots `from..to` are zero, and so are their bits in both planes.
    fn check_blank(&self, from: u64, to: u64) -> Result<(), Invalid> {
        let (geometry, mut at) = (self.header.geometry, from);
        while at < to {
            let place = self.place(at);
            let end = self.start_of(place.block() + 1).min(to);
            let (block, first) = (self.block_of(place), place.lane());
            let behind = first + (end - at) as u32;
            let planes =
                geometry.plane(block, Plane::RunEnd) | geometry.plane(block, Plane::Extension);
            if planes & low_bits(behind) & !low_bits(first) != 0
                || !is_zero(block, geometry.slot_at(first), geometry.slot_at(behind))
            {
                return Err(Invalid(format!("one of the unused slots {at}..{end} isn't zero")));
            }
            at = end;
        }
        Ok(())
    }
}

dispatched! {
    fn validate<'a, C: FnMut(Run) -> Result<(), Invalid>>(
        table: &'a QuotientTable,
        counted: u64,
        remainder_bits: u32,
        check: &'a mut C,
    ) -> Result<u64, Invalid> => table.target(), Widths, |machine| {
        // The last slot must be blank, because it ends every search for a slot that isn't an
        // extension.
        table.check_blank(table.end(), table.end() + 1)?;
        let (mut end, mut used, mut plain) = (0, 0, 0);
        // If the previous block was plain: where the runs of the blocks before it end, and how many
        // slots the runs of the previous block have.
        let mut last_plain = None;
        for block in 0..table.blocks() {
            table.check_border::<SHAPE>(block, end)?;
            let checked = table.check_plain::<M, SHAPE>(machine, block, end, remainder_bits);
            if let Some(checked) = checked {
                last_plain = Some((end, checked.slots));
                end = checked.end;
                plain += checked.slots;
                continue;
            }
            // If the previous block was plain and its runs extend into this block, check these runs
            // again, one by one, because this block isn't plain.
            if let Some((start, slots)) = last_plain.take()
                && end > table.start_of(block)
            {
                plain -= slots;
                used += table.check_runs(machine, block - 1, start, check)?.slots;
            }
            let checked = table.check_runs(machine, block, end, check)?;
            end = checked.end;
            used += checked.slots;
        }
        table.check_blank(end, table.end())?;
        used += plain;
        let slots = table.slots();
        if used != counted || used > slots {
            return Err(Invalid(format!("{used} of {slots} slots are used, not {counted}")));
        }
        Ok(plain)
    }
}

/// Returns whether the bits `from..to` of a block are all zero.
#[inline(always)]
fn is_zero(block: &Block, from: u32, to: u32) -> bool {
    const STEP: u32 = 56;
    let (mut at, mut bits) = (from, 0);
    while at + STEP < to {
        bits |= window(block, at) & low_bits(STEP);
        at += STEP;
    }
    bits | window(block, at) & low_bits(to.saturating_sub(at)) == 0
}
