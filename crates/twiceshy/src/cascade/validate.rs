//! The invariants of a cascade, all checked.

use super::QuotientCascade;
use crate::AdaptiveQuotientFilter;
use crate::error::Invalid;

impl QuotientCascade {
    /// Checks every invariant of the filter, for tests and for diagnosing suspected corruption.
    /// Takes time in proportion to the filter's size.
    ///
    /// # Errors
    /// Says which invariant is broken.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.first.validate()?;
        self.deeper.iter().try_for_each(AdaptiveQuotientFilter::validate)?;
        let bits = self.first.parameters().remainder_bits;
        for entry in self.first.iter() {
            if entry.fingerprint.bits() != bits || entry.count == 0 {
                return Err(Invalid(format!("{entry:?} is no cell with members")));
            }
            if entry.value > self.last_depth().into() {
                return Err(Invalid(format!("no level answers for {entry:?}")));
            }
        }
        self.last.validate()?;
        let stray = self.last.iter().find(|&hash| self.depth(hash) != self.last_depth());
        stray.map_or(Ok(()), |hash| {
            Err(Invalid(format!("{hash:?} is in the last level, which doesn't answer for it")))
        })
    }
}
