//! Runs the paper's attack. An adversary notes which empty ranges cost a disk read, and mixes them
//! into other clients' queries.

use super::setup::{Asked, Kind, Setup, Size};
use crate::bench::measure::{self, Traffic};
use crate::bench::store::{in_turns, median, mixed, thousands};
use crate::contestant::range::has_member;
use std::collections::HashSet;
use std::path::Path;
use std::time::Instant;
use tempfile::TempDir;
use twiceshy_workloads::key::scatter;

/// The adversary's shares of the queries, per 1000.
pub(crate) const SHARES: [u64; 4] = [0, 10, 50, 100];

/// The numbers of queries and turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// The number of queries that the adversary learns from.
    pub(crate) warm_up: usize,
    /// The number of queries per turn.
    pub(crate) queries: usize,
    /// The number of turns for each setup and share of hostile queries.
    pub(crate) turns: usize,
}

/// Totals over several turns.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) queries: u64,
    /// Thousands of queries per second in each turn.
    kops: Vec<f64>,
    /// The number of disk reads.
    pub(crate) visits: u64,
    /// The number of disk reads for ranges that had cost a disk read before.
    pub(crate) repeated: u64,
    /// The number of intervals that were read from the reverse map.
    pub(crate) listed: u64,
    pub(crate) traffic: Traffic,
}

impl Tally {
    /// Returns thousands of queries per second in the median turn. Interruptions hardly affect the
    /// median.
    pub(crate) fn kops(&self) -> f64 {
        median(self.kops.clone())
    }

    /// Converts a count to a count per 1000 queries.
    pub(crate) fn per_1000(&self, count: u64) -> f64 {
        count as f64 * 1e3 / self.queries as f64
    }
}

/// The measurements of a setup.
pub(crate) struct Seen {
    pub(crate) kind: Kind,
    pub(crate) warm_up: Tally,
    /// The totals for each share of hostile queries.
    pub(crate) shares: [Tally; SHARES.len()],
    /// Load of our filter before the first query and after the last.
    pub(crate) load: Option<[f64; 2]>,
    /// The number of mistakes that are kept in memory.
    pub(crate) mistakes: u64,
    pub(crate) filter_bytes: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) disk_bytes: u64,
}

/// A setup in its own directory.
struct Run {
    setup: Setup,
    length: u64,
    /// The first keys of all mistakes so far.
    mistakes: HashSet<u64>,
    _directory: TempDir,
}

impl Run {
    fn new(kind: Kind, size: &Size, sorted: &[u64], parent: Option<&Path>) -> Self {
        let directory = parent.map_or_else(tempfile::tempdir, tempfile::tempdir_in);
        let directory = directory.expect("room for a directory");
        let setup = Setup::new(kind, directory.path(), size, sorted);
        let length = size.shape.longest_range;
        Self { setup, length, mistakes: HashSet::new(), _directory: directory }
    }

    /// Queries the empty ranges that begin at `firsts`. Returns the first keys of those that cost a
    /// disk read.
    fn ask(&mut self, firsts: &[u64], tally: &mut Tally) -> Vec<u64> {
        let before = Traffic::so_far();
        let start = Instant::now();
        for &first in firsts {
            assert!(
                self.setup.is_empty(&(first..=first + (self.length - 1))),
                "the range is empty"
            );
        }
        tally.kops.push(thousands(firsts.len(), start.elapsed()));
        tally.traffic += Traffic::so_far().since(before);
        let Asked { ranges, listed } = self.setup.asked();
        tally.queries += firsts.len() as u64;
        tally.visits += ranges.len() as u64;
        tally.repeated +=
            ranges.iter().filter(|&&first| !self.mistakes.insert(first)).count() as u64;
        tally.listed += listed;
        ranges
    }

    /// Lets the adversary query the ranges that begin at `strangers`. Returns the first keys of
    /// those that cost a disk read.
    fn learn(&mut self, mut strangers: impl Iterator<Item = u64>, tally: &mut Tally) -> Vec<u64> {
        /// The number of ranges per batch. It bounds the memory.
        const CHUNK: usize = 1 << 20;
        let mut learnt = Vec::new();
        loop {
            let firsts: Vec<u64> = strangers.by_ref().take(CHUNK).collect();
            if firsts.is_empty() {
                return learnt;
            }
            learnt.extend(self.ask(&firsts, tally));
        }
    }
}

/// Iterates over the first keys of empty ranges.
fn strangers(size: &Size, sorted: &[u64]) -> impl Iterator<Item = u64> {
    let length = size.shape.longest_range;
    let numbers = (1 << 40..).map(move |number| scatter(size.shape.seed.wrapping_add(number)));
    let firsts = numbers.filter(move |&first| first <= u64::MAX - length);
    firsts.filter(move |&first| !has_member(sorted, &(first..=first + (length - 1))))
}

/// Runs all setups by turns, with all shares of hostile queries.
pub(crate) fn play(size: &Size, work: &Work, parent: Option<&Path>) -> Vec<Seen> {
    let sorted = size.shape.sorted_members();
    let mut runs = Kind::ALL.map(|kind| Run::new(kind, size, &sorted, parent));
    measure::settle();
    let before = runs.each_ref().map(|run| run.setup.load());
    let mut warm_ups = Kind::ALL.map(|_| Tally::default());
    let mut learnt = Vec::new();
    for (run, tally) in runs.iter_mut().zip(&mut warm_ups) {
        learnt.push(run.learn(strangers(size, &sorted).take(work.warm_up), tally));
    }
    let mut hostile: Vec<_> = learnt.iter().map(|firsts| firsts.iter().copied().cycle()).collect();
    let mut others = Kind::ALL.map(|_| strangers(size, &sorted).skip(work.warm_up));
    let mut tallies = Kind::ALL.map(|_| SHARES.map(|_| Tally::default()));
    for (contestant, turn) in in_turns(Kind::ALL.len() * SHARES.len(), work.turns) {
        let (share, kind) = (contestant / Kind::ALL.len(), contestant % Kind::ALL.len());
        let next = (&mut others[kind], &mut hostile[kind]);
        let firsts = mixed(next.0, next.1, SHARES[share], turn, work.queries);
        runs[kind].ask(&firsts, &mut tallies[kind][share]);
    }
    let each = Kind::ALL.into_iter().zip(&runs).zip(before).zip(warm_ups.into_iter().zip(tallies));
    let seen = each.map(|(((kind, run), before), (warm_up, shares))| Seen {
        kind,
        warm_up,
        shares,
        load: before.zip(run.setup.load()).map(Into::into),
        mistakes: run.setup.mistakes(),
        filter_bytes: run.setup.filter_bytes(),
        memory_bytes: run.setup.memory_bytes(),
        disk_bytes: run.setup.bytes_on_disk(),
    });
    seen.collect()
}
