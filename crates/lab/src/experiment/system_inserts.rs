//! Figure 5 of the `AdaptiveQF` paper: inserts into a store while its filter fills.

use super::stores;
use super::{Context, Experiment, Outcome, progress};
use crate::bench::store::{Kind, Run, Spent, insert_in_turns, median};
use twiceshy_report::{Axis, Best, Column, Plot, Point, Series, Table};

pub(super) const SYSTEM_INSERTS: Experiment = Experiment {
    name: "system-inserts",
    title: "Inserts into a store",
    question: "How much does a filter slow down inserts into a store on disk, and does that grow \
               with its load?",
    paper: "AdaptiveQF, §6.4 and figure 5: with the AdaptiveQF, inserts into the store are about \
            as fast as with filters that don't adapt, up to 90 % load; with the older adaptive \
            filters they become slower.",
    run,
};

const KINDS: [Kind; 4] = [Kind::Nothing, Kind::Engine, Kind::Adaptive, Kind::Split];
const MERGED: usize = 2;

fn name(kind: Kind) -> &'static str {
    if kind == Kind::Adaptive { "ours, merged" } else { stores::name(kind) }
}

/// The turns of each setup in one round.
type Round = Vec<Vec<Spent>>;

fn rate(turns: &[Spent]) -> f64 {
    let time: f64 = turns.iter().map(|turn| turn.time.as_secs_f64()).sum();
    turns.iter().map(|turn| turn.count).sum::<usize>() as f64 / time
}

fn cpu_microseconds(turns: &[Spent]) -> f64 {
    let count = turns.iter().map(|turn| turn.count).sum::<usize>();
    turns.iter().map(|turn| turn.cpu).sum::<f64>() / 1e3 / count as f64
}

/// Returns the ratio of the speed in the last third of the turns to that in the first third.
fn kept(turns: &[Spent]) -> f64 {
    let third = turns.len() / 3;
    rate(&turns[turns.len() - third..]) / rate(&turns[..third])
}

/// Returns the median of a value over all rounds. The setups of a round were measured side by side.
fn over(rounds: &[Round], value: impl Fn(&Round) -> f64) -> f64 {
    median(rounds.iter().map(value).collect())
}

fn curve(rounds: &[Round], kind: usize) -> Series {
    let point = |turn: usize| {
        let rates: Vec<f64> = rounds.iter().map(|round| rate(&round[kind][turn..=turn])).collect();
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = rates.iter().copied().fold(0.0, f64::max);
        let load = rounds[0][MERGED][turn].load.unwrap_or_default();
        Point::new(load, median(rates)).spread(least, greatest)
    };
    Series::new(name(KINDS[kind])).points((0..rounds[0][kind].len()).map(point))
}

fn run(context: &Context) -> Outcome {
    let size = stores::size(context, 1 << context.pick(14, 20, 25), 3);
    let turns = context.pick(15, 60, 90);
    let count = context.pick(1, 3, 1);
    let members = stores::members(&size);
    let bar = progress("rounds", count);
    let rounds: Vec<Round> = (0..count)
        .map(|_| {
            let runs = KINDS.map(|kind| Run::new(kind, &size, None));
            let round = insert_in_turns(&runs, &members, turns);
            bar.inc(1);
            round
        })
        .collect();
    bar.finish_and_clear();

    let mut plot = Plot::lines(
        "Inserts while the filter fills",
        Axis::linear("load of our filter", "").from_zero(),
        Axis::linear("inserts", "op/s").si().from_zero(),
    )
    .note(format!(
        "{} pairs of 32 bytes in {turns} turns; medians over {count} rounds, bands show minimum \
         and maximum.",
        members.len()
    ));
    let mut table = Table::new("All inserts")
        .columns([
            Column::text("filter"),
            Column::decimals("inserts", "thousands/s", 1),
            Column::percent("relative to no filter", 0),
            Column::percent("last third / first third", 0),
            Column::decimals("CPU of all threads", "µs/insert", 2),
        ])
        .note(stores::MEMORY);
    for (kind, &setup) in KINDS.iter().enumerate() {
        plot = plot.series(curve(&rounds, kind));
        table = table.row([
            name(setup).into(),
            (over(&rounds, |round| rate(&round[kind])) / 1e3).into(),
            over(&rounds, |round| rate(&round[kind]) / rate(&round[0])).into(),
            over(&rounds, |round| kept(&round[kind])).into(),
            over(&rounds, |round| cpu_microseconds(&round[kind])).into(),
        ]);
    }
    let of =
        |kind: usize, other: usize| over(&rounds, |round| rate(&round[kind]) / rate(&round[other]));
    let [of_none, of_engine, split] = [of(MERGED, 0), of(MERGED, 1), of(3, 0)];
    let falls = over(&rounds, |round| kept(&round[MERGED]) / kept(&round[0]));
    Outcome {
        seen: format!(
            "With our filter, a merged store reaches {:.0} % of the engine's inserts per second \
             without a filter, and {:.0} % of those with the engine's own filter; a split store \
             reaches {:.0} %. From the first third to the last, the merged store keeps {:.2} times \
             what the store without a filter keeps.",
            of_none * 100.0,
            of_engine * 100.0,
            split * 100.0,
            falls
        ),
        verdict: stores::judge(context, &[], &[of_engine >= 0.9, falls >= 0.9]),
        blocks: vec![plot.into(), table.highlight(1, Best::Greatest).into()],
    }
}
