//! Figure 7 and table 2 of the Aeris paper: an adversary who repeats ranges that cost a disk read.

use super::stores::judge;
use super::summary::spread;
use super::{Context, Experiment, Outcome, progress};
use crate::bench::range_store::{Kind, SHARES, Seen, Size, Tally, Work, play};
use crate::contestant::range::RangeShape;
use twiceshy_report::{Axis, Best, Column, Plot, Series, Table};

pub(super) const RANGE_HOSTILE: Experiment = Experiment {
    name: "range-hostile",
    title: "Ranges: hostile queries to a store",
    question: "How fast does a store answer empty ranges if some of them come from an adversary \
               who has noted which cost a disk read, and how much is read?",
    paper: "Aeris, §5.1, figure 7 and table 2: with a cache for 1 % of the data, stores whose \
            filters don't adapt are 1.5 times slower with 1 % of hostile queries, 4 times with 5 % \
            and 8 times with 10 %; with the Aeris filter, the throughput stays the same. It reads \
            8 to 14 times fewer bytes, takes 6 % more memory than Memento, and 10 % more disk \
            space.",
    run,
};

/// The cases: the number of keys per range, and the size of the cache in percent of the data.
/// Running all cases takes long.
const CASES: [(u64, u64); 9] =
    [(1, 1), (32, 1), (1024, 1), (32, 10), (1, 10), (1024, 10), (1, 5), (32, 5), (1024, 5)];
/// The index of the case that is shown in full.
const SHORT: usize = 1;
const LAST: usize = SHARES.len() - 1;
const ADAPTIVE: usize = 0;
const MEMENTO: usize = 1;
const GRAFITE: usize = 2;

/// A note on memory and caches.
const MEMORY: &str = "\
    All setups have the same memory: what a filter needs less than our store's is used as block \
    cache. The files are in the operating system's cache as far as they fit, so a disk read is \
    cheaper here than on a machine whose memory is full. Therefore disk reads are counted; the \
    counts are exact. For each mistake, our store also reads one or two intervals of its reverse map, and \
    records the mistake; its times and bytes include that. Truncated keys with the memory of \
    Memento are too short to be useful, and slow even without hostile queries.";

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Adaptive => "ours, adaptive (Aeris)",
        Kind::Memento => "ours, without repairs (Memento)",
        Kind::Grafite => "Grafite",
        Kind::Truncated => "truncated keys (fst)",
    }
}

/// The measurements with ranges of one length and one cache size.
struct Trial {
    length: u64,
    cache_percent: u64,
    /// The measurements for each setup.
    seen: Vec<Seen>,
}

impl Trial {
    fn new(context: &Context, length: u64, cache_percent: u64) -> Self {
        // The smallest scale has a higher false-positive rate, so that fewer queries show the
        // difference.
        let rate_bits = context.pick(6, 9, 9);
        let slots = context.pick(1 << 12, 1 << 18, 111_111_111);
        let shape = RangeShape::new(slots, length, rate_bits, context.seed);
        let cache_bytes = shape.members * Size::PAIR_BYTES * cache_percent / 100;
        let turns = context.pick(4, 32, 64);
        let work = Work {
            // The adversary learns so many ranges that their blocks don't fit into the smallest
            // cache, although our engine's blocks are small.
            warm_up: context.pick(4000, 4 * shape.members as usize, 400_000_000),
            queries: context.pick(1600, 1 << 20, 100_000_000) / turns,
            turns,
        };
        Self { length, cache_percent, seen: play(&Size { shape, cache_bytes }, &work, None) }
    }

    /// Returns the part of its throughput that a setup keeps when a share of the queries is
    /// hostile.
    fn kept(&self, kind: usize, share: usize) -> f64 {
        self.seen[kind].shares[share].kops() / self.seen[kind].shares[0].kops()
    }

    fn plot(&self, title: &str, y: Axis, value: impl Fn(&Seen, usize) -> f64) -> Plot {
        let Self { length, cache_percent, seen } = self;
        let title =
            format!("{title}: ranges of {length}, a cache for {cache_percent} % of the data");
        let mut plot = Plot::lines(title, Axis::linear("hostile queries", "%").from_zero(), y);
        for seen in seen {
            let percent = |(at, &share): (usize, &u64)| (share as f64 / 10.0, value(seen, at));
            let points = SHARES.iter().enumerate().map(percent);
            plot = plot.series(Series::new(name(seen.kind)).points(points));
        }
        plot
    }

    fn speed_plot(&self) -> Plot {
        let axis = Axis::log10("queries", "op/s").si();
        let plot = self.plot("Queries", axis, |seen, share| seen.shares[share].kops() * 1e3);
        plot.note("Medians over turns; all setups and shares alternate.")
    }

    fn visits_plot(&self) -> Plot {
        let axis = Axis::log10("disk reads", "per 1000 queries");
        self.plot("Disk reads", axis, |seen, share| {
            let tally = &seen.shares[share];
            tally.per_1000(tally.visits)
        })
    }

