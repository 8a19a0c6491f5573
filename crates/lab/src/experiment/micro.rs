//! Figure 3 of the `AdaptiveQF` paper: the speed of filters while they fill.

use super::stores;
use super::summary::{fastest, geometric_mean, typical};
use super::{Context, Experiment, Outcome, progress};
use crate::bench::measure::timed;
use crate::contestant::{Contestant, Kind, Shape};
use twiceshy_report::{Axis, Best, Cell, Column, Plot, Point, Series, Table};
use twiceshy_workloads::key::scatter;
use twiceshy_workloads::stream::{Zipf, uniform};

pub(super) const MICRO: Experiment = Experiment {
    name: "micro",
    title: "Speed while a filter fills",
    question: "How many inserts and lookups per second does each filter reach on one core, in \
               memory, depending on the load?",
    paper: "AdaptiveQF, figure 3: it is as fast as the quotient filter it is based on, for both \
            inserts and lookups; the cuckoo filter inserts fastest.",
    run,
};

/// The number of different keys in the paper's skewed queries. Members are not among them.
const UNIVERSE: u64 = 10_000_000;
const EXPONENT: f64 = 1.5;
/// The number of loads at which lookups are measured. The last is 90 %.
const STEPS: usize = 18;
/// The number of the first non-member. Skewed queries have smaller numbers.
const STRANGERS: u64 = 1 << 40;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Op {
    Insert,
    Absent,
    Member,
    Skewed,
}

impl Op {
    const ALL: [Self; 4] = [Self::Insert, Self::Absent, Self::Member, Self::Skewed];

    fn name(self) -> &'static str {
        match self {
            Self::Insert => "inserts",
            Self::Absent => "lookups of non-members",
            Self::Member => "lookups of members",
            Self::Skewed => "lookups, Zipf 1.5",
        }
    }
}

/// The filters, and whether members are inserted in batches.
const ENTRANTS: [(Kind, bool); Kind::ALL.len() + 1] = {
    let mut entrants = [(Kind::AqfNotAdapting, true); Kind::ALL.len() + 1];
    let mut at = 0;
    while at < Kind::ALL.len() {
        entrants[at] = (Kind::ALL[at], false);
        at += 1;
    }
    entrants
};

fn name((kind, in_batches): (Kind, bool)) -> &'static str {
    if in_batches { "AQF, in batches" } else { kind.name() }
}

/// The times in nanoseconds, by entrant, operation, step and round.
type Times = Vec<[Vec<Vec<f64>>; 4]>;

/// Runs one round, in which all filters fill at the same pace.
fn round(shape: &Shape, queries: usize, times: &mut Times, done: impl Fn()) {
    let seed = shape.seed;
    let members: Vec<u64> = (0..shape.members()).map(|n| scatter(UNIVERSE + n)).collect();
    let mut filters: Vec<Box<dyn Contestant>> =
        ENTRANTS.iter().map(|(kind, _)| kind.build(shape)).collect();
    let mut skewed = Zipf::new(UNIVERSE, EXPONENT).expect("a law").stream(seed).map(scatter);
    let mut strangers = (STRANGERS..).map(scatter);
    let chunk = members.len().div_ceil(STEPS);
    for (step, newcomers) in members.chunks(chunk).enumerate() {
        let inserted = (step * chunk + newcomers.len()) as u64;
        let asked = [
            strangers.by_ref().take(queries).collect::<Vec<_>>(),
            uniform(inserted, seed + step as u64)
                .expect("members")
                .take(queries)
                .map(|n| members[n as usize])
                .collect(),
            skewed.by_ref().take(queries).collect(),
        ];
        for ((filter, (_, in_batches)), times) in filters.iter_mut().zip(ENTRANTS).zip(&mut *times)
        {
            let insert = || {
                if in_batches { filter.insert(newcomers) } else { filter.insert_each(newcomers) }
            };
            // Scale the time to a full chunk. The last chunk may be smaller.
            let whole = chunk as f64 / newcomers.len() as f64;
            times[0][step].push(timed(insert).1 * whole);
            if in_batches {
                // Don't measure lookups of a filter that is filled in batches. They are the same as
                // those of the filter that is filled one by one.
                continue;
            }
            times[1][step].push(timed(|| filter.ask(&asked[0])).1);
            let (found, time) = timed(|| filter.count(&asked[1]));
            assert_eq!(found, queries, "a member is missing");
            times[2][step].push(time);
            times[3][step].push(timed(|| filter.ask(&asked[2])).1);
        }
        done();
    }
}

