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
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use key::{Number, Span};
use mistakes::{BYTES_PER_MARK, BYTES_PER_SPAN, Mistakes};
use rebuild::Failure;
use smallvec::SmallVec;
use std::sync::PoisonError;
use twiceshy::{
    AdaptiveRangeFilter, Hash, Secret, SecretMode,
    range::{Partitions, RangeKey},
    snapshot::KeyedSnapshot,
};

pub use key::StoredKey;
pub use read::RangePairs;

/// An embedded store of keys in order, with an adaptive filter in front. A query for an empty range reads the
/// disk only if the filter takes the range for non-empty by mistake. The mistake is then repaired.
///
/// Keys are numbers of some kind: integers, addresses, times, or your own ([`StoredKey`]).
///
/// # Guarantees
/// - Acknowledged puts and deletes survive the failures that the [durability](crate::OpenOptions::durability)
///   covers. The filter never misses a key.
/// - A range that was a mistake and was repaired stays repaired while it is one of those that are
///   [kept](crate::OpenOptions::mistakes_kept): across puts and deletes of other keys, growth and closing.
///   If a key is put into the range, the parts before and after it stay repaired. A key that was put and
///   deleted again, or whose put has failed, may become a mistake again. A kill may lose the repairs of the
///   last mistakes, or their records.
/// - A lookup writes nothing to the backend, and rebuilds nothing. It waits for no rebuild, and for no other
///   operation's call of the backend, but briefly for a change of the filter. If a repair can't be made
///   immediately, because another thread writes near it or because the filter has no room, it is
///   [skipped](Stats::repairs_skipped), until the mistake recurs. The next put or delete makes room by
///   rebuilding the filter, and so does [`rebuild`](Self::rebuild).
/// - A range counts as at most four of the kept mistakes. If it has more than four partitions, only
///   partitions that the filter was wrong about are kept. Such a range may become a mistake again when a new key
///   collides with one of the other partitions.
/// - The filter is asked about ranges of up to 64 times the planned
///   [longest](crate::OpenOptions::longest_range) length. Longer ranges are looked up on disk, because
///   the filter would almost always say "maybe".
/// - A backend has one store at a time. Opening a second one fails.
/// - All operations take `&self`. Operations on one key happen one after the other.
///
/// # How it works
/// The store works like a [`Store`](crate::Store) with the split layout, but it hashes keys by partition. So
/// members that the filter could confuse are neighbours in the reverse map. A put changes the filter first
/// and then the backend, and a delete changes the backend first. If an operation fails in between, the filter
/// has a *ghost*: a fingerprint without a key, which the next repair near it clears.
///
/// A mistake is kept as a span of numbers that is known to be empty. Adjacent spans of a partition are
/// joined. If a new key collides with a span, the filter takes the key and repairs the span in one step,
/// so that no lookup sees the mistake.
///
/// Kept mistakes are in memory. Each has a record in the backend, which is written without a sync, by a later
/// put or delete, by [`sync`](Self::sync), or by [`close`](Self::close).
///
/// The filter lives in memory. It is saved when the store is closed, and loaded when the store is opened,
/// if no key was written since. Otherwise opening rebuilds it from the reverse map, in one pass.
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
    /// Whether the filter is complete, because it was restored, is new, or was rebuilt. An incomplete filter
    /// isn't saved. This is false while the store is being opened, and after opening failed.
    is_ready: bool,
    stripes: Stripes<Mistakes>,
    /// The number of mistakes in all stripes.
    mistakes: AtomicUsize,
    /// The number of outdated records of mistakes.
    marked: AtomicUsize,
    mistakes_kept: usize,
    partitions: Partitions<Number<K>>,
    sizing: Sizing,
    secret: Secret,
    /// Whether mistakes are repaired.
    repairs: bool,
    /// Whether the filter has changed since it was restored.
    is_outdated: AtomicBool,
    /// The generation of a filter that repairs have filled, plus one; 0 if there is no such filter.
    due: AtomicU64,
    /// The last rebuild, if it has failed.
    failure: Mutex<Option<Failure>>,
    /// Bytes of memory of the filter that is being built.
    rebuild_bytes: AtomicU64,
    counters: Counters,
}

