//! A child process changes lists, acknowledges each change through a pipe, and is killed at a random moment.
//! Afterwards all acknowledged changes must be there, and no listed key may be answered wrongly.
//!
//! `TWICESHY_KILL_CYCLES` sets the number of kills, and `TWICESHY_SEED` determines their moments.

use crate::common::Random;
use crate::common::child::{CHILD_FIRST, CHILD_PATH, STALLED, cycles_and_seed, spawn_child};
use std::collections::BTreeMap;
use std::env;
use std::io::{Write, stdout};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use twiceshy_deadline::Deadline;
use twiceshy_store::{FjallBackend, FjallOptions, List, ListStore, OpenOptions, StoreError};

const KEYS: u64 = 3000;

type Store = ListStore<FjallBackend>;

enum Op {
    Add(List, u64),
    Remove(List, u64),
    Reopen,
}

/// Returns operation `number`.
fn op(number: u64) -> Op {
    let mut random = Random(number);
    let key = random.below(KEYS);
    let list = if random.below(2) == 0 { List::Yes } else { List::No };
    match random.below(1000) {
        0 => Op::Reopen,
        1..600 => Op::Add(list, key),
        _ => Op::Remove(list, key),
    }
}

/// Opens lists with a filter so poor that it needs many repairs, and so small that it grows.
fn open(path: &Path) -> Store {
    let mut fjall = FjallOptions::default();
    // With small memtables, sealing, flushing and compacting happen all the time.
    fjall.memtable_bytes = 64 << 10;
    fjall.cache_bytes = 256 << 10;
    let backend = FjallBackend::open(path.join("data"), fjall).unwrap();
    let options = OpenOptions::new().capacity(100).false_positive_rate(0.3).shards(4);
    options.open_lists_with(backend, Some(path)).unwrap()
}

fn apply(store: &Store, number: u64) -> bool {
    let done = match op(number) {
        Op::Add(List::Yes, key) => store.add_yes(&key.to_be_bytes()),
        Op::Add(List::No, key) => store.add_no(&key.to_be_bytes()),
        Op::Remove(List::Yes, key) => store.remove_yes(&key.to_be_bytes()),
        Op::Remove(List::No, key) => store.remove_no(&key.to_be_bytes()),
        Op::Reopen => return false,
    };
    match done {
        Err(StoreError::OnOtherList { .. }) => false,
        done => done.unwrap(),
    }
}

/// Runs the child process. This is not a test: without the environment variables, it does nothing.
#[test]
fn child_writes_until_it_is_killed() {
    let Some(path) = env::var_os(CHILD_PATH) else { return };
    let first: u64 = env::var(CHILD_FIRST).unwrap().parse().unwrap();
    let mut store = open(Path::new(&path));
    for number in first.. {
        if let Op::Reopen = op(number) {
            store.close().unwrap();
            store = open(Path::new(&path));
        }
        let changed = u8::from(apply(&store, number));
        if writeln!(stdout().lock(), "wrote {number} {changed}").is_err() {
            return;
        }
    }
}

/// The keys that must be listed.
#[derive(Default)]
struct Expected {
    lists: BTreeMap<u64, List>,
    done: u64,
}

impl Expected {
    /// Applies an operation. Returns whether it changes anything.
    fn apply(&mut self, number: u64) -> bool {
        match op(number) {
            Op::Add(list, key) => match self.lists.get(&key) {
                None => self.lists.insert(key, list).is_none(),
                Some(_) => false,
            },
            Op::Remove(list, key) => {
                let is_there = self.lists.get(&key) == Some(&list);
                is_there && self.lists.remove(&key).is_some()
            }
            Op::Reopen => false,
        }
    }

    fn acknowledge(&mut self, line: &str) {
        let (number, changed) = line.split_once(' ').unwrap();
        let number = number.parse().unwrap();
        assert_eq!(number, self.done + 1);
        self.done = number;
        assert_eq!(self.apply(number), changed == "1");
    }

    /// Finds out whether the last operation, which was not acknowledged, was done.
    fn settle(&mut self, store: &Store) {
        self.done += 1;
        let (Op::Add(_, key) | Op::Remove(_, key)) = op(self.done) else { return };
        let found = store.list_of(&key.to_be_bytes()).unwrap();
        if found != self.lists.get(&key).copied() {
            self.apply(self.done);
        }
        assert_eq!(found, self.lists.get(&key).copied());
    }

    fn check(&self, store: &Store) {
        store.validate().unwrap();
        let mut found = BTreeMap::new();
        for list in [List::Yes, List::No] {
            let keys = store.entries(list).map(|entry| entry.unwrap().1);
            found.extend(keys.map(|key| (u64::from_be_bytes((*key).try_into().unwrap()), list)));
        }
        assert_eq!(found, self.lists);
        assert_eq!(store.len(List::Yes) + store.len(List::No), self.lists.len() as u64);
        for (key, list) in &self.lists {
            assert_eq!(store.contains(&key.to_be_bytes()), *list == List::Yes);
        }
    }
}

#[test]
fn lists_keep_acknowledged_changes_after_kill() {
    let (cycles, seed) = cycles_and_seed();
    let mut random = Random(seed);
    let mut directory = tempfile::tempdir().unwrap();
    let mut expected = Expected::default();
    for cycle in 0..cycles {
        let _deadline = Deadline::new();
        // Sometimes start with a new directory, so that kills also interrupt the creation of lists.
        if random.below(8) == 0 {
            directory = tempfile::tempdir().unwrap();
            expected = Expected { done: expected.done, ..Expected::default() };
        }
        let first = expected.done + 1;
        let (mut child, acknowledged) = spawn_child(
            "lists::kill::child_writes_until_it_is_killed",
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