fn run(context: &Context) -> Outcome {
    let shape = Shape { slots: 1 << context.pick(14, 22, 27), ..context.shape() };
    let rounds = 5;
    let queries = context.pick(5_000, 200_000, 200_000_000 / STEPS);
    let bar = progress("loads", rounds * STEPS);
    let mut times: Times = vec![std::array::from_fn(|_| vec![Vec::new(); STEPS]); ENTRANTS.len()];
    for seed in 0..rounds as u64 {
        // Each round has a different secret. With the same secret, a frequent query that collides
        // would do so in every round.
        let shape = Shape { seed: context.seed + seed, ..shape };
        round(&shape, queries, &mut times, || bar.inc(1));
    }
    bar.finish_and_clear();

    let chunk = (shape.members() as usize).div_ceil(STEPS);
    let curve = |entrant: usize, op: Op| -> Vec<Point> {
        let count = if op == Op::Insert { chunk } else { queries };
        let times = times[entrant][op as usize].iter().enumerate();
        let load = |step: usize| (((step + 1) * chunk) as f64 / shape.slots as f64).min(0.9);
        let point = if op == Op::Skewed { typical } else { fastest };
        times.map(|(step, times)| point(load(step), count, times)).collect()
    };
    let plots = Op::ALL.map(|op| {
        let mut plot = Plot::lines(
            format!("Throughput of {}", op.name()),
            Axis::linear("load", ""),
            Axis::linear("throughput", "op/s").si().from_zero(),
        )
        .note(note(op, rounds));
        for (entrant, who) in ENTRANTS.into_iter().enumerate() {
            if op == Op::Insert || !who.1 {
                plot = plot.series(Series::new(name(who)).points(curve(entrant, op)));
            }
        }
        plot
    });

    let overall = |entrant, op| {
        geometric_mean(&curve(entrant, op).iter().map(|point| point.y).collect::<Vec<_>>())
    };
    let entrant = |kind| ENTRANTS.iter().position(|&who| who == (kind, false)).expect("all run");
    let [untold, plain, cuckoo] = [Kind::AqfNotAdapting, Kind::Qfilter, Kind::Cuckoo].map(entrant);
    let ratios = Op::ALL.map(|op| overall(untold, op) / overall(plain, op));
    let inserts = |entrant| overall(entrant, Op::Insert);
    let cuckoo_rank =
        Kind::ALL.iter().filter(|&&kind| inserts(entrant(kind)) > inserts(cuckoo)).count() + 1;
    Outcome {
        seen: format!(
            "Averaged over all loads, the bare adaptive filter does {:.2} times as many inserts as \
             the quotient filter, and {:.2} times as many lookups of non-members, {:.2} times of \
             members, and {:.2} times of skewed queries. The cuckoo filter (a crate's, not the \
             paper's) is number {cuckoo_rank} of {} at inserts.",
            ratios[0],
            ratios[1],
            ratios[2],
            ratios[3],
            Kind::ALL.len(),
        ),
        verdict: stores::judge(
            context,
            &[],
            &[ratios[0] >= 0.95, ratios[1..].iter().all(|&ratio| ratio >= 0.95), cuckoo_rank == 1],
        ),
        blocks: plots.map(Into::into).into_iter().chain([table(overall).into()]).collect(),
    }
}

fn note(op: Op, rounds: usize) -> String {
    let rounds = match op {
        Op::Skewed => format!(
            "The median of {rounds} rounds; bands from the worst to the best. It depends on where \
             the few frequent queries fall."
        ),
        _ => format!("The best of {rounds} rounds; bands extend to the worst."),
    };
    let more = match op {
        Op::Insert => {
            "One by one, unless batches are named. The adaptive filter also keeps its members in a \
             sorted set, its reverse map, which the paper leaves out."
        }
        Op::Absent | Op::Skewed => "The adaptive filter adapts while it is measured.",
        Op::Member => "In a different order than they were inserted.",
    };
    format!("{rounds} {more} Filters take turns; times are CPU times, including hashing.")
}

fn table(overall: impl Fn(usize, Op) -> f64) -> Table {
    let mut table = Table::new("Millions per second, mean over all loads")
        .columns([Column::text("filter")])
        .columns(Op::ALL.map(|op| Column::decimals(op.name(), "M/s", 2)));
    for (entrant, who) in ENTRANTS.into_iter().enumerate() {
        let rate = |op: Op| {
            let is_shown = op == Op::Insert || !who.1;
            Cell::from(is_shown.then(|| overall(entrant, op) / 1e6))
        };
        table = table.row([name(who).into()].into_iter().chain(Op::ALL.map(rate)));
    }
    (1..=Op::ALL.len()).fold(table, |table, column| table.highlight(column, Best::Greatest))
}
