//! `twiceshy-lab bench store`: what an adaptive filter is worth before a store on a disk.
//!
//! The adversary is the paper's: it first asks for keys that aren't there and notes which
//! made the store go to its disk, then mixes them into everybody's queries. Of the engine's own
//! filter it can't see that, so it takes the slowest answers.

use super::measure::positive;
use serde::Serialize;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use twiceshy_store::backend::{Bounds, Scan, Unbounded};
use twiceshy_store::{
    Backend, BackendError, Batch, Bytes, Durability, FjallBackend, FjallOptions, GuardedStore,
    Keyspace, Options as Store,
};

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Pairs of 32 bytes, half of them key.
    #[arg(long, default_value_t = 1 << 20, value_parser = positive)]
    pairs: usize,
    /// Queries of each operation.
    #[arg(long, default_value_t = 1 << 19, value_parser = positive)]
    queries: usize,
    /// Bytes of the engine's block cache.
    #[arg(long, default_value_t = 1 << 20)]
    cache_bytes: u64,
    /// Where to put the stores; they are removed afterwards.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// One JSON object a line instead of a table.
    #[arg(long)]
    json: bool,
}

/// One line of the result.
#[derive(Serialize)]
struct Row {
    setup: &'static str,
    op: &'static str,
    hostile_percent: u32,
    /// Thousands a second, on the clock.
    kops: f64,
    backend_gets: u64,
    backend_scans: u64,
    /// Keys that weren't there, but looked for in the backend, for the first time and again;
    /// unknown of the engine's own filter.
    distinct_mistakes: Option<u64>,
    repeated_mistakes: Option<u64>,
}

const SETUPS: [&str; 4] = ["none", "engine", "plain", "adaptive"];

/// How many of 100 queries are the adversary's.
const HOSTILE: [u32; 5] = [0, 1, 3, 5, 10];

/// Numbers that look random, the same each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Above 0, at most 1.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// A rank, from 1, by Zipf's law with exponent 1.5: Devroye's rejection.
    fn zipf(&mut self) -> u64 {
        const LESS_ONE: f64 = 0.5;
        let most = 2f64.powf(LESS_ONE);
        loop {
            let (u, v) = (self.unit(), self.unit());
            let rank = u.powf(-1.0 / LESS_ONE).floor();
            let next = (1.0 + 1.0 / rank).powf(LESS_ONE);
            if v * rank * (next - 1.0) / (most - 1.0) <= next / most {
                return rank as u64;
            }
        }
    }
}

type Key = [u8; 16];

/// A key, scattered; those of members and of others differ.
fn key(number: u64, is_member: bool) -> Key {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&Random(number).next().to_be_bytes());
    key[8..].copy_from_slice(&(number << 1 | u64::from(is_member)).to_be_bytes());
    key
}

/// A backend that notes what it is asked for.
struct Recording {
    backend: FjallBackend,
    asked: Mutex<Vec<Key>>,
}

impl Backend for Recording {
    fn get(&self, space: Keyspace, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        // In the merged layout, a part of the hash is before the key.
        if let Some(&key) = key.last_chunk() {
            self.asked.lock().expect("no panic").push(key);
        }
        self.backend.get(space, key)
    }

    fn range(&self, space: Keyspace, bounds: Bounds<'_>) -> Scan<'_> {
        self.backend.range(space, bounds)
    }

    fn write(&self, batch: &Batch, durability: Durability) -> Result<(), BackendError> {
        self.backend.write(batch, durability)
    }

    fn sync(&self) -> Result<(), BackendError> {
        self.backend.sync()
    }

    fn flush(&self) -> Result<(), BackendError> {
        self.backend.flush()
    }

    fn compact(&self) -> Result<(), BackendError> {
        self.backend.compact()
    }

    fn bytes_on_disk(&self) -> Result<u64, BackendError> {
        self.backend.bytes_on_disk()
    }

    fn backup(&self, to: &Path) -> Result<(), BackendError> {
        self.backend.backup(to)
    }
}

/// A store, with or without our filter before it.
enum Setup {
    Bare(FjallBackend),
    Guarded(Box<GuardedStore<Arc<Recording>>>, Arc<Recording>),
}

impl Setup {
    fn engine(name: &str, directory: &Path, options: &Options) -> FjallBackend {
        let mut engine = FjallOptions::default();
        engine.cache_bytes = options.cache_bytes;
        engine.memtable_bytes = 4 << 20;
        engine.bloom_filters = name == "engine";
        FjallBackend::open(directory, engine).expect("a directory of its own")
    }

