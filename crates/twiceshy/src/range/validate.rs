//! The invariants of a filter, all checked.

use super::boxes::Boxes;
use super::keepsake::Keepsake;
use super::{AdaptiveRangeFilter, RangeFilter, RangeKey};
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
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        let Self { table, spelling, .. } = self;
        let mut members = 0u64;
        // No slot is taken for granted: each may be part of a box.
        let plain = table.validate(0, |run| {
            let mut before: Option<Keepsake> = None;
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
                if keepsake.age > self.oldest {
                    return Err(Invalid(format!("{fingerprint:?} is older than all")));
                }
                if !keepsake.mementos.is_sorted() {
                    return Err(Invalid(format!(
                        "mementos of the box at {start} are out of order"
                    )));
                }
                members = members.saturating_add(keepsake.mementos.len() as u64);
                if let Some(before) = before.replace(keepsake.clone()) {
                    let (is, was) = (spelling.order(&keepsake), spelling.order(&before));
                    if is <= was || is.0 == was.0 && was.1.covers_all(&is.1) {
                        return Err(Invalid(format!("{is:?} is behind {was:?}")));
                    }
                }
            }
            Ok(())
        })?;
        if members.saturating_add(plain) != self.len {
            return Err(Invalid(format!("there are {members} members, not {}", self.len)));
        }
        Ok(())
    }
}
