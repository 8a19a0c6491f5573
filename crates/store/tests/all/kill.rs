//! A child process writes, acknowledges each batch through a pipe, and is killed at any moment. All
//! acknowledged batches must be there; of the others, at most the batch that was being written.
//! Only eventual batches may be missing, and only the last ones.
//!
//! `TWICESHY_KILL_CYCLES` sets the number of kills, and `TWICESHY_SEED` determines their moments.

#![cfg(any(feature = "fjall", feature = "redb"))]

use crate::common::Random;
use crate::common::child::{
    CHILD_ENGINE, CHILD_FIRST, CHILD_PATH, STALLED, cycles_and_seed, spawn_child,
};
use std::collections::BTreeMap;
use std::env;
use std::io::{Write, stdout};
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::{Duration, Instant};
use twiceshy_deadline::Deadline;

use std::ops::Bound::Unbounded;
use twiceshy_store::backend::{Change, Result};
use twiceshy_store::{Backend, Batch, Durability, Keyspace};

#[cfg(feature = "fjall")]
#[test]
fn fjall_keeps_acknowledged_batches_after_kill() {
    kill_again_and_again("fjall", &DURABLE);
}

#[cfg(feature = "redb")]
#[test]
fn redb_keeps_acknowledged_batches_after_kill() {
    kill_again_and_again("redb", &DURABLE);
}

#[cfg(feature = "fjall")]
#[test]
fn fjall_keeps_eventual_batches_after_kill() {
    kill_again_and_again("fjall", &Levels { most_lost: 0, ..EVENTUAL });
}

#[cfg(feature = "redb")]
#[test]
fn redb_loses_only_the_last_eventual_batches_after_kill() {
    kill_again_and_again("redb", &EVENTUAL);
}

/// The durability of each batch, and the name of the test that writes the batches.
struct Levels {
    child: &'static str,
    durability: fn(u64) -> Durability,
    /// The maximum number of acknowledged batches that may be missing after a kill.
    most_lost: u64,
}

const DURABLE: Levels = Levels {
    child: "kill::child_writes_until_it_is_killed",
    durability: |number| match number % 16 {
        0 => Durability::Synced,
        _ => Durability::Buffered,
    },
    most_lost: 0,
};

const EVENTUAL: Levels = Levels {
    child: "kill::child_with_eventual_durability_writes_until_it_is_killed",
    durability: |number| match Random(!number).below(100) {
        // Mix long runs of eventual batches with short ones.
        _ if number / 700 % 2 == 1 => Durability::Eventual,
        0 => Durability::Synced,
        1 => Durability::Buffered,
        _ => Durability::Eventual,
    },
    most_lost: 255,
};

fn open(engine: &str, path: &Path) -> Result<Box<dyn Backend>> {
    match engine {
        #[cfg(feature = "fjall")]
        "fjall" => {
            let mut options = twiceshy_store::FjallOptions::default();
            // With small memtables, sealing, flushing and compacting happen all the time.
            options.memtable_bytes = 64 << 10;
            options.cache_bytes = 256 << 10;
            Ok(Box::new(twiceshy_store::FjallBackend::open(path, options)?))
        }
        #[cfg(feature = "redb")]
        "redb" => {
            let options = twiceshy_store::RedbOptions::default();
            Ok(Box::new(twiceshy_store::RedbBackend::open(path, options)?))
        }
        _ => unreachable!("{engine}"),
    }
}

const COUNTER: &[u8] = b"last batch";

/// Returns batch `number`: a few changes in all keyspaces, and the number itself.
fn batch(number: u64) -> Batch {
    let mut random = Random(number);
    let mut batch = Batch::new();
    for _ in 0..random.below(20) {
        let space = Keyspace::ALL[random.below(3) as usize];
        let key = random.below(3000).to_be_bytes();
        if random.below(4) == 0 {
            batch.remove(space, key);
        } else {
            let length = if random.below(50) == 0 { 20_000 } else { random.below(400) };
            batch.insert(space, key, vec![number as u8; length as usize]);
        }
    }
    batch.insert(Keyspace::Meta, COUNTER, number.to_be_bytes());
    batch
}

fn last_batch(backend: &dyn Backend) -> u64 {
    let number = backend.get(Keyspace::Meta, COUNTER).unwrap();
    number.map_or(0, |number| u64::from_be_bytes((*number).try_into().unwrap()))
}

/// Runs the child process. This is not a test: without the environment variables, it does nothing.
#[test]
fn child_writes_until_it_is_killed() {
    write_until_killed(&DURABLE);
}

