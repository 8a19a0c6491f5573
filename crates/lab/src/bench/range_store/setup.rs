//! The setups: ordered stores that differ in their range filters.

use crate::contestant::range::{Keys, RangeContestant, RangeKind, RangeShape};
use std::ops::Bound::Included;
use std::path::Path;
use std::sync::{Arc, Mutex};
use twiceshy::{AdaptiveRangeFilter, Secret};
use twiceshy_store::backend::{Bounds, Observed};
use twiceshy_store::{
    Backend, Batch, Durability, FjallBackend, FjallOptions, Keyspace, MemoryBackend, OpenOptions,
    RangeStore,
};
use twiceshy_workloads::key;

/// Size of a value in bytes, as in the Aeris paper.
const VALUE_BYTES: usize = 504;

/// The size of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// The shape of the filters. The planned rate determines the remainder bits.
    pub(crate) shape: RangeShape,
    /// The size of the engine's block cache in bytes. The memory of our filter is not included.
    pub(crate) cache_bytes: u64,
}

impl Size {
    /// The size of a key and its value in bytes.
    pub(crate) const PAIR_BYTES: u64 = 8 + VALUE_BYTES as u64;

    /// Opens an empty adaptive store.
    fn store<B: Backend>(&self, backend: B) -> RangeStore<u64, B> {
        let RangeShape { slots, longest_range, remainder_bits, seed, .. } = self.shape;
        let rate = f64::from(remainder_bits).exp2().recip();
        // Find the number of members for which a store would plan `slots` slots.
        let filter = AdaptiveRangeFilter::<u64>::builder().longest_range(longest_range);
        let plan = filter.false_positive_rate(rate).slots(slots).plan().expect("a possible filter");
        OpenOptions::new()
            .capacity(plan.capacity)
            .false_positive_rate(rate)
            .longest_range(longest_range)
            .secret(Secret::from_bytes(u128::from(seed).to_le_bytes()))
            .open_ranges_with(backend, None)
            .expect("a new store")
    }
}

/// The filter that a store asks before it reads its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Our store. It has the Aeris filter, and a reverse map on disk.
    Adaptive,
    /// The Aeris filter without repairs and without a reverse map.
    Memento,
    Grafite,
    /// A set of truncated keys that takes as much memory as `Memento`.
    Truncated,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] =
        [Self::Adaptive, Self::Memento, Self::Grafite, Self::Truncated];

    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Adaptive => "adaptive",
            Self::Memento => "memento",
            Self::Grafite => "grafite",
            Self::Truncated => "fst-truncated",
        }
    }

    /// Builds the filter. Returns `None` for the adaptive store, which builds its own.
    fn filter(self, size: &Size, sorted: &[u64]) -> Option<Box<dyn RangeContestant>> {
        // A range can touch two partitions, so our filter needs one more bit for the same rate.
        let remainder_bits = size.shape.remainder_bits + 1;
        let ours = RangeShape { remainder_bits, ..size.shape };
        let (kind, shape) = match self {
            Self::Adaptive => return None,
            Self::Memento => (RangeKind::Memento, ours),
            Self::Grafite => (RangeKind::Grafite, size.shape),
            Self::Truncated => (RangeKind::FstTruncated, ours),
        };
        Some(kind.filled(&shape, sorted).expect("memory for a filter"))
    }
}

/// A store with all its keys.
pub(crate) struct Setup {
    guard: Guard,
    asked: Arc<Mutex<Asked>>,
    cache_bytes: u64,
}

type Disk = Observed<FjallBackend>;

enum Guard {
    Store(Box<RangeStore<u64, Disk>>),
    Filter { filter: Box<dyn RangeContestant>, disk: Box<Disk> },
}

/// The queries that reached the disk.
#[derive(Default)]
pub(crate) struct Asked {
    /// The first keys of the ranges for which the filter answered "maybe".
    pub(crate) ranges: Vec<u64>,
    /// The number of intervals that were read from the reverse map.
    pub(crate) listed: u64,
}

