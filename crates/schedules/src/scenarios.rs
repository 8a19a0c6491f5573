//! The scenarios, and the program that runs them.

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::Mutex;
use shuttle::{Config, Runner, thread};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use twiceshy::{Hash, MemberSource, QuotientFilter, Secret, TelescopingFilter, concurrent::Shard};
use twiceshy_store::testing::{Fault, FaultyBackend};
use twiceshy_store::{
    Backend, Guard, GuardError, Guarded, Layout, MemoryBackend, OpenOptions, Stats, Store,
    WriteError,
};

const HELP: &str = "\
Usage: twiceshy-schedules [SCHEDULES] [SEED]
       twiceshy-schedules replay SCENARIO SCHEDULE

Runs each scenario in SCHEDULES orders of its threads, half chosen at random and half
with few switches. The second form repeats the order that a failed check printed.
";

/// The maximum number of priority changes per schedule.
const DEPTH: usize = 4;

/// Number of keys that each writer owns.
const KEYS: u32 = 10;

/// A store in memory.
type Tried<F = QuotientFilter> = Store<Arc<MemoryBackend>, F>;

type Scenario = (&'static str, fn(&Seen));

const SCENARIOS: [Scenario; 9] = [
    ("rebuild", |seen| rebuild::<QuotientFilter>(Layout::Merged, seen)),
    ("rebuild-split", |seen| rebuild::<QuotientFilter>(Layout::Split, seen)),
    ("rebuild-telescoping", |seen| rebuild::<TelescopingFilter>(Layout::Merged, seen)),
    ("upkeep", upkeep),
    ("close", close),
    ("two-rebuilds", two_rebuilds),
    ("shards", shards),
    ("doubts", doubts),
    ("faults", faults),
];

/// Counts what has happened in all schedules of a scenario, to show that they exercise the store.
#[derive(Default)]
struct Seen {
    rebuilds: AtomicU64,
    rotations: AtomicU64,
    /// The rebuilds that a background thread has made while other threads wrote and read. Most of
    /// those that aren't rotations made room for members.
    rebuilds_beside: AtomicU64,
    rotations_beside: AtomicU64,
    repairs: AtomicU64,
    mistakes: AtomicU64,
}

impl Seen {
    /// Counts what has happened up to now, while other threads used the store.
    fn add_beside(&self, stats: &Stats) {
        self.rebuilds_beside.fetch_add(stats.rebuilds, Ordering::Relaxed);
        self.rotations_beside.fetch_add(stats.rotations, Ordering::Relaxed);
    }

    fn add(&self, stats: &Stats) {
        self.rebuilds.fetch_add(stats.rebuilds, Ordering::Relaxed);
        self.rotations.fetch_add(stats.rotations, Ordering::Relaxed);
        self.repairs.fetch_add(stats.repairs, Ordering::Relaxed);
        self.mistakes.fetch_add(stats.false_positives, Ordering::Relaxed);
    }
}

/// Runs the program.
pub(crate) fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["replay", name, schedule] = arguments[..] {
        let Some(&(_, scenario)) = SCENARIOS.iter().find(|(found, _)| *found == name) else {
            eprintln!("error: no scenario `{name}`\n\n{HELP}");
            return ExitCode::from(2);
        };
        shuttle::replay(move || scenario(&Seen::default()), schedule);
        return ExitCode::SUCCESS;
    }
    let number = |at: usize, default: u64| arguments.get(at).map_or(Ok(default), |n| n.parse());
    let (Ok(schedules), Ok(seed), true) = (number(0, 2000), number(1, 1), arguments.len() <= 2)
    else {
        eprintln!("{HELP}");
        return ExitCode::from(2);
    };
    for (name, scenario) in SCENARIOS {
        let (start, seen) = (Instant::now(), Arc::new(Seen::default()));
        // Print the name first, because a failed check ends the program and prints only the order
        // of the threads.
        println!("{name}: {schedules} schedules from seed {seed}");
        let half = schedules.div_ceil(2) as usize;
        let run = {
            let seen = Arc::clone(&seen);
            move || scenario(&seen)
        };
        let mut config = Config::default();
        config.silence_warnings = true;
        config.stack_size = 1 << 18;
        Runner::new(RandomScheduler::new_from_seed(seed, half), config.clone()).run(run.clone());
        Runner::new(PctScheduler::new_from_seed(seed, DEPTH, half), config).run(run);
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        println!(
            "  {:.1} s, {} rebuilds ({} rotations), {} mistakes, {} repairs: every answer was right",
            start.elapsed().as_secs_f64(),
            count(&seen.rebuilds),
            count(&seen.rotations),
            count(&seen.mistakes),
            count(&seen.repairs),
        );
        assert!(count(&seen.rebuilds) > 0, "no shard was ever rebuilt");
        assert!(count(&seen.repairs) > 0, "no mistake was ever repaired");
        if name == "upkeep" {
            let rebuilds = count(&seen.rebuilds_beside);
            let rotations = count(&seen.rotations_beside);
            println!("  beside writers: {rebuilds} rebuilds ({rotations} rotations)");
            assert!(rotations > 0, "the shard was never rotated beside writers");
            assert!(rebuilds > rotations, "the shard has never grown beside writers");
        }
    }
    ExitCode::SUCCESS
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// A store of one shard, so small and coarse that keys collide all the time.
fn options(layout: Layout) -> OpenOptions {
    OpenOptions::new()
        .secret(Secret::from_bytes([7; 16]))
        .layout(layout)
        .capacity(8)
        .shards(1)
        .false_positive_rate(0.2)
}

fn put<F: Shard>(store: &Tried<F>, number: u32) {
    store.put(&key(number), b"1").unwrap();
    assert!(store.contains(&key(number)).unwrap(), "{number} was put, and is lost");
}

fn delete<F: Shard>(store: &Tried<F>, number: u32) {
    assert!(store.delete(&key(number)).unwrap(), "{number} was put, and is lost");
    assert!(!store.contains(&key(number)).unwrap(), "{number} was deleted, and is there");
}

/// Writes some keys, and deletes some of them. Returns the ones that are left.
fn write<F: Shard>(store: &Tried<F>, first: u32) -> Vec<u32> {
    let (mut left, keys) = (Vec::new(), first..first + KEYS);
    for number in keys {
        put(store, number);
        match number % 3 {
            0 => delete(store, number),
            1 => {
                delete(store, number);
                put(store, number);
                left.push(number);
            }
            _ => left.push(number),
        }
    }
    left
}

/// Looks up keys that are never written. The mistakes among them are repaired.
fn read<F: Shard>(store: &Tried<F>) {
    for number in 1000..1012 {
        assert!(!store.contains(&key(number)).unwrap());
    }
}

/// Checks the store when all threads are done.
fn check<F: Shard>(store: &Tried<F>, members: &[u32]) {
    for &number in members {
        assert!(store.contains(&key(number)).unwrap(), "{number} is lost");
    }
    assert_eq!(store.iter().count(), members.len());
    store.validate().unwrap();
    store.tend().unwrap();
    store.validate().unwrap();
    let stats = store.stats();
    assert_eq!(stats.shards_ready, stats.shards);
    for &number in members {
        assert!(store.contains(&key(number)).unwrap(), "{number} is lost after a rebuild");
    }
}

/// Two threads write, one reads and has its mistakes repaired, and one rebuilds the shard.
fn rebuild<F: Shard>(layout: Layout, seen: &Seen) {
    let options = options(layout).background_share(0.0);
    let mut store: Tried<F> = options.open_with(Arc::default(), None).unwrap();
    store.wait_until_ready().unwrap();
    put(&store, 500);
    let members = thread::scope(|scope| {
        let writers = [0, 100].map(|first| {
            let store = &store;
            scope.spawn(move || write(store, first))
        });
        scope.spawn(|| read(&store));
        scope.spawn(|| {
            for _ in 0..3 {
                store.rebuild().unwrap();
                assert!(store.contains(&key(500)).unwrap(), "the oldest member is lost");
            }
        });
        let left = writers.map(|writer| writer.join().unwrap());
        [&[500], &*left[0], &*left[1]].concat()
    });
    check(&store, &members);
    seen.add(&store.stats());
}

/// The background thread rebuilds the shard when it is full of members or of repairs.
fn upkeep(seen: &Seen) {
    let options = options(Layout::Merged).background_share(1.0);
    let mut store: Tried = options.open_with(Arc::default(), None).unwrap();
    store.wait_until_ready().unwrap();
    let members = thread::scope(|scope| {
        let writers = [0, 100].map(|first| {
            let store = &store;
            scope.spawn(move || write(store, first))
        });
        scope.spawn(|| {
            for _ in 0..4 {
                read(&store);
            }
        });
        let left = writers.map(|writer| writer.join().unwrap());
        seen.add_beside(&store.stats());
        left.concat()
    });
    check(&store, &members);
    seen.add(&store.stats());
}

/// The store is closed while its background thread works, and opened again.
fn close(seen: &Seen) {
    let options = options(Layout::Merged).background_share(1.0);
    let backend = Arc::new(MemoryBackend::new());
    let mut members = Vec::new();
    for first in [0, 100] {
        let mut store: Tried = options.open_with(Arc::clone(&backend), None).unwrap();
        members.extend(thread::scope(|scope| {
            let writer = scope.spawn(|| write(&store, first));
            read(&store);
            writer.join().unwrap()
        }));
        store.wait_until_ready().unwrap();
        check(&store, &members);
        seen.add(&store.stats());
        store.close().unwrap();
    }
}

/// Two threads rebuild the same shard at the same time, and others write and read.
fn two_rebuilds(seen: &Seen) {
    let options = options(Layout::Merged).background_share(0.0);
    let mut store: Tried = options.open_with(Arc::default(), None).unwrap();
    store.wait_until_ready().unwrap();
    put(&store, 500);
    let members = thread::scope(|scope| {
        let writer = scope.spawn(|| write(&store, 0));
        scope.spawn(|| read(&store));
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..2 {
                    store.rebuild().unwrap();
                    assert!(store.contains(&key(500)).unwrap(), "the oldest member is lost");
                }
            });
        }
        [&[500], &*writer.join().unwrap()].concat()
    });
    check(&store, &members);
    seen.add(&store.stats());
}