    /// Returns table 2 of the paper, with the bytes for learning and for queries of which 10 % are
    /// hostile.
    fn space_table(&self) -> Table {
        let Self { length, cache_percent, seen } = self;
        let title = format!(
            "Bytes read and stored: ranges of {length}, a cache for {cache_percent} % of the data"
        );
        let mut table = Table::new(title)
            .columns([
                Column::text("store"),
                Column::decimals("read", "MB", 1),
                Column::decimals("of it from disk", "MB", 1),
                Column::decimals("written", "MB", 2),
                Column::decimals("filter", "MB", 3),
                Column::decimals("stored mistakes", "", 0),
                Column::decimals("disk", "MB", 1),
                Column::percent("load before", 2),
                Column::percent("load after", 2),
            ])
            .note(
                "Totals while the adversary learns, and while 10 % of the queries are hostile; the \
                 load after all shares. How much is read from disk depends on the machine's \
                 memory. A stored mistake takes about 70 bytes of memory in addition to the \
                 filter, and is written to disk. Disk usage includes remains of the engine's \
                 journals, which may exceed the reverse map.",
            );
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        for seen in seen {
            let mut traffic = seen.warm_up.traffic;
            traffic += seen.shares[LAST].traffic;
            let [before, after] = [0, 1].map(|at| seen.load.map(|load| load[at]).into());
            table = table.row([
                name(seen.kind).into(),
                megabytes(traffic.read).into(),
                megabytes(traffic.from_disk).into(),
                megabytes(traffic.written).into(),
                megabytes(seen.filter_bytes).into(),
                seen.mistakes.into(),
                megabytes(seen.disk_bytes).into(),
                before,
                after,
            ]);
        }
        table.highlight(1, Best::Least)
    }
}

/// Returns the bytes read while learning and with 10 % hostile queries.
fn read(seen: &Seen) -> f64 {
    (seen.warm_up.traffic.read + seen.shares[LAST].traffic.read) as f64
}

fn table(trials: &[Trial]) -> Table {
    let mut table = Table::new("10 % hostile queries").columns([
        Column::text("store"),
        Column::decimals("keys", "", 0),
        Column::decimals("cache", "%", 0),
        Column::decimals("none hostile", "thousands/s", 1),
        Column::decimals("10 % hostile", "thousands/s", 1),
        Column::percent("kept", 0),
        Column::decimals("disk reads", "per 1000", 2),
        Column::decimals("reverse map read", "per 1000", 2),
        Column::decimals("repeated mistakes", "", 0),
    ]);
    for (at, kind) in Kind::ALL.into_iter().enumerate() {
        for trial in trials {
            let tally: &Tally = &trial.seen[at].shares[LAST];
            table = table.row([
                name(kind).into(),
                trial.length.into(),
                trial.cache_percent.into(),
                trial.seen[at].shares[0].kops().into(),
                tally.kops().into(),
                trial.kept(at, LAST).into(),
                tally.per_1000(tally.visits).into(),
                tally.per_1000(tally.listed).into(),
                tally.repeated.into(),
            ]);
        }
    }
    table.highlight(5, Best::Greatest)
}

fn run(context: &Context) -> Outcome {
    let cases = &CASES[..context.pick(2, 4, CASES.len())];
    let bar = progress("stores of ranges", cases.len());
    let play = |&(length, cache): &(u64, u64)| {
        let trial = Trial::new(context, length, cache);
        bar.inc(1);
        trial
    };
    let trials: Vec<Trial> = cases.iter().map(play).collect();
    bar.finish_and_clear();

    let kept = |kind: usize, share: usize| {
        trials.iter().map(|trial| trial.kept(kind, share)).collect::<Vec<_>>()
    };
    let (least, _) = spread(&kept(ADAPTIVE, LAST));
    let tallies = trials.iter().flat_map(|trial| &trial.seen[ADAPTIVE].shares);
    let repeated: u64 = tallies.map(|tally| tally.repeated).sum();
    let per_1000 = |trial: &Trial, kind: usize, share: usize| {
        let tally = &trial.seen[kind].shares[share];
        tally.per_1000(tally.visits)
    };
    let shown = &trials[SHORT];
    let slower = |share: usize| 1.0 / shown.kept(MEMENTO, share);
    let fewer = |trial: &Trial, kind: usize| read(&trial.seen[kind]) / read(&trial.seen[ADAPTIVE]);
    let [ours, memento] = [ADAPTIVE, MEMENTO].map(|kind| shown.seen[kind].filter_bytes as f64);
    Outcome {
        seen: format!(
            "Our store keeps at least {:.0} % of its throughput if 10 % of the ranges are hostile, \
             and repeats {repeated} mistakes. With ranges of {} and a cache for {} %, the same \
             filter without repairs is {:.1} times slower at 1 %, {:.1} times at 5 % and {:.1} \
             times at 10 %. Then {:.1} of 1000 queries read the disk, and {:.2} with repairs. In \
             total, it reads {:.1} times as many bytes as ours, and Grafite {:.1} times. Our \
             filter takes {:.1} % more memory than Memento.",
            least * 100.0,
            shown.length,
            shown.cache_percent,
            slower(1),
            slower(2),
            slower(LAST),
            per_1000(shown, MEMENTO, LAST),
            per_1000(shown, ADAPTIVE, LAST),
            fewer(shown, MEMENTO),
            fewer(shown, GRAFITE),
            (ours / memento - 1.0) * 100.0,
        ),
        verdict: judge(
            context,
            &[repeated == 0],
            &[
                least >= 0.95,
                slower(1) >= 1.5 && slower(2) >= 4.0 && slower(LAST) >= 8.0,
                fewer(shown, MEMENTO) >= 8.0 && fewer(shown, GRAFITE) >= 8.0,
            ],
        ),
        blocks: trials
            .iter()
            .map(|trial| trial.speed_plot().into())
            .chain([
                shown.visits_plot().into(),
                table(&trials).into(),
                shown.space_table().into(),
                MEMORY.into(),
            ])
            .collect(),
    }
}
