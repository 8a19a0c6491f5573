//! Figure 7 of the `AdaptiveQF` paper again, but with real lists and traces.

use super::summary::{around, judge, mean};
use super::{Context, Experiment, Outcome, progress};
use crate::contestant::{Kind, Shape};
use sample::Sample;
use twiceshy_report::{Axis, Block, Column, Plot, Series, Table, Verdict};

mod sample;

pub(super) const REAL_LISTS: Experiment = Experiment {
    name: "real-lists",
    title: "Real lists and traces",
    question: "How fast does the false-positive rate fall with real members and queries: a list of \
               blocked domains queried for popular ones, and the blocks accessed on a disk?",
    paper: "AdaptiveQF, §6.5 and figure 7, on different data (CAIDA, Shalla): the rate falls at \
            once, since frequent queries are repaired first, for negligible space.",
    run,
};

const STEPS: usize = 25;
/// The step by which the most frequent mistakes should have been repaired.
const LATE: usize = STEPS - STEPS / 5;
/// The space for repairs that counts as negligible, in bits per member.
const NEGLIGIBLE: f64 = 0.1;

/// The measurements of one filter with a sample.
struct Run {
    /// The share of mistakes among the queries of each step.
    rates: Vec<f64>,
    /// The number of bits per member that repairs have added after each step.
    added: Vec<f64>,
}

fn observe(kind: Kind, sample: &Sample, seed: u64) -> Run {
    let members = sample.members.len() as u64;
    // This number of slots gives the papers' load.
    let shape = Shape { slots: members * 10 / 9 + 1, remainder_bits: 9, seed };
    let mut filter = kind.build(&shape);
    filter.insert(&sample.members);
    let before = filter.used_bits();
    let mut run = Run { rates: Vec::new(), added: Vec::new() };
    for step in 0..STEPS {
        let at = |step| sample.queries.len() * step / STEPS;
        let asked = &sample.queries[at(step)..at(step + 1)];
        run.rates.push(filter.ask(asked) as f64 / asked.len().max(1) as f64);
        run.added.push((filter.used_bits() - before) / members as f64);
    }
    run
}

fn run(context: &Context) -> Outcome {
    let skipped = |why: String| Outcome {
        seen: "Nothing: skipped, because there is no data.".into(),
        verdict: Verdict::Open,
        blocks: vec![Block::Text(why)],
    };
    let Some(directory) = &context.data else {
        return skipped(format!(
            "Skipped, because there is no data. Give a directory with `--data DIR` or the \
             environment variable `TWICESHY_DATA`. It must contain these files: {}.",
            sample::FILES
        ));
    };
    let queries = context.pick(200_000, 3_000_000, 3_000_000);
    let samples = match sample::load(directory, queries, context.seed) {
        Ok(samples) => samples,
        Err(why) => {
            return skipped(format!(
                "Skipped: {why}. The directory must contain {}.",
                sample::FILES
            ));
        }
    };
    let seeds = context.pick(5, 20, 100);
    let kinds = [Kind::AqfNotAdapting, Kind::Aqf];
    let bar = progress("seeds", samples.len() * kinds.len() * seeds);
    let mut blocks = Vec::new();
    let mut table = Table::new("All queries, mean over seeds")
        .columns([
            Column::text("data"),
            Column::decimals("members", "", 0),
            Column::decimals("queries", "", 0),
            Column::decimals("different queries", "", 0),
            Column::percent("rate, without repairs", 4),
            Column::percent("rate, adaptive", 4),
            Column::decimals("added", "bits/member", 4),
        ])
        .note("To reproduce this, give the directory of the data with `--data DIR`.");
    let (mut seen, mut holds) = (Vec::new(), Vec::new());
    for sample in &samples {
        let runs = kinds.map(|kind| {
            let seed = |seed: usize| {
                let run = observe(kind, sample, context.seed + seed as u64);
                bar.inc(1);
                run
            };
            (0..seeds).map(seed).collect::<Vec<_>>()
        });
        let [rates, added] = plots(sample, kinds, &runs);
        blocks.extend([rates.into(), added.into()]);
        let rate = |runs: &[Run], from: usize| {
            mean(&runs.iter().map(|run| mean(&run.rates[from..])).collect::<Vec<_>>())
        };
        let [untold, told] = runs.each_ref().map(|runs| rate(runs, 0));
        let [late_untold, late_told] = runs.each_ref().map(|runs| rate(runs, LATE));
        let space = mean(&runs[1].iter().map(|run| run.added[STEPS - 1]).collect::<Vec<_>>());
        table = table.row([
            sample.name.into(),
            (sample.members.len() as u64).into(),
            (sample.queries.len() as u64).into(),
            sample.different().into(),
            untold.into(),
            told.into(),
            space.into(),
        ]);
        seen.push(format!(
            "{}: with repairs, there are {:.1} times fewer mistakes over all queries, and {:.1} \
             times fewer over the last fifth, for {space:.4} bits per member.",
            sample.name,
            untold / told,
            late_untold / late_told
        ));
        holds.extend([late_told <= late_untold / 2.0, space < NEGLIGIBLE]);
    }
    bar.finish_and_clear();
    blocks.push(table.into());
    Outcome { seen: seen.join(" "), verdict: judge(&holds), blocks }
}