/// Runs the child process like the function above.
#[test]
fn child_with_eventual_durability_writes_until_it_is_killed() {
    write_until_killed(&EVENTUAL);
}

fn write_until_killed(levels: &Levels) {
    let (Ok(engine), Some(path)) = (env::var(CHILD_ENGINE), env::var_os(CHILD_PATH)) else {
        return;
    };
    let backend = open(&engine, Path::new(&path)).unwrap();
    for number in last_batch(&*backend) + 1.. {
        backend.write(&batch(number), (levels.durability)(number)).unwrap();
        // Don't use `println!`: tests capture its output.
        if writeln!(stdout().lock(), "wrote {number}").is_err() {
            return;
        }
    }
}

fn kill_again_and_again(engine: &str, levels: &Levels) {
    let (cycles, seed) = cycles_and_seed();
    let mut random = Random(seed);
    let mut directory = tempfile::tempdir().unwrap();
    let mut model: [BTreeMap<Vec<u8>, Vec<u8>>; 4] = Default::default();
    let (mut written, mut lost, mut slowest) = (0, 0, Duration::ZERO);

    for cycle in 0..cycles {
        let _deadline = Deadline::new();
        // Sometimes start with a new directory, so that kills also interrupt its creation.
        if random.below(8) == 0 {
            directory = tempfile::tempdir().unwrap();
            model = Default::default();
            written = 0;
        }
        let (mut child, acknowledged) = spawn_child(levels.child, engine, directory.path(), 0);
        let mut last = written;
        if random.below(4) == 0 {
            thread::sleep(Duration::from_micros(random.below(30_000)));
        } else {
            // Kill the child after some batches, so that each child makes progress.
            let goal = written + 1 + random.below(1500);
            let patience = Instant::now() + Duration::from_millis(20 + random.below(400));
            while last < goal && (last == written || Instant::now() < patience) {
                let asked = Instant::now();
                last = match acknowledged.recv_timeout(STALLED) {
                    Ok(number) => number.parse().unwrap(),
                    Err(RecvTimeoutError::Timeout) => {
                        child.kill().unwrap();
                        panic!("cycle {cycle}, seed {seed}: stalled after batch {last}");
                    }
                    Err(RecvTimeoutError::Disconnected) => {
                        panic!("cycle {cycle}, seed {seed}: the child died by itself")
                    }
                };
                slowest = slowest.max(asked.elapsed());
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        last = acknowledged.iter().last().map_or(last, |number| number.parse().unwrap());

        let backend = open(engine, directory.path()).unwrap();
        let found = last_batch(&*backend);
        // A batch that isn't eventual makes all batches before it durable. Closing the backend does
        // so, too.
        let durable = (written + 1..=last)
            .rfind(|&number| (levels.durability)(number) > Durability::Eventual)
            .unwrap_or(written);
        let first = durable.max(last.saturating_sub(levels.most_lost));
        assert!(
            (first..=last + 1).contains(&found),
            "cycle {cycle}, seed {seed}: {last} was acknowledged, {durable} was durable, {found} is the last \
             that is there"
        );
        lost += last.saturating_sub(found);
        for number in written + 1..=found {
            for Change { space, key, value } in batch(number).iter() {
                match value {
                    Some(value) => model[space as usize].insert(key.to_vec(), value.to_vec()),
                    None => model[space as usize].remove(key),
                };
            }
        }
        written = found;
        for space in Keyspace::ALL {
            let pairs = backend.range(space, (Unbounded, Unbounded)).map(|pair| {
                let (key, value) = pair.unwrap();
                (key.to_vec(), value.to_vec())
            });
            assert!(
                pairs.eq(model[space as usize].clone()),
                "cycle {cycle}, seed {seed}: {space:?} differs after batch {written}"
            );
        }
    }
    println!(
        "{cycles} kills, {written} batches since the last new directory, {lost} batches lost, slowest \
         {slowest:?}"
    );
}

/// The same test for a whole store. The child also reports which mistakes were repaired.
#[cfg(feature = "fjall")]
mod store {
    use super::*;
    use std::collections::BTreeSet;
    use twiceshy_store::{FjallBackend, FjallOptions, Layout, OpenOptions, Store};

    const KEYS: u64 = 2000;

    enum Op {
        Put(u64),
        Delete(u64),
        Get(u64),
        Reopen,
    }

    /// Returns operation `number`.
    fn op(number: u64) -> Op {
        let mut random = Random(number);
        let key = random.below(KEYS);
        match random.below(1000) {
            0 => Op::Reopen,
            1..400 => Op::Put(key),
            400..600 => Op::Delete(key),
            _ => Op::Get(key),
        }
    }

    fn value(number: u64) -> Vec<u8> {
        number.to_be_bytes().repeat(1 + number as usize % 20)
    }

    /// Opens a store with a filter so poor that a tenth of the absent keys are mistakes.
    fn open(path: &Path, layout: Layout) -> Store<FjallBackend> {
        let mut fjall = FjallOptions::default();
        fjall.memtable_bytes = 64 << 10;
        fjall.cache_bytes = 256 << 10;
        let backend = FjallBackend::open(path.join("data"), fjall).unwrap();
        let options = OpenOptions::new().capacity(100).false_positive_rate(0.1).shards(4);
        options.layout(layout).open_with(backend, Some(path)).unwrap()
    }

    fn layout(name: &str) -> Layout {
        if name == "split" { Layout::Split } else { Layout::Merged }
    }

    #[test]
    fn child_writes_until_it_is_killed() {
        let (Ok(name), Some(path)) = (env::var(CHILD_ENGINE), env::var_os(CHILD_PATH)) else {
            return;
        };
        let first: u64 = env::var(CHILD_FIRST).unwrap().parse().unwrap();
        let mut store = open(Path::new(&path), layout(&name));
        for number in first.. {
            let before = store.stats();
            match op(number) {
                Op::Put(key) => store.put(&key.to_be_bytes(), &value(number)).unwrap(),
                Op::Delete(key) => drop(store.delete(&key.to_be_bytes()).unwrap()),
                Op::Get(key) => drop(store.get(&key.to_be_bytes()).unwrap()),
                Op::Reopen => {
                    store.close().unwrap();
                    store = open(Path::new(&path), layout(&name));
                }
            }
            let after = store.stats();
            assert_eq!(after.repairs_failed, 0);
            let repaired = u8::from(after.false_positives > before.false_positives);
            if writeln!(stdout().lock(), "wrote {number} {repaired}").is_err() {
                return;
            }
        }
    }

    #[test]
    fn merged_store_keeps_acknowledged_writes_after_kill() {
        kill_again_and_again("merged");
    }

    #[test]
    fn split_store_keeps_acknowledged_writes_after_kill() {
        kill_again_and_again("split");
    }

    /// The pairs that the store must hold, and the mistakes that have been repaired.
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
                Op::Get(key) if repaired == "1" => {
                    self.repaired.insert(key);
                }
                Op::Get(_) | Op::Reopen => {}
            }
        }

        /// Finds out whether the last operation, which was not acknowledged, was done.
        fn settle(&mut self, store: &Store<FjallBackend>) {
            self.done += 1;
            let (Op::Put(key) | Op::Delete(key)) = op(self.done) else { return };
            let found = store.get(&key.to_be_bytes()).unwrap().map(|value| value.to_vec());
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

        fn check(&self, store: &Store<FjallBackend>) {
            // A kill loses the records of the last repairs. Each of these mistakes may cost one
            // more lookup in the backend.
            let visits = || {
                let before = store.stats().backend_gets;
                for key in &self.repaired {
                    assert_eq!(store.get(&key.to_be_bytes()).unwrap(), None);
                }
                store.stats().backend_gets - before
            };
            assert!(visits() <= self.repaired.len() as u64);
            assert_eq!(visits(), 0, "a mistake recurs");
            for key in 0..KEYS {
                let found = store.get(&key.to_be_bytes()).unwrap();
                assert_eq!(found.as_deref(), self.members.get(&key).map(|value| &value[..]));
            }
            assert_eq!(store.stats().members, self.members.len() as u64);
        }
    }

    fn kill_again_and_again(name: &str) {
        let (cycles, seed) = cycles_and_seed();
        let mut random = Random(seed);
        let mut directory = tempfile::tempdir().unwrap();
        let mut expected = Expected::default();
        for cycle in 0..cycles {
            let _deadline = Deadline::new();
            if random.below(8) == 0 {
                directory = tempfile::tempdir().unwrap();
                expected = Expected { done: expected.done, ..Expected::default() };
            }
            let first = expected.done + 1;
            let (mut child, acknowledged) = spawn_child(
                "kill::store::child_writes_until_it_is_killed",
                name,
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
            let mut store = open(directory.path(), layout(name));
            store.wait_until_ready().unwrap();
            expected.settle(&store);
            expected.check(&store);
        }
        println!("{cycles} kills, {} operations", expected.done);
    }
}
