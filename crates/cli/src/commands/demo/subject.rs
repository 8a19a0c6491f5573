//! A store that is asked, and what that costs it.

use super::results::Tally;
use anyhow::{Result, ensure};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use twiceshy::Secret;
use twiceshy_store::backend::Observed;
use twiceshy_store::{FjallBackend, FjallOptions, GuardedStore, Options};
use twiceshy_workloads::key::key;

const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 100;

/// The engine's block cache has a part of the data in so many.
const CACHE_PART: u64 = 32;

/// What both stores have in common.
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

    /// Without the engine's own filters: ours is there instead.
    fn engine(self) -> FjallOptions {
        let mut options = FjallOptions::default();
        options.cache_bytes = self.cache_bytes();
        options.bloom_filters = false;
        options
    }

    fn store(self) -> Options {
        let secret = Secret::from_bytes(key(self.seed));
        Options::new().capacity(self.keys as usize).secret(secret)
    }
}

/// A store, and the absent keys that it has looked for on the disk.
pub(super) struct Subject {
    setting: Setting,
    store: GuardedStore<Observed<FjallBackend>>,
    /// How often the backend was asked for a key.
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
        let mut store: GuardedStore<_> = options.open_with(backend, None)?;
        store.wait_until_ready()?;
        Ok(Self { setting, store, gets, mistaken: HashSet::new() })
    }

    /// Puts all keys, and leaves the engine nothing to tidy up while it is measured.
    pub(super) fn fill(&self, tell: impl Fn()) -> Result<()> {
        let numbers = (0..self.setting.keys).inspect(|_| tell());
        self.store.import(numbers.map(|number| {
            let value: [u8; VALUE_BYTES] = key(number);
            (key::<KEY_BYTES>(number), value)
        }))?;
        Ok(self.store.compact()?)
    }

    /// Asks for a key, and counts what came of it; whether it was looked for in vain.
    pub(super) fn ask(&mut self, number: u64, tally: &mut Tally) -> Result<bool> {
        let before = self.gets.load(Ordering::Relaxed);
        let is_found = self.store.contains(&key::<KEY_BYTES>(number))?;
        let is_visited = self.gets.load(Ordering::Relaxed) > before;
        ensure!(is_found == (number < self.setting.keys), "a wrong answer, for key {number}");
        let is_mistake = is_visited && !is_found;
        tally.queries += 1;
        tally.found += u64::from(is_found);
        tally.visits += u64::from(is_mistake);
        tally.repeated += u64::from(is_mistake && !self.mistaken.insert(number));
        Ok(is_mistake)
    }

    /// Asks for all of them, and takes the time.
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