    fn over(backend: FjallBackend, name: &str, options: &Options) -> Self {
        if matches!(name, "none" | "engine") {
            return Setup::Bare(backend);
        }
        let recording = Arc::new(Recording { backend, asked: Mutex::default() });
        let store = Store::new().capacity(options.pairs).repairs(name == "adaptive");
        let mut store = store.open_with(Arc::clone(&recording), None).expect("a store");
        store.wait_until_ready().expect("a backend that can be read");
        Setup::Guarded(Box::new(store), recording)
    }

    fn put(&self, key: &Key) {
        match self {
            Setup::Bare(backend) => {
                let mut batch = Batch::new();
                batch.insert(Keyspace::Keys, key, key);
                backend.write(&batch, Durability::Buffered).expect("room on the disk");
            }
            Setup::Guarded(store, _) => store.put(key, key).expect("room on the disk"),
        }
    }

    fn contains(&self, key: &Key) -> bool {
        match self {
            Setup::Bare(backend) => {
                backend.get(Keyspace::Keys, key).expect("a disk that can be read").is_some()
            }
            Setup::Guarded(store, _) => store.contains(key).expect("a disk that can be read"),
        }
    }

    fn scans(&self) -> u64 {
        match self {
            Setup::Bare(_) => 0,
            Setup::Guarded(store, _) => store.stats().backend_scans,
        }
    }

    /// What the backend was asked for since this was last asked, if that is known.
    fn asked(&self) -> Option<Vec<Key>> {
        match self {
            Setup::Bare(_) => None,
            Setup::Guarded(_, recording) => {
                Some(std::mem::take(&mut *recording.asked.lock().expect("no panic")))
            }
        }
    }

    fn flush(&self) {
        match self {
            Setup::Bare(backend) => backend.flush().expect("room on the disk"),
            Setup::Guarded(store, _) => store.flush().expect("room on the disk"),
        }
    }
}

/// One setup, on its way through all operations.
struct Run {
    name: &'static str,
    setup: Setup,
    /// All mistakes so far.
    mistakes: HashSet<Key>,
}

impl Run {
    fn insert(&self, keys: &[Key]) -> Row {
        let start = Instant::now();
        for key in keys {
            self.setup.put(key);
        }
        let kops = thousands(keys.len(), start);
        self.setup.flush();
        let gets = self.setup.asked().map_or(0, |asked| asked.len() as u64);
        Row { backend_gets: gets, kops, op: "insert", ..self.row() }
    }

    fn row(&self) -> Row {
        Row {
            setup: self.name,
            op: "",
            hostile_percent: 0,
            kops: 0.0,
            backend_gets: 0,
            backend_scans: 0,
            distinct_mistakes: None,
            repeated_mistakes: None,
        }
    }

    /// Asks for keys that aren't there.
    fn ask(&mut self, op: &'static str, hostile_percent: u32, keys: &[Key]) -> Row {
        let scans = self.setup.scans();
        let start = Instant::now();
        for key in keys {
            assert!(!self.setup.contains(key), "nobody put it");
        }
        let kops = thousands(keys.len(), start);
        let asked = match self.name {
            "none" => Some(keys.to_vec()),
            _ => self.setup.asked(),
        };
        let backend_gets = asked.as_ref().map_or(keys.len(), Vec::len) as u64;
        let distinct = asked
            .map(|asked| asked.into_iter().filter(|&key| self.mistakes.insert(key)).count() as u64);
        Row {
            op,
            hostile_percent,
            kops,
            backend_gets,
            backend_scans: self.setup.scans() - scans,
            distinct_mistakes: distinct,
            repeated_mistakes: distinct.map(|distinct| backend_gets - distinct),
            ..self.row()
        }
    }