/// Two threads write batches whose keys belong to several shards, while the background thread and another
/// one rebuild these shards.
fn shards(seen: &Seen) {
    let options = options(Layout::Merged).shards(4).background_share(1.0);
    let mut store: Tried = options.open_with(Arc::default(), None).unwrap();
    store.wait_until_ready().unwrap();
    let members = thread::scope(|scope| {
        let writers = [0, 100].map(|first| {
            let store = &store;
            scope.spawn(move || {
                let batch: Vec<u32> = (first..first + 2 * KEYS).collect();
                for half in batch.chunks(KEYS as usize) {
                    store.put_many(half.iter().map(|&number| (key(number), b"1"))).unwrap();
                    let keys: Vec<_> = half.iter().map(|&number| key(number)).collect();
                    let found = store.get_many(&keys).unwrap();
                    assert!(found.iter().all(Option::is_some), "a member is lost");
                }
                delete(store, first);
                batch[1..].to_vec()
            })
        });
        scope.spawn(|| read(&store));
        scope.spawn(|| store.rebuild().unwrap());
        writers.map(|writer| writer.join().unwrap()).concat()
    });
    check(&store, &members);
    seen.add(&store.stats());
}

/// The database of a guard: keys with their hashes.
#[derive(Default)]
struct Rows(Mutex<BTreeMap<u32, Hash>>);

