//! Checks all invariants of a table, in one pass. The table may hold any bytes.

use super::block::{Block, Geometry, Plane, SATURATED, window};
use super::scan::Runs;
use super::{QuotientTable, Widths};
use crate::bits::machine::{Machine, Operation};
use crate::bits::memory::LINE;
use crate::bits::word::low_bits;
use crate::error::Invalid;
use core::ops::Range;

/// A run: its quotient and its slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) quotient: u64,
    pub(crate) slots: Range<u64>,
}

impl QuotientTable {
    /// Checks every invariant of the [module](super). In blocks with only remainders, also checks
    /// that the remainders of each run are in order, are all different, and have at most
    /// `remainder_bits` bits. Returns the number of these remainders. Passes all other runs to
    /// `check`, in order.
    pub(crate) fn validate(
        &self,
        remainder_bits: u32,
        check: impl FnMut(Run) -> Result<(), Invalid>,
    ) -> Result<u64, Invalid> {
        self.target().run(Validate { table: self, remainder_bits, check })
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
            end = self.check_run(machine, quotient, start)?;
            used += end - start;
            check(Run { quotient, slots: start..end })?;
        }
        // Check the rest of the block, because the next one may be plain.
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
            return Err(Invalid(format!("block {block} isn't zero where nothing is")));
        }
        Ok(())
    }

    /// Checks a plain block and the runs of its quotients all at once. A plain block has only
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
        let (mut unused, mut lane) = (0, 0);
        while lane < geometry.lanes {
            let unfinished = runs.unfinished(machine, lane);
            unused |= runs.unused(machine, lane, unfinished) << lane & !spilt;
            // A run can end only where a run is unfinished. So there are never more ends than runs.
            if ends & unused != 0 {
                return None;
            }
            lane += 32;
        }
        let last = geometry.lanes - 1;
        let (this, that) = (geometry.slot(view, last), geometry.slot(next, 0));
        let order = Order::of(machine, geometry, view, remainder_bits)?;
        let rising = order.rising | u64::from(this < that) << last;
        let nonzero = order.nonzero | u64::from(this != 0) << last;
        let used = lanes & !unused;
        if used & !run_ends & !rising | unused & nonzero != 0 {
            return None;
        }
        let unfinished = occupied.count_ones() - ends.count_ones();
        let next_ends = geometry.plane(next, Plane::RunEnd);
        let next_end = machine.deposit_bit(1 << unfinished >> 1, next_ends);
        let further = u64::BITS - next_end.leading_zeros();
        // The last entry may have more slots, in the next block or after it.
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

    /// Checks a run, and returns its end.
    fn check_run<M: Machine>(&self, machine: M, quotient: u64, start: u64) -> Result<u64, Invalid> {
        if start >= self.end() || self.is_extension(start) {
            return Err(Invalid(format!("the run of {quotient} doesn't begin with a remainder")));
        }
        let end = self.end_of_run_from(machine, start);
        end.ok_or_else(|| Invalid(format!("the run of {quotient} has no end")))
    }

    /// Checks that the slots `from..to` are zero, and so are their bits in both planes.
    fn check_blank(&self, from: u64, to: u64) -> Result<(), Invalid> {
        let mut at = from;
        while at < to {
            let block = self.place(at).block();
            let end = self.start_of(block + 1).min(to);
            if !self.are_blank(at, end) {
                let mut slots = at..end;
                let position = slots.find(|&slot| !self.are_blank(slot, slot + 1)).unwrap_or(at);
                return Err(Invalid(format!("unused slot {position} isn't zero")));
            }
            at = end;
        }
        Ok(())
    }

    /// Returns whether the slots `from..to`, which must be in one block, are zero.
    fn are_blank(&self, from: u64, to: u64) -> bool {
        let (geometry, place) = (self.geometry(), self.place(from));
        let (block, first) = (self.block_of(place), place.lane());
        let behind = first + (to - from) as u32;
        let planes = geometry.plane(block, Plane::RunEnd) | geometry.plane(block, Plane::Extension);
        planes & low_bits(behind) & !low_bits(first) == 0
            && is_zero(block, geometry.slot_at(first), geometry.slot_at(behind))
    }
}

/// The end of a block's runs, and the number of their slots.
struct Checked {
    end: u64,
    slots: u64,
}

/// Properties of each slot of a block except the last, as one bit per slot.
struct Order {
    /// Slots that are less than the next slot.
    rising: u64,
    nonzero: u64,
}

impl Order {
    /// Returns `None` if any slot has more bits than a remainder.
    #[inline(always)]
    fn of<M: Machine>(
        machine: M,
        geometry: Geometry,
        block: &Block,
        remainder_bits: u32,
    ) -> Option<Self> {
        let too_high = geometry.lowest * (low_bits(geometry.width) & !low_bits(remainder_bits));
        let whole = geometry.lowest * low_bits(geometry.width);
        let (mut order, mut high) = (Self { rising: 0, nonzero: 0 }, 0);
        for lane in (0..geometry.lanes - 1).step_by(geometry.slots_per_window() as usize) {
            let slots = window(block, geometry.slot_at(lane)) & whole;
            let others = window(block, geometry.slot_at(lane + 1));
            order.rising |= geometry.less(machine, slots, others) << lane;
            order.nonzero |= geometry.less(machine, 0, slots) << lane;
            high |= slots & too_high;
        }
        // The last window may extend past the slots.
        let but_last = low_bits(geometry.lanes - 1);
        order.rising &= but_last;
        order.nonzero &= but_last;
        let last = geometry.slot(block, geometry.lanes - 1);
        (high == 0 && last <= low_bits(remainder_bits)).then_some(order)
    }
}

struct Validate<'a, C> {
    table: &'a QuotientTable,
    remainder_bits: u32,
    check: C,
}

impl<C: FnMut(Run) -> Result<(), Invalid>> Operation for Validate<'_, C> {
    type Argument = ();
    type Output = Result<u64, Invalid>;
    type Shapes = Widths;
    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) -> Self::Output {
        let Self { table, remainder_bits, mut check } = self;
        // This slot ends every search for a slot that isn't an extension, whatever the other slots
        // hold.
        table.check_blank(table.end(), table.end() + 1)?;
        let (mut end, mut used, mut plain) = (0, 0, 0);
        // If the last block was plain: the end of the runs before it, and the number of slots of
        // its runs.
        let mut last_plain = None;
        for block in 0..table.blocks() {
            table.check_border::<SHAPE>(block, end)?;
            if let Some(checked) =
                table.check_plain::<M, SHAPE>(machine, block, end, remainder_bits)
            {
                last_plain = Some((end, checked.slots));
                end = checked.end;
                plain += checked.slots;
                continue;
            }
            // A run can extend from a plain block into the next. This next block isn't plain, so
            // check that run here.
            if let Some((start, slots)) = last_plain.take()
                && end > table.start_of(block)
            {
                plain -= slots;
                used += table.check_runs(machine, block - 1, start, &mut check)?.slots;
            }
            let checked = table.check_runs(machine, block, end, &mut check)?;
            end = checked.end;
            used += checked.slots;
        }
        table.check_blank(end, table.end())?;
        used += plain;
        if used != table.used() || used > table.slots() {
            let (counted, slots) = (table.used(), table.slots());
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
