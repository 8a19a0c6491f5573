//! Figure 7 of the Aeris paper, but without a store: adversaries with range queries.

use super::summary::judge;
use super::victim::JUDGE;
use super::{Context, Experiment, Outcome, progress};
use crate::contestant::range::{RangeContestant, RangeKind, RangeShape, has_member};
use twiceshy_report::{Axis, Column, Plot, Series, Table};
use twiceshy_workloads::adversary::{Collector, CollectorConfig, Reply, Round, Victim, Whittling};
use twiceshy_workloads::stream::uniform;

pub(super) const RANGE_ADVERSARY: Experiment = Experiment {
    name: "range-adversary",
    title: "Ranges: adversaries",
    question: "An adversary repeats the empty ranges that caused a disk read. How many disk reads \
               does it cause, and does it ever run out of such ranges?",
    paper: "Aeris, §5.1 and figure 7: filters that don't adapt let all hostile queries through; \
            with the Aeris filter, the number of disk reads doesn't depend on their share. A \
            repaired mistake never recurs.",
    run,
};

const KINDS: [RangeKind; 4] =
    [RangeKind::Aeris, RangeKind::Memento, RangeKind::Grafite, RangeKind::FstTruncated];
const LENGTHS: [u64; 3] = [1, 32, 1024];
/// The index of the range length that is plotted.
const SHOWN: usize = 1;
/// The adversary's shares of the queries, in percent.
const SHARES: [u32; 4] = [0, 1, 5, 10];
const ROUNDS: usize = 6;

/// A filter and a simulated disk. A query is the range that begins at a key. If it reads the disk
/// in vain, the filter's mistake is repaired.
struct Guarded<'a> {
    filter: Box<dyn RangeContestant>,
    sorted: &'a [u64],
    length: u64,
}

impl<'a> Guarded<'a> {
    fn new(kind: RangeKind, shape: &RangeShape, sorted: &'a [u64]) -> Self {
        let filter = kind.filled(shape, sorted).expect("memory for a filter");
        Self { filter, sorted, length: shape.longest_range }
    }
}

impl Victim for Guarded<'_> {
    fn ask(&mut self, key: u64) -> Reply {
        let range = key..=key.saturating_add(self.length - 1);
        let visits = self.filter.contains(&range);
        let is_found = visits && has_member(self.sorted, &range);
        if visits && !is_found {
            self.filter.repair(&range);
        }
        Reply { is_found, cost: u64::from(visits) }
    }
}

struct Seen {
    /// The number of disk reads per query, for each share of hostile queries.
    visits: [f64; SHARES.len()],
    /// The number of ranges that [`whittle`] has left at the beginning of each round, and at the
    /// end.
    left: [usize; ROUNDS + 1],
}

/// Plays the adversary that collects mistakes, and then mixes them with the queries of other
/// clients.
fn replay(victim: &mut Guarded<'_>, queries: u64, seed: u64) -> [f64; SHARES.len()] {
    let config = CollectorConfig { warm_up: queries, ..CollectorConfig::default() };
    let collector = Collector::collect(victim, config, seed).expect("a capacity");
    SHARES.map(|share| {
        let others = uniform(u64::MAX, seed + 1 + u64::from(share)).expect("a universe");
        let traffic = collector.clone().traffic(others, f64::from(share) / 100.0, seed);
        let traffic = traffic.expect("a share").take(queries as usize);
        traffic.map(|query| victim.ask(query.key).cost).sum::<u64>() as f64 / queries as f64
    })
}

/// Plays the adversary that queries all its ranges in each round, and keeps only the mistakes for
/// the next round.
fn whittle(victim: &mut Guarded<'_>, queries: u64, seed: u64) -> [usize; ROUNDS + 1] {
    let ranges = uniform(u64::MAX, seed).expect("a universe").take(queries as usize);
    let mut whittling = Whittling::new(ranges.collect(), 1, JUDGE);
    let rounds: [Round; ROUNDS] = std::array::from_fn(|_| whittling.round(victim));
    std::array::from_fn(|at| match rounds.get(at) {
        Some(round) => round.candidates,
        None => whittling.queries().len(),
    })
}

fn observe(context: &Context, kind: RangeKind, shape: &RangeShape, sorted: &[u64]) -> Seen {
    let queries = context.pick(20_000, 1_000_000, 100_000_000);
    let fresh = || Guarded::new(kind, shape, sorted);
    Seen {
        visits: replay(&mut fresh(), queries, context.seed),
        left: whittle(&mut fresh(), queries, context.seed),
    }
}

fn visits_plot(seen: &[Seen]) -> Plot {
    let mut plot = Plot::lines(
        format!("Disk reads, ranges of {}", LENGTHS[SHOWN]),
        Axis::linear("hostile queries", "%").from_zero(),
        Axis::log10("disk reads", "per 1000 queries"),
    )
    .note("Disk reads are simulated and counted. All ranges are empty.");
    for (kind, seen) in KINDS.iter().zip(seen) {
        let points = SHARES.iter().zip(seen.visits).map(|(&share, v)| (f64::from(share), v * 1e3));
        plot = plot.series(Series::new(kind.name()).points(points));
    }
    plot
}

