//! Checks every invariant of a filter.

use super::AdaptiveBloomFilter;
use crate::error::Invalid;

impl AdaptiveBloomFilter {
    /// Checks every invariant of the filter, for tests and for diagnosing suspected corruption.
    /// Takes time in proportion to the filter's size.
    ///
    /// # Errors
    /// Names the broken invariant.
    pub fn validate(&self) -> Result<(), Invalid> {
        let invalid = |what: String| Err(Invalid(what));
        for (number, level) in (0..).zip(core::iter::once(&self.first).chain(&self.deeper)) {
            if level.number != number {
                return invalid(format!("level {number} has the number {}", level.number));
            }
            level.validate()?;
        }
        let (written, room) = (self.first.written, self.first.plan.room);
        if written > room {
            return invalid(format!("level 0 has {written} members, but room for {room}"));
        }
        self.dead.validate()?;
        for (cell, depth) in self.dead.iter() {
            if depth > self.last_depth() {
                return invalid(format!("no level answers for dead cell {cell}"));
            }
            if !self.first.is_set(cell) {
                return invalid(format!("dead cell {cell} is not set"));
            }
        }
        self.last.validate()?;
        let mut hashes = self.last.iter();
        match hashes.find(|&hash| self.dead.depth(self.cell_of(hash)) != self.last_depth()) {
            Some(hash) => {
                invalid(format!("{hash:?} is in the last level, which doesn't answer for it"))
            }
            None => Ok(()),
        }
    }
}
