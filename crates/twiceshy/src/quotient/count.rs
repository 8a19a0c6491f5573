//! Counts and values of members.

use super::entry::Entry;
use super::{QuotientFilter, Shared, ValueError};
use crate::Hash;
use crate::bits::word::low_bits;

impl QuotientFilter {
    /// Returns the number of members whose fingerprint covers a hash, each counted as often as it
    /// was inserted. The number is at least the key's own count. If it is 0, the key is not a
    /// member.
    ///
    /// ```
    /// # use twiceshy::{QuotientFilter, Hash};
    /// let mut filter = QuotientFilter::builder().slots(100).build()?;
    /// let hash = Hash::from_u128(7 << 100);
    /// filter.insert(hash)?;
    /// filter.insert_times(hash, 1_000_000)?;
    /// assert_eq!((filter.count(hash), filter.len()), (1_000_001, 1_000_001));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn count(&self, hash: Hash) -> u64 {
        self.shared.entry_of(hash).map_or(0, |entry| entry.count)
    }

    /// Returns the value of a member's fingerprint, or `None` if the key is certainly not a member.
    /// The value is 0 by default. All members that share a fingerprint share its value.
    pub fn value(&self, hash: Hash) -> Option<u64> {
        self.shared.entry_of(hash).filter(|entry| entry.count > 0).map(|entry| entry.value)
    }

    /// Sets the value of a member's fingerprint, and returns the previous one. The builder's
    /// [`value_bits`](crate::builder::Builder::value_bits) limits the number of bits.
    ///
    /// A value other than 0 takes at least one slot. When the fingerprint is lengthened, the value
    /// stays with it. When its last member is removed, the value is lost, unless a tombstone keeps
    /// it for the next member with that fingerprint.
    ///
    /// ```
    /// # use twiceshy::{QuotientFilter, Hash};
    /// let mut filter = QuotientFilter::builder().slots(100).value_bits(4).build()?;
    /// let hash = Hash::from_u128(7 << 100);
    /// filter.insert(hash)?;
    /// filter.set_value(hash, 9)?;
    /// assert_eq!(filter.value(hash), Some(9));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A [`ValueError`] if the key is certainly not a member, if the value has too many bits, or if
    /// there is no room. The filter is unchanged in that case.
    pub fn set_value(&mut self, hash: Hash, value: u64) -> Result<u64, ValueError> {
        if value > low_bits(self.shared.value_bits) {
            return Err(ValueError::TooLarge { value, bits: self.shared.value_bits });
        }
        let full = |load| ValueError::Full { load };
        self.change(hash, full, |digits, entries| {
            let scaled = digits.scale(hash);
            let mut members = entries.iter_mut().filter(|entry| entry.count > 0);
            let entry = members.find(|entry| entry.fingerprint.covers_scaled(scaled));
            let entry = entry.ok_or(ValueError::Absent)?;
            Ok(core::mem::replace(&mut entry.value, value))
        })
    }
}

impl Shared {
    /// Returns the entry that covers a hash. The entry may be a tombstone.
    pub(super) fn entry_of(&self, hash: Hash) -> Option<Entry> {
        let scaled = self.digits.scale(hash);
        self.entries_near(scaled).find(|entry| entry.fingerprint.covers_scaled(scaled))
    }
}
