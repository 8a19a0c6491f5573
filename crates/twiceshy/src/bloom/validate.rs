//! Checks every invariant of a filter.

use super::AdaptiveBloomFilter;
use super::level::FilterLevel;
use crate::error::Invalid;

impl AdaptiveBloomFilter {
    /// Checks every invariant of the filter, for tests and for diagnosing suspected corruption.
    /// Takes time in proportion to the filter's size.
    ///
    /// # Errors
    /// Names the broken invariant.
    pub fn validate(&self) -> Result<(), Invalid> {
        let levels = core::iter::once(&self.first).chain(&self.deeper);
        levels.enumerate().try_for_each(|(number, level)| check_level(number, level))?;
        let room = self.blueprint.first.room;
        if self.first.written > room {
            return Err(Invalid(format!(
                "level 0 has {} members, but room for {room}",
                self.first.written
            )));
        }
        self.dead.validate()?;
        for (cell, depth) in self.dead.iter() {
            if depth > self.last_depth() {
                return Err(Invalid(format!("no level answers for dead cell {cell}")));
            }
            if !self.first.cells.is_first_set(cell) {
                return Err(Invalid(format!("dead cell {cell} is not set")));
            }
        }
        self.last.validate()?;
        let mut hashes = self.last.iter();
        let stray = hashes.find(|&hash| self.dead.depth(self.cell_of(hash)) != self.last_depth());
        stray.map_or(Ok(()), |hash| {
            Err(Invalid(format!("{hash:?} is in the last level, which doesn't answer for it")))
        })
    }
}

fn check_level(number: usize, level: &FilterLevel) -> Result<(), Invalid> {
    if level.number as usize != number {
        return Err(Invalid(format!("level {number} has the number {}", level.number)));
    }
    if !level.cells.has_clean_end() {
        return Err(Invalid(format!("level {number} has set bits after its last cell")));
    }
    let (set, functions) = (level.cells.count_set(), u64::from(level.cells.shape().functions));
    if set > level.written.saturating_mul(functions) {
        return Err(Invalid(format!(
            "{} members of level {number} can't set {set} cells",
            level.written
        )));
    }
    Ok(())
}
