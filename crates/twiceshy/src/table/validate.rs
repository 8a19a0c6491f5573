//! The invariants of a table, all checked, in one pass over any bytes.

use super::layout::{Block, Geometry, Plane, QuotientTable, SATURATED, window};
use super::locate::Clusters;
use super::read::Run;
use crate::bits::machine::{Machine, Operation};
use crate::bits::memory::LINE;
use crate::bits::word::low_bits;
use crate::error::Invalid;

impl QuotientTable {
    /// Checks every invariant of the [module](super); of the entries, that they are in order
    /// and no two are equal, and have remainders of so many bits. Returns how many these
    /// are. Where there may be more of an entry than a remainder, this is left to `check`,
    /// which gets the run.
    pub(crate) fn validate(
        &self,
        remainder_bits: u32,
        check: impl FnMut(Run) -> Result<(), Invalid>,
    ) -> Result<u64, Invalid> {
        self.level().run(Validate { table: self, remainder_bits, check })
    }

    #[inline(always)]
    fn validate_on<M: Machine>(
        &self,
        machine: M,
        remainder_bits: u32,
        mut check: impl FnMut(Run) -> Result<(), Invalid>,
    ) -> Result<u64, Invalid> {
        // Whatever the other slots are, a search for what isn't an extension ends there.
        self.check_blank(self.end(), self.end() + 1)?;
        let (mut end, mut used, mut plain) = (0, 0, 0);
        for block in 0..self.blocks() {
            self.check_border(block, end)?;
            if let Some(checked) = self.check_plain(machine, block, end, remainder_bits) {
                end = checked.end;
                plain += checked.slots;
                used += checked.slots;
                continue;
            }
            let mut occupied = self.occupied(block);
            while occupied != 0 {
                let quotient = self.start_of(block) + u64::from(occupied.trailing_zeros());
                occupied &= occupied - 1;
                if quotient >= self.slots() {
                    return Err(Invalid(format!("quotient {quotient} is in the tail")));
                }
                let start = end.max(quotient);
                self.check_blank(end, start)?;
                end = self.check_run(quotient, start)?;
                used += end - start;
                check(Run { quotient, slots: start..end })?;
            }
        }
        self.check_blank(end, self.end())?;
        if used != self.used() || used > self.slots() {
            let (counted, slots) = (self.used(), self.slots());
            return Err(Invalid(format!("{used} of {slots} slots are used, not {counted}")));
        }
        Ok(plain)
    }

    /// Checks the spill of a block, if the runs of those before it end at `end`, and what is
    /// behind its slots.
    #[inline(always)]
    fn check_border(&self, block: usize, end: u64) -> Result<(), Invalid> {
        let spill = u64::saturating_sub(end, self.start_of(block));
        let stored = self.stored_spill(block);
        if stored != spill.min(SATURATED) {
            return Err(Invalid(format!("block {block} has spill {stored}, not {spill}")));
        }
        let geometry = self.geometry();
        if !is_zero(self.block(block), geometry.slot_at(geometry.lanes()), 8 * LINE as u32) {
            return Err(Invalid(format!("block {block} isn't zero behind its slots")));
        }
        Ok(())
    }

