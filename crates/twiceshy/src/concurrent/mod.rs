//! A filter for many threads, made of shards.

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
mod snapshot;

use crate::error::{InsertError, Invalid, RemoveError};
use crate::sync::{RwLockReadGuard, RwLockWriteGuard};
use crate::traits::filter_traits;
use crate::{Hash, Stats};
use core::fmt;
use locked::Locked;
pub use rebuild::{RebuildError, Replacement};
pub use shard::{Fill, PlainShard, Shard, ShardPlan};
use sharding::Sharding;

/// A filter that many threads can use at the same time, because every operation takes `&self`.
///
/// # Guarantees
/// - It gives the same guarantees as the filters that are its shards.
/// - Each operation on one hash is atomic: once an insert has returned, no thread is told that the
///   key is absent.
/// - Claims also protect members against other threads: if another thread changes the members near
///   a claim, the claim is stale, and a repair with it is refused.
/// - Operations on all shards, such as [`len`](Self::len) and batches, see each shard at a
///   different instant.
///
/// A store must insert a key into the filter before it stores the key. It must delete a stored key
/// before it removes the key from the filter. That way the filter always holds every key that the
/// store can list, and it refuses a listing that doesn't match.
///
/// # How it works
/// The first bits of a hash choose one of 2^k shards. A hash is a fraction, so a shard is an
/// interval of hashes. Each shard is a separate filter with its own lock. Claims, fingerprints and
/// errors always use hashes of the whole filter, never those of a shard.
///
/// If the filter [may grow](crate::builder::Builder::build_concurrent), a full shard of a quotient
/// filter doubles by itself, unless it was rebuilt with [fresh remainders](ShardPlan::fresh). Only
/// threads that need that shard wait for it.
///
/// Lookups share a shard's lock with each other, but wait for threads that write to the shard.
///
/// # Examples
/// ```
/// use twiceshy::{QuotientFilter, Hash};
/// let filter = QuotientFilter::builder().capacity(10_000).build_concurrent()?;
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
/// # Ok::<(), twiceshy::error::BuildError>(())
/// ```
pub struct Concurrent<F> {
    sharding: Sharding,
    shards: Box<[Locked<F>]>,
}

/// The methods of [`Filter`](crate::Filter) and [`Dynamic`](crate::Dynamic), with `&self`. Each
/// method returns the same errors as in the trait.
#[expect(clippy::missing_errors_doc, reason = "said once, above")]
impl<F: PlainShard> Concurrent<F> {
    /// Returns a filter made of these shards, in hash order. Their number must be a power of two.
    fn of(filters: Vec<F>) -> Self {
        let sharding = Sharding::at_least(filters.len());
        Self { sharding, shards: filters.into_iter().map(Locked::new).collect() }
    }

    /// Locks the shard of a hash for reading. Returns the shard, and the hash converted to a hash
    /// inside it.
    ///
    /// All lookups of a single hash use this method. A lock-free lookup would also belong here.
    #[inline]
    fn read(&self, hash: Hash) -> (RwLockReadGuard<'_, F>, Hash) {
        (self.shards[self.shard_of(hash)].read(), self.sharding.inner(hash))
    }

    /// Locks the shard of a hash for writing. Returns the shard, and the hash converted to a hash
    /// inside it.
    #[inline]
    fn write(&self, hash: Hash) -> (RwLockWriteGuard<'_, F>, Hash) {
        (self.shards[self.shard_of(hash)].write(), self.sharding.inner(hash))
    }

    /// Calls `look` with a shard. `look` must not use this filter, or it would deadlock.
    fn with_shard<T>(&self, shard: usize, look: impl FnOnce(&F) -> T) -> T {
        look(&self.shards[shard].read())
    }

    /// Inserts a member.
    #[inline]
    pub fn insert(&self, hash: Hash) -> Result<(), InsertError> {
        let (mut filter, inner) = self.write(hash);
        filter.insert(inner).map_err(|error| self.outer_error(self.sharding.shard(hash), error))
    }

    /// Removes one copy of a key that the caller *knows* to be a member; see
    /// [`Dynamic::remove_trusting`](crate::Dynamic::remove_trusting).
    pub fn remove_trusting(&self, hash: Hash) -> Result<(), RemoveError> {
        let (mut filter, hash) = self.write(hash);
        filter.remove_trusting(hash)
    }

    /// Returns whether a key with this hash may be a member. The answer `false` is certain.
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

    filter_traits!(@is_empty);

    /// Returns the members, memory use, load and expected false-positive rate over all shards.
    pub fn stats(&self) -> Stats {
        let mut sum = Stats { memory: Self::overhead(self.shards.len()), ..Stats::default() };
        let (mut slots, shards) = (0.0, self.shards.len() as f64);
        for shard in &self.shards {
            let filter = shard.read();
            let (of_shard, slots_of_shard) = (filter.stats(), filter.fill().slots as f64);
            drop(filter);
            sum.members = sum.members.saturating_add(of_shard.members);
            sum.memory += of_shard.memory;
            sum.repairs = sum.repairs.saturating_add(of_shard.repairs);
            sum.load += of_shard.load * slots_of_shard;
            slots += slots_of_shard;
            // A random query is equally likely to go to any shard, so all shards have the same
            // weight.
            sum.expected_rate += of_shard.expected_rate / shards;
        }
        sum.load /= slots;
        sum
    }

    /// Returns the number of bytes that the shards take in addition to their filters.
    fn overhead(shards: usize) -> u64 {
        size_of::<Self>() as u64 + shards as u64 * Locked::<F>::OVERHEAD
    }

    /// Checks every invariant of every shard.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.check_shards(F::validate)
    }

    /// Calls `check` with each shard, and checks that the shard's fingerprints belong to it.
    fn check_shards(&self, check: impl Fn(&F) -> Result<(), Invalid>) -> Result<(), Invalid> {
        for (number, shard) in self.shards.iter().enumerate() {
            let shard = shard.read();
            let checked = check(&shard).and_then(|()| shard.check_as_shard(number, self.sharding));
            checked.map_err(|Invalid(what)| Invalid(format!("{what}, in shard {number}")))?;
        }
        Ok(())
    }
}

filter_traits!([F: PlainShard] Concurrent<F>, Concurrent<F>: Filter);

// The traits that change a filter take `&mut self`. They are implemented for references, like
// `Write` for `&File`, so that generic code can share the filter.
filter_traits!([F: PlainShard] &Concurrent<F>, Concurrent<F>: Filter Dynamic);
filter_traits!([F: Shard] &Concurrent<F>, Concurrent<F>: Adaptive);

impl<F: PlainShard> fmt::Debug for Concurrent<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Concurrent")
            .field("shards", &self.shards.len())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
