//! Filters for many threads.

mod builder;
mod coded;
mod keyed;
mod listed;
mod many;
#[cfg(feature = "rayon")]
mod parallel;
mod rebuild;
mod shard;
mod sharding;
mod shared;

use crate::error::{InsertError, Invalid, RemoveError, ValueError};
use crate::{
    AdaptiveQuotientFilter, Builder, Entry, Filter, Hash, HashScheme, Parameters, Statistics,
};
pub use coded::ConcurrentCodedFilter;
use core::fmt;
pub(crate) use shard::Shard;
pub(crate) use sharding::Sharding;
use std::sync::{RwLockReadGuard, RwLockWriteGuard};

/// An [`AdaptiveQuotientFilter`] that many threads use at once: every operation takes
/// `&self`.
///
/// # Guarantees
/// - All that [`AdaptiveQuotientFilter`] guarantees. Each operation on one hash happens at
///   one instant, for all threads: from the moment an insert returns, nobody is told that
///   the key is absent.
/// - Claims defend members against other threads, too: whoever changes the members behind a
///   claim makes it stale, and a repair by it is refused.
/// - What adds up shards ([`len`](Self::len), [`statistics`](Self::statistics),
///   [`for_each`](Self::for_each), batches) sees each of them at an instant of its own.
///
/// A store inserts a key into the filter first, and then into itself; it removes a key from
/// itself first, and then from the filter. So the filter always holds what can be listed, and
/// a list that doesn't match is refused.
///
/// # How it works
/// The filter is cut into shards, a power of two, by the first bits of the hash. As a hash is
/// a fraction, a shard is an interval of hashes, with a filter of its own behind a lock of its
/// own; claims, fingerprints and errors speak of the hashes of the whole.
///
/// A shard that is full doubles by itself, if the filter [may
/// grow](Builder::build_concurrent), and only those who need that shard wait for it. Shards
/// that grow are not equally large, so that they don't all double at once.
///
/// Lookups share a shard's lock with each other, but wait for its writers.
///
/// # Examples
/// ```
/// use twiceshy::{AdaptiveQuotientFilter, Hash};
/// let filter = AdaptiveQuotientFilter::builder().capacity(10_000).build_concurrent()?;
/// let key = |number: u128| Hash::from_u128(number.wrapping_mul(u128::MAX / 997));
/// std::thread::scope(|scope| {
///     for thread in 0..4 {
///         let filter = &filter;
///         scope.spawn(move || {
///             for number in 0..100 {
///                 filter.insert(key(thread * 100 + number)).expect("it grows");
///             }
///         });
///     }
/// });
/// assert_eq!(filter.len(), 400);
/// assert!((0..400).all(|number| filter.contains(key(number))));
/// # Ok::<(), twiceshy::BuildError>(())
/// ```
pub struct ConcurrentAdaptiveQuotientFilter {
    sharding: Sharding,
    shards: Box<[Shard<AdaptiveQuotientFilter>]>,
    hash: HashScheme,
}

impl ConcurrentAdaptiveQuotientFilter {
    /// A builder: say how good and how large the filter should be, and
    /// [`build_concurrent`](Builder::build_concurrent).
    pub fn builder() -> Builder {
        AdaptiveQuotientFilter::builder()
    }

    /// The shard of a hash, and what the hash is there.
    ///
    /// All lookups of one hash come here. Lookups without locks belong here, too: read the
    /// shard's table, look whether a writer came in between, and take the lock only then.
    #[inline]
    fn read(&self, hash: Hash) -> (RwLockReadGuard<'_, AdaptiveQuotientFilter>, Hash) {
        (self.shards[self.sharding.shard(hash)].read(), self.sharding.inner(hash))
    }

    /// The shard of a hash, to be changed, and what the hash is there.
    #[inline]
    fn write(&self, hash: Hash) -> (RwLockWriteGuard<'_, AdaptiveQuotientFilter>, Hash) {
        (self.shards[self.sharding.shard(hash)].write(), self.sharding.inner(hash))
    }

    /// What `look` sees of a shard. It must not use this filter: it would wait for itself.
    pub(crate) fn with_shard<T>(
        &self,
        shard: usize,
        look: impl FnOnce(&AdaptiveQuotientFilter) -> T,
    ) -> T {
        look(&self.shards[shard].read())
    }

    /// Inserts a member; see [`AdaptiveQuotientFilter::insert`].
    ///
    /// # Errors
    /// As [`AdaptiveQuotientFilter::insert`]; the load is that of the hash's shard.
    #[inline]
    pub fn insert(&self, hash: Hash) -> Result<(), InsertError> {
        let (mut filter, hash) = self.write(hash);
        filter.insert(hash)
    }

