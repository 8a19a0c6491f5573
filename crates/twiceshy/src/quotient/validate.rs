//! The invariants of a filter, all checked.

use super::AdaptiveQuotientFilter;
use crate::Fingerprint;
use crate::error::Invalid;

impl AdaptiveQuotientFilter {
    /// Checks every invariant of the filter and of its table; for tests and after
    /// suspicion. Takes time in proportion to the filter's size.
    ///
    /// # Errors
    /// Says which invariant is broken.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.table.validate()?;
        let (mut len, mut count) = (0u64, 0);
        for run in self.table.runs() {
            let mut before: Option<Fingerprint> = None;
            for slots in self.table.entries(run.slots) {
                let start = slots.start;
                let Some(entry) = self.checked_entry(run.quotient, slots) else {
                    return Err(Invalid(format!("the entry at {start} is not well-formed")));
                };
                let fingerprint = entry.fingerprint;
                let remainder = self.digits.digit(fingerprint.prefix(), 0);
                if remainder != self.table.value(start) || fingerprint.checked_hashes().is_none() {
                    return Err(Invalid(format!("{fingerprint:?} is no hash's")));
                }
                if let Some(before) = before.replace(fingerprint) {
                    if before >= fingerprint {
                        return Err(Invalid(format!("{fingerprint:?} is behind {before:?}")));
                    }
                    if before.covers(*fingerprint.hashes().start()) {
                        return Err(Invalid(format!("{before:?} is a prefix of {fingerprint:?}")));
                    }
                }
                len = len.saturating_add(entry.count);
                count += 1;
            }
        }
        if len != self.len {
            return Err(Invalid(format!("there are {len} members, not {}", self.len)));
        }
        let extra = self.table.used() - count;
        if extra != self.extra_slots {
            return Err(Invalid(format!("{extra} slots are extra, not {}", self.extra_slots)));
        }
        Ok(())
    }
}
