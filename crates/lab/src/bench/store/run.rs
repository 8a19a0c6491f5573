//! Runs a setup through the operations, in timed turns.

use super::super::measure;
use super::setup::{Key, Kind, Setup, Size};
use crate::bench::life::least_listings;
use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, io};
use tempfile::TempDir;
use twiceshy_store::FjallBackend;
use twiceshy_workloads::key::scatter;

/// The name of the directory for the engine's files, within the directory of a run.
pub(crate) const DATA: &str = "data";

/// One setup in its own directory.
pub(crate) struct Run {
    pub(crate) kind: Kind,
    pub(super) directory: TempDir,
    pub(crate) setup: Setup,
    /// All mistakes so far.
    mistakes: HashSet<Key>,
}

/// Totals over several turns of queries.
#[derive(Default)]
pub(crate) struct Tally {
    /// Thousands of queries per second in each turn.
    pub(crate) kops: Vec<f64>,
    pub(super) queries: u64,
    /// The time of all turns, including the background work of our filter.
    pub(super) time: Duration,
    pub(super) skipped_repairs: u64,
    /// The number of times that each shard was rebuilt.
    pub(super) rebuilds: Vec<f64>,
    /// The highest memory use after a turn, and the engine's part of it besides its cache.
    pub(super) memory: Memory,
    pub(crate) gets: u64,
    pub(crate) scans: u64,
    /// The number of mistakes that were not made before, if known.
    pub(crate) distinct: Option<u64>,
}

impl Tally {
    /// Returns the number of times that every shard was rotated. Nothing is written meanwhile, so
    /// every rebuild is a rotation.
    pub(super) fn least_rotations(&self) -> u64 {
        least_listings(&vec![0.0; self.rebuilds.len()], &self.rebuilds)
    }
}

/// All memory of a setup, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Memory {
    pub(super) all: u64,
    /// The part that the engine takes besides its block cache.
    pub(super) engine: u64,
}

impl Memory {
    fn of(setup: &Setup) -> Self {
        Self { all: setup.memory_bytes(), engine: setup.engine_bytes() }
    }
}

/// The cost of a turn of inserts.
#[derive(Clone, Copy)]
pub(crate) struct Spent {
    pub(crate) count: usize,
    /// Wall-clock time, including the background work of our filter.
    pub(crate) time: Duration,
    /// The CPU time of all threads in nanoseconds. It includes the work that the engine's threads
    /// do after the wall clock has stopped.
    pub(crate) cpu: f64,
    /// The load of our filter after the turn, if there is one.
    pub(crate) load: Option<f64>,
    /// The memory after the turn.
    pub(super) memory: Memory,
}

impl Run {
    /// Creates an empty store in a temporary directory, in `parent` if given.
    pub(crate) fn new(kind: Kind, size: &Size, parent: Option<&Path>) -> Self {
        let directory = temporary(parent);
        let engine = kind.engine(&directory.path().join(DATA), size);
        Self::over(engine, directory, kind, size)
    }

    /// Creates a store on an open engine in this directory.
    pub(crate) fn over(engine: FjallBackend, directory: TempDir, kind: Kind, size: &Size) -> Self {
        Self { kind, directory, setup: Setup::over(engine, kind, size), mistakes: HashSet::new() }
    }

    /// Copies the files while the store is open, to a temporary directory, in `parent` if given. The
    /// copy is what would remain if the process were killed.
    pub(crate) fn crash_image(&self, parent: Option<&Path>) -> TempDir {
        measure::settle();
        let image = temporary(parent);
        copy(&self.directory.path().join(DATA), &image.path().join(DATA)).expect("room for a copy");
        image
    }

