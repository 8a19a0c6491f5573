//! How often, and with what value.

use super::AdaptiveQuotientFilter;
use super::entry::Entry;
use super::grow::MOST_SLOTS;
use crate::Hash;
use crate::bits::word::low_bits;
use crate::error::ValueError;

impl AdaptiveQuotientFilter {
    /// Returns how many members have the fingerprint of a hash, each counted as often as it
    /// was inserted. This is at least the key's own count, and more only if others share its
    /// fingerprint. If it is 0, the key is certainly not a member.
    ///
    /// ```
    /// # use twiceshy::{AdaptiveQuotientFilter, Hash};
    /// let mut filter = AdaptiveQuotientFilter::builder().slots(100).build()?;
    /// let hash = Hash::from_u128(7 << 100);
    /// filter.insert(hash)?;
    /// filter.insert_times(hash, 1_000_000)?;
    /// assert_eq!((filter.count(hash), filter.len()), (1_000_001, 1_000_001));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn count(&self, hash: Hash) -> u64 {
        self.entry_of(hash).map_or(0, |entry| entry.count)
    }

    /// The value of a member's fingerprint; 0 if none was set, and `None` if the key is no
    /// member, for certain. All members that share a fingerprint share its value.
    pub fn value(&self, hash: Hash) -> Option<u64> {
        self.entry_of(hash).filter(|entry| entry.count > 0).map(|entry| entry.value)
    }

    /// Sets the value of a member's fingerprint, of as many bits as the
    /// [builder](super::Builder::value_bits) was asked for. Returns the one before.
    ///
    /// A value other than 0 takes a slot or more. It stays with the fingerprint when this is
    /// lengthened, and is gone with its last member; but a tombstone keeps it, for whoever
    /// takes its place.
    ///
    /// ```
    /// # use twiceshy::{AdaptiveQuotientFilter, Hash};
    /// let mut filter = AdaptiveQuotientFilter::builder().slots(100).value_bits(4).build()?;
    /// let hash = Hash::from_u128(7 << 100);
    /// filter.insert(hash)?;
    /// filter.set_value(hash, 9)?;
    /// assert_eq!(filter.value(hash), Some(9));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A [`ValueError`], and nothing has changed, if the key is certainly no member, if the
    /// value has too many bits, or if there is no room.
    pub fn set_value(&mut self, hash: Hash, value: u64) -> Result<u64, ValueError> {
        if value > low_bits(self.value_bits) {
            return Err(ValueError::TooLarge { value, bits: self.value_bits });
        }
        let before = self.with_room(MOST_SLOTS, |filter| {
            let scaled = filter.digits.scale(hash);
            let minirun = filter.minirun_of(scaled);
            let covering =
                |entry: &Entry| entry.count > 0 && entry.fingerprint.covers_scaled(scaled);
            let Some(at) = minirun.entries.iter().position(covering) else { return Ok(None) };
            let mut entries = minirun.entries.clone();
            let before = core::mem::replace(&mut entries[at].value, value);
            filter.rewrite(&minirun, &entries)?;
            Ok(Some(before))
        });
        match before {
            Ok(before) => before.ok_or(ValueError::Absent),
            Err(_) => Err(ValueError::Full { load: self.load() }),
        }
    }

    /// The entry that covers a hash.
    fn entry_of(&self, hash: Hash) -> Option<Entry> {
        let scaled = self.digits.scale(hash);
        let minirun = self.minirun_of(scaled);
        minirun.entries.into_iter().find(|entry| entry.fingerprint.covers_scaled(scaled))
    }
}
