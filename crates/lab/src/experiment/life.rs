//! §4.4 of the `AdaptiveQF` paper and §3.1 of the paper by Bender et al., tested in a store:
//! repairs take bounded space, because filters are rebuilt with new hash functions. Also measures a
//! store that grows and shrinks, which is not in the papers.

use super::stores::judge;
use super::{Context, Experiment, Outcome};
use crate::bench::life::{Engine, Phase, RATE, Row, Work, flood_table, shrink_table, size_table};
use crate::bench::target::{Judged, Target, target_table};
use twiceshy_report::{Axis, Plot, Series};

pub(super) const LIFE: Experiment = Experiment {
    name: "life",
    title: "The life of a store",
    question: "Do the false-positive rate and the memory of a store depend only on its members, \
               however it grows and shrinks and however many different absent keys are asked for?",
    paper: "AdaptiveQF, §4.4, and Bender et al., §3.1: a filter that is rebuilt with a new hash \
            function whenever its repairs have used up their space, say 10 %, keeps its rate in \
            that space forever. We claim more: a store also keeps its rate while it grows and \
            shrinks, and its memory follows the number of its members.",
    run,
};

fn work(context: &Context) -> Work {
    Work {
        phases: vec![Phase::Grow, Phase::Shrink, Phase::Planned, Phase::Flood],
        backend: Engine::Memory,
        members: 1 << context.pick(14, 20, 22),
        start: 1 << context.pick(11, 14, 14),
        flood_members: 1 << context.pick(11, 16, 16),
        queries_per_member: context.pick(300, 1000, 10_000),
        rate_queries: context.pick(50_000, 200_000, 200_000),
        background_share: 0.5,
        seed: Some(context.seed),
        directory: None,
    }
}

/// A series of points from some of the rows.
fn series(name: &str, rows: &[Row], point: impl Fn(&Row) -> Option<(u64, f64)>) -> Series {
    let points = rows.iter().filter_map(point).map(|(x, y)| (x as f64, y));
    Series::new(name).points(points)
}

fn rates(rows: &[Row]) -> Plot {
    let percent = |rate: f64| rate * 100.0;
    Plot::lines(
        "False-positive rate of absent keys that were not queried before",
        Axis::log2("members", ""),
        Axis::linear("false-positive rate", "%").from_zero(),
    )
    .series(series("growing", rows, |row| match row {
        Row::Grow(row) => Some((row.size.members, percent(row.rate))),
        _ => None,
    }))
    .series(series("shrinking", rows, |row| match row {
        Row::Shrink(row) => Some((row.size.members, percent(row.rate))),
        _ => None,
    }))
    .reference("requested", percent(RATE))
}

fn memory(rows: &[Row]) -> Plot {
    Plot::lines(
        "All memory at rest",
        Axis::log2("members", ""),
        Axis::linear("memory", "bits per member").from_zero(),
    )
    .series(series("growing", rows, |row| match row {
        Row::Grow(row) => Some((row.size.members, row.size.memory_bits_per_member)),
        Row::GrowSize(row) => Some((row.members, row.memory_bits_per_member)),
        _ => None,
    }))
    .series(series("shrinking", rows, |row| match row {
        Row::Shrink(row) => Some((row.size.members, row.size.memory_bits_per_member)),
        Row::ShrinkSize(row) => Some((row.members, row.memory_bits_per_member)),
        _ => None,
    }))
    .series(series("filter alone, growing", rows, |row| match row {
        Row::Grow(row) => Some((row.size.members, row.size.filter_bits_per_member)),
        Row::GrowSize(row) => Some((row.members, row.filter_bits_per_member)),
        _ => None,
    }))
    .note("Small stores use more per member, because locks and counters have a fixed size.")
}

fn mistakes(rows: &[Row]) -> Plot {
    Plot::lines(
        "Mistakes in a flood of different absent keys",
        Axis::log10("queries per member", "").si(),
        Axis::linear("mistakes", "per million queries").from_zero(),
    )
    .series(series("since the point before", rows, |row| match row {
        Row::Flood(row) => Some((row.queries_per_member, row.mistakes_per_million)),
        _ => None,
    }))
    .reference("requested rate", RATE * 1e6)
}