#[derive(Debug)]
struct TimeOut;

impl Rows {
    fn insert(&self, hash: Hash, key: u32) {
        self.0.lock().unwrap().insert(key, hash);
    }
}

impl MemberSource for Rows {
    type Member = u32;
    type Error = TimeOut;

    fn members(&self, hashes: RangeInclusive<Hash>) -> Result<Vec<u32>, TimeOut> {
        let rows = self.0.lock().unwrap();
        Ok(rows.iter().filter(|(_, hash)| hashes.contains(hash)).map(|(&key, _)| key).collect())
    }
}

impl Guarded for Rows {
    type Key = u32;
    type Value = ();

    fn look_up(&self, key: &u32) -> Result<Option<()>, TimeOut> {
        Ok(self.0.lock().unwrap().contains_key(key).then_some(()))
    }
}

/// Writes time out, and arrive at the database later, while others write, read and rebuild the shard. There
/// are more of them than the guard records, so its shard is distrusted until they are settled.
fn doubts(seen: &Seen) {
    const LATE: [u32; 4] = [700, 701, 702, 703];
    let guard: Guard<Rows> =
        options(Layout::Merged).max_doubts(3).open_guard(Rows::default()).unwrap();
    let is_there = |key: u32| guard.get(&key).unwrap().is_some();
    let insert = |key: u32| {
        let hash = guard.hash(&key);
        guard.insert(&key, |rows| {
            rows.insert(hash, key);
            Ok(())
        })
    };
    let members = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for key in 0..KEYS {
                insert(key).unwrap();
                assert!(is_there(key), "{key} was inserted, and is lost");
                if key % 3 == 0 {
                    let remove = |rows: &Rows| {
                        rows.0.lock().unwrap().remove(&key);
                        Ok(())
                    };
                    assert!(guard.remove(&key, remove).unwrap(), "{key} was inserted, and is lost");
                    assert!(!is_there(key), "{key} was removed, and is there");
                }
            }
            (0..KEYS).filter(|key| key % 3 > 0)
        });
        scope.spawn(|| assert!((1000..1012).all(|key| !is_there(key))));
        scope.spawn(|| (0..2).for_each(|_| guard.rebuild().unwrap()));
        scope.spawn(|| {
            for key in LATE {
                let failed = guard.insert(&key, |_| Err::<(), _>(WriteError::Unknown(TimeOut)));
                assert!(matches!(failed, Err(GuardError::InDoubt(TimeOut))));
            }
            for key in LATE {
                guard.database().insert(guard.hash(&key), key);
                assert!(is_there(key), "{key} has arrived, and is lost");
            }
            guard.settle_all().unwrap();
            assert!(LATE.into_iter().all(is_there), "a settled member is lost");
        });
        writer.join().unwrap().chain(LATE).collect::<Vec<u32>>()
    });
    for _ in 0..2 {
        assert!(members.iter().all(|&key| is_there(key)), "a member is lost");
        assert!((1000..1012).all(|key| !is_there(key)));
        guard.tend().unwrap();
        guard.validate().unwrap();
    }
    let stats = guard.stats();
    assert_eq!((stats.shards_ready, stats.doubts), (stats.shards, 0));
    seen.add(&stats);
}

