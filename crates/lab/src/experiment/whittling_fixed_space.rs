//! The adversary of the telescoping filter's paper, against filters of fixed size.

use super::summary::{around, judge, mean};
use super::whittling::{SUBROUNDS, begin};
use super::{Context, Experiment, Outcome, progress, query_ratio};
use crate::contestant::{Kind, Shape};
use twiceshy_report::{Axis, Column, Plot, Series, Table};
use twiceshy_workloads::adversary::Round;

pub(super) const WHITTLING_FIXED_SPACE: Experiment = Experiment {
    name: "whittling-fixed-space",
    title: "An adversary in rounds, with fixed space",
    question: "With the same number of slots and 8-bit remainders plus metadata, which filter \
               leaves least to an adversary who keeps only mistakes?",
    paper: "Telescoping filter, §6.1 and figure 4, right: the telescoping filter does very well \
            with up to about 20 queries per member, then the adversary wins. Of the adaptive \
            cuckoo filters, the cyclic one with 3 selector bits does surprisingly well, though \
            none of them is adaptive in theory. (The published program leaves 0, 0, 174 and 3,831 \
            queries in the same experiment.)",
    run,
};

/// The filters, in the order of the tables: [`query_ratio::KINDS`], and one more that doesn't
/// adapt. To add a filter, add it there or here.
const KINDS: [Kind; 11] = {
    let [a, b, c, d, e, f, g, h, i, j] = query_ratio::KINDS;
    [a, b, c, d, e, f, g, h, i, j, Kind::Vacuum]
};
/// The filter that is best according to the paper.
const BEST: Kind = Kind::Cyclic3;
/// The other filters in the paper's claim.
const OTHERS: [Kind; 4] = [Kind::Cyclic1, Kind::Cyclic2, Kind::Swapping, Kind::Cuckooing];

const REMAINDER_BITS: u32 = 8;
/// The numbers of queries per member at the beginning.
const RATIOS: [u64; 4] = [10, 20, 30, 50];
/// The maximum number of rounds.
const ROUNDS: usize = 100;

/// One game, played to its end.
struct Game {
    rounds: usize,
    last: Round,
    /// The filter's memory in bits.
    bits: u64,
}

fn play(kind: Kind, shape: &Shape, ratio: u64) -> Game {
    let (mut victim, mut whittling) = begin(kind, shape, ratio);
    let mut rounds = 0;
    loop {
        let last = whittling.round(&mut victim);
        rounds += 1;
        if rounds == ROUNDS || last.survivors == 0 {
            return Game { rounds, last, bits: victim.filter.bits() };
        }
    }
}

/// A function that returns a value of a game.
type Value = fn(&Game) -> f64;
const SURVIVORS: Value = |game| game.last.survivors as f64;
const RATE: Value = |game| game.last.tally.rate();
const PLAYED: Value = |game| game.rounds as f64;

/// The games, by kind of filter, queries per member and seed.
struct Games(Vec<Vec<Vec<Game>>>);

impl Games {
    fn values(&self, kind: Kind, ratio: usize, value: Value) -> Vec<f64> {
        let at = KINDS.iter().position(|&other| other == kind).expect("all play");
        self.0[at][ratio].iter().map(value).collect()
    }

    fn mean(&self, kind: Kind, ratio: usize, value: Value) -> f64 {
        mean(&self.values(kind, ratio, value))
    }

    /// Plots one line per filter.
    fn plot(&self, title: &str, y: Axis, value: Value) -> Plot {
        let mut plot = Plot::lines(title, Axis::linear("queries per member in round 1", ""), y);
        for kind in KINDS {
            let points = RATIOS
                .iter()
                .enumerate()
                .map(|(at, &ratio)| around(ratio as f64, &self.values(kind, at, value)));
            plot = plot.series(Series::new(kind.name()).points(points));
        }
        plot
    }

    /// Creates a table with one row per filter.
    fn table(&self, title: &str, column: impl Fn(String) -> Column, value: Value) -> Table {
        let mut table = Table::new(title)
            .columns([Column::text("filter")])
            .columns(RATIOS.map(|ratio| column(format!("{ratio} per member"))));
        for kind in KINDS {
            let cells = (0..RATIOS.len()).map(|ratio| self.mean(kind, ratio, value).into());
            table = table.row([kind.name().into()].into_iter().chain(cells));
        }
        table
    }

