//! Figure 8 of the Aeris paper: a filter that doubles eight times, with several ways of doubling.
//! They differ in where they read members from.

mod disk;
mod growing;
mod show;

use super::stores::judge;
use super::summary::spread;
use super::{Context, Experiment, Outcome, progress};
use crate::bench::measure::Traffic;
use crate::bench::store::{in_turns, median};
use crate::contestant::range::{Keys, has_member};
use disk::Disk;
use growing::{Filter, Growing, LENGTH, Setting, Way};
use indicatif::ProgressBar;
use show::{rate_plot, table, time_plot};
use std::time::Instant;
use twiceshy::{RangeFilter, Secret};
use twiceshy_workloads::key::scatter;

pub(super) const RANGE_EXPANSION: Experiment = Experiment {
    name: "range-expansion",
    title: "Ranges: growing",
    question: "A filter doubles 8 times while keys are inserted. How long does that take, \
               depending on where it reads its members, and does it keep its false-positive \
               rate?",
    paper: "Aeris, §5.1 and figure 8: the Aeris filter rebuilds only fingerprints that have run \
            out of bits, and takes 3 times less for all doublings than Memento, which reads all \
            keys with their values. Rebuilding everything from the reverse map takes 1.47 times as \
            long as Memento, and has the lowest rate. All stay below 2^-3, with remainders of 5 \
            and 4 bits.",
    run,
};

const DOUBLINGS: usize = 8;

/// The load up to which filters are filled. At 95 %, a filter would double by itself, and the time
/// would not be measured.
const LOAD: f64 = 0.9;

/// The settings. The first one is that of the paper.
const SETTINGS: [Setting; 4] = [
    Setting { rate_bits: 3, remainder_bits: Some([5, 4]) },
    Setting { rate_bits: 3, remainder_bits: None },
    Setting { rate_bits: 6, remainder_bits: None },
    Setting { rate_bits: 9, remainder_bits: None },
];
const PAPER: usize = 0;
/// The index of the setting with the paper's rate and our numbers of bits.
const OURS: usize = 1;
/// The index of the first setting whose planned rate should hold.
const HELD: usize = 2;

const WAYS: usize = Way::ALL.len();
const SELECTIVE: usize = 0;
const FULL: usize = 1;
const MEMENTO: usize = 2;
const EVERY_TIME: usize = 3;

const READING: &str = "\
    Each doubling is timed several times, all filters by turns, with a freshly opened engine on \
    compacted tables and a block cache for 1 % of the data. The files are in the operating \
    system's cache as far as they fit, so reading all keys, or looking up single ones, is cheaper \
    here than from a disk. Therefore the bytes read are counted too.";
/// The measurements of a filter.
#[derive(Default)]
struct Seen {
    /// The time of each successful doubling, in seconds.
    seconds: Vec<f64>,
    /// The number of bytes that the doublings have read.
    read: u64,
    /// The false-positive rates of the full filter, at the beginning and after each doubling.
    rates: Vec<f64>,
    /// The number of bits per member of the full filter, at the same times.
    bits: Vec<f64>,
}

impl Seen {
    fn total(&self) -> f64 {
        self.seconds.iter().sum()
    }

    fn worst_rate(&self) -> f64 {
        spread(&self.rates).1
    }
}

/// The filters of all settings, and their disk.
struct Course {
    first_slots: u64,
    keys: Vec<u64>,
    disk: Disk,
    /// The filters, by setting and by way of doubling.
    growing: Vec<Growing>,
    seen: Vec<Seen>,
    /// Empty ranges.
    ranges: Vec<Keys>,
}

impl Course {
    fn new(first_slots: u64, queries: usize, seed: u64) -> Self {
        let number = |number: u64| scatter(scatter(seed).wrapping_add(number));
        let members = filled(first_slots << DOUBLINGS);
        let keys: Vec<u64> = (0..members as u64).map(number).collect();
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        let firsts = (1 << 40..).map(number).filter(|&first| first <= u64::MAX - LENGTH);
        let ranges = firsts.map(|first| first..=first + (LENGTH - 1));
        let ranges = ranges.filter(|range| !has_member(&sorted, range)).take(queries).collect();
        let of_setting =
            |setting| Way::ALL.map(|way| Growing::new(way, setting, first_slots, seed)).into_iter();
        let growing: Vec<Growing> = SETTINGS.iter().flat_map(of_setting).collect();
        // All filters with this secret and this longest range have the same partitions, whatever
        // their remainder bits.
        let secret = Secret::from_bytes(u128::from(seed).to_le_bytes());
        let like = RangeFilter::builder().slots(1).longest_range(LENGTH).secret(secret).build();
        let disk = Disk::new(members, like.expect("a small filter").partitions().clone());
        let seen = growing.iter().map(|_| Seen::default()).collect();
        Self { first_slots, keys, disk, growing, seen, ranges }
    }

    /// Inserts members until the load is reached, after `doublings` doublings. Then measures the
    /// rate and the space.
    fn fill(&mut self, doublings: usize) {
        let before =
            doublings.checked_sub(1).map_or(0, |before| filled(self.first_slots << before));
        let new = &self.keys[before..filled(self.first_slots << doublings)];
        self.disk.write(new);
        for (growing, seen) in self.growing.iter_mut().zip(&mut self.seen) {
            growing.insert(new);
            seen.rates.extend(growing.rate(&self.ranges));
            seen.bits.extend(growing.bits_per_key());
        }
    }

