//! An adversary who isn't told what to do, and does more of what pays.

use super::summary::{around, judge};
use super::victim::Guarded;
use super::{Context, Experiment, Outcome, progress};
use crate::contestant::{Kind, Shape};
use twiceshy_report::{Axis, Column, Plot, Series, Table};
use twiceshy_workloads::adversary::{Climber, ClimberConfig, Move, Tally};

pub(super) const CLIMBER: Experiment = Experiment {
    name: "climber",
    title: "An adversary who learns",
    question: "Who tries random keys, neighbours of mistakes and sequences of them, and does more \
               of what costs most: does it get any further than by chance?",
    paper: "AdaptiveQF, §2.2: what was a mistake of a strongly adaptive filter is one again with \
            probability ε at most, so nobody should get further than by chance. Filters that \
            don't adapt have no such bound.",
    run,
};

const ROUNDS: usize = 20;

/// What an attack came to, round by round, and the move that paid best in the end.
struct Attack {
    rounds: Vec<Tally>,
    best: Move,
}

impl Attack {
    /// Of the second half, when it has learnt what there is to learn.
    fn late(&self) -> Tally {
        let mut sum = Tally::default();
        for &tally in &self.rounds[ROUNDS / 2..] {
            sum += tally;
        }
        sum
    }
}

fn attack(kind: Kind, shape: &Shape, queries: u64) -> Attack {
    let mut victim = Guarded::new(kind, shape);
    let mut climber =
        Climber::new(&mut victim, ClimberConfig::default(), shape.seed).expect("a climber");
    let rounds = (0..ROUNDS).map(|_| climber.climb(&mut victim, queries / ROUNDS as u64)).collect();
    let best = climber.worth().max_by(|(_, one), (_, other)| one.total_cmp(other));
    Attack { rounds, best: best.expect("there are moves").0 }
}

fn describe(best: Move) -> &'static str {
    match best {
        Move::Explore => "ask for random keys",
        Move::Crawl => "ask for neighbours of mistakes",
        Move::Gather => "ask for old mistakes",
        Move::Splice => "join good sequences",
        Move::Exploit => "repeat the best sequence",
    }
}

fn run(context: &Context) -> Outcome {
    let shape = Shape { slots: 1 << context.pick(14, 18, 24), ..context.shape() };
    let queries = context.pick(200_000, 4_000_000, 100_000_000);
    let seeds = context.pick(2, 5, 5);
    let bar = progress("attacks", Kind::ALL.len() * seeds);
    let attacks = Kind::ALL.map(|kind| {
        let attack = |seed: usize| {
            let shape = Shape { seed: context.seed + seed as u64, ..shape };
            let attack = attack(kind, &shape, queries);
            bar.inc(1);
            attack
        };
        (0..seeds).map(attack).collect::<Vec<_>>()
    });
    bar.finish_and_clear();

    let chance = 1.0 - (-0.9 * shape.rate()).exp();
    let mut plot = Plot::lines(
        "Mistakes by round",
        Axis::linear("queries", "").si(),
        Axis::log10("mistakes per query", ""),
    )
    .reference("random queries", chance)
    .note(format!("Means of {seeds} seeds; bands are the least and the greatest."));
    let mut table = Table::new("In the second half of the queries").columns([
        Column::text("filter"),
        Column::percent("mistakes", 3),
        Column::decimals("times as many as by chance", "", 1),
        Column::text("what pays best"),
    ]);
    let mut late = [Tally::default(); Kind::ALL.len()];
    for ((kind, attacks), late) in Kind::ALL.iter().zip(&attacks).zip(&mut late) {
        let point = |round: usize| {
            let rates: Vec<f64> = attacks.iter().map(|a| a.rounds[round].rate()).collect();
            let asked = (round + 1) as f64 * queries as f64 / ROUNDS as f64;
            around(asked, &rates)
        };
        plot = plot.series(Series::new(kind.name()).points((0..ROUNDS).map(point)));
        for attack in attacks {
            *late += attack.late();
        }
        table = table.row([
            kind.name().into(),
            late.rate().into(),
            (late.rate() / chance).into(),
            describe(attacks[0].best).into(),
        ]);
    }

    let rate = |kind: Kind| {
        let at = Kind::ALL.iter().position(|&other| other == kind).expect("all are attacked");
        late[at]
    };
    let told = rate(Kind::Aqf);
    // Three standard deviations of what chance does.
    let bound = chance + 3.0 * (chance / told.queries as f64).sqrt();
    let others = Kind::ALL.into_iter().filter(|&kind| kind != Kind::Aqf);
    let least = others.map(|kind| rate(kind).rate()).fold(f64::INFINITY, f64::min);
    Outcome {
        seen: format!(
            "Of the second half of the queries, {:.3} % are mistakes of the adaptive quotient \
             filter; of random queries it would be {:.3} %. Of the filters that don't adapt, even \
             the best makes {:.0} %.",
            told.rate() * 100.0,
            chance * 100.0,
            least * 100.0
        ),
        verdict: judge(&[told.rate() <= bound, least > bound]),
        blocks: vec![plot.into(), table.into()],
    }
}