impl_upkeep!([K: StoredKey, B: Backend] RangeStore<K, B>, storage, |store| {
    // A failure loses nothing, because the records are written later.
    let _ = store.flush_records();
});

type Filter<K> = AdaptiveRangeFilter<Number<K>>;

/// The current filter.
struct Current<K: RangeKey> {
    filter: Filter<K>,
    /// The number of members that the filter is planned for.
    capacity: usize,
    /// The number of filters that were used before this one.
    generation: u64,
}

/// The maximum number of partitions in a range that the filter is asked about. In a longer range, some
/// partitions would be mistakes every time, and asking about all partitions would take as long as a disk
/// read.
const MOST_PARTITIONS: u128 = 64;

/// The maximum number of pieces of one query that are kept as mistakes, so that no query displaces many other
/// mistakes. A range of the planned length has one or two pieces.
const MOST_KEPT: usize = 4;

impl<K: StoredKey, B: Backend> RangeStore<K, B> {
    /// Returns counters of the store's operations since it was opened, and the state of its filter.
    /// A range query counts as one lookup. [`list_bytes`](Stats::list_bytes) is the memory of the
    /// kept mistakes.
    pub fn stats(&self) -> Stats {
        let (filter, generation) = {
            let current = self.filter();
            (current.filter.stats(), current.generation)
        };
        let [mistakes, marked] =
            [&self.mistakes, &self.marked].map(|count| count.load(Ordering::Relaxed));
        let counters = self.counters.stats();
        Stats {
            mistakes: mistakes as u64,
            list_bytes: (mistakes * BYTES_PER_SPAN + marked * BYTES_PER_MARK) as u64,
            members: filter.members as u64,
            filter_bytes: filter.memory,
            upkeep_bytes: counters.upkeep_bytes + self.stripes.memory(),
            rebuild_bytes: self.rebuild_bytes.load(Ordering::Relaxed),
            expected_rate: filter.expected_rate,
            load: filter.load,
            shards_due: usize::from(self.due.load(Ordering::Relaxed) == generation + 1),
            ..counters
        }
    }

    /// Returns the length of the longest range that the false-positive rate holds for.
    pub fn longest_range(&self) -> u64 {
        self.partitions.longest_range()
    }

    fn finish(&mut self) -> Result<()> {
        // Save the filter only if the records of its repairs are written.
        let has_records = self.is_ready && self.flush_records().is_ok();
        // After a panic, the filter may be half changed, so don't save it.
        let is_exact = has_records && !self.stripes.is_poisoned();
        let is_outdated = self.is_outdated.load(Ordering::Acquire);
        let filter = &self.filter;
        self.storage.close(is_exact, is_outdated, |file| {
            let current = filter.read().unwrap_or_else(PoisonError::into_inner);
            current.filter.save(file, SecretMode::Omit)
        })
    }

    /// Locks the filter for reading. Don't hold this lock while you use the backend or lock a
    /// stripe.
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

    /// Locks like [`lock`](Self::lock), but returns `None` if another thread holds a stripe, or has replaced
    /// the filter.
    fn try_lock(&self, numbers: &[u128]) -> Option<Locked<'_, Mistakes>> {
        let current = self.filter();
        let generation = current.generation;
        let suspects = |&number: &u128| current.filter.suspects(Number::new(number));
        let suspects: SmallVec<[_; 2]> = numbers.iter().map(suspects).collect();
        drop(current);
        let locked = self.stripes.try_lock(suspects)?;
        (self.filter().generation == generation).then_some(locked)
    }
}

impl<K: StoredKey, B: Backend> Drop for RangeStore<K, B> {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}