    /// Queries absent keys, and finishes the background work that they cause.
    pub(crate) fn ask(&mut self, keys: &[Key], tally: &mut Tally) {
        let (scans, skipped) = (self.setup.scans(), self.setup.skipped_repairs());
        let rebuilds = self.setup.rebuilds_of_shards();
        let start = Instant::now();
        for key in keys {
            assert!(!self.setup.contains(key), "the key is absent");
        }
        self.setup.drain();
        let time = start.elapsed();
        tally.kops.push(thousands(keys.len(), time));
        tally.queries += keys.len() as u64;
        tally.time += time;
        tally.skipped_repairs += self.setup.skipped_repairs() - skipped;
        tally.rebuilds.resize(rebuilds.len(), 0.0);
        let after = self.setup.rebuilds_of_shards();
        for ((total, after), before) in tally.rebuilds.iter_mut().zip(after).zip(rebuilds) {
            *total += after - before;
        }
        tally.memory = tally.memory.max(Memory::of(&self.setup));
        tally.scans += self.setup.scans() - scans;
        let asked = self.setup.asked();
        tally.gets += asked.as_ref().map_or(keys.len(), Vec::len) as u64;
        tally.distinct = asked.map(|asked| {
            let new = asked.into_iter().filter(|&key| self.mistakes.insert(key)).count() as u64;
            tally.distinct.unwrap_or_default() + new
        });
    }

    /// Lets the adversary query keys. Returns the keys that cost a disk read, or that seem to have
    /// cost one.
    ///
    /// If disk reads can't be seen, this function takes a fixed share of the keys: the slowest
    /// ones. In contrast, the `Collector` of the workloads takes all keys that cost several times
    /// the median.
    pub(crate) fn learn(&mut self, keys: &[Key]) -> Vec<Key> {
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

/// Creates a temporary directory, in `parent` if given.
fn temporary(parent: Option<&Path>) -> TempDir {
    parent.map_or_else(tempfile::tempdir, tempfile::tempdir_in).expect("room for a directory")
}

/// Copies a directory.
pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let (entry, to) = entry.map(|entry| (entry.path(), to.join(entry.file_name())))?;
        if entry.is_dir() {
            copy(&entry, &to)?;
        } else {
            fs::copy(&entry, &to)?;
        }
    }
    Ok(())
}

/// Inserts all members into all setups, by turns. Returns the cost of each turn of each setup.
pub(crate) fn insert_in_turns(runs: &[Run], members: &[Key], turns: usize) -> Vec<Vec<Spent>> {
    let mut spent = vec![Vec::new(); runs.len()];
    measure::settle();
    let turns = slices(members, turns);
    for (index, turn) in in_turns(runs.len(), turns.len()) {
        let (start, start_cpu) = (Instant::now(), measure::process_cpu_nanoseconds());
        for key in turns[turn] {
            runs[index].setup.put(key);
        }
        runs[index].setup.drain();
        let (time, memory) = (start.elapsed(), Memory::of(&runs[index].setup));
        measure::settle();
        spent[index].push(Spent {
            count: turns[turn].len(),
            time,
            cpu: measure::process_cpu_nanoseconds() - start_cpu,
            load: runs[index].setup.load(),
            memory,
        });
    }
    spent
}

/// Iterates over pairs of a contestant and a turn. The order rotates, so that no contestant always
/// follows the same one.
pub(crate) fn in_turns(contestants: usize, turns: usize) -> impl Iterator<Item = (usize, usize)> {
    let of_turn = move |turn| (0..contestants).map(move |one| ((one + turn) % contestants, turn));
    (0..turns).flat_map(of_turn)
}

/// Returns the next queries. Of each 1000, `share` are keys that the adversary has learnt, one
/// after the other. The others are non-members.
pub(crate) fn mixed<T>(
    strangers: &mut impl Iterator<Item = T>,
    learnt: &mut impl Iterator<Item = T>,
    share: u64,
    turn: usize,
    count: usize,
) -> Vec<T> {
    let is_hostile = |number: usize| scatter((turn * count + number) as u64) % 1000 < share;
    let next = |number| {
        let known = if is_hostile(number) { learnt.next() } else { None };
        // An adversary that has learnt nothing queries non-members.
        known.or_else(|| strangers.next()).expect("an endless iterator")
    };
    (0..count).map(next).collect()
}

/// Splits keys into slices of the same size, at most one per turn.
pub(crate) fn slices(keys: &[Key], turns: usize) -> Vec<&[Key]> {
    keys.chunks(keys.len().div_ceil(turns)).collect()
}

pub(crate) fn thousands(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contestant_takes_part_in_every_turn() {
        let mut seen: Vec<_> = in_turns(3, 4).collect();
        assert_eq!(seen[3..6], [(1, 1), (2, 1), (0, 1)]);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 12);
        assert_eq!(slices(&[[0; 16]; 65], 64).len(), 33);
    }
}
