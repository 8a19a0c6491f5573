//! Checks of all invariants of a filter.

use super::{Entry, QuotientFilter};
use crate::bits::word::low_bits;
use crate::error::Invalid;
use crate::fingerprint::Fingerprint;
use core::ops::Range;

impl QuotientFilter {
    /// Checks every invariant of the filter and of its table. Use it in tests, and to diagnose
    /// suspected corruption. It takes time in proportion to the filter's size.
    ///
    /// # Errors
    /// An [`Invalid`] that says which invariant is broken.
    pub fn validate(&self) -> Result<(), Invalid> {
        let (tombstones, counted) = (self.check_invariants()?, self.tombstones);
        if tombstones != counted {
            return Err(Invalid(format!("there are {tombstones} tombstones, not {counted}")));
        }
        Ok(())
    }

    /// Validates a filter [from parts](Self::from_parts), and counts its tombstones, which the
    /// parts don't.
    pub(crate) fn validated(mut self) -> Result<Self, Invalid> {
        self.tombstones = self.check_invariants()?;
        Ok(self)
    }

    /// Checks all invariants except the number of tombstones, and returns that number.
    pub(crate) fn check_invariants(&self) -> Result<u64, Invalid> {
        let (mut members, mut entries, mut tombstones) = (0u64, 0, 0);
        let most = low_bits(self.digits.remainder);
        let plain = self.table.validate(self.digits.remainder, |run| {
            let (mut last, mut before) = (None, None);
            for slots in self.table.entries(run.slots) {
                let remainder = self.table.value(slots.start);
                let is_alone = slots.end - slots.start == 1 && remainder <= most;
                entries += 1;
                // The common case: a single slot, and a larger remainder than the one before.
                if is_alone && last.is_none_or(|last| last < remainder) {
                    members = members.saturating_add(1);
                    before = None;
                } else {
                    let single = |last| self.digits.spell(run.quotient, core::iter::once(last));
                    before = before.or(last.map(single));
                    let entry = self.check_entry(run.quotient, slots, before)?;
                    members = members.saturating_add(entry.count);
                    tombstones += u64::from(entry.count == 0);
                    before = Some(entry.fingerprint);
                }
                last = Some(remainder);
            }
            Ok(())
        })?;
        let len = members.saturating_add(plain);
        if len != self.len {
            return Err(Invalid(format!("there are {len} members, not {}", self.len)));
        }
        let extra = self.table.used() - entries - plain;
        if extra != self.extra_slots {
            return Err(Invalid(format!("{extra} slots are extra, not {}", self.extra_slots)));
        }
        Ok(tombstones)
    }

    /// Checks the entry in these slots of the run of `quotient`. It follows the fingerprint
    /// `before`.
    fn check_entry(
        &self,
        quotient: u64,
        slots: Range<u64>,
        before: Option<Fingerprint>,
    ) -> Result<Entry, Invalid> {
        let start = slots.start;
        let Some(entry) = self.checked_entry(quotient, slots) else {
            return Err(Invalid(format!("the entry at {start} is not well-formed")));
        };
        let fingerprint = entry.fingerprint;
        // The stored digits must be bits of a hash: nothing beyond the width of a remainder, and
        // nothing after the last bit of a hash.
        let mut digits = self.digits.of(fingerprint).zip(start..);
        let is_spelt = digits.all(|(digit, slot)| digit == self.table.value(slot));
        if !is_spelt || !fingerprint.is_of_a_hash() {
            return Err(Invalid(format!("{fingerprint:?} is no hash's")));
        }
        match before {
            Some(before) if before >= fingerprint => {
                Err(Invalid(format!("{fingerprint:?} is behind {before:?}")))
            }
            Some(before) if before.covers_all(&fingerprint) => {
                Err(Invalid(format!("{before:?} is a prefix of {fingerprint:?}")))
            }
            _ => Ok(entry),
        }
    }
}
