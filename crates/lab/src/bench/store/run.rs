//! A setup on its way through the operations, and the turns in which that is timed.

use super::super::measure;
use super::setup::{Key, Kind, Setup, Size};
use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, io};
use tempfile::TempDir;
use twiceshy_store::FjallBackend;
use twiceshy_workloads::key::scatter;

/// Where the engine's files are, in the directory of a run.
pub(crate) const DATA: &str = "data";

/// One setup, in a directory of its own.
pub(crate) struct Run {
    pub(crate) kind: Kind,
    pub(super) directory: TempDir,
    pub(crate) setup: Setup,
    /// All mistakes so far.
    mistakes: HashSet<Key>,
}

/// What came of queries, in several turns.
#[derive(Default)]
pub(crate) struct Tally {
    /// Thousands a second, of each turn.
    pub(crate) kops: Vec<f64>,
    pub(crate) gets: u64,
    pub(crate) scans: u64,
    /// Mistakes that weren't made before, if that is known.
    pub(crate) distinct: Option<u64>,
}

/// What a turn of inserts took.
#[derive(Clone, Copy)]
pub(crate) struct Spent {
    pub(crate) count: usize,
    /// On the clock.
    pub(crate) time: Duration,
    /// Nanoseconds of all threads' CPU time: the engine's own work on when the clock has stopped.
    pub(crate) cpu: f64,
    /// The load of our filter then, if there is one.
    pub(crate) load: Option<f64>,
}

impl Run {
    /// An empty store, in a temporary directory in `parent` or where such things are.
    pub(crate) fn new(kind: Kind, size: &Size, parent: Option<&Path>) -> Self {
        let directory = match parent {
            Some(parent) => tempfile::tempdir_in(parent),
            None => tempfile::tempdir(),
        };
        let directory = directory.expect("room for a directory");
        let engine = kind.engine(&directory.path().join(DATA), size);
        Self::over(engine, directory, kind, size)
    }

    /// The store of an engine that is open, in this directory.
    pub(crate) fn over(engine: FjallBackend, directory: TempDir, kind: Kind, size: &Size) -> Self {
        Self { kind, directory, setup: Setup::over(engine, kind, size), mistakes: HashSet::new() }
    }

    /// A copy of the files as they are while the store is open: what is left when the process is
    /// killed now.
    pub(crate) fn crash_image(&self) -> TempDir {
        measure::settle();
        let image = tempfile::tempdir().expect("room for a directory");
        copy(&self.directory.path().join(DATA), &image.path().join(DATA)).expect("room for a copy");
        image
    }

    /// Asks for keys that aren't there.
    pub(crate) fn ask(&mut self, keys: &[Key], tally: &mut Tally) {
        let scans = self.setup.scans();
        let start = Instant::now();
        for key in keys {
            assert!(!self.setup.contains(key), "nobody put it");
        }
        tally.kops.push(thousands(keys.len(), start.elapsed()));
        tally.scans += self.setup.scans() - scans;
        let asked = self.setup.asked();
        tally.gets += asked.as_ref().map_or(keys.len(), Vec::len) as u64;
        tally.distinct = asked.map(|asked| {
            let new = asked.into_iter().filter(|&key| self.mistakes.insert(key)).count() as u64;
            tally.distinct.unwrap_or_default() + new
        });
    }

    /// What the adversary learns from asking: the keys that went to the disk, or seem to have.
    ///
    /// It is no `Collector` of the workloads: where visits can't be seen, that one takes what costs
    /// several times the usual, however many these are, and this one the slowest, so many of each
    /// 1000.
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

fn copy(from: &Path, to: &Path) -> io::Result<()> {
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

/// All setups insert all members, in so many turns; what each turn of each setup took.
pub(crate) fn insert_in_turns(runs: &[Run], members: &[Key], turns: usize) -> Vec<Vec<Spent>> {
    let mut spent = vec![Vec::new(); runs.len()];
    measure::settle();
    let turns = slices(members, turns);
    for (index, turn) in in_turns(runs.len(), turns.len()) {
        let (start, start_cpu) = (Instant::now(), measure::process_cpu_nanoseconds());
        for key in turns[turn] {
            runs[index].setup.put(key);
        }
        let time = start.elapsed();
        measure::settle();
        spent[index].push(Spent {
            count: turns[turn].len(),
            time,
            cpu: measure::process_cpu_nanoseconds() - start_cpu,
            load: runs[index].setup.load(),
        });
    }
    spent
}

/// Contestants and their turns, one after the other; nobody always comes behind the same one.
pub(crate) fn in_turns(contestants: usize, turns: usize) -> impl Iterator<Item = (usize, usize)> {
    let of_turn = move |turn| (0..contestants).map(move |one| ((one + turn) % contestants, turn));
    (0..turns).flat_map(of_turn)
}

/// The next queries: strangers, some of them replaced by what the adversary has learnt, which
/// it asks for in turn; so many of 1000.
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
        // Whoever has learnt nothing asks like everybody.
        known.or_else(|| strangers.next()).expect("there is no end of strangers")
    };
    (0..count).map(next).collect()
}

/// Slices of the same size, at most as many as there are turns.
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
    fn everybody_has_every_turn() {
        let mut seen: Vec<_> = in_turns(3, 4).collect();
        assert_eq!(seen[3..6], [(1, 1), (2, 1), (0, 1)]);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 12);
        assert_eq!(slices(&[[0; 16]; 65], 64).len(), 33);
    }
}
