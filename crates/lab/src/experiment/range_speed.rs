//! Figures 10 and 11 of the Aeris paper: the speed of range filters.

use super::stores;
use super::summary::fastest;
use super::{Context, Experiment, Outcome, progress};
use crate::bench::measure::timed;
use crate::contestant::range::{Keys, RangeKind, RangeOp, RangeShape};
use twiceshy_report::{Axis, Best, Cell, Column, Plot, Point, Series, Table};
use twiceshy_workloads::key::scatter;
use twiceshy_workloads::member::{Endpoints, Ranges};

pub(super) const RANGE_SPEED: Experiment = Experiment {
    name: "range-speed",
    title: "Ranges: speed",
    question: "How many ranges per second does each filter answer on one core, in memory, and how \
               fast is it filled, one by one and in one call?",
    paper: "Aeris, §5.2, figures 10 and 11: it answers as many ranges as the fastest, Memento and \
            Grafite, and is filled as fast as the others, in one call and one by one.",
    run,
};

const KINDS: [RangeKind; 5] = [
    RangeKind::Aeris,
    RangeKind::AerisNotAdapting,
    RangeKind::Memento,
    RangeKind::Grafite,
    RangeKind::FstTruncated,
];
const LENGTHS: [u64; 3] = [1, 32, 1024];
const EXPONENT: f64 = 1.5;
const ROUNDS: u64 = 5;

/// The times in nanoseconds, by filter, length, operation and round.
type Times = [[[Vec<f64>; RangeOp::ALL.len()]; LENGTHS.len()]; KINDS.len()];

/// Runs one round with ranges of one length. All filters do one operation, and then all do the
/// next.
fn round(shape: &RangeShape, at: usize, queries: usize, times: &mut Times) {
    let sorted = shape.sorted_members();
    let mut members = sorted.clone();
    members.sort_by_key(|&member| scatter(member));
    let (length, seed) = (shape.longest_range, shape.seed);
    let ranges = Ranges::new(&sorted, Endpoints::CORRELATED, length, EXPONENT, seed);
    let ranges: Vec<Keys> = ranges.expect("a law").take(queries).collect();
    let empty = |kind: RangeKind| kind.empty(shape).expect("memory for a filter");
    let mut filters = KINDS.map(empty);
    let mut maybe = Vec::new();
    for (op_at, op) in RangeOp::ALL.into_iter().enumerate() {
        for ((kind, filter), times) in KINDS.iter().zip(&mut filters).zip(&mut *times) {
            if !kind.can(op) {
                continue;
            }
            let time = match op {
                RangeOp::Insert => timed(|| filter.insert_each(&members)).1,
                RangeOp::Bulk => {
                    // Don't measure the first call, which also determines sizes in some filters.
                    filter.bulk(&sorted);
                    timed(|| filter.bulk(&sorted)).1
                }
                RangeOp::Negative => timed(|| filter.ask(&ranges)).1,
                RangeOp::NegativeMany => timed(|| filter.count_many(&ranges, &mut maybe)).1,
            };
            times[at][op_at].push(time);
        }
    }
}

fn title(op: RangeOp) -> &'static str {
    match op {
        RangeOp::Insert => "Inserts, one by one",
        RangeOp::Bulk => "Building from sorted members",
        RangeOp::Negative => "Empty ranges close to members",
        RangeOp::NegativeMany => "Empty ranges close to members, in one call",
    }
}

/// Returns a short name for a column heading.
fn short(op: RangeOp) -> &'static str {
    match op {
        RangeOp::Insert => "insert",
        RangeOp::Bulk => "bulk",
        RangeOp::Negative => "query",
        RangeOp::NegativeMany => "query many",
    }
}

fn note(op: RangeOp) -> &'static str {
    match op {
        RangeOp::Insert => {
            "The adaptive filter also keeps its members in a sorted set, its reverse map, which \
             the paper leaves out. Grafite and the truncated keys are static."
        }
        RangeOp::Bulk => {
            "Includes the reverse map of the adaptive filter. Truncated keys are as long as they \
             fit; the length is determined before."
        }
        RangeOp::Negative => "Zipf 1.5. The adaptive filter adapts while it is measured.",
        RangeOp::NegativeMany => "The other filters only answer one by one.",
    }
}

