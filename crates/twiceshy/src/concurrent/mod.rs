//! One filter for many threads, made of shards.

mod builder;
mod claims;
mod coded;
mod keyed;
mod locked;
mod many;
mod quotient;
mod rebuild;
mod shard;
mod sharding;
mod traits;

use crate::error::{InsertError, Invalid, RemoveError};
use crate::{Hash, HashScheme};
use core::fmt;
use locked::Locked;
pub use shard::{Shard, ShardSize, ShardState};
pub(crate) use sharding::Sharding;
use std::sync::{RwLockReadGuard, RwLockWriteGuard};

/// A filter that many threads use at once: every operation takes `&self`.
///
/// # Guarantees
/// - Everything that the filter of its shards guarantees. Each operation on one hash happens at one
///   instant for all threads: once an insert has returned, no thread is told that the key is absent.
/// - Claims protect members against other threads, too: a change of the members near a claim makes
///   it stale, and a repair by it is refused.
/// - Operations that add up shards ([`len`](Self::len), batches) see each shard at a different
///   instant.
///
/// A store inserts a key into the filter first, and then into itself; it removes a key from itself
/// first, and then from the filter. So the filter always holds what can be listed, and a list that
/// doesn't match is refused.
///
/// # How it works
/// The first bits of a hash choose one of 2^k shards. A hash is a fraction, so a shard is an interval
/// of hashes. Each shard is a filter of its own behind its own lock. Claims, fingerprints and errors
/// name the hashes of the whole filter, never those of a shard.
///
/// A full shard of a quotient filter doubles by itself, if the filter [may
/// grow](crate::Builder::build_concurrent); only threads that need that shard wait for it.
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
pub struct Concurrent<F> {
    sharding: Sharding,
    shards: Box<[Locked<F>]>,
    hash: HashScheme,
}

impl<F: Shard> Concurrent<F> {
    /// Returns a filter of these shards, in hash order: 2^k of them, and at least one.
    fn of(filters: Vec<F>) -> Self {
        let (sharding, hash) = (Sharding::at_least(filters.len()), filters[0].hash_scheme());
        Self { sharding, shards: filters.into_iter().map(Locked::new).collect(), hash }
    }

    /// Returns a filter of shards that are each valid.
    pub(crate) fn of_valid(filters: Vec<F>) -> Result<Self, Invalid> {
        let filter = Self::of(filters);
        filter.check_shards(|shard, number| shard.check_as_shard(number, filter.shards()))?;
        Ok(filter)
    }

    /// Locks the shard of a hash for reading; returns it, and the hash as it is there.
    ///
    /// All lookups of one hash go through here. A lookup without a lock would go here, too.
    #[inline]
    fn read(&self, hash: Hash) -> (RwLockReadGuard<'_, F>, Hash) {
        (self.shards[self.sharding.shard(hash)].read(), self.sharding.inner(hash))
    }

    /// Locks the shard of a hash for writing; returns it, and the hash as it is there.
    #[inline]
    fn write(&self, hash: Hash) -> (RwLockWriteGuard<'_, F>, Hash) {
        (self.shards[self.sharding.shard(hash)].write(), self.sharding.inner(hash))
    }

    /// Calls `look` with a shard. It must not use this filter: it would wait for itself.
    pub(crate) fn with_shard<T>(&self, shard: usize, look: impl FnOnce(&F) -> T) -> T {
        look(&self.shards[shard].read())
    }

    /// Inserts a member.
    ///
    /// # Errors
    /// If there is no room for it; nothing has changed then. After [`InsertError::Crowded`], list the
    /// members near it and call [`insert_listed`](Self::insert_listed).
    #[inline]
    pub fn insert(&self, hash: Hash) -> Result<(), InsertError> {
        let (mut filter, hash) = self.write(hash);
        filter.insert(hash)
    }

    /// Removes a key that is *known* to be a member, once. If it is not a member, another member
    /// that shares its fingerprint may be lost.
    ///
    /// # Errors
    /// If it is certainly not a member, or [`RemoveError::Ambiguous`] if only
    /// [`remove_listed`](Self::remove_listed) can tell; nothing has changed then.
    pub fn remove(&self, hash: Hash) -> Result<(), RemoveError> {
        let (mut filter, hash) = self.write(hash);
        filter.remove(hash)
    }

    /// Returns whether a key of this hash may be a member. "No" is certain.
    #[inline]
    pub fn contains(&self, hash: Hash) -> bool {
        let (filter, hash) = self.read(hash);
        filter.contains(hash)
    }

    /// Returns the number of members, each counted as often as it was inserted, or
    /// `usize::MAX` if there are more.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().len()).fold(0, usize::saturating_add)
    }

    /// Returns whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.read().is_empty())
    }

    /// Returns the share of slots in use, over all shards.
    pub fn load(&self) -> f64 {
        let (mut used, mut slots) = (0.0, 0.0);
        for shard in &self.shards {
            let filter = shard.read();
            let of_shard = filter.slots() as f64;
            used += filter.load() * of_shard;
            slots += of_shard;
        }
        used / slots
    }

    /// Returns the number of slots of a shard.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn shard_slots(&self, shard: usize) -> u64 {
        self.shards[shard].read().slots()
    }

    /// Returns the memory in use, in bytes.
    pub fn memory_usage(&self) -> u64 {
        let filters: u64 = self.shards.iter().map(|shard| shard.read().memory_usage()).sum();
        filters + Self::overhead(self.shards.len())
    }

    /// Returns the bytes that shards take besides their filters.
    fn overhead(shards: usize) -> u64 {
        size_of::<Self>() as u64 + shards as u64 * Locked::<F>::OVERHEAD
    }

    /// Checks every invariant of every shard.
    ///
    /// # Errors
    /// Says which invariant is broken.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.check_shards(|shard, number| {
            shard.validate()?;
            shard.check_as_shard(number, self.shards())?;
            if shard.hash_scheme() == self.hash {
                Ok(())
            } else {
                Err(Invalid("its hashes are of a different function".into()))
            }
        })
    }

    fn check_shards(
        &self,
        check: impl Fn(&F, usize) -> Result<(), Invalid>,
    ) -> Result<(), Invalid> {
        for (number, shard) in self.shards.iter().enumerate() {
            let checked = check(&shard.read(), number);
            checked.map_err(|Invalid(what)| Invalid(format!("{what}, in shard {number}")))?;
        }
        Ok(())
    }
}

impl<F: Shard> fmt::Debug for Concurrent<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Concurrent")
            .field("shards", &self.shards.len())
            .field("len", &self.len())
            .field("load", &self.load())
            .finish_non_exhaustive()
    }
}
