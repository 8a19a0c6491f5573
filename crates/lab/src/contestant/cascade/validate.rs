//! Checks the invariants of a cascade.

use super::QuotientCascade;

impl QuotientCascade {
    /// Checks every invariant. If one is violated, returns a description.
    pub(super) fn validate(&self) -> Result<(), String> {
        for level in std::iter::once(&self.first).chain(&self.deeper) {
            level.validate().map_err(|invalid| invalid.to_string())?;
        }
        let bits = self.first.parameters().remainder_bits;
        for entry in self.first.iter() {
            if entry.fingerprint.bits() != bits || entry.count == 0 {
                return Err(format!("{entry:?} is not a cell with members"));
            }
            if entry.value > self.last_depth().into() {
                return Err(format!("no level answers for {entry:?}"));
            }
        }
        self.last.validate().map_err(|invalid| invalid.to_string())?;
        let stray = self.last.iter().find(|&hash| self.depth(hash) != self.last_depth());
        stray.map_or(Ok(()), |hash| {
            Err(format!("{hash:?} is in the last level, which doesn't answer for it"))
        })
    }
}
