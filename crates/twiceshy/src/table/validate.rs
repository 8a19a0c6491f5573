//! The invariants of a table, all checked, in one pass over any bytes.

use super::layout::{Block, Plane, QuotientTable, SATURATED, window};
use crate::bits::memory::LINE;
use crate::bits::word::low_bits;
use crate::error::Invalid;

impl QuotientTable {
    /// Checks every invariant of the [module](super).
    pub(crate) fn validate(&self) -> Result<(), Invalid> {
        // Whatever the other slots are, a search for what isn't an extension ends there.
        self.check_blank(self.end(), self.end() + 1)?;
        let mut end = 0;
        let mut used = 0;
        for block in 0..self.blocks() {
            let spill = u64::saturating_sub(end, self.start_of(block));
            let stored = self.stored_spill(block);
            if stored != spill.min(SATURATED) {
                return Err(Invalid(format!("block {block} has spill {stored}, not {spill}")));
            }
            let geometry = self.geometry();
            if !is_zero(self.block(block), geometry.slot_at(geometry.lanes()), 8 * LINE as u32) {
                return Err(Invalid(format!("block {block} isn't zero behind its slots")));
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
            }
        }
        self.check_blank(end, self.end())?;
        if used != self.used() || used > self.slots() {
            let (counted, slots) = (self.used(), self.slots());
            return Err(Invalid(format!("{used} of {slots} slots are used, not {counted}")));
        }
        Ok(())
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

/// Whether the bits `from..to` of a block are all zero.
fn is_zero(block: &Block, from: u32, to: u32) -> bool {
    const STEP: u32 = 56;
    (from..to).step_by(STEP as usize).all(|at| window(block, at) & low_bits(STEP.min(to - at)) == 0)
}
