//! The invariants of a table, all checked.

use super::layout::{QuotientTable, SATURATED};
use crate::bits::machine::Portable;
use crate::error::Invalid;

impl QuotientTable {
    /// Checks every invariant of the [module](super).
    pub(crate) fn validate(&self) -> Result<(), Invalid> {
        self.check_blank(self.end(), self.end() + 1)?;
        let mut end = 0;
        let mut used = 0;
        for block in 0..self.blocks() {
            let spill = u64::saturating_sub(end, self.start_of(block));
            let stored = self.stored_spill(block);
            if stored != spill.min(SATURATED) {
                return Err(Invalid(format!("block {block} has spill {stored}, not {spill}")));
            }
            if self.spill(Portable, block) != spill {
                return Err(Invalid(format!("block {block} doesn't recover its spill {spill}")));
            }
            for quotient in self.start_of(block)..self.start_of(block + 1) {
                if !self.is_occupied(quotient) {
                    continue;
                }
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

    /// Walks a run, slot by slot. Returns its end.
    fn check_run(&self, quotient: u64, start: u64) -> Result<u64, Invalid> {
        if start >= self.end() || self.is_extension(start) {
            return Err(Invalid(format!("the run of {quotient} doesn't begin with a remainder")));
        }
        let mut position = start;
        while !self.is_run_end(position) {
            position += 1;
            if position == self.end() {
                return Err(Invalid(format!("the run of {quotient} has no end")));
            }
        }
        position += 1;
        while self.is_extension(position) {
            position += 1;
        }
        let located = self.run_start(Portable, quotient)..self.run_end(Portable, quotient);
        if located != (start..position) {
            return Err(Invalid(format!(
                "the run of {quotient} is at {start}..{position}, but found at {located:?}"
            )));
        }
        Ok(position)
    }

    fn check_blank(&self, from: u64, to: u64) -> Result<(), Invalid> {
        match (from..to).find(|&position| !self.is_blank(position)) {
            Some(position) => Err(Invalid(format!("unused slot {position} isn't zero"))),
            None => Ok(()),
        }
    }
}
