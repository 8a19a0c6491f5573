//! §6.9 of the `AdaptiveQF` paper: more space instead of adaptivity.

use super::summary::judge;
use super::victim::Guarded;
use super::{Context, Experiment, Outcome, progress};
use crate::contestant::{Kind, Shape};
use twiceshy_report::{Axis, Best, Column, Format, Plot, Series, Table};
use twiceshy_workloads::adversary::{Collector, CollectorConfig, Victim};
use twiceshy_workloads::key::scatter;
use twiceshy_workloads::stream::{Zipf, uniform};

pub(super) const MORE_BITS: Experiment = Experiment {
    name: "more-bits",
    title: "More bits instead of adaptivity",
    question: "If a filter that doesn't adapt gets 1, 2 or 3 more bits per member, does it avoid \
               as many disk reads as an adaptive one?",
    paper: "AdaptiveQF, §6.9: no. With the extra space, the quotient and cuckoo filters are 1 % \
            faster for uniform queries and 0.3 % for Zipfian ones; a system with them stays 20 % \
            slower.",
    run,
};

const EXPONENT: f64 = 1.5;
const UNIVERSE: u64 = 10_000_000;
/// The attacker's share of the queries.
const HOSTILE: f64 = 0.1;
const TRAFFIC: [&str; 3] = ["uniform", "Zipf 1.5", "10 % replayed mistakes"];

/// The filters, and the number of additional bits per member of each.
const ENTRANTS: [(Kind, u32); 9] = [
    (Kind::Aqf, 0),
    (Kind::Qfilter, 0),
    (Kind::Qfilter, 1),
    (Kind::Qfilter, 2),
    (Kind::Qfilter, 3),
    (Kind::Cuckoo, 0),
    (Kind::Cuckoo, 1),
    (Kind::Cuckoo, 2),
    (Kind::Cuckoo, 3),
];

fn name((kind, more): (Kind, u32)) -> String {
    match more {
        0 => kind.name().into(),
        1 => format!("{} + 1 bit", kind.name()),
        _ => format!("{} + {more} bits", kind.name()),
    }
}

/// The numbers of queries and of users.
struct Load {
    /// The number of uniform queries. Traffic with an attacker has as many queries.
    queries: u64,
    /// The number of users. Each has different frequent queries. With only one user, the result
    /// would depend on whether a few frequent queries collide.
    users: u64,
}

/// The number of queries per user.
const EACH: usize = 10_000;

/// Sends the skewed queries of all users to all filters. Returns the numbers of disk reads.
fn skewed(filters: &mut [Guarded], load: &Load, seed: u64, done: impl Fn()) -> Vec<usize> {
    let zipf = Zipf::new(UNIVERSE, EXPONENT).expect("a law");
    let mut visits = vec![0; filters.len()];
    for user in 1..=load.users {
        let key = |number| scatter(user << 40 | number);
        let queries: Vec<u64> = zipf.stream(scatter(seed ^ user)).take(EACH).map(key).collect();
        for (victim, visits) in filters.iter_mut().zip(&mut visits) {
            *visits += victim.filter.ask(&queries);
        }
        done();
    }
    visits
}

/// Returns the share of queries that read the disk while an attacker replays the mistakes it has
/// collected.
fn attacked(victim: &mut Guarded, load: &Load, seed: u64) -> f64 {
    let config = CollectorConfig { warm_up: load.queries, ..CollectorConfig::default() };
    let collector = Collector::collect(victim, config, seed).expect("a capacity");
    let others = uniform(u64::MAX, seed + 1).expect("a universe");
    let traffic = collector.traffic(others, HOSTILE, seed).expect("a share");
    let traffic = traffic.take(load.queries as usize);
    let visits = traffic.map(|query| victim.ask(query.key).cost).sum::<u64>();
    visits as f64 / load.queries as f64
}