impl Setup {
    /// Creates the store in a directory, and fills it with sorted keys. If the filter is smaller
    /// than that of our store, the cache gets the difference, so that all setups have the same
    /// memory.
    pub(crate) fn new(kind: Kind, directory: &Path, size: &Size, sorted: &[u64]) -> Self {
        let filter = kind.filter(size, sorted);
        let ours = size.store(MemoryBackend::new()).stats().filter_bytes;
        let taken = filter.as_ref().map_or(ours, |filter| filter.bits() / 8);
        let cache_bytes = (size.cache_bytes + ours).saturating_sub(taken);
        let asked = Arc::default();
        let disk = observed(engine(directory, cache_bytes), &asked);
        let guard = match filter {
            None => Guard::Store(Box::new(size.store(disk))),
            Some(filter) => Guard::Filter { filter, disk: Box::new(disk) },
        };
        let setup = Self { guard, asked, cache_bytes };
        setup.fill(sorted);
        setup.asked();
        setup
    }

    /// Inserts the keys and compacts, so that no background work is left.
    fn fill(&self, sorted: &[u64]) {
        let done = match &self.guard {
            Guard::Store(store) => {
                store.put_many(sorted.iter().map(|&key| (key, value(key)))).expect("room");
                store.compact().map_err(|error| error.to_string())
            }
            Guard::Filter { disk, .. } => {
                for keys in sorted.chunks(1024) {
                    let mut batch = Batch::new();
                    for key in keys {
                        batch.insert(Keyspace::Keys, key.to_be_bytes(), value(*key));
                    }
                    disk.write(&batch, Durability::Buffered).expect("room on the disk");
                }
                disk.compact().map_err(|error| error.to_string())
            }
        };
        done.expect("room on the disk");
    }

    /// Returns whether a range is empty.
    pub(crate) fn is_empty(&self, range: &Keys) -> bool {
        match &self.guard {
            Guard::Store(store) => {
                store.range_is_empty(range.clone()).expect("a disk that can be read")
            }
            Guard::Filter { filter, disk } => !filter.contains(range) || has_none(disk, range),
        }
    }

    /// Returns and resets the queries that reached the disk.
    pub(crate) fn asked(&self) -> Asked {
        std::mem::take(&mut *self.asked.lock().expect("no panic"))
    }

    /// Returns the load of our filter.
    pub(crate) fn load(&self) -> Option<f64> {
        match &self.guard {
            Guard::Store(store) => Some(store.stats().load),
            Guard::Filter { .. } => None,
        }
    }

    /// Returns the number of mistakes kept in memory for rebuilding the filter.
    pub(crate) fn mistakes(&self) -> u64 {
        match &self.guard {
            Guard::Store(store) => store.stats().mistakes,
            Guard::Filter { .. } => 0,
        }
    }

    pub(crate) fn filter_bytes(&self) -> u64 {
        match &self.guard {
            Guard::Store(store) => store.stats().filter_bytes,
            Guard::Filter { filter, .. } => filter.bits() / 8,
        }
    }

    /// Returns the bytes of the filter and the block cache.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.filter_bytes() + self.cache_bytes
    }

    pub(crate) fn bytes_on_disk(&self) -> u64 {
        match &self.guard {
            Guard::Store(store) => store.bytes_on_disk().expect("a disk that can be read"),
            Guard::Filter { disk, .. } => disk.bytes_on_disk().expect("a disk that can be read"),
        }
    }
}

fn value(key: u64) -> [u8; VALUE_BYTES] {
    key::key(key)
}

fn engine(directory: &Path, cache_bytes: u64) -> FjallBackend {
    let mut options = FjallOptions::default();
    options.cache_bytes = cache_bytes;
    options.memtable_bytes = 4 << 20;
    // Keep the journal small, because the tables on disk contain the same data.
    options.journal_bytes = 64 << 20;
    FjallBackend::open(directory, options).expect("a directory of its own")
}

fn observed(engine: FjallBackend, asked: &Arc<Mutex<Asked>>) -> Disk {
    let asked = Arc::clone(asked);
    Observed::new(engine, |_, _| {}).on_range(move |space, (first, _)| {
        let mut asked = asked.lock().expect("no panic");
        match (space, first) {
            (Keyspace::Keys, Included(first)) => {
                let first = first.try_into().expect("keys of 8 bytes");
                asked.ranges.push(u64::from_be_bytes(first));
            }
            (Keyspace::Members, _) => asked.listed += 1,
            _ => {}
        }
    })
}

fn has_none(disk: &Disk, range: &Keys) -> bool {
    let [first, last] = [range.start(), range.end()].map(|key| key.to_be_bytes());
    let bounds: Bounds<'_> = (Included(&first), Included(&last));
    let pair = disk.range(Keyspace::Keys, bounds).next();
    pair.transpose().expect("a disk that can be read").is_none()
}
