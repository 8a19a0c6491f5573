//! The guarded store of ranges.

mod admit;
mod build;
mod key;
mod mistakes;
mod open;
mod read;
mod repair;
mod upkeep;
mod write;

use crate::backend::{Backend, BackendClaim, Durability};
use crate::counters::Counters;
use crate::filter::Shape;
use crate::saved::Saved;
use crate::stripes::{Locked, Stripes};
use key::{Number, Span};
use mistakes::Mistakes;
use smallvec::SmallVec;
use std::sync::atomic::AtomicUsize;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use twiceshy::{AdaptiveRangeFilter, Hash, Partitions, RangeKey, Secret};

pub use key::StoredKey;
pub use open::RangeOptions;
pub use read::RangePairs;

/// An embedded store of keys in order, with an adaptive filter in front: a question for an empty
/// range reads no disk, unless the filter is wrong about it; after such a mistake, the filter knows
/// better.
///
/// Keys are numbers of some kind: integers, addresses, times, or your own ([`StoredKey`]).
///
/// # What holds
/// - A put that was acknowledged is there, a delete is done, whatever happens, as far as the
///   durability that was asked for reaches; and the filter never misses a key.
/// - A range that was a mistake, and was repaired, stays repaired: across deletes and puts of
///   other keys, growth, closing and crashes, as long as it is one of those that are
///   [kept](RangeOptions::mistakes_kept). If a key comes into the range, the parts before and after
///   it stay repaired. A key that is deleted may be a mistake again, once.
/// - One range takes at most four of the places for mistakes. Of a range of more than four
///   partitions, only the partitions that the filter was wrong about are kept: such a range may be
///   a mistake again when a new key collides with one of the others.
/// - Ranges of up to 64 times the [longest](RangeOptions::longest_range) that was planned for are
///   looked for in the filter; longer ones would almost always be in vain, and go to the disk.
/// - A backend has one store at a time: opening a second one fails.
/// - All operations take `&self`. Those on one key happen one after the other.
///
/// # How it works
/// As in a [`GuardedStore`](crate::GuardedStore) of the split layout, but keys are hashed by
/// partition, as the filter hashes them: in the reverse map, members that the filter could confuse
/// are neighbours. A put goes to the filter first, then to the backend, and a delete the other way
/// round. If one fails in between, the filter has a *ghost*, which the next repair there clears.
///
/// A mistake is kept as what is now known: that there is nothing from one number to another. What
/// is known of one partition is joined. A key that would bring some of it back is told apart in
/// the same moment in which the filter gets it, so that nobody sees the mistake.
///
/// The filter lives in memory. It is saved when the store is closed, and loaded when it is opened, if
/// nothing was written since; otherwise opening builds it from the reverse map, in one pass.
///
/// # Examples
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("readings");
/// use twiceshy_store::RangeOptions;
/// let readings = RangeOptions::new().longest_range(60).open::<u64>(&path)?;
/// readings.put(1_700_000_000, b"21.5")?;
/// readings.put(1_700_000_042, b"21.7")?;
///
/// assert!(!readings.range_is_empty(1_700_000_030..1_700_000_060)?);
/// assert!(readings.range_is_empty(1_800_000_000..1_800_000_060)?); // reads the disk at most once while the mistake is kept
/// let (key, value) = readings.range(1_700_000_001..)?.next().unwrap()?;
/// assert_eq!((key, &*value), (1_700_000_042, &b"21.7"[..]));
/// readings.close()?;
/// # Ok(())
/// # }
/// ```
pub struct RangeStore<K: StoredKey, B: Backend> {
    backend: B,
    _claim: BackendClaim,
    filter: RwLock<Current<K>>,
    /// Whether the filter was restored, is new, or was built completely: only then it is saved.
    /// False while the store is being opened, and if that fails.
    is_ready: bool,
    stripes: Stripes<Mistakes>,
    /// How many there are.
    mistakes: AtomicUsize,
    mistakes_kept: usize,
    partitions: Partitions<Number<K>>,
    shape: Shape,
    secret: Secret,
    durability: Durability,
    saved: Saved,
    /// Whether mistakes are repaired.
    repairs: bool,
    counters: Counters,
    /// Where a backup has the backend, in its directory.
    data: &'static str,
}

type Filter<K> = AdaptiveRangeFilter<Number<K>>;

/// The filter, until it is built again.
struct Current<K: RangeKey> {
    filter: Filter<K>,
    /// What it is planned for.
    capacity: usize,
    /// How many there were before it.
    generation: u64,
}

/// So many partitions of a range are looked for. Of more, some would be mistakes again and again,
/// and looking for all of them would take as long as the disk.
const MOST_PARTITIONS: u128 = 64;

/// How many pieces of one question are kept as mistakes, so that no question takes the place of
/// many others. A range of the length that was planned for has one or two.
const MOST_KEPT: usize = 4;

impl<K: StoredKey, B: Backend> RangeStore<K, B> {
    /// Never held while the backend is asked, or stripes are locked.
    fn filter(&self) -> RwLockReadGuard<'_, Current<K>> {
        self.filter.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn filter_mut(&self) -> RwLockWriteGuard<'_, Current<K>> {
        self.filter.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The hash of a number's partition.
    fn hash(&self, number: u128) -> Hash {
        self.partitions.hash_of(Number::new(number))
    }

    /// A span, partition by partition.
    fn pieces(&self, span: Span) -> impl Iterator<Item = Span> + use<K, B> {
        span.pieces(self.memento_bits())
    }

    fn memento_bits(&self) -> u32 {
        self.partitions.longest_range().ilog2()
    }

    /// Holds all partitions that the filter could confuse with those of some numbers: until that is
    /// dropped, nobody else writes or repairs there, and the filter is not built again.
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
