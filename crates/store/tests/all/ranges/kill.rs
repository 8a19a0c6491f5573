//! A child process writes and asks, acknowledges each operation through a pipe, and is killed at a random
//! moment. Afterwards all acknowledged writes must be there, and each repaired mistake recurs at most once.
//!
//! `TWICESHY_KILL_CYCLES` sets the number of kills, and `TWICESHY_SEED` determines their moments.

use crate::common::Random;
use crate::common::child::{CHILD_FIRST, CHILD_PATH, STALLED, cycles_and_seed, spawn_child};
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::io::{Write, stdout};
use std::ops::RangeInclusive;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use twiceshy_deadline::Deadline;
use twiceshy_store::{FjallBackend, FjallOptions, OpenOptions, RangeStore};

const KEYS: u64 = 4000;

type Store = RangeStore<u64, FjallBackend>;

enum Op {
    Put(u64),
    Delete(u64),
    Ask(RangeInclusive<u64>),
    Reopen,
}

/// Returns operation `number`.
fn op(number: u64) -> Op {
    let mut random = Random(number);
    let key = random.below(KEYS);
    match random.below(1000) {
        0 => Op::Reopen,
        1..300 => Op::Put(key),
        300..500 => Op::Delete(key),
        _ => Op::Ask(key..=key + random.below(10)),
    }
}

fn value(number: u64) -> Vec<u8> {
    number.to_be_bytes().repeat(1 + number as usize % 20)
}

/// Opens a store with a filter so poor that it makes many mistakes, and so small that it grows.
fn open(path: &Path) -> Store {
    let mut fjall = FjallOptions::default();
    // With small memtables, sealing, flushing and compacting happen all the time.
    fjall.memtable_bytes = 64 << 10;
    fjall.cache_bytes = 256 << 10;
    let backend = FjallBackend::open(path.join("data"), fjall).unwrap();
    let options = OpenOptions::new().capacity(100).false_positive_rate(0.2).longest_range(8);
    options.open_ranges_with(backend, Some(path)).unwrap()
}

/// Runs the child process. This is not a test: without the environment variables, it does nothing.
#[test]
fn child_writes_until_it_is_killed() {
    let Some(path) = env::var_os(CHILD_PATH) else { return };
    let first: u64 = env::var(CHILD_FIRST).unwrap().parse().unwrap();
    let mut store = open(Path::new(&path));
    for number in first.. {
        let before = store.stats();
        match op(number) {
            Op::Put(key) => store.put(key, &value(number)).unwrap(),
            Op::Delete(key) => drop(store.delete(key).unwrap()),
            Op::Ask(range) => drop(store.range_is_empty(range).unwrap()),
            Op::Reopen => {
                store.close().unwrap();
                store = open(Path::new(&path));
            }
        }
        let after = store.stats();
        assert_eq!((after.repairs_failed, after.repeated_false_positives), (0, 0));
        let skipped = after.repairs_skipped > before.repairs_skipped;
        let repaired = u8::from(after.false_positives > before.false_positives && !skipped);
        if writeln!(stdout().lock(), "wrote {number} {repaired}").is_err() {
            return;
        }
    }
}

/// The pairs that the store must hold, and the ranges that are known to be empty.
#[derive(Default)]
struct Expected {
    members: BTreeMap<u64, Vec<u8>>,
    repaired: BTreeSet<u64>,
    done: u64,
}

impl Expected {
    fn acknowledge(&mut self, line: &str) {
        let (number, repaired) = line.split_once(' ').unwrap();
        let number = number.parse().unwrap();
        assert_eq!(number, self.done + 1);
        self.done = number;
        match op(number) {
            Op::Put(key) => {
                self.members.insert(key, value(number));
                self.repaired.remove(&key);
            }
            Op::Delete(key) => {
                let was_there = self.members.remove(&key).is_some();
                // A key that was absent may now be a repaired mistake.
                if !was_there && repaired == "1" {
                    self.repaired.insert(key);
                }
            }
            Op::Ask(range) if repaired == "1" => self.repaired.extend(range),
            Op::Ask(_) | Op::Reopen => {}
        }
    }

    /// Finds out whether the last operation, which was not acknowledged, was done.
    fn settle(&mut self, store: &Store) {
        self.done += 1;
        let (Op::Put(key) | Op::Delete(key)) = op(self.done) else { return };
        let found = store.get(key).unwrap().map(|value| value.to_vec());
        let new = matches!(op(self.done), Op::Put(_)).then(|| value(self.done));
        assert!(found == new || found.as_ref() == self.members.get(&key));
        match found {
            Some(found) => {
                self.repaired.remove(&key);
                self.members.insert(key, found);
            }
            None => drop(self.members.remove(&key)),
        }
    }

    fn check(&self, store: &Store) {
        let visits = || {
            let stats = store.stats();
            stats.lookups - stats.answered_from_memory
        };
        // The kill may have lost repairs and records. The saved filter may also be older than a
        // record and lack its repair. In each case, the mistake is repaired once more.
        loop {
            let before = store.stats();
            for key in 0..KEYS + 10 {
                store.range_is_empty(key..=key).unwrap();
            }
            if store.stats().repairs_skipped == before.repairs_skipped {
                break;
            }
            store.rebuild().unwrap();
        }
        let before = visits();
        assert!(self.repaired.iter().all(|&key| store.range_is_empty(key..=key).unwrap()));
        assert_eq!(visits(), before, "a mistake recurs");
        let pairs = store.iter().map(|pair| pair.unwrap());
        let pairs: BTreeMap<u64, Vec<u8>> =
            pairs.map(|(key, value)| (key, value.to_vec())).collect();
        assert_eq!(pairs, self.members);
        for key in 0..KEYS {
            let range = key..key + 5;
            let expected = self.members.range(range.clone()).next().is_none();
            assert_eq!(store.range_is_empty(range).unwrap(), expected);
        }
        assert_eq!(store.stats().members, self.members.len() as u64);
        store.validate().unwrap();
    }
}

#[test]
fn range_store_keeps_acknowledged_writes_after_kill() {
    let (cycles, seed) = cycles_and_seed();
    let mut random = Random(seed);
    let mut directory = tempfile::tempdir().unwrap();
    let mut expected = Expected::default();
    for cycle in 0..cycles {
        let _deadline = Deadline::new();
        // Sometimes start with a new directory, so that kills also interrupt the creation of a store.
        if random.below(8) == 0 {
            directory = tempfile::tempdir().unwrap();
            expected = Expected { done: expected.done, ..Expected::default() };
        }
        let first = expected.done + 1;
        let (mut child, acknowledged) = spawn_child(
            "ranges::kill::child_writes_until_it_is_killed",
            "",
            directory.path(),
            first,
        );
        if random.below(4) == 0 {
            thread::sleep(Duration::from_micros(random.below(30_000)));
        } else {
            let goal = first + random.below(3000);
            let patience = Instant::now() + Duration::from_millis(20 + random.below(400));
            while expected.done < goal && (expected.done < first || Instant::now() < patience) {
                match acknowledged.recv_timeout(STALLED) {
                    Ok(line) => expected.acknowledge(&line),
                    Err(error) => {
                        let _ = child.kill();
                        panic!("cycle {cycle}, seed {seed}: {error}");
                    }
                }
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        for line in &acknowledged {
            expected.acknowledge(&line);
        }
        let store = open(directory.path());
        expected.settle(&store);
        expected.check(&store);
    }
    println!("{cycles} kills, {} operations", expected.done);
}
