//! Figure 7 of the `AdaptiveQF` paper: false positives and space while a filter learns.

use super::summary::{around, mean, spread};
use super::{Context, Experiment, Outcome, progress};
use crate::contestant::{Kind, Shape};
use twiceshy_report::{Axis, Column, Plot, Series, Table, Verdict};
use twiceshy_workloads::key::scatter;
use twiceshy_workloads::stream::Zipf;

pub(super) const OVER_TIME: Experiment = Experiment {
    name: "fpr-over-time",
    title: "False positives over time",
    question: "How fast does the false-positive rate fall if queries are skewed (Zipf 1.5), and \
               what does it cost?",
    paper: "AdaptiveQF, figure 7: the rate falls immediately, by a factor of up to 100, for negligible \
            space.",
    run,
};

/// The number of different keys in the paper's queries. Members are not among them.
const UNIVERSE: u64 = 1_000_000_000;
const EXPONENT: f64 = 1.5;
const STEPS: usize = 50;

/// The measurements of one filter over time.
struct Run {
    /// The false-positive rate of new queries, before the first step and after each step. Mistakes
    /// in new queries are not repaired.
    rates: Vec<f64>,
    /// The number of bits per member that repairs have added.
    added: Vec<f64>,
}

fn observe(kind: Kind, shape: &Shape, queries: usize, sample: usize) -> Run {
    let members: Vec<u64> = (0..shape.members()).map(|n| scatter(UNIVERSE + n)).collect();
    let mut filter = kind.build(shape);
    filter.insert(&members);
    let zipf = Zipf::new(UNIVERSE, EXPONENT).expect("a law");
    // A skewed sample mostly consists of the same few keys, so draw a new sample each time.
    let mut fresh = zipf.stream(shape.seed ^ 1 << 32).map(scatter);
    let mut queried = zipf.stream(shape.seed).map(scatter);
    let before = filter.used_bits();
    let mut run = Run { rates: Vec::new(), added: Vec::new() };
    for step in 0..=STEPS {
        // Queries don't change a filter that isn't told of its mistakes.
        if step > 0 && kind != Kind::AqfNotAdapting {
            for query in queried.by_ref().take(queries / STEPS) {
                if filter.contains(query) {
                    filter.repair(query);
                }
            }
        }
        let sample: Vec<u64> = fresh.by_ref().take(sample).collect();
        run.rates.push(filter.count(&sample) as f64 / sample.len() as f64);
        run.added.push((filter.used_bits() - before) / members.len() as f64);
    }
    run
}

fn run(context: &Context) -> Outcome {
    let seeds = context.pick(4, 40, 40);
    let queries = context.pick(50_000, 20_000_000, 20_000_000);
    let sample = context.pick(5_000, 100_000, 1_000_000);
    let kinds = [Kind::AqfNotAdapting, Kind::Aqf];
    let bar = progress("seeds", seeds * kinds.len());
    let runs = kinds.map(|kind| {
        let seeds = (0..seeds as u64).map(|seed| {
            let shape = Shape { seed: context.seed + seed, ..context.shape() };
            let run = observe(kind, &shape, queries, sample);
            bar.inc(1);
            run
        });
        seeds.collect::<Vec<_>>()
    });
    bar.finish_and_clear();

    let at = |step: usize| step as f64 * queries as f64 / STEPS as f64;
    let curve = |name: &str, runs: &[Run], value: fn(&Run) -> &Vec<f64>| {
        let point = |step: usize| {
            let values: Vec<f64> = runs.iter().map(|run| value(run)[step]).collect();
            around(at(step), &values)
        };
        Series::new(name).points((0..=STEPS).map(point))
    };
    let queries_axis = || Axis::linear("queries", "").si();
    let mut rates = Plot::lines(
        "False-positive rate of new queries",
        queries_axis(),
        Axis::log10("false-positive rate", ""),
    )
    .note(format!("Means over {seeds} seeds; bands show minimum and maximum."));
    for (kind, runs) in kinds.iter().zip(&runs) {
        rates = rates.series(curve(kind.name(), runs, |run| &run.rates));
    }
    let space = Plot::lines(
        "Space added by repairs",
        queries_axis(),
        Axis::linear("added", "bits/member").from_zero(),
    )
    .series(curve(Kind::Aqf.name(), &runs[1], |run| &run.added));

    // Average over the last tenth, so that a rare event isn't missed.
    let late = |run: &Run| mean(&run.rates[STEPS - STEPS / 10..]);
    let [untold, told] =
        [&runs[0], &runs[1]].map(|runs| mean(&runs.iter().map(late).collect::<Vec<_>>()));
    let added = runs[1].iter().map(|run| *run.added.last().expect("steps")).fold(0.0, f64::max);
    let table = Table::new("At the end")
        .columns([
            Column::text("filter"),
            Column::percent("rate, mean over seeds", 4),
            Column::percent("minimum", 4),
            Column::percent("maximum", 4),
        ])
        .row(end(kinds[0], &runs[0], late))
        .row(end(kinds[1], &runs[1], late));
    let ratio = untold / told;
    Outcome {
        seen: format!(
            "Over {seeds} seeds, the mean rate at the end is {ratio:.0} times lower with repairs \
             than without, for at most {added:.4} bits per member. A single seed varies widely: it \
             depends on whether a frequent key collides."
        ),
        verdict: match (ratio >= 50.0, added <= 0.01) {
            (true, true) => Verdict::Confirmed,
            (false, false) => Verdict::Refuted,
            _ => Verdict::Partly,
        },
        blocks: vec![rates.into(), space.into(), table.into()],
    }
}

fn end(kind: Kind, runs: &[Run], late: impl Fn(&Run) -> f64) -> [twiceshy_report::Cell; 4] {
    let rates: Vec<f64> = runs.iter().map(late).collect();
    let (least, greatest) = spread(&rates);
    [kind.name().into(), mean(&rates).into(), least.into(), greatest.into()]
}
