//! The measured store, and the place of its data.

use super::counting::{Counting, MembersRead};
use super::{RATE, Work};
use crate::bench::Random;
use crate::bench::store::{Key, copy, key};
use hdrhistogram::Histogram;
use std::hint::black_box;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use twiceshy::{Concurrent, QuotientFilter, Secret, Snapshot};
use twiceshy_store::testing::save_filter;
use twiceshy_store::{
    Backend, Durability, FjallBackend, FjallOptions, MemoryBackend, OpenOptions, RedbBackend,
    RedbOptions, Stats, Store,
};

/// The backend of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Engine {
    Memory,
    Fjall,
    Redb,
}

impl Engine {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Fjall => "fjall",
            Self::Redb => "redb",
        }
    }

    /// Returns the durability of writes. redb would sync each buffered write, and hardly anything
    /// else would be measured.
    fn durability(self) -> Durability {
        if self == Self::Redb { Durability::Eventual } else { Durability::Buffered }
    }
}

/// The place of the data of one store. Dropping it removes the data.
pub(super) struct Place {
    pub(super) engine: Engine,
    /// The data, if it is in memory.
    memory: Arc<MemoryBackend>,
    directory: TempDir,
}

impl Place {
    /// Creates an empty place, in the directory `parent` if given.
    pub(super) fn new(engine: Engine, parent: Option<&Path>) -> Self {
        let directory = parent.map_or_else(tempfile::tempdir, tempfile::tempdir_in);
        let directory = directory.expect("room for a directory");
        Self { engine, memory: Arc::default(), directory }
    }

    /// Copies the data as it is after a crash: without a saved filter.
    ///
    /// Data in memory is shared, not copied, so drop the store before the next one is opened.
    pub(super) fn crashed(&self, parent: Option<&Path>) -> Self {
        let image = Self::new(self.engine, parent);
        if self.engine != Engine::Memory {
            copy(&self.data(), &image.data()).expect("room for a copy");
        }
        Self { memory: Arc::clone(&self.memory), ..image }
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Returns the directory of the saved filter.
    fn filter(&self) -> PathBuf {
        self.directory.path().join("filter")
    }

    /// Opens the backend.
    pub(super) fn open(&self) -> Arc<Counting> {
        let expected = "a directory of its own";
        let backend: Arc<dyn Backend> = match self.engine {
            Engine::Memory => Arc::clone(&self.memory) as _,
            Engine::Fjall => {
                let options = FjallOptions::default();
                Arc::new(FjallBackend::open(self.data(), options).expect(expected))
            }
            Engine::Redb => {
                let options = RedbOptions::default();
                Arc::new(RedbBackend::open(self.data(), options).expect(expected))
            }
        };
        Arc::new(Counting::new(backend))
    }
}

/// A store, and the counts of its backend.
pub(super) struct Subject {
    pub(super) store: Store<Arc<Counting>>,
    pub(super) backend: Arc<Counting>,
    /// The last field, so that the files are removed last.
    pub(super) place: Place,
}

/// What one writer and one reader took that ran at the same time. Latencies are in nanoseconds.
pub(super) struct Timings {
    pub(super) puts: Histogram<u64>,
    pub(super) gets: Histogram<u64>,
    /// The latencies of a short computation by the reader, which shows what the machine alone
    /// causes.
    pub(super) control: Histogram<u64>,
    /// The time that all puts took together.
    pub(super) time: Duration,
    /// The time for which the reader has run.
    pub(super) reading_time: Duration,
    /// The highest memory use of rebuilds that was seen, in bytes.
    pub(super) rebuild_bytes: u64,
}

impl Timings {
    pub(super) fn new() -> Self {
        // Use histograms of a fixed size, because growing would disturb the measurement.
        let histogram = || {
            Histogram::new_with_max(600_000_000_000, 3).expect("valid bounds and number of digits")
        };
        Self {
            puts: histogram(),
            gets: histogram(),
            control: histogram(),
            time: Duration::ZERO,
            reading_time: Duration::ZERO,
            rebuild_bytes: 0,
        }
    }