    /// Creates a table of the filters' sizes.
    fn space(&self, shape: &Shape) -> Table {
        let mut table = Table::new("Space").columns([
            Column::text("filter"),
            Column::decimals("space", "bits/slot", 2),
            Column::decimals("space", "bits/member", 2),
        ]);
        for kind in KINDS {
            let bits = self.mean(kind, 0, |game| game.bits as f64);
            table = table.row([
                kind.name().into(),
                (bits / shape.slots as f64).into(),
                (bits / shape.members() as f64).into(),
            ]);
        }
        table.note(
            "Cuckoo filters have 3 bits per slot in addition to the remainder, like the \
             telescoping filter. The keys that the adaptive ones keep elsewhere aren't counted.",
        )
    }
}

fn run(context: &Context) -> Outcome {
    let slots = 1 << context.pick(11, 16, 20);
    let shape = Shape { slots, remainder_bits: REMAINDER_BITS, seed: context.seed };
    let seeds = context.pick(2, 5, 5);
    let bar = progress("games", KINDS.len() * RATIOS.len() * seeds);
    let game = |kind, ratio, seed: usize| {
        let game = play(kind, &Shape { seed: context.seed + seed as u64, ..shape }, ratio);
        bar.inc(1);
        game
    };
    let of = |kind| {
        let games = |ratio| (0..seeds).map(|seed| game(kind, ratio, seed)).collect();
        RATIOS.map(games).into()
    };
    let games = Games(KINDS.map(of).into());
    bar.finish_and_clear();

    let survivors = games
        .plot("Queries left in the end", Axis::linear("queries", "").si().from_zero(), SURVIVORS)
        .note(format!("Means over {seeds} seeds; bands show minimum and maximum."));
    let rates = games
        .plot(
            "Share of mistakes in the last round",
            Axis::linear("mistakes per query", "").from_zero(),
            RATE,
        )
        .note(format!(
            "All remaining queries are asked {SUBROUNDS} times. Games end in different rounds."
        ));
    let left = games.table(
        "Queries left in the end, mean over seeds",
        |name| Column::decimals(name, "", 1),
        SURVIVORS,
    );
    let left = left.note(format!(
        "{} members in {slots} slots. The adversary plays {ROUNDS} rounds unless nothing is left.",
        shape.members(),
    ));
    let rate = games.table(
        "Share of mistakes in the last round, mean over seeds",
        |name| Column::percent(name, 3),
        RATE,
    );
    let rounds =
        games.table("Rounds, mean over seeds", |name| Column::decimals(name, "", 1), PLAYED);

    let left_of = |kind| -> Vec<String> {
        (0..RATIOS.len()).map(|at| format!("{:.1}", games.mean(kind, at, SURVIVORS))).collect()
    };
    // The second entry of `RATIOS` is the paper's 20.
    let nothing_left = |ratio| games.mean(Kind::Telescoping, ratio, SURVIVORS) == 0.0;
    let is_best = |ratio: usize| {
        let best = games.mean(BEST, ratio, SURVIVORS);
        OTHERS.iter().all(|&other| best <= games.mean(other, ratio, SURVIVORS))
    };
    let all_best = (0..RATIOS.len()).all(is_best);
    let holds = [nothing_left(0), nothing_left(1), !nothing_left(RATIOS.len() - 1), all_best];
    Outcome {
        seen: format!(
            "With {RATIOS:?} queries per member, the telescoping filter leaves {}, the extension \
             filter {}, the cyclic cuckoo filter with 3 selector bits {}, the swapping one {}, and \
             the adaptive quotient filter, which has more bits per slot but none to spare, {}.",
            left_of(Kind::Telescoping).join(", "),
            left_of(Kind::Extension).join(", "),
            left_of(BEST).join(", "),
            left_of(Kind::Swapping).join(", "),
            left_of(Kind::Aqf).join(", "),
        ),
        verdict: judge(&holds),
        blocks: vec![
            survivors.into(),
            rates.into(),
            left.into(),
            rate.into(),
            rounds.into(),
            games.space(&shape).into(),
        ],
    }
}