    /// Checks a block, and the runs of its quotients, all at once: where there are nothing
    /// but remainders, and no run goes further than into the next block. Otherwise, or if
    /// anything is wrong, it has to be looked at more closely.
    #[inline(always)]
    fn check_plain<M: Machine>(
        &self,
        machine: M,
        block: usize,
        end: u64,
        remainder_bits: u32,
    ) -> Option<Checked> {
        let (geometry, start) = (self.geometry(), self.start_of(block));
        let lanes = low_bits(geometry.lanes());
        let spill = u64::saturating_sub(end, start) as u32;
        if spill >= geometry.lanes() || block + 1 >= self.blocks() {
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
        let (spilt, ends) = (low_bits(spill), run_ends & !low_bits(spill));
        let clusters = Clusters { occupied, ends, extensions: 0, lanes: geometry.lanes() };
        let (mut unused, mut lane) = (0, spill);
        while lane < geometry.lanes() {
            unused |= clusters.unused(machine, lane, clusters.unfinished(machine, lane)) << lane;
            // No run ends where none goes on: so there are never more ends than runs.
            if ends & unused != 0 {
                return None;
            }
            lane += 32;
        }
        let used = lanes & !unused;
        let in_order = rising(machine, geometry, view, remainder_bits)?;
        let last = geometry.lanes() - 1;
        let goes_on = used & !run_ends;
        let (this, that) = (geometry.slot(view, last), geometry.slot(next, 0));
        if goes_on & low_bits(last) & !in_order != 0 || goes_on >> last & 1 == 1 && this >= that {
            return None;
        }
        if !blank(geometry, view, unused) {
            return None;
        }
        let own = u64::from((used & !spilt).count_ones());
        let unfinished = occupied.count_ones() - ends.count_ones();
        let next_ends = geometry.plane(next, Plane::RunEnd);
        let further = match unfinished {
            0 => 0,
            _ if next_ends.count_ones() < unfinished => return None,
            _ => machine.select(next_ends, unfinished - 1) + 1,
        };
        // There may be more of the last entry, here or behind the next block.
        let extended = geometry.plane(next, Plane::Extension) & low_bits(further + 1);
        if extended != 0 || further == geometry.lanes() {
            return None;
        }
        let behind = match further {
            0 => u64::from(u64::BITS - ends.leading_zeros()),
            _ => u64::from(geometry.lanes() + further),
        };
        let end = if own + u64::from(further) == 0 { end } else { start + behind };
        Some(Checked { end, slots: own + u64::from(further) })
    }

    /// Finds the end of a run.
    fn check_run(&self, quotient: u64, start: u64) -> Result<u64, Invalid> {
        if start >= self.end() || self.is_extension(start) {
            return Err(Invalid(format!("the run of {quotient} doesn't begin with a remainder")));
        }
        match self.first_run_end(start) {
            Some(last) => Ok(self.skip_extensions(last + 1)),
            None => Err(Invalid(format!("the run of {quotient} has no end"))),
        }
    }

    /// The first run end from a position on.
    fn first_run_end(&self, from: u64) -> Option<u64> {
        let place = self.place(from);
        let mut passed = low_bits(place.lane());
        (place.block()..self.blocks()).find_map(|block| {
            let ends = self.run_ends(block) & !core::mem::take(&mut passed);
            (ends != 0).then(|| self.start_of(block) + u64::from(ends.trailing_zeros()))
        })
    }

    /// Checks that the slots `from..to` are zero, in both planes, too.
    fn check_blank(&self, from: u64, to: u64) -> Result<(), Invalid> {
        let mut at = from;
        while at < to {
            let block = self.place(at).block();
            let end = self.start_of(block + 1).min(to);
            if !self.are_blank(at, end) {
                let position = (at..end).find(|&position| !self.is_blank(position));
                let position = position.unwrap_or(at);
                return Err(Invalid(format!("unused slot {position} isn't zero")));
            }
            at = end;
        }
        Ok(())
    }

    /// Whether the slots `from..to`, all in one block, are zero.
    fn are_blank(&self, from: u64, to: u64) -> bool {
        let (geometry, place) = (self.geometry(), self.place(from));
        let (block, first) = (self.block_of(place), place.lane());
        let behind = first + (to - from) as u32;
        let planes = geometry.plane(block, Plane::RunEnd) | geometry.plane(block, Plane::Extension);
        planes & low_bits(behind) & !low_bits(first) == 0
            && is_zero(block, geometry.slot_at(first), geometry.slot_at(behind))
    }
}

/// What was checked: where its runs end, and how many slots they have.
struct Checked {
    end: u64,
    slots: u64,
}

/// Which slots of a block are less than the next one, one bit for each, but the last; or
/// `None` if one of them has more bits than a remainder.
#[inline(always)]
fn rising<M: Machine>(
    machine: M,
    geometry: Geometry,
    block: &Block,
    remainder_bits: u32,
) -> Option<u64> {
    let too_high = geometry.lowest * (low_bits(geometry.width()) & !low_bits(remainder_bits));
    let whole = geometry.lowest * low_bits(geometry.width());
    let (mut rising, mut high) = (0, 0);
    for lane in (0..geometry.lanes() - 1).step_by(geometry.slots_per_window() as usize) {
        let slots = window(block, geometry.slot_at(lane)) & whole;
        let others = window(block, geometry.slot_at(lane + 1));
        rising |= geometry.less(machine, slots, others) << lane;
        high |= slots & too_high;
    }
    let last = geometry.slot(block, geometry.lanes() - 1);
    (high == 0 && last <= low_bits(remainder_bits)).then_some(rising)
}

/// Whether these lanes are zero.
#[inline(always)]
fn blank(geometry: Geometry, block: &Block, mut lanes: u64) -> bool {
    while lanes != 0 {
        let first = lanes.trailing_zeros();
        let behind = first + (lanes >> first).trailing_ones();
        if !is_zero(block, geometry.slot_at(first), geometry.slot_at(behind)) {
            return false;
        }
        lanes &= !low_bits(behind);
    }
    true
}

struct Validate<'a, C> {
    table: &'a QuotientTable,
    remainder_bits: u32,
    check: C,
}

impl<C: FnMut(Run) -> Result<(), Invalid>> Operation for Validate<'_, C> {
    type Output = Result<u64, Invalid>;
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Self::Output {
        self.table.validate_on(machine, self.remainder_bits, self.check)
    }
}

/// Whether the bits `from..to` of a block are all zero.
#[inline(always)]
fn is_zero(block: &Block, from: u32, to: u32) -> bool {
    const STEP: u32 = 56;
    (from..to).step_by(STEP as usize).all(|at| window(block, at) & low_bits(STEP.min(to - at)) == 0)
}