/// Returns the number of met targets and the number of measured ones.
fn count(targets: &[&Target]) -> (usize, usize) {
    let count = |met| targets.iter().filter(|target| target.verdict == met).count();
    (count(Judged::Met), count(Judged::Met) + count(Judged::Missed))
}

/// Returns the least and the greatest of some numbers.
fn span(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    (values.clone().fold(f64::INFINITY, f64::min), values.fold(f64::NEG_INFINITY, f64::max))
}

fn seen(rows: &[Row], targets: &[&Target]) -> String {
    let sizes = rows.iter().filter_map(|row| match row {
        Row::Grow(row) => Some((row.size.members, row.rate, row.size.memory_bits_per_member)),
        Row::Shrink(row) => Some((row.size.members, row.rate, row.size.memory_bits_per_member)),
        _ => None,
    });
    let (fewest, most) = span(sizes.clone().map(|(members, ..)| members as f64));
    let (lowest, highest) = span(sizes.clone().map(|(_, rate, _)| rate * 100.0));
    let between = rows.iter().filter_map(|row| match row {
        Row::GrowSize(row) | Row::ShrinkSize(row) => Some(row.memory_bits_per_member),
        _ => None,
    });
    let (least, greatest) = span(sizes.map(|(.., bits)| bits).chain(between));
    let fixed = rows.iter().find_map(|row| match row {
        Row::Grow(row) => {
            let bits = row.size.memory_bits_per_member - row.size.filter_bits_per_member;
            Some(bits * row.size.members as f64 / 8.0 / 1024.0)
        }
        _ => None,
    });
    let fixed = fixed.unwrap_or_default();
    let last = rows.iter().rev().find_map(|row| match row {
        Row::Flood(row) => Some(row),
        _ => None,
    });
    let flood = last.map_or_else(String::new, |row| {
        format!(
            "A flood of {} queries per member made {} mistakes; {:.0} are allowed. It took {} \
             rotations, left {} mistakes on disk, and read {:.0} members per repair. ",
            row.queries_per_member,
            row.mistakes,
            row.allowed_mistakes,
            row.rotations,
            row.kept_mistakes,
            row.members_read_per_repair,
        )
    });
    let (met, measured) = count(targets);
    format!(
        "From {fewest:.0} to {most:.0} members and back, the rate was {lowest:.3} to \
         {highest:.3} % ({:.1} % requested), and all memory took {least:.1} to {greatest:.1} bits \
         per member. At the smallest size, {fixed:.0} KiB of it were not the filter's. \
         {flood}{met} of {measured} measured targets are met. (This is a single run in memory, with \
         two threads.)",
        RATE * 100.0
    )
}

fn run(context: &Context) -> Outcome {
    let mut rows = Vec::new();
    let measured = work(context).run(&mut |row| {
        rows.push(row);
        Ok(())
    });
    measured.expect("rows are only collected");
    let targets: Vec<&Target> = rows
        .iter()
        .filter_map(|row| match row {
            Row::Target(target) => Some(target),
            _ => None,
        })
        .collect();
    // Latencies are timed. All other targets are counted.
    let judged = |is_timed: bool| -> Vec<bool> {
        let measured = targets.iter().filter(|target| target.verdict != Judged::NotMeasured);
        let measured = measured.filter(|target| (target.unit == "µs") == is_timed);
        measured.map(|target| target.verdict == Judged::Met).collect()
    };
    Outcome {
        seen: seen(&rows, &targets),
        verdict: judge(context, &judged(false), &judged(true)),
        blocks: vec![
            rates(&rows).into(),
            memory(&rows).into(),
            mistakes(&rows).into(),
            size_table(&rows).into(),
            shrink_table(&rows).into(),
            flood_table(&rows).into(),
            target_table(targets.iter().copied()).into(),
        ],
    }
}