fn run(context: &Context) -> Outcome {
    let slots = 1 << context.pick(13, 20, 26);
    let queries = context.pick(10_000, 1_000_000, 200_000_000);
    let mut times = Times::default();
    let bar = progress("rounds", ROUNDS as usize * LENGTHS.len());
    for seed in context.seed..context.seed + ROUNDS {
        for (at, length) in LENGTHS.into_iter().enumerate() {
            round(&RangeShape::new(slots, length, 9, seed), at, queries, &mut times);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();

    let members = RangeShape::new(slots, 1, 9, 1).members as usize;
    let speed = |kind: usize, at: usize, op: usize| -> Option<Point> {
        let count = match RangeOp::ALL[op] {
            RangeOp::Insert | RangeOp::Bulk => members,
            RangeOp::Negative | RangeOp::NegativeMany => queries,
        };
        let times = &times[kind][at][op];
        (!times.is_empty()).then(|| fastest(at as f64, count, times))
    };
    let plots = RangeOp::ALL.into_iter().enumerate().map(|(op_at, op)| {
        let mut plot = Plot::bars(
            title(op),
            "keys per range",
            LENGTHS.map(|length| length.to_string()),
            Axis::linear("throughput", "op/s").si().from_zero(),
        )
        .note(format!(
            "The best of {ROUNDS} rounds; whiskers extend to the worst. Filters take turns. {}",
            note(op)
        ));
        for (kind, name) in KINDS.map(RangeKind::name).into_iter().enumerate() {
            let points: Vec<Point> =
                (0..LENGTHS.len()).filter_map(|at| speed(kind, at, op_at)).collect();
            if !points.is_empty() {
                plot = plot.series(Series::new(name).points(points));
            }
        }
        plot
    });
    let blocks = plots.map(Into::into).chain([table(speed).into()]).collect();

    // The ratio of our speed to that of the best other filter, at the length where it is lowest.
    let worst = |op: RangeOp, ours: RangeKind, others: &[RangeKind]| {
        let op = RangeOp::ALL.iter().position(|&other| other == op).expect("all are measured");
        let rate = |kind: RangeKind, at: usize| {
            let kind = KINDS.iter().position(|&other| other == kind).expect("all run");
            speed(kind, at, op).map_or(0.0, |point| point.y)
        };
        let best = |at: usize| others.iter().map(|&other| rate(other, at)).fold(0.0, f64::max);
        (0..LENGTHS.len()).map(|at| rate(ours, at) / best(at)).fold(f64::INFINITY, f64::min)
    };
    let query =
        worst(RangeOp::Negative, RangeKind::Aeris, &[RangeKind::Memento, RangeKind::Grafite]);
    let insert = worst(RangeOp::Insert, RangeKind::AerisNotAdapting, &[RangeKind::Memento]);
    let bulk = worst(
        RangeOp::Bulk,
        RangeKind::AerisNotAdapting,
        &[RangeKind::Memento, RangeKind::Grafite, RangeKind::FstTruncated],
    );
    Outcome {
        seen: format!(
            "At the worst of three lengths, the Aeris filter answers {query:.2} times as many \
             ranges as the faster of Memento and Grafite, while it adapts. Without the reverse \
             map, it does {insert:.2} times as many inserts as Memento, and is built from all \
             members {bulk:.2} times as fast as the fastest of the others."
        ),
        verdict: stores::judge(context, &[], &[query >= 0.95, insert >= 0.95, bulk >= 0.95]),
        blocks,
    }
}

fn table(speed: impl Fn(usize, usize, usize) -> Option<Point>) -> Table {
    let columns = LENGTHS.into_iter().flat_map(|length| {
        RangeOp::ALL.map(|op| Column::decimals(format!("{} {length}", short(op)), "M/s", 2))
    });
    let mut table = Table::new("Millions per second, by operation and keys per range")
        .columns([Column::text("filter")])
        .columns(columns);
    for (kind, name) in KINDS.map(RangeKind::name).into_iter().enumerate() {
        let cells = (0..LENGTHS.len()).flat_map(|at| {
            let speed = &speed;
            let rate = move |op| Cell::from(speed(kind, at, op).map(|point| point.y / 1e6));
            (0..RangeOp::ALL.len()).map(rate)
        });
        table = table.row([name.into()].into_iter().chain(cells));
    }
    let columns = 1..=LENGTHS.len() * RangeOp::ALL.len();
    columns.fold(table, |table, column| table.highlight(column, Best::Greatest))
}
