//! The setups: the engine alone, and the engine with our filter.

use super::super::random::Random;
use crate::bench::life::Counting;
use std::ops::Bound::Included;
use std::ops::Bound::Unbounded;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use twiceshy::Secret;
use twiceshy_store::backend::{Bounds, Observed};
use twiceshy_store::{
    Backend, Batch, Durability, FjallBackend, FjallOptions, Keyspace, Layout, MemoryBackend,
    OpenOptions, Stats, Store, StoreError,
};

pub(crate) type Key = [u8; 16];

/// Returns a key for a number. The keys are scattered, and those of members differ from all others.
pub(crate) fn key(number: u64, is_member: bool) -> Key {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&Random(number).next().to_be_bytes());
    key[8..].copy_from_slice(&(number << 1 | u64::from(is_member)).to_be_bytes());
    key
}

/// The size of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Planned number of pairs.
    pub(crate) pairs: usize,
    /// The size of the engine's block cache in bytes. The memory of our filter is not included.
    pub(crate) cache_bytes: u64,
    /// The seed of the hash. The same seed reproduces the same mistakes. If `None`, the hash is
    /// random.
    pub(crate) seed: Option<u64>,
}

impl Size {
    /// The size of a key and its value in bytes.
    pub(crate) const PAIR_BYTES: u64 = 32;
}

/// The filter that is asked before the engine's tables are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Nothing,
    /// The engine's own Bloom filters.
    Engine,
    /// Our filter without repairs.
    Plain,
    Adaptive,
    /// Like `Adaptive`, but the pairs are in key order, and the reverse map is separate.
    Split,
    /// Like `Adaptive`, but outside the filter, the store remembers hardly any mistakes.
    Forgetful,
}

impl Kind {
    /// The setups that the benchmark compares.
    pub(crate) const ALL: [Self; 5] =
        [Self::Nothing, Self::Engine, Self::Plain, Self::Adaptive, Self::Split];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Engine => "engine",
            Self::Plain => "plain",
            Self::Adaptive => "adaptive",
            Self::Split => "split",
            Self::Forgetful => "forgetful",
        }
    }

    /// Returns whether mistakes are repaired.
    pub(crate) fn repairs(self) -> bool {
        matches!(self, Self::Adaptive | Self::Split | Self::Forgetful)
    }

    fn is_guarded(self) -> bool {
        !matches!(self, Self::Nothing | Self::Engine)
    }

    fn store(self, size: &Size) -> OpenOptions {
        let layout = if self == Self::Split { Layout::Split } else { Layout::Merged };
        let mut options =
            OpenOptions::new().capacity(size.pairs).repairs(self.repairs()).layout(layout);
        if self == Self::Forgetful {
            options = options.mistakes_kept(1);
        }
        let secret = size.seed.map(|seed| Secret::from_bytes(u128::from(seed).to_le_bytes()));
        secret.map_or(options.clone(), |secret| options.secret(secret))
    }

    /// Returns the size of the engine's block cache. A setup without our filter gets all memory of
    /// a new adaptive store as cache.
    fn cache_bytes(self, size: &Size) -> u64 {
        if self.is_guarded() {
            return size.cache_bytes;
        }
        let store: Store<MemoryBackend> =
            Self::Adaptive.store(size).open_with(MemoryBackend::new(), None).expect("memory");
        size.cache_bytes + store.stats().memory()
    }

    /// Opens the engine in a directory, with an empty cache.
    pub(crate) fn engine(self, directory: &Path, size: &Size) -> FjallBackend {
        let mut engine = FjallOptions::default();
        engine.cache_bytes = self.cache_bytes(size);
        engine.memtable_bytes = 4 << 20;
        engine.bloom_filters = self == Self::Engine;
        FjallBackend::open(directory, engine).expect("a directory of its own")
    }

    /// Returns the keyspace that the filter is built from. If there is no filter, returns the only
    /// keyspace.
    pub(crate) fn scanned(self) -> Keyspace {
        if self.is_guarded() { Keyspace::Members } else { Keyspace::Keys }
    }
}

/// Reads all pairs of a keyspace, and returns their number.
pub(crate) fn scan(backend: &FjallBackend, space: Keyspace) -> usize {
    let pairs = backend.range(space, (Unbounded, Unbounded));
    pairs.inspect(|pair| assert!(pair.is_ok(), "a disk that can be read")).count()
}

/// Makes the repairs that wait, writes their records, and waits until no shard is due or being
/// rebuilt.
pub(crate) fn drain<B: Backend>(store: &Store<B>) {
    let is_busy = |stats: Stats| stats.shards_due > 0 || stats.rebuild_bytes > 0;
    store.tend().expect("a backend that can be read");
    while is_busy(store.stats()) {
        thread::sleep(Duration::from_micros(100));
    }
}

/// A store with or without our filter.
pub(crate) enum Setup {
    Bare {
        engine: Arc<FjallBackend>,
        cache_bytes: u64,
    },
    Guarded {
        store: Box<Store<Observed<Arc<Counting>>>>,
        engine: Arc<FjallBackend>,
        /// Counts how often each shard is rebuilt.
        counting: Arc<Counting>,
        /// The keys that were looked up in the backend.
        asked: Arc<Mutex<Vec<Key>>>,
        cache_bytes: u64,
    },
}

