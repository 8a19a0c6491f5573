//! The invariants of a filter, all checked.

use super::AdaptiveQuotientFilter;
use crate::error::Invalid;
use crate::table::Kind;

impl AdaptiveQuotientFilter {
    /// Checks every invariant of the filter and of its table; for tests and after
    /// suspicion. Takes time in proportion to the filter's size.
    ///
    /// # Errors
    /// Says which invariant is broken.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.table.validate()?;
        let most = self.digits().most();
        let mut len = 0;
        for run in self.table.runs() {
            let mut before = None;
            for entry in self.table.entries(run.slots) {
                if entry.clone().skip(1).any(|slot| self.table.kind(slot) != Kind::Extension) {
                    return Err(Invalid(format!("the entry at {} has a counter", entry.start)));
                }
                if entry.end - entry.start > u64::from(most) {
                    return Err(Invalid(format!("the entry at {} is too long", entry.start)));
                }
                let fingerprint = self.fingerprint_at(run.quotient, entry);
                if fingerprint.checked_hashes().is_none() {
                    return Err(Invalid(format!("{fingerprint:?} is no hash's")));
                }
                if let Some(before) = before.replace(fingerprint) {
                    if before > fingerprint {
                        return Err(Invalid(format!("{fingerprint:?} is behind {before:?}")));
                    }
                    if before != fingerprint && before.covers(*fingerprint.hashes().start()) {
                        return Err(Invalid(format!("{before:?} is a prefix of {fingerprint:?}")));
                    }
                }
                len += 1;
            }
        }
        if len != self.len {
            return Err(Invalid(format!("there are {len} members, not {}", self.len)));
        }
        Ok(())
    }
}