    pub(super) fn add(&mut self, more: &Self) {
        self.puts.add(&more.puts).expect("equal bounds");
        self.gets.add(&more.gets).expect("equal bounds");
        self.control.add(&more.control).expect("equal bounds");
        self.time += more.time;
        self.reading_time += more.reading_time;
        self.rebuild_bytes = self.rebuild_bytes.max(more.rebuild_bytes);
    }
}

/// A guard that sets a flag when it is dropped, also during a panic.
struct Finally<'a>(&'a AtomicBool);

impl Drop for Finally<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// An endless series of different absent keys.
pub(super) struct Strangers(u64);

impl Strangers {
    /// Starts the series with this number. Series begin so far apart that no key is in two of them.
    pub(super) fn new(series: u64) -> Self {
        Self(series << 48)
    }
}

impl Iterator for Strangers {
    type Item = Key;

    fn next(&mut self) -> Option<Key> {
        self.0 += 1;
        Some(key(self.0, false))
    }
}

pub(super) fn member(number: u64) -> Key {
    key(number, true)
}

impl Subject {
    /// Opens a store in a place. If a number of members is given, the store is planned for it.
    pub(super) fn open(place: Place, capacity: Option<u64>, work: &Work) -> Self {
        let backend = place.open();
        Self::over(backend, place, capacity, work)
    }

    /// Opens a store on a backend that was opened in a place.
    pub(super) fn over(
        backend: Arc<Counting>,
        place: Place,
        capacity: Option<u64>,
        work: &Work,
    ) -> Self {
        let mut options = OpenOptions::new()
            .false_positive_rate(RATE)
            .background_share(work.background_share)
            .durability(place.engine.durability());
        if let Some(members) = capacity {
            options = options.capacity(members as usize);
        }
        if let Some(seed) = work.seed {
            options = options.secret(Secret::from_bytes(u128::from(seed).to_le_bytes()));
        }
        let store = options.open_with(Arc::clone(&backend), Some(&place.filter()));
        let store: Store<_> = store.expect("a store");
        backend.set_shards(store.stats().shards);
        Self { store, backend, place }
    }

    /// Puts members in batches.
    pub(super) fn fill(&self, numbers: Range<u64>) {
        self.store.put_many(numbers.map(|number| (member(number), b""))).expect("room for members");
    }

    /// Waits until no shard is due or being rebuilt. Returns the statistics then, and the time
    /// that it took.
    pub(super) fn rest(&self) -> (Stats, Duration) {
        const PAUSE: Duration = Duration::from_millis(1);
        /// The number of times in a row that the store must be found at rest. A single time isn't
        /// enough, because the statistics don't show a rebuild that is about to begin or is sorting
        /// its list.
        const CALM: u32 = 5;
        const PATIENCE: Duration = Duration::from_mins(10);
        let start = Instant::now();
        let (mut calm, mut time, mut rebuilds) = (0, Duration::ZERO, None);
        loop {
            let stats = self.store.stats();
            if stats.shards_due > 0 && !stats.has_background_thread {
                self.store.tend().expect("a backend that can be read");
            }
            let is_calm = stats.shards_due == 0
                && stats.rebuild_bytes == 0
                && !self.backend.is_scanning()
                && rebuilds.replace(stats.rebuilds).is_none_or(|before| before == stats.rebuilds);
            if !is_calm {
                calm = 0;
            } else if calm == 0 {
                time = start.elapsed();
                calm = 1;
            } else {
                calm += 1;
            }
            if calm == CALM {
                return (stats, time);
            }
            assert!(start.elapsed() < PATIENCE, "the store doesn't come to rest: {stats:?}");
            thread::sleep(PAUSE);
        }
    }

    pub(super) fn members_read(&self) -> MembersRead {
        self.backend.members_read()
    }