fn plots(sample: &Sample, kinds: [Kind; 2], runs: &[Vec<Run>; 2]) -> [Plot; 2] {
    let curve = |kind: Kind, runs: &[Run], value: fn(&Run) -> &Vec<f64>| {
        let point = |step: usize| {
            let values: Vec<f64> = runs.iter().map(|run| value(run)[step]).collect();
            let asked = sample.queries.len() * (step + 1) / STEPS;
            around(asked as f64, &values)
        };
        Series::new(kind.name()).points((0..STEPS).map(point))
    };
    let queries = || Axis::linear("queries", "").si();
    let title = |what: &str| format!("{}: {what}", sample.name);
    let note = format!("Means over {} secrets; bands show minimum and maximum.", runs[0].len());
    let mut rates =
        Plot::lines(title("mistakes per step"), queries(), Axis::log10("mistakes per query", ""))
            .note(note);
    for (kind, runs) in kinds.into_iter().zip(runs) {
        rates = rates.series(curve(kind, runs, |run| &run.rates));
    }
    let added = Plot::lines(
        title("space added by repairs"),
        queries(),
        Axis::linear("added", "bits/member").from_zero(),
    )
    .series(curve(kinds[1], &runs[1], |run| &run.added));
    [rates, added]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::write;

    fn context(data: Option<std::path::PathBuf>) -> Context {
        Context { data, ..Context::smallest() }
    }

    #[test]
    fn experiment_measures_lists_and_traces_in_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        let lines = |format: fn(u64) -> String| (0..2000).map(format).collect::<String>();
        let path = |name: &str| directory.path().join(name);
        write(path("blocked-domains.txt"), lines(|n| format!("{n}.bad.example\n"))).unwrap();
        write(path("popular-origins.txt"), lines(|n| format!("https://{n}.example\n"))).unwrap();
        let missing = run(&context(Some(directory.path().into())));
        assert!(matches!(&missing.blocks[..], [Block::Text(why)] if why.contains("block-io")));
        let trace = "time,op,size,lbn\n".to_owned() + &lines(|n| format!("1,28,512,{}\n", n % 400));
        write(path("block-io-trace.csv"), trace).unwrap();
        let outcome = run(&context(Some(directory.path().into())));
        assert_eq!(outcome.blocks.len(), 5);
        assert!(outcome.seen.contains("fewer mistakes"), "{}", outcome.seen);
    }

    #[test]
    fn experiment_without_data_is_skipped_and_explains_the_data_option() {
        let outcome = run(&context(None));
        assert_eq!(outcome.verdict, Verdict::Open);
        assert!(matches!(&outcome.blocks[..], [Block::Text(why)] if why.contains("--data")));
    }
}
