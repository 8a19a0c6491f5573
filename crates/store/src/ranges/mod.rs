//! The range store.

mod admit;
mod key;
mod mistakes;
mod open;
mod read;
mod rebuild;
mod repair;
mod write;

use crate::backend::Backend;
use crate::error::Result;
use crate::sizing::Sizing;
use crate::stats::{Counters, Stats};
use crate::storage::{Storage, impl_upkeep};
use crate::stripes::{Locked, Stripes};
use key::{Number, Span};
use mistakes::Mistakes;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use twiceshy::{
    AdaptiveRangeFilter, Hash, Secret, SecretMode,
    range::{Partitions, RangeKey},
    snapshot::KeyedSnapshot,
};

pub use key::StoredKey;
pub use read::RangePairs;

/// An embedded store of keys in order, with an adaptive filter in front. A query for an empty range reads
/// the disk only if the filter is wrong about it. The mistake is then repaired.
///
/// Keys are numbers of some kind: integers, addresses, times, or your own ([`StoredKey`]).
///
/// # Guarantees
/// - An acknowledged put is there, and an acknowledged delete is done, as far as the
///   [durability](crate::OpenOptions::durability) reaches. The filter never misses a key.
/// - A range that was a mistake and was repaired stays repaired while it is one of those that are
///   [kept](crate::OpenOptions::mistakes_kept): across puts and deletes of other keys, growth, closing
///   and crashes. If a key is put into the range, the parts before and after it stay repaired. A key
///   that was put and deleted again may be a mistake once more.
/// - A range takes at most four of the places for mistakes. If it has more than four partitions, only
///   partitions that the filter was wrong about are kept. Such a range may be a mistake again when a new
///   key collides with one of the others.
/// - The filter is asked about ranges of up to 64 times the
///   [longest](crate::OpenOptions::longest_range) length that was planned for. Longer ones go to the
///   disk, because the filter would almost always say "maybe".
/// - A backend has one store at a time. Opening a second one fails.
/// - All operations take `&self`. Operations on one key happen one after the other.
///
/// # How it works
/// The store works as a [`Store`](crate::Store) of the split layout does, but it hashes keys by
/// partition, as the filter does. So members that the filter could confuse are neighbours in the reverse
/// map. A put goes to the filter first and then to the backend, and a delete goes the other way round. If
/// one fails in between, the filter has a *ghost*, which the next repair there clears.
///
/// A mistake is kept as a span of numbers that is known to be empty. Adjacent spans of a partition are
/// joined. If a new key collides with a span, the filter takes the key and repairs the span in one step,
/// so that no lookup sees the mistake.
///
/// The filter lives in memory. It is saved when the store is closed, and loaded when the store is opened,
/// if nothing was written since. Otherwise opening rebuilds it from the reverse map, in one pass.
///
/// # Examples
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("readings");
/// use twiceshy_store::OpenOptions;
/// let readings = OpenOptions::new().longest_range(60).open_ranges::<u64>(&path)?;
/// readings.put(1_700_000_000, b"21.5")?;
/// readings.put(1_700_000_042, b"21.7")?;
///
/// assert!(!readings.range_is_empty(1_700_000_030..1_700_000_060)?);
/// assert!(readings.range_is_empty(1_800_000_000..1_800_000_060)?); // usually without a disk read
/// let (key, value) = readings.range(1_700_000_001..)?.next().unwrap()?;
/// assert_eq!((key, &*value), (1_700_000_042, &b"21.7"[..]));
/// readings.close()?;
/// # Ok(())
/// # }
/// ```
pub struct RangeStore<K: StoredKey, B: Backend> {
    storage: Storage<B>,
    filter: RwLock<Current<K>>,
    /// Whether the filter was restored, is new, or was rebuilt completely. Only then it is saved. False
    /// while the store is being opened, and if that fails.
    is_ready: bool,
    stripes: Stripes<Mistakes>,
    /// The number of mistakes in all stripes.
    mistakes: AtomicUsize,
    mistakes_kept: usize,
    partitions: Partitions<Number<K>>,
    sizing: Sizing,
    secret: Secret,
    /// Whether mistakes are repaired.
    repairs: bool,
    counters: Counters,
}

impl_upkeep!([K: StoredKey, B: Backend] RangeStore<K, B>, storage);

type Filter<K> = AdaptiveRangeFilter<Number<K>>;

/// A filter, which is used until it is replaced.
struct Current<K: RangeKey> {
    filter: Filter<K>,
    /// The number of members that the filter is planned for.
    capacity: usize,
    /// The number of filters before this one.
    generation: u64,
}

/// The most partitions of a range that the filter is asked about. In a longer range, some partitions would
/// be mistakes again and again, and asking about all partitions would take as long as a disk read.
const MOST_PARTITIONS: u128 = 64;

/// How many pieces of one query are kept as mistakes, so that no query displaces many others. A range of
/// the planned length has one or two pieces.
const MOST_KEPT: usize = 4;

impl<K: StoredKey, B: Backend> RangeStore<K, B> {
    /// Returns what the store has done since it was opened, and the state of its filter. A range query
    /// counts as one lookup, as a lookup of a key does.
    pub fn stats(&self) -> Stats {
        let (members, filter_bytes, load) = {
            let filter = &self.filter().filter;
            (filter.len() as u64, filter.stats().memory, filter.load())
        };
        let mistakes = self.mistakes.load(Ordering::Relaxed) as u64;
        Stats { mistakes, members, filter_bytes, load, ..self.counters.stats() }
    }

    /// Returns the length of the longest range that the false-positive rate holds for.
    pub fn longest_range(&self) -> u64 {
        self.partitions.longest_range()
    }

    fn finish(&mut self) -> Result<()> {
        // After a panic, the filter may be half changed.
        let is_exact = self.is_ready && !self.stripes.is_poisoned();
        let filter = &self.filter;
        self.storage.close(is_exact, |file| {
            let current = filter.read().unwrap_or_else(PoisonError::into_inner);
            current.filter.save(file, SecretMode::Omit)
        })
    }

    /// Locks the filter for reading. The lock is never held while the backend is asked, or while a
    /// stripe is locked.
    fn filter(&self) -> RwLockReadGuard<'_, Current<K>> {
        self.filter.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn filter_mut(&self) -> RwLockWriteGuard<'_, Current<K>> {
        self.filter.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the hash of a number's partition.
    fn hash(&self, number: u128) -> Hash {
        self.partitions.hash_of(Number::new(number))
    }

    /// Cuts a span into pieces of one partition each.
    fn pieces(&self, span: Span) -> impl Iterator<Item = Span> + use<K, B> {
        span.pieces(self.memento_bits())
    }

    fn memento_bits(&self) -> u32 {
        self.partitions.longest_range().ilog2()
    }

    /// Locks all partitions that the filter could confuse with those of some numbers. While they are
    /// locked, no other thread writes or repairs there, and the filter is not replaced.
    fn lock(&self, numbers: &[u128]) -> Locked<'_, Mistakes> {
        loop {
            let current = self.filter();
            let generation = current.generation;
            let suspects = |&number: &u128| current.filter.suspects(Number::new(number));
            let suspects: SmallVec<[_; 2]> = numbers.iter().map(suspects).collect();
            drop(current);
            let locked = self.stripes.lock(suspects);
            if self.filter().generation == generation {
                return locked;
            }
        }
    }
}

impl<K: StoredKey, B: Backend> Drop for RangeStore<K, B> {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}