    /// Asks for absent keys in batches. Returns the number of keys that were looked up in the
    /// backend: the filter's mistakes, and the keys that it couldn't answer.
    pub(super) fn ask(&self, strangers: &mut Strangers, count: u64) -> u64 {
        const BATCH: usize = 1024;
        let looked_up = || {
            let stats = self.store.stats();
            stats.lookups - stats.answered_from_memory
        };
        let before = looked_up();
        let mut keys = Vec::with_capacity(BATCH);
        let mut rest = count;
        while rest > 0 {
            keys.clear();
            keys.extend(strangers.take(rest.min(BATCH as u64) as usize));
            rest -= keys.len() as u64;
            let values = self.store.get_many(&keys).expect("a backend that can be read");
            assert!(values.iter().all(Option::is_none), "absent keys");
        }
        looked_up() - before
    }

    /// Measures the false-positive rate of absent keys that were not queried before. Waits until
    /// the store is at rest again.
    pub(super) fn rate(&self, strangers: &mut Strangers, queries: u64) -> f64 {
        let mistakes = self.ask(strangers, queries);
        self.rest();
        mistakes as f64 / queries as f64
    }

    /// Puts members, while another thread asks for members and absent keys. Calls `on_put` after
    /// every 1024 puts.
    pub(super) fn put_while_asking(
        &self,
        numbers: Range<u64>,
        strangers: &mut Strangers,
        on_put: impl Fn(u64),
    ) -> Timings {
        /// The number of random numbers in the short computation. They take about as long as a get.
        const CONTROL: u32 = 256;
        let mut seen = Timings::new();
        let Timings { puts, gets, control, time, reading_time, rebuild_bytes } = &mut seen;
        let (members, is_done) = (AtomicU64::new(numbers.start), AtomicBool::new(false));
        let seed = numbers.start;
        thread::scope(|scope| {
            let _done = Finally(&is_done);
            let (members, is_done) = (&members, &is_done);
            scope.spawn(move || {
                let mut random = Random(seed);
                let begin = Instant::now();
                while !is_done.load(Ordering::Relaxed) {
                    let count = members.load(Ordering::Acquire) as usize;
                    let is_member = count > 0 && random.below(2) == 0;
                    let key = if is_member {
                        member(random.below(count) as u64)
                    } else {
                        strangers.next().expect("an endless series")
                    };
                    let start = Instant::now();
                    let value = self.store.get(&key).expect("a backend that can be read");
                    gets.saturating_record(start.elapsed().as_nanos() as u64);
                    let start = Instant::now();
                    let sum = (0..CONTROL).fold(0, |sum: u64, _| sum.wrapping_add(random.next()));
                    black_box(sum);
                    control.saturating_record(start.elapsed().as_nanos() as u64);
                    assert_eq!(value.is_some(), is_member, "members, and only they, are found");
                }
                *reading_time = begin.elapsed();
            });
            for number in numbers {
                let key = member(number);
                let start = Instant::now();
                self.store.put(&key, b"").expect("room for a member");
                let taken = start.elapsed();
                puts.saturating_record(taken.as_nanos() as u64);
                *time += taken;
                members.store(number + 1, Ordering::Release);
                if (number + 1).is_multiple_of(1024) {
                    *rebuild_bytes = (*rebuild_bytes).max(self.store.stats().rebuild_bytes);
                    on_put(1024);
                }
            }
        });
        seen
    }

    /// Returns the number of bits of the widest remainders in the filter.
    pub(super) fn remainder_bits(&self) -> u32 {
        let file = self.place.directory.path().join("saved.filter");
        save_filter(&self.store, &file).expect("room for a file");
        let filter = Concurrent::<QuotientFilter>::open(&file).expect("a saved filter");
        let bits = filter.parameters().iter().map(|shard| shard.remainder_bits).max();
        bits.expect("a shard")
    }
}