    /// Inserts a member `times` times, at the price of one insert.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn insert_times(&self, hash: Hash, times: u64) -> Result<(), InsertError> {
        let (mut filter, hash) = self.write(hash);
        filter.insert_times(hash, times)
    }

    /// Removes a key that is *known* to be a member, once; see
    /// [`AdaptiveQuotientFilter::remove`].
    ///
    /// # Errors
    /// As [`AdaptiveQuotientFilter::remove`].
    pub fn remove(&self, hash: Hash) -> Result<(), RemoveError> {
        let (mut filter, hash) = self.write(hash);
        filter.remove(hash)
    }

    /// As [`remove`](Self::remove), but leaves a tombstone; see
    /// [`AdaptiveQuotientFilter::bury`].
    ///
    /// # Errors
    /// As [`AdaptiveQuotientFilter::bury`].
    pub fn bury(&self, hash: Hash) -> Result<(), RemoveError> {
        let (mut filter, hash) = self.write(hash);
        filter.bury(hash)
    }

    /// Whether a key of this hash may be a member. "No" is certain.
    #[inline]
    pub fn contains(&self, hash: Hash) -> bool {
        let (filter, hash) = self.read(hash);
        filter.contains(hash)
    }

    /// How many members have the fingerprint of a hash; see
    /// [`AdaptiveQuotientFilter::count`].
    pub fn count(&self, hash: Hash) -> u64 {
        let (filter, hash) = self.read(hash);
        filter.count(hash)
    }

    /// The value of a member's fingerprint; see [`AdaptiveQuotientFilter::value`].
    pub fn value(&self, hash: Hash) -> Option<u64> {
        let (filter, hash) = self.read(hash);
        filter.value(hash)
    }

    /// Sets the value of a member's fingerprint, and returns the one before; see
    /// [`AdaptiveQuotientFilter::set_value`].
    ///
    /// # Errors
    /// As [`AdaptiveQuotientFilter::set_value`].
    pub fn set_value(&self, hash: Hash, value: u64) -> Result<u64, ValueError> {
        let (mut filter, hash) = self.write(hash);
        filter.set_value(hash, value)
    }

    /// Returns the number of members, each counted as often as it was inserted, or
    /// `usize::MAX` if there are more.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().len()).fold(0, usize::saturating_add)
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.read().is_empty())
    }

    /// Slots in use, as a share of all.
    pub fn load(&self) -> f64 {
        self.statistics().load
    }

    /// Bytes of memory that the filter takes.
    pub fn memory_usage(&self) -> u64 {
        let filters: u64 = self.shards.iter().map(|shard| shard.read().memory_usage()).sum();
        filters + Self::overhead(self.shards.len())
    }

    /// Bytes that so many shards take besides their filters.
    fn overhead(shards: usize) -> u64 {
        size_of::<Self>() as u64 + shards as u64 * Shard::<AdaptiveQuotientFilter>::OVERHEAD
    }

    /// What each shard is made of, in hash order: shards that have grown have more slots,
    /// and fewer bits of remainders.
    pub fn parameters(&self) -> Vec<Parameters> {
        self.shards.iter().map(|shard| shard.read().parameters()).collect()
    }

    /// What the filter holds, and what adapting has cost, over all shards.
    pub fn statistics(&self) -> Statistics {
        let (mut slots, mut rates) = (0, 0.0);
        let mut sum = Statistics {
            members: 0,
            adaptations: 0,
            fingerprints: 0,
            extension_slots: 0,
            load: 0.0,
            bytes: Self::overhead(self.shards.len()),
            expected_rate: 0.0,
        };
        for shard in &self.shards {
            let filter = shard.read();
            let of_shard = filter.statistics();
            slots += filter.parameters().slots;
            rates += of_shard.expected_rate;
            sum.members = sum.members.saturating_add(of_shard.members);
            sum.adaptations = sum.adaptations.saturating_add(of_shard.adaptations);
            sum.fingerprints += of_shard.fingerprints;
            sum.extension_slots += of_shard.extension_slots;
            sum.bytes += of_shard.bytes;
        }
        sum.load = (sum.fingerprints + sum.extension_slots) as f64 / slots as f64;
        // A random query is as likely to ask one shard as another.
        sum.expected_rate = rates / self.shards.len() as f64;
        sum
    }

    /// Visits all entries, in hash order, with fingerprints of the whole. Writers of a shard
    /// wait while its entries are visited.
    ///
    /// Fingerprints of different shards can have quotients of differently many slots: compare
    /// their [`hashes`](crate::Fingerprint::hashes).
    ///
    /// `visit` must not use this filter: it would wait for itself.
    ///
    /// ```
    /// # use twiceshy::{AdaptiveQuotientFilter, Hash};
    /// let filter = AdaptiveQuotientFilter::builder().slots(100).shards(4).build_concurrent()?;
    /// let hashes = [1, 2, 3].map(|number| Hash::from_u128(number << 126));
    /// filter.insert_many(&hashes)?;
    /// let mut entries = Vec::new();
    /// filter.for_each(|entry| entries.push(entry));
    /// assert!(entries[2].fingerprint.hashes().contains(&hashes[2]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn for_each(&self, mut visit: impl FnMut(Entry)) {
        for (number, shard) in self.shards.iter().enumerate() {
            for entry in shard.read().iter() {
                let fingerprint = self.sharding.outer_fingerprint(number, entry.fingerprint);
                visit(Entry { fingerprint, ..entry });
            }
        }
    }

    /// Checks every invariant of every shard; see [`AdaptiveQuotientFilter::validate`].
    ///
    /// # Errors
    /// Says which invariant is broken.
    pub fn validate(&self) -> Result<(), Invalid> {
        for (number, shard) in self.shards.iter().enumerate() {
            let filter = shard.read();
            let valid = filter.validate().and_then(|()| self.check_shard(number, &filter));
            valid.map_err(|Invalid(what)| Invalid(format!("{what}, in shard {number}")))?;
        }
        Ok(())
    }

    /// Checks that a filter that is valid by itself is as this shard.
    fn check_shard(&self, number: usize, filter: &AdaptiveQuotientFilter) -> Result<(), Invalid> {
        if filter.hash_scheme() != self.hash {
            return Err(Invalid("its hashes are of another function".into()));
        }
        let outer = |entry: Entry| self.sharding.outer_fingerprint(number, entry.fingerprint);
        match filter.iter().find(|&entry| outer(entry).checked_hashes().is_none()) {
            Some(entry) => Err(Invalid(format!("{:?} is no hash's", outer(entry)))),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for ConcurrentAdaptiveQuotientFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConcurrentAdaptiveQuotientFilter")
            .field("shards", &self.shards.len())
            .field("statistics", &self.statistics())
            .finish_non_exhaustive()
    }
}