struct Row {
    who: (Kind, u32),
    bits: f64,
    /// The number of disk reads per query, for each kind of traffic.
    visits: [f64; TRAFFIC.len()],
}

fn measure(context: &Context, shape: &Shape, load: &Load) -> [Row; ENTRANTS.len()] {
    // Each kind of traffic starts with filters that have learnt nothing.
    let fresh = |(kind, more)| {
        let remainder_bits = shape.remainder_bits + more;
        Guarded::new(kind, &Shape { remainder_bits, ..*shape })
    };
    let bar = progress("queries", load.users as usize + ENTRANTS.len());
    let mut filters = ENTRANTS.map(fresh);
    let skewed = skewed(&mut filters, load, context.seed, || bar.inc(1));
    let strangers: Vec<u64> = (0..load.queries).map(|n| scatter(1 << 63 | n)).collect();
    let mut skewed = skewed.into_iter();
    let rows = ENTRANTS.map(|who| {
        let mut victim = fresh(who);
        let bits = victim.filter.bits() as f64 / shape.members() as f64;
        let visits = [
            victim.filter.ask(&strangers) as f64 / load.queries as f64,
            skewed.next().expect("all were asked") as f64 / (load.users as usize * EACH) as f64,
            attacked(&mut fresh(who), load, context.seed),
        ];
        bar.inc(1);
        Row { who, bits, visits }
    });
    bar.finish_and_clear();
    rows
}

fn run(context: &Context) -> Outcome {
    // The smallest scale has a higher false-positive rate, so that fewer queries show the difference.
    let (log2_slots, remainder_bits) = context.pick((17, 5), (20, 9), (26, 9));
    let shape = Shape { slots: 1 << log2_slots, remainder_bits, ..context.shape() };
    let load = Load {
        queries: context.pick(50_000, 5_000_000, 200_000_000),
        users: context.pick(200, 12_000, 20_000),
    };
    let rows = measure(context, &shape, &load);

    let mut plot = Plot::bars(
        "Unnecessary disk reads",
        "queries",
        TRAFFIC,
        Axis::log10("disk reads per query", ""),
    )
    .note(format!(
        "Lower is better. Remainders have {remainder_bits} bits, plus those named. Each of {} \
         users asks {EACH} skewed queries; more queries favour adaptive filters. The cuckoo filter \
         is only in the table.",
        load.users
    ));
    let mut table = Table::new("Unnecessary disk reads, per query")
        .columns([Column::text("filter"), Column::decimals("space", "bits/member", 2)])
        .columns(TRAFFIC.map(|name| Column::number(name, "%", Format::Significant(3))))
        .note("The space is all allocated memory per member; one bit per slot is more than one per member.");
    for row in &rows {
        if row.who.0 != Kind::Cuckoo {
            plot = plot.series(Series::new(name(row.who)).bars(row.visits));
        }
        let visits = row.visits.map(|visits| (visits * 100.0).into());
        table = table.row([name(row.who).into(), row.bits.into()].into_iter().chain(visits));
    }
    for column in 1..2 + TRAFFIC.len() {
        table = table.highlight(column, Best::Least);
    }

    let adaptive = rows[0].visits;
    let (largest, others) = (&rows[4], &rows[1..]);
    let times = |traffic: usize| largest.visits[traffic] / adaptive[traffic];
    let beats = |traffic: usize| others.iter().all(|row| adaptive[traffic] < row.visits[traffic]);
    Outcome {
        seen: format!(
            "With {}, there are {:.1} times as many disk reads as with the adaptive quotient \
             filter if queries are skewed, and {:.0} times as many if mistakes are replayed. If \
             queries are uniform, it is {:.2} times: then there is nothing to learn, and only the \
             bits count.",
            name(largest.who),
            times(1),
            times(2),
            times(0)
        ),
        verdict: judge(&[beats(1), beats(2)]),
        blocks: vec![plot.into(), table.into()],
    }
}