    /// Reads all pairs, as building the filter again has to, and then builds it, if there is
    /// one.
    fn read_all(self, pairs: usize, options: &Options, directory: &Path) -> Vec<Row> {
        let count = |backend: &FjallBackend, space| {
            backend.range(space, (Unbounded, Unbounded)).flatten().count()
        };
        let start = Instant::now();
        let found = match &self.setup {
            Setup::Bare(backend) => count(backend, Keyspace::Keys),
            Setup::Guarded(_, recording) => count(&recording.backend, Keyspace::Members),
        };
        assert_eq!(found, pairs, "all that was put");
        let mut rows = vec![Row { op: "scan", kops: thousands(pairs, start), ..self.row() }];
        if let Setup::Guarded(..) = self.setup {
            let row = self.row();
            drop(self);
            let backend = Setup::engine(row.setup, directory, options);
            let start = Instant::now();
            // Nothing was saved: there is no directory for it.
            let Setup::Guarded(store, _) = Setup::over(backend, row.setup, options) else {
                unreachable!("it is guarded")
            };
            assert_eq!(store.stats().members, pairs as u64);
            rows.push(Row { op: "rebuild", kops: thousands(pairs, start), ..row });
        }
        rows
    }

    /// What the adversary learns from asking: the keys that went to the disk, or seem to have.
    fn learn(&mut self, keys: &[Key]) -> Vec<Key> {
        let mut times: Vec<(Duration, Key)> = Vec::with_capacity(keys.len());
        for key in keys {
            let start = Instant::now();
            self.setup.contains(key);
            times.push((start.elapsed(), *key));
        }
        let learnt = self.setup.asked().unwrap_or_else(|| {
            times.sort_unstable_by(|a, b| b.cmp(a));
            times.iter().take(keys.len() / 500 + 1).map(|&(_, key)| key).collect()
        });
        self.mistakes.extend(&learnt);
        learnt
    }
}

fn thousands(count: usize, since: Instant) -> f64 {
    count as f64 / since.elapsed().as_secs_f64() / 1e3
}

pub(crate) fn run(options: &Options) {
    let members: Vec<Key> = (0..options.pairs as u64).map(|number| key(number, true)).collect();
    if !options.json {
        println!(
            "{:<10}{:<10}{:>10}{:>10}{:>14}{:>8}{:>10}{:>10}",
            "setup", "op", "hostile %", "k/s", "backend gets", "scans", "mistakes", "repeated"
        );
    }
    for name in SETUPS {
        let directory = match &options.directory {
            Some(parent) => tempfile::tempdir_in(parent),
            None => tempfile::tempdir(),
        };
        let directory = directory.expect("room for a directory");
        let data = directory.path().join("data");
        let setup = Setup::over(Setup::engine(name, &data, options), name, options);
        let mut run = Run { name, setup, mistakes: HashSet::new() };
        show(&run.insert(&members), options);

        let mut random = Random(7);
        let mut fresh = (0u64..).map(|number| key(number, false));
        let mut strangers = |count| fresh.by_ref().take(count).collect::<Vec<Key>>();
        show(&run.ask("negative", 0, &strangers(options.queries)), options);
        let ranks = (0..options.queries).map(|_| key(1 << 60 | random.zipf().min(1 << 40), false));
        show(&run.ask("zipf", 0, &ranks.collect::<Vec<_>>()), options);

        let learnt = run.learn(&strangers(options.queries));
        for percent in HOSTILE {
            let mut keys = strangers(options.queries);
            for key in &mut keys {
                if !learnt.is_empty() && random.below(100) < percent as usize {
                    *key = learnt[random.below(learnt.len())];
                }
            }
            show(&run.ask("hostile", percent, &keys), options);
        }
        for row in run.read_all(members.len(), options, &data) {
            show(&row, options);
        }
    }
}

fn show(row: &Row, options: &Options) {
    if options.json {
        println!("{}", serde_json::to_string(row).expect("plain data"));
        return;
    }
    let number =
        |number: Option<u64>| number.map_or("\u{2013}".into(), |number| number.to_string());
    println!(
        "{:<10}{:<10}{:>10}{:>10.1}{:>14}{:>8}{:>10}{:>10}",
        row.setup,
        row.op,
        row.hostile_percent,
        row.kops,
        row.backend_gets,
        row.backend_scans,
        number(row.distinct_mistakes),
        number(row.repeated_mistakes),
    );
}
