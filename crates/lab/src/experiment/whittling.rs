//! The adversary of the telescoping filter's paper, who keeps only the queries that are mistakes.

use super::summary::{around, mean};
use super::victim::{Guarded, JUDGE};
use super::{Context, Experiment, Outcome, progress};
use crate::contestant::{Kind, Shape};
use twiceshy_report::{Axis, Column, Plot, Series, Table, Verdict};
use twiceshy_workloads::adversary::{Round, Whittling};
use twiceshy_workloads::stream::uniform;

pub(super) const WHITTLING: Experiment = Experiment {
    name: "whittling",
    title: "An adversary in rounds",
    question: "An adversary asks all queries of a set ten times per round, and keeps the mistakes. \
               Is anything left in the end?",
    paper: "Telescoping filter, §6.1 and figure 4; thesis, figures 6.4 to 6.6: adaptive filters \
            that can only repair a limited number of mistakes win with up to 10 or 20 queries per \
            member: the adversary ends with no mistakes. With more queries, only mistakes are \
            left.",
    run,
};

pub(super) const SUBROUNDS: u32 = 10;
const ROUNDS: usize = 8;
/// The numbers of queries per member at the beginning.
const RATIOS: [u64; 5] = [1, 5, 10, 20, 50];
/// The index of the number whose rounds are shown.
const SHOWN: usize = 2;

/// Creates the adversary with `ratio` queries per member.
pub(super) fn against(shape: &Shape, ratio: u64) -> Whittling {
    let queries = uniform(u64::MAX, shape.seed).expect("a universe");
    let queries = queries.take((ratio * shape.members()) as usize).collect();
    Whittling::new(queries, SUBROUNDS, JUDGE)
}

/// Creates a filter and its adversary.
pub(super) fn begin(kind: Kind, shape: &Shape, ratio: u64) -> (Guarded, Whittling) {
    (Guarded::new(kind, shape), against(shape, ratio))
}

/// Plays all rounds of one game. A round is empty if no queries are left.
fn play(kind: Kind, shape: &Shape, ratio: u64) -> [Round; ROUNDS] {
    let (mut victim, mut whittling) = begin(kind, shape, ratio);
    std::array::from_fn(|_| whittling.round(&mut victim))
}

/// The games, by kind of filter, queries per member and seed.
type Games = Vec<Vec<Vec<[Round; ROUNDS]>>>;

fn run(context: &Context) -> Outcome {
    let shape = Shape { slots: 1 << context.pick(12, 16, 20), ..context.shape() };
    let seeds = context.pick(2, 5, 10);
    let bar = progress("games", Kind::ALL.len() * RATIOS.len() * seeds);
    let game = |kind, ratio, seed: usize| {
        let rounds = play(kind, &Shape { seed: context.seed + seed as u64, ..shape }, ratio);
        bar.inc(1);
        rounds
    };
    let games: Games = Kind::ALL
        .map(|kind| RATIOS.map(|ratio| (0..seeds).map(|seed| game(kind, ratio, seed)).collect()))
        .map(Vec::from)
        .into();
    bar.finish_and_clear();

    let over = |games: &[[Round; ROUNDS]], x: f64, value: &dyn Fn(&[Round; ROUNDS]) -> f64| {
        around(x, &games.iter().map(value).collect::<Vec<_>>())
    };
    let members = shape.members() as f64;
    let mut left = Plot::lines(
        format!("Queries left of {} per member", RATIOS[SHOWN]),
        Axis::linear("round", ""),
        Axis::log10("queries per member at its beginning", ""),
    )
    .note(format!("Means over {seeds} seeds; bands show minimum and maximum."));
    let mut rates = Plot::lines(
        format!("Share of mistakes, {} queries per member", RATIOS[SHOWN]),
        Axis::linear("round", ""),
        Axis::log10("mistakes per query", ""),
    )
    .note("A round without queries has no mistakes.");
    let mut last = Plot::lines(
        format!("Share of mistakes in round {ROUNDS}"),
        Axis::log10("queries per member in round 1", ""),
        Axis::linear("mistakes per query", "").from_zero(),
    )
    .note(format!(
        "All remaining queries are asked {SUBROUNDS} times. A filter that is at zero wins: the \
         adversary has no queries left."
    ));
    for (kind, games) in Kind::ALL.iter().zip(&games) {
        let round = |value: fn(&Round) -> f64, per: f64| {
            let point = |round: usize| {
                over(&games[SHOWN], round as f64 + 1.0, &|game| value(&game[round]) / per)
            };
            Series::new(kind.name()).points((0..ROUNDS).map(point))
        };
        left = left.series(round(|round| round.candidates as f64, members));
        rates = rates.series(round(|round| round.tally.rate(), 1.0));
        let ratio = |(&ratio, games): (&u64, &Vec<_>)| {
            over(games, ratio as f64, &|game| game[ROUNDS - 1].tally.rate())
        };
        last = last.series(Series::new(kind.name()).points(RATIOS.iter().zip(games).map(ratio)));
    }

    let survivors = |kind: Kind, ratio: usize| {
        let at = Kind::ALL.iter().position(|&other| other == kind).expect("all play");
        mean(&games[at][ratio].iter().map(|g| g[ROUNDS - 1].survivors as f64).collect::<Vec<_>>())
    };
    let mut table = Table::new(format!("Queries left after {ROUNDS} rounds, mean over seeds"))
        .columns([Column::text("filter")])
        .columns(RATIOS.map(|ratio| Column::decimals(format!("{ratio} per member"), "", 1)));
    for kind in Kind::ALL {
        let cells = (0..RATIOS.len()).map(|ratio| survivors(kind, ratio).into());
        table = table.row([kind.name().into()].into_iter().chain(cells));
    }
    let won = (0..RATIOS.len()).filter(|&ratio| survivors(Kind::Aqf, ratio) == 0.0);
    let most = won.map(|ratio| RATIOS[ratio]).max().unwrap_or(0);
    let (told, untold) = (survivors(Kind::Aqf, SHOWN), survivors(Kind::AqfNotAdapting, SHOWN));
    Outcome {
        seen: format!(
            "Against the adaptive quotient filter, the adversary has no mistakes left after \
             {ROUNDS} rounds with up to {most} queries per member; up to {} were tried. With {} \
             per member, {told:.0} queries are left in the end, and {untold:.0} if the same filter \
             isn't repaired.",
            RATIOS[RATIOS.len() - 1],
            RATIOS[SHOWN],
        ),
        verdict: match most {
            20.. => Verdict::Confirmed,
            1.. => Verdict::Partly,
            0 => Verdict::Refuted,
        },
        blocks: vec![left.into(), rates.into(), last.into(), table.into()],
    }
}