impl Setup {
    /// Opens a store. Our filter, if any, is built from the engine's data.
    pub(crate) fn over(engine: FjallBackend, kind: Kind, size: &Size) -> Self {
        let (engine, cache_bytes) = (Arc::new(engine), kind.cache_bytes(size));
        if !kind.is_guarded() {
            return Setup::Bare { engine, cache_bytes };
        }
        let asked = Arc::new(Mutex::default());
        let noted: Arc<Mutex<Vec<Key>>> = Arc::clone(&asked);
        let counting = Arc::new(Counting::new(Arc::clone(&engine) as _));
        let backend = Observed::new(Arc::clone(&counting), move |_, key| {
            // The last bytes are the key. In the merged layout, a part of the hash precedes it.
            if let Some(&key) = key.last_chunk() {
                noted.lock().expect("no panic").push(key);
            }
        });
        let store = kind.store(size).open_with(backend, None);
        let mut store: Store<_> = store.expect("a store");
        store.wait_until_ready().expect("a backend that can be read");
        counting.set_shards(store.stats().shards);
        Setup::Guarded { store: Box::new(store), engine, counting, asked, cache_bytes }
    }

    fn engine(&self) -> &FjallBackend {
        match self {
            Setup::Bare { engine, .. } | Setup::Guarded { engine, .. } => engine,
        }
    }

    fn stats(&self) -> Option<Stats> {
        match self {
            Setup::Bare { .. } => None,
            Setup::Guarded { store, .. } => Some(store.stats()),
        }
    }

    pub(crate) fn put(&self, key: &Key) {
        match self {
            Setup::Bare { engine, .. } => {
                let mut batch = Batch::new();
                batch.insert(Keyspace::Keys, key, key);
                engine.write(&batch, Durability::Buffered).expect("room on the disk");
            }
            Setup::Guarded { store, .. } => store.put(key, key).expect("room on the disk"),
        }
    }

    pub(crate) fn contains(&self, key: &Key) -> bool {
        match self {
            Setup::Bare { engine, .. } => {
                engine.get(Keyspace::Keys, key).expect("a disk that can be read").is_some()
            }
            Setup::Guarded { store, .. } => store.contains(key).expect("a disk that can be read"),
        }
    }

    /// Reads up to `most` pairs, beginning at `start`, and returns how many it read. Returns `None`
    /// if the pairs are not in key order.
    pub(crate) fn count_from(&self, start: &Key, most: usize) -> Option<usize> {
        let bounds: Bounds<'_> = (Included(start), Unbounded);
        match self {
            Setup::Bare { engine, .. } => {
                let pairs = engine.range(Keyspace::Keys, bounds).take(most);
                Some(pairs.inspect(|pair| assert!(pair.is_ok(), "a disk that can be read")).count())
            }
            Setup::Guarded { store, .. } => {
                let pairs = match store.range(bounds) {
                    Err(StoreError::Unordered) => return None,
                    pairs => pairs.expect("a disk that can be read").take(most),
                };
                Some(pairs.inspect(|pair| assert!(pair.is_ok(), "a disk that can be read")).count())
            }
        }
    }

    /// Returns the load of our filter, if there is one.
    pub(crate) fn load(&self) -> Option<f64> {
        self.stats().map(|stats| stats.load)
    }

    pub(crate) fn scans(&self) -> u64 {
        self.stats().map_or(0, |stats| stats.backend_scans)
    }

    /// Returns the number of members of our filter, if there is one.
    pub(crate) fn members(&self) -> Option<u64> {
        self.stats().map(|stats| stats.members)
    }

    /// Returns the number of repairs that were not made.
    pub(crate) fn skipped_repairs(&self) -> u64 {
        self.stats().map_or(0, |stats| stats.repairs_skipped)
    }

    /// Returns how often each shard of our filter was rebuilt, if there is one.
    pub(crate) fn rebuilds_of_shards(&self) -> Vec<f64> {
        match self {
            Setup::Bare { .. } => Vec::new(),
            Setup::Guarded { counting, .. } => counting.listings_of_shards(),
        }
    }

    /// Returns the memory of the engine besides its block cache, in bytes: memtables, and the
    /// filters and indexes of tables that the engine keeps in memory.
    pub(crate) fn engine_bytes(&self) -> u64 {
        self.engine().engine_memory_bytes()
    }

    /// Returns all memory of our store, the block cache and the rest of the engine, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let (Setup::Bare { cache_bytes, .. } | Setup::Guarded { cache_bytes, .. }) = self;
        let store = self.stats().map_or(0, |stats| stats.memory());
        store + cache_bytes + self.engine_bytes()
    }

    /// Returns and resets the keys that were looked up in the backend, if known.
    pub(crate) fn asked(&self) -> Option<Vec<Key>> {
        match self {
            Setup::Bare { .. } => None,
            Setup::Guarded { asked, .. } => {
                Some(std::mem::take(&mut *asked.lock().expect("no panic")))
            }
        }
    }

    /// Waits until no background work of our filter is left. Without our filter, there is none.
    pub(crate) fn drain(&self) {
        if let Setup::Guarded { store, .. } = self {
            drain(store);
        }
    }

    /// Writes what the engine has in memory to its tables.
    pub(crate) fn flush(&self) {
        match self {
            Setup::Bare { engine, .. } => engine.flush().expect("room on the disk"),
            Setup::Guarded { store, .. } => store.flush().expect("room on the disk"),
        }
    }

    /// Compacts the store, so that no background work is left.
    pub(crate) fn compact(&self) {
        match self {
            Setup::Bare { engine, .. } => engine.compact().expect("room on the disk"),
            Setup::Guarded { store, .. } => store.compact().expect("room on the disk"),
        }
    }
}
