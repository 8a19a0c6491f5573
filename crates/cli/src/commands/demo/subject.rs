//! A store whose disk reads are counted.

use super::results::Tally;
use anyhow::{Result, ensure};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use twiceshy::Secret;
use twiceshy_store::backend::Observed;
use twiceshy_store::{FjallBackend, FjallOptions, OpenOptions, Store};
use twiceshy_workloads::key::key;

const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 100;

/// The size of the data, divided by the size of the engine's block cache.
const CACHE_PART: u64 = 32;

/// The parameters of both stores.
#[derive(Clone, Copy)]
pub(super) struct Setting {
    pub(super) keys: u64,
    pub(super) seed: u64,
}

impl Setting {
    pub(super) fn data_bytes(self) -> u64 {
        self.keys * (KEY_BYTES + VALUE_BYTES) as u64
    }

    pub(super) fn cache_bytes(self) -> u64 {
        self.data_bytes() / CACHE_PART
    }

    /// Returns the engine's options. The engine's own filters are turned off, because our filter
    /// replaces them.
    fn engine(self) -> FjallOptions {
        let mut options = FjallOptions::default();
        options.cache_bytes = self.cache_bytes();
        options.bloom_filters = false;
        options
    }

    fn store(self) -> OpenOptions {
        let secret = Secret::from_bytes(key(self.seed));
        OpenOptions::new().capacity(self.keys as usize).secret(secret)
    }
}

/// A store, and the absent keys that have cost it a disk read.
pub(super) struct Subject {
    setting: Setting,
    store: Store<Observed<FjallBackend>>,
    /// The number of lookups in the backend.
    gets: Arc<AtomicU64>,
    mistaken: HashSet<u64>,
}

impl Subject {
    pub(super) fn new(directory: &Path, setting: Setting, repairs: bool) -> Result<Self> {
        let backend = FjallBackend::open(directory, setting.engine())?;
        let gets = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&gets);
        let backend = Observed::new(backend, move |_, _| {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let options = setting.store().repairs(repairs);
        let mut store: Store<_> = options.open_with(backend, None)?;
        store.wait_until_ready()?;
        Ok(Self { setting, store, gets, mistaken: HashSet::new() })
    }

    /// Inserts all keys, and compacts the engine, so that no compaction disturbs the measurement.
    pub(super) fn fill(&self, tell: impl Fn()) -> Result<()> {
        let numbers = (0..self.setting.keys).inspect(|_| tell());
        self.store.import(numbers.map(|number| {
            let value: [u8; VALUE_BYTES] = key(number);
            (key::<KEY_BYTES>(number), value)
        }))?;
        Ok(self.store.compact()?)
    }

    /// Looks up a key, and adds to the counts. Returns whether an absent key cost a disk read.
    pub(super) fn ask(&mut self, number: u64, tally: &mut Tally) -> Result<bool> {
        let before = self.gets.load(Ordering::Relaxed);
        let is_found = self.store.contains(&key::<KEY_BYTES>(number))?;
        let is_visited = self.gets.load(Ordering::Relaxed) > before;
        ensure!(is_found == (number < self.setting.keys), "wrong answer for key {number}");
        let is_mistake = is_visited && !is_found;
        tally.queries += 1;
        tally.found += u64::from(is_found);
        tally.visits += u64::from(is_mistake);
        tally.repeated += u64::from(is_mistake && !self.mistaken.insert(number));
        Ok(is_mistake)
    }

    /// Looks up all keys, and measures the time.
    pub(super) fn ask_all(&mut self, numbers: &[u64]) -> Result<Tally> {
        let mut tally = Tally::default();
        let start = Instant::now();
        for &number in numbers {
            self.ask(number, &mut tally)?;
        }
        tally.seconds = start.elapsed().as_secs_f64();
        Ok(tally)
    }

    pub(super) fn filter_bytes(&self) -> u64 {
        self.store.stats().filter_bytes
    }
}
