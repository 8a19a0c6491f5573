//! The invariants of a filter, all checked.

use super::boxes::Boxes;
use super::{AdaptiveRangeFilter, RangeFilter, RangeKey};
use crate::Fingerprint;
use crate::error::Invalid;

impl<K: RangeKey> RangeFilter<K> {
    /// Checks every invariant of the filter and of its table; for tests and after suspicion.
    /// Takes time in proportion to the filter's size.
    ///
    /// # Errors
    /// Says which invariant is broken.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.boxes.validate()
    }
}

impl<K: RangeKey> AdaptiveRangeFilter<K> {
    /// As [`RangeFilter::validate`].
    ///
    /// # Errors
    /// Says which invariant is broken.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.filter.validate()
    }
}

impl Boxes {
    fn validate(&self) -> Result<(), Invalid> {
        let (table, spelling) = (self.table(), self.spelling());
        let mut members = 0u64;
        // No slot is taken for granted: each may be part of a box.
        let plain = table.validate(0, |run| {
            let mut before: Option<Fingerprint> = None;
            for slots in table.entries(run.slots) {
                let start = slots.start;
                let Some(keepsake) = self.read(run.quotient, slots.clone()) else {
                    return Err(Invalid(format!("the box at {start} is not well-formed")));
                };
                let fingerprint = keepsake.fingerprint;
                let written = spelling.slots(&keepsake);
                let is_spelt =
                    written.iter().map(|slot| slot.value).eq(slots.map(|at| table.value(at)));
                if !is_spelt || !fingerprint.is_of_a_hash() {
                    return Err(Invalid(format!("{fingerprint:?} is no hash's")));
                }
                if !keepsake.mementos.is_sorted() {
                    return Err(Invalid(format!(
                        "mementos of the box at {start} are out of order"
                    )));
                }
                if before
                    .is_some_and(|before| before >= fingerprint || before.covers_all(&fingerprint))
                {
                    return Err(Invalid(format!("{fingerprint:?} is behind {before:?}")));
                }
                before = Some(fingerprint);
                members = members.saturating_add(keepsake.mementos.len() as u64);
            }
            Ok(())
        })?;
        if members.saturating_add(plain) != self.len() {
            return Err(Invalid(format!("there are {members} members, not {}", self.len())));
        }
        Ok(())
    }
}
