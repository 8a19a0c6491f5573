//! An adversary that learns which kinds of queries cost most.

use super::summary::{around, judge};
use super::victim::Guarded;
use super::{Context, Experiment, Outcome, progress};
use crate::contestant::{Kind, Shape};
use twiceshy_report::{Axis, Column, Plot, Series, Table};
use twiceshy_workloads::adversary::{Climber, ClimberConfig, Move, Tally};

pub(super) const CLIMBER: Experiment = Experiment {
    name: "climber",
    title: "A learning adversary",
    question: "An adversary tries random keys, neighbours of mistakes and sequences of mistakes, \
               and repeats what costs most. Does it cause more mistakes than random queries?",
    paper: "AdaptiveQF, §2.2: a past mistake of a strongly adaptive filter recurs with \
            a probability of at most ε, so no adversary should do better than random queries. \
            Filters that don't adapt have no such bound.",
    run,
};

const ROUNDS: usize = 20;

/// The rounds of an attack, and the attacker's most successful move at the end.
struct Attack {
    rounds: Vec<Tally>,
    best: Move,
}

impl Attack {
    /// Returns the totals of the second half, when the attacker has learnt all it can.
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
    Attack { rounds, best: best.expect("at least one move").0 }
}

fn describe(best: Move) -> &'static str {
    match best {
        Move::Explore => "query random keys",
        Move::Crawl => "query neighbours of mistakes",
        Move::Gather => "repeat old mistakes",
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
    .note(format!("Means over {seeds} seeds; bands show minimum and maximum."));
    let mut table = Table::new("In the second half of the queries").columns([
        Column::text("filter"),
        Column::percent("mistakes", 3),
        Column::decimals("ratio to random queries", "", 1),
        Column::text("best move"),
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
        let at =
            Kind::ALL.iter().position(|&other| other == kind).expect("every filter is attacked");
        late[at]
    };
    let told = rate(Kind::Aqf);
    // Three standard deviations above the rate of random queries.
    let bound = chance + 3.0 * (chance / told.queries as f64).sqrt();
    let others = Kind::ALL.into_iter().filter(|&kind| kind != Kind::Aqf);
    let least = others.map(|kind| rate(kind).rate()).fold(f64::INFINITY, f64::min);
    Outcome {
        seen: format!(
            "In the second half of the attack, {:.3} % of the queries are mistakes of the adaptive \
             quotient filter; of random queries it would be {:.3} %. Of the filters that don't \
             adapt, even the best one errs on {:.0} %.",
            told.rate() * 100.0,
            chance * 100.0,
            least * 100.0
        ),
        verdict: judge(&[told.rate() <= bound, least > bound]),
        blocks: vec![plot.into(), table.into()],
    }
}
