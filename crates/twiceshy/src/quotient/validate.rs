//! Checks all invariants of a filter.

use super::{Entry, QuotientFilter, Shared};
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
        let (tombstones, counted) = (self.check_invariants()?, self.tally.tombstones);
        if tombstones != counted {
            return Err(Invalid(format!("there are {tombstones} tombstones, not {counted}")));
        }
        Ok(())
    }

    /// Validates a filter [from parts](Self::from_parts), and counts its tombstones, because the
    /// parts don't contain their number.
    pub(crate) fn validated(mut self) -> Result<Self, Invalid> {
        self.tally.tombstones = self.check_invariants()?;
        Ok(self)
    }

    /// Checks all invariants except the number of tombstones, and returns that number.
    pub(crate) fn check_invariants(&self) -> Result<u64, Invalid> {
        let (mut members, mut entries, mut tombstones) = (0u64, 0, 0);
        let Shared { table, digits, .. } = &self.shared;
        let most = low_bits(digits.remainder);
        let plain = table.validate(self.usage.used, digits.remainder, |run| {
            let (mut last, mut before) = (None, None);
            for slots in table.entries(run.slots) {
                let remainder = table.value(slots.start);
                let is_alone = slots.end - slots.start == 1 && remainder <= most;
                entries += 1;
                // The common case: a single slot, and a larger remainder than the one before.
                if is_alone && last.is_none_or(|last| last < remainder) {
                    members = members.saturating_add(1);
                    before = None;
                } else {
                    let single = |last| digits.spell(run.quotient, core::iter::once(last));
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
        if len != self.tally.len {
            return Err(Invalid(format!("there are {len} members, not {}", self.tally.len)));
        }
        let extra = self.usage.used - entries - plain;
        if extra != self.tally.extra_slots {
            return Err(Invalid(format!(
                "{extra} slots continue an entry, not {}",
                self.tally.extra_slots
            )));
        }
        Ok(tombstones)
    }

    /// Checks the entry in these slots of the run of `quotient`. The entry comes after the
    /// fingerprint `before`.
    fn check_entry(
        &self,
        quotient: u64,
        slots: Range<u64>,
        before: Option<Fingerprint>,
    ) -> Result<Entry, Invalid> {
        let start = slots.start;
        let Some(entry) = self.shared.checked_entry(quotient, slots) else {
            return Err(Invalid(format!("the entry at {start} is not well-formed")));
        };
        let fingerprint = entry.fingerprint;
        // The stored digits must be bits of a hash, so no bit may be set above the width of a
        // remainder, or after the last bit of a hash.
        let mut digits = self.shared.digits.of(fingerprint).zip(start..);
        let is_spelt = digits.all(|(digit, slot)| digit == self.shared.table.value(slot));
        if !is_spelt || !fingerprint.has_some_hash() {
            return Err(Invalid(format!("no hash has {fingerprint:?}")));
        }
        match before {
            Some(before) if before >= fingerprint => {
                Err(Invalid(format!("{fingerprint:?} must not follow {before:?}")))
            }
            Some(before) if before.covers_all(&fingerprint) => {
                Err(Invalid(format!("{before:?} is a prefix of {fingerprint:?}")))
            }
            _ => Ok(entry),
        }
    }
}