fn rounds_plot(seen: &[Seen]) -> Plot {
    let mut plot = Plot::lines(
        format!("Ranges left to an adversary in rounds, ranges of {}", LENGTHS[SHOWN]),
        Axis::linear("rounds played", "").whole(),
        Axis::log10("ranges", "").si(),
    )
    .note("In each round it queries all its ranges, and keeps the mistakes.");
    for (kind, seen) in KINDS.iter().zip(seen) {
        let points = seen.left.iter().enumerate().map(|(at, &left)| (at as f64, left as f64));
        plot = plot.series(Series::new(kind.name()).points(points));
    }
    plot
}

fn table(seen: &[Vec<Seen>]) -> Table {
    let share = |share| Column::decimals(format!("{share} % hostile"), "disk reads per 1000", 2);
    let mut table = Table::new("Disk reads, and ranges left to an adversary in rounds")
        .columns([Column::text("filter"), Column::decimals("keys", "", 0)])
        .columns(SHARES.map(share))
        .columns([
            Column::decimals("after 1 round", "ranges", 0),
            Column::decimals(format!("after {ROUNDS}"), "ranges", 0),
        ]);
    for (at, kind) in KINDS.iter().enumerate() {
        for (length, seen) in LENGTHS.iter().zip(seen) {
            let Seen { visits, left } = &seen[at];
            let row = [kind.name().into(), (*length).into()];
            let left = [left[1], left[ROUNDS]].map(|left| (left as u64).into());
            let visits = visits.map(|visits| (visits * 1e3).into());
            table = table.row(row.into_iter().chain(visits).chain(left));
        }
    }
    table
}

fn run(context: &Context) -> Outcome {
    // The smallest scale has a higher false-positive rate, so that fewer queries show the difference.
    let remainder_bits = context.pick(6, 9, 9);
    let slots = 1 << context.pick(13, 20, 26);
    let bar = progress("filters", LENGTHS.len() * KINDS.len());
    // The measurements for each length and filter.
    let seen: Vec<Vec<Seen>> = LENGTHS
        .iter()
        .map(|&length| {
            let shape = RangeShape::new(slots, length, remainder_bits, context.seed);
            let sorted = shape.sorted_members();
            let observe = |kind| {
                let seen = observe(context, kind, &shape, &sorted);
                bar.inc(1);
                seen
            };
            KINDS.map(observe).into()
        })
        .collect();
    bar.finish_and_clear();

    let last = SHARES.len() - 1;
    let aeris = || seen.iter().map(|seen| &seen[0]);
    let others = || seen.iter().flat_map(|seen| &seen[1..]);
    let growth = |seen: &Seen| seen.visits[last] / seen.visits[0];
    let most = aeris().map(growth).fold(0.0, f64::max);
    let left: usize = aeris().map(|seen| seen.left[ROUNDS]).sum();
    let kept = others().all(|seen| seen.left[ROUNDS] == seen.left[1]);
    // Without repairs, all hostile queries read the disk, and so do the mistakes among other
    // queries.
    let hostile = f64::from(SHARES[last]) / 100.0;
    let pass = others().all(|seen| seen.visits[last] > 0.95 * hostile);
    let shown = |at: usize| seen[SHOWN][at].visits[last] * 1e3;
    Outcome {
        seen: format!(
            "With 10 % hostile queries, the Aeris filter lets through at most {most:.2} times as \
             many queries as without hostile queries. Of 1000 ranges of length {}, {:.2} cause a \
             disk read with Aeris, and {:.1} with Memento. An adversary who keeps only mistakes has \
             {left} ranges left after {ROUNDS} rounds against Aeris; against the others it has {} \
             after the first round.",
            LENGTHS[SHOWN],
            shown(0),
            shown(1),
            if kept { "as many as" } else { "not quite as many as" },
        ),
        verdict: judge(&[most < 1.2, left == 0, kept && pass]),
        blocks: vec![
            visits_plot(&seen[SHOWN]).into(),
            rounds_plot(&seen[SHOWN]).into(),
            table(&seen).into(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queries random empty ranges, and repeats the mistakes.
    #[test]
    fn adversary_runs_out_of_mistakes_only_against_the_adaptive_filter() {
        for length in LENGTHS {
            let shape = RangeShape::new(1 << 12, length, 6, 3);
            let sorted = shape.sorted_members();
            for kind in KINDS {
                let left = whittle(&mut Guarded::new(kind, &shape, &sorted), 20_000, 4);
                assert!(left[1] > 50, "{}, {length}: {left:?}", kind.name());
                let wanted = if kind == RangeKind::Aeris { 0 } else { left[1] };
                assert_eq!(left[ROUNDS], wanted, "{}, {length}: {left:?}", kind.name());
            }
        }
    }
}