/// Returns whether a key is there, or `None` if the backend fails.
fn is_there<B: Backend>(store: &Store<B>, number: u32) -> Option<bool> {
    store.contains(&key(number)).ok()
}

/// Operations of the backend fail, before or after they are done. Every acknowledged write must be seen.
fn faults(seen: &Seen) {
    let options = options(Layout::Merged).background_share(0.0);
    let backend = Arc::new(FaultyBackend::new(MemoryBackend::new()));
    let mut store: Store<_> = options.open_with(Arc::clone(&backend), None).unwrap();
    store.wait_until_ready().unwrap();
    let known = thread::scope(|scope| {
        let writers = [0, 100].map(|first| {
            let store = &store;
            scope.spawn(move || {
                let mut known = Vec::new();
                for number in first..first + KEYS {
                    if store.put(&key(number), b"1").is_err() {
                        continue;
                    }
                    assert_ne!(is_there(store, number), Some(false), "{number} is lost");
                    if number % 3 > 0 {
                        known.push((number, true));
                    } else if let Ok(was_there) = store.delete(&key(number)) {
                        assert!(was_there, "{number} is lost");
                        assert_ne!(is_there(store, number), Some(true), "{number} was deleted");
                        known.push((number, false));
                    }
                }
                known
            })
        });
        scope.spawn(|| assert!((1000..1012).all(|key| is_there(&store, key) != Some(true))));
        scope.spawn(|| {
            for _ in 0..3 {
                // A failed rebuild leaves the old filter in use.
                let _ = store.rebuild();
            }
        });
        scope.spawn(|| {
            for (n, fault) in [(3, Fault::Before), (5, Fault::After), (1, Fault::Before)] {
                let first = backend.operations();
                backend.fail_at(n, fault);
                for _ in 0..20 {
                    if backend.operations() > first + n {
                        break;
                    }
                    thread::yield_now();
                }
            }
        });
        writers.map(|writer| writer.join().unwrap()).concat()
    });
    backend.heal();
    for _ in 0..2 {
        for &(number, expected) in &known {
            assert_eq!(is_there(&store, number), Some(expected), "{number}");
        }
        assert!((1000..1012).all(|key| is_there(&store, key) == Some(false)));
        store.rebuild().unwrap();
        store.validate().unwrap();
    }
    seen.add(&store.stats());
}