    /// Doubles all filters, by turns.
    fn double(&mut self, doublings: usize, turns: usize) {
        let slots = self.first_slots << (doublings + 1);
        let mut doubled: Vec<Option<Filter>> = self.growing.iter().map(|_| None).collect();
        let mut times = vec![Vec::new(); self.growing.len()];
        let mut disk = self.disk.open();
        for (at, turn) in in_turns(self.growing.len(), turns) {
            // Reopen the engine before each turn. The smallest scale has one turn, and keeps the
            // engine open.
            if turns > 1 {
                drop(disk);
                disk = self.disk.open();
            }
            let before = Traffic::so_far();
            let start = Instant::now();
            doubled[at] = self.growing[at].doubled(slots, &disk);
            times[at].push(start.elapsed().as_secs_f64());
            if turn == 0 {
                self.seen[at].read += Traffic::so_far().since(before).read;
            }
        }
        for (at, doubled) in doubled.into_iter().enumerate() {
            if doubled.is_some() {
                self.seen[at].seconds.push(median(std::mem::take(&mut times[at])));
            }
            self.growing[at].become_doubled(doubled);
        }
    }

    fn run(mut self, turns: usize, bar: &ProgressBar) -> Vec<Seen> {
        for doublings in 0..=DOUBLINGS {
            self.fill(doublings);
            if doublings < DOUBLINGS {
                self.double(doublings, turns);
            }
            bar.inc(1);
        }
        self.seen
    }
}

/// Returns the number of members for `slots` slots.
fn filled(slots: u64) -> usize {
    (slots as f64 * LOAD) as usize
}

fn run(context: &Context) -> Outcome {
    let first_slots = context.pick(1 << 5, 1 << 12, 100_000_000 >> DOUBLINGS);
    let queries = context.pick(20_000, 1_000_000, 10_000_000);
    let bar = progress("doublings", DOUBLINGS + 1);
    let course = Course::new(first_slots, queries, context.seed);
    let seen = course.run(context.pick(1, 3, 3), &bar);
    bar.finish_and_clear();

    let of = |setting: usize, way: usize| &seen[setting * WAYS + way];
    let slower =
        |setting: usize, way: usize| of(setting, way).total() / of(setting, SELECTIVE).total();
    let share =
        |setting: usize, way: usize| of(setting, way).worst_rate() / SETTINGS[setting].rate();
    let held: Vec<f64> = (HELD..SETTINGS.len()).map(|setting| share(setting, SELECTIVE)).collect();
    let (_, worst) = spread(&held);
    let rises = of(PAPER, WAYS - 1);
    Outcome {
        seen: format!(
            "With the paper's bits, all doublings take Memento {:.2} times as long as Aeris, {:.1} \
             times if it reads all keys every time, and {:.1} times if Aeris rebuilds everything \
             from the reverse map; Aeris reads {:.1} MB, and Memento {:.1} MB. The worst rate is \
             {:.2} times the planned 2^-3 for Aeris, and {:.2} times for Memento. With our bits, \
             both are at most {:.2} times the planned rate; Memento takes {:.2} times as long as \
             Aeris, and reads {:.1} times as many bytes. At 2^-6 and 2^-9, the worst rate of Aeris \
             is at most {worst:.2} times the planned one. A Memento filter that reads nothing goes \
             from {:.1} to {:.1} % in {} doublings, and then can't double again.",
            slower(PAPER, MEMENTO),
            slower(PAPER, EVERY_TIME),
            slower(PAPER, FULL),
            of(PAPER, SELECTIVE).read as f64 / 1e6,
            of(PAPER, MEMENTO).read as f64 / 1e6,
            share(PAPER, SELECTIVE),
            share(PAPER, MEMENTO),
            share(OURS, SELECTIVE).max(share(OURS, MEMENTO)),
            slower(OURS, MEMENTO),
            of(OURS, MEMENTO).read as f64 / of(OURS, SELECTIVE).read as f64,
            rises.rates[0] * 100.0,
            rises.worst_rate() * 100.0,
            rises.seconds.len(),
        ),
        verdict: judge(
            context,
            &[
                worst <= 1.0,
                share(PAPER, SELECTIVE) <= 1.0,
                share(PAPER, FULL) < share(PAPER, SELECTIVE),
            ],
            &[
                slower(PAPER, MEMENTO) >= 3.0,
                slower(PAPER, EVERY_TIME) >= 3.0 && slower(PAPER, FULL) >= 3.0,
            ],
        ),
        blocks: SETTINGS
            .iter()
            .zip(seen.chunks(WAYS))
            .flat_map(|(setting, seen)| {
                [time_plot(setting, seen).into(), rate_plot(setting, seen).into()]
            })
            .chain([table(&seen).into(), READING.into()])
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Filters that read members can double any number of times. A filter that reads nothing can
    /// double until its bits run out.
    #[test]
    fn every_method_of_expanding_keeps_all_members() {
        let mut course = Course::new(8, 1000, 1);
        for doublings in 0..DOUBLINGS {
            course.fill(doublings);
            course.double(doublings, 1);
            for growing in &course.growing {
                let members = &course.keys[..filled(8 << doublings)];
                assert!(members.iter().all(|&key| growing.has(key)), "{}", growing.way.name());
            }
        }
        let doublings =
            |setting: usize, way: usize| course.seen[setting * WAYS + way].seconds.len();
        for setting in 0..SETTINGS.len() {
            assert!((0..WAYS - 1).all(|way| doublings(setting, way) == DOUBLINGS));
        }
        // Without reading members from disk, a filter can double once per remainder bit.
        assert_eq!(doublings(PAPER, WAYS - 1), 4);
        assert_eq!(doublings(SETTINGS.len() - 1, WAYS - 1), DOUBLINGS);
        // Doubling a selective filter reads only the members of fingerprints that have run out of
        // bits.
        let [young, old] = [SETTINGS.len() - 1, PAPER].map(|at| course.seen[at * WAYS].read);
        assert!(old > 2 * young, "{old} and {young}");
    }
}
