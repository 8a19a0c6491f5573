//! Figure 6 of the `AdaptiveQF` paper: an adversary who repeats the queries that cost a disk read.

use super::stores::{self, name};
use super::{Context, Experiment, Outcome, progress};
use crate::bench::store::{Kind, Tally, in_turns, median, mixed};
use indicatif::ProgressBar;
use twiceshy_report::{Axis, Best, Column, Plot, Series, Table};

pub(super) const HOSTILE: Experiment = Experiment {
    name: "hostile",
    title: "Hostile queries",
    question: "How fast is a store if some of its queries come from an adversary who has noted \
               which keys cost a disk read, and does a larger cache help?",
    paper: "AdaptiveQF, §6.4 and figure 6: with the AdaptiveQF, the throughput doesn't depend on \
            the share of hostile queries. With filters that don't adapt, it is 2 times lower at \
            1.5 %, and up to 10 times at 10 %, even with a cache for 25 % of the data.",
    run,
};

const KINDS: [Kind; 4] = [Kind::Nothing, Kind::Engine, Kind::Plain, Kind::Adaptive];
const PLAIN: usize = 2;
const ADAPTIVE: usize = 3;

/// The adversary's shares of the queries, per 1000.
const SHARES: [u64; 5] = [0, 15, 30, 50, 100];

const TURNS: usize = 32;

/// The measurements with one cache size.
struct Trial {
    cache_percent: u64,
    /// The measurements for each setup and share of hostile queries.
    seen: Vec<Vec<Seen>>,
}

struct Seen {
    /// The number of queries per second in the median turn.
    rate: f64,
    /// The number of lookups in the engine per 1000 queries.
    visits: f64,
    /// The number of repeated disk reads, if known.
    repeated: Option<u64>,
}

fn trial(context: &Context, cache_percent: u64, bar: &ProgressBar) -> Trial {
    let size = stores::size(context, 1 << context.pick(14, 19, 26), cache_percent);
    let warm_up = context.pick(20_000, 1 << 19, 100_000_000);
    let queries = context.pick(6400, 1 << 17, 100_000_000) / TURNS;
    let mut runs = stores::filled(KINDS, &size);
    let learnt = runs.each_mut().map(|run| stores::learn(run, warm_up, context.seed));
    bar.inc(1);
    let mut hostile = learnt.each_ref().map(|keys| keys.iter().copied().cycle());
    let mut strangers = KINDS.map(|_| stores::strangers(context.seed).skip(warm_up));
    let mut tallies = KINDS.map(|_| SHARES.map(|_| Tally::default()));
    for (contestant, turn) in in_turns(KINDS.len() * SHARES.len(), TURNS) {
        let (share, kind) = (contestant / KINDS.len(), contestant % KINDS.len());
        let next = (&mut strangers[kind], &mut hostile[kind]);
        let keys = mixed(next.0, next.1, SHARES[share], turn, queries);
        runs[kind].ask(&keys, &mut tallies[kind][share]);
    }
    bar.inc(1);
    let asked = (TURNS * queries) as f64;
    let seen = |tally: Tally| Seen {
        rate: median(tally.kops) * 1e3,
        visits: tally.gets as f64 / asked * 1e3,
        repeated: tally.distinct.map(|distinct| tally.gets - distinct),
    };
    let seen = tallies.into_iter().map(|shares| shares.into_iter().map(seen).collect());
    Trial { cache_percent, seen: seen.collect() }
}

fn plot(trial: &Trial) -> Plot {
    let mut plot = Plot::lines(
        format!("Queries with a cache for {} % of the data", trial.cache_percent),
        Axis::linear("hostile queries", "%").from_zero(),
        Axis::log10("queries", "op/s").si(),
    );
    for (kind, seen) in KINDS.iter().zip(&trial.seen) {
        let points = SHARES.iter().zip(seen).map(|(&share, seen)| (share as f64 / 10.0, seen.rate));
        plot = plot.series(Series::new(name(*kind)).points(points));
    }
    plot.note("Medians over turns; all setups and shares alternate.")
}

/// Plots the disk reads. They are unknown for the engine's own filter.
fn visits(trial: &Trial) -> Plot {
    let mut plot = Plot::lines(
        format!("Disk reads with a cache for {} % of the data", trial.cache_percent),
        Axis::linear("hostile queries", "%").from_zero(),
        Axis::log10("disk reads", "per 1000 queries"),
    );
    let known = KINDS.iter().zip(&trial.seen).filter(|(kind, _)| **kind != Kind::Engine);
    for (kind, seen) in known {
        let points = SHARES.iter().zip(seen);
        let points = points.map(|(&share, seen)| (share as f64 / 10.0, seen.visits));
        plot = plot.series(Series::new(name(*kind)).points(points));
    }
    plot
}

fn table(trial: &Trial) -> Table {
    let last = SHARES.len() - 1;
    let title = format!("Hostile queries with a cache for {} % of the data", trial.cache_percent);
    let mut table = Table::new(title)
        .columns([
            Column::text("filter"),
            Column::decimals("none hostile", "thousands/s", 1),
            Column::decimals("10 % hostile", "thousands/s", 1),
            Column::percent("kept", 0),
            Column::decimals("lookups in the engine, 10 %", "per 1000", 2),
            Column::decimals("repeated mistakes", "", 0),
        ])
        .note(
            "Without our filter, every key is looked up in the engine, which doesn't report how \
             often its own filter avoids a disk read.",
        );
    for (kind, seen) in KINDS.iter().zip(&trial.seen) {
        table = table.row([
            name(*kind).into(),
            (seen[0].rate / 1e3).into(),
            (seen[last].rate / 1e3).into(),
            (seen[last].rate / seen[0].rate).into(),
            seen[last].visits.into(),
            seen[last].repeated.into(),
        ]);
    }
    table.highlight(2, Best::Greatest)
}

fn run(context: &Context) -> Outcome {
    let caches: &[u64] = context.pick(&[1, 25], &[1, 25], &[1, 3, 6, 12, 25]);
    let bar = progress("stores, queries", caches.len() * 2);
    let trials: Vec<Trial> = caches.iter().map(|&cache| trial(context, cache, &bar)).collect();
    bar.finish_and_clear();

    let last = SHARES.len() - 1;
    let kept = |trial: &Trial, kind: usize, share: usize| {
        trial.seen[kind][share].rate / trial.seen[kind][0].rate
    };
    let least =
        trials.iter().map(|trial| kept(trial, ADAPTIVE, last)).fold(f64::INFINITY, f64::min);
    let repeated: u64 = trials
        .iter()
        .flat_map(|trial| &trial.seen[ADAPTIVE])
        .map(|seen| seen.repeated.unwrap_or_default())
        .sum();
    let largest = trials.last().expect("sizes of caches");
    let slower = |share: usize| 1.0 / kept(largest, PLAIN, share);
    let per_1000 = |kind: usize| largest.seen[kind][last].visits;
    Outcome {
        seen: format!(
            "Our adaptive filter keeps at least {:.0} % of its throughput if 10 % of the queries \
             are hostile, and repeats {repeated} mistakes. With a cache for {} % of the data, the \
             same filter without repairs is {:.1} times slower at 1.5 % and {:.1} times at 10 %. \
             Then {:.1} of 1000 queries read the disk, and {:.1} with repairs.",
            least * 100.0,
            largest.cache_percent,
            slower(1),
            slower(last),
            per_1000(PLAIN),
            per_1000(ADAPTIVE),
        ),
        verdict: stores::judge(
            context,
            &[],
            &[least >= 0.9 && repeated == 0, slower(1) >= 2.0, slower(last) >= 9.0],
        ),
        blocks: trials
            .iter()
            .flat_map(|trial| [plot(trial).into(), table(trial).into()])
            .chain([visits(largest).into(), stores::MEMORY.into()])
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::store::Key;

    #[test]
    fn adversary_sends_its_share_and_repeats_every_mistake_it_knows() {
        let learnt = [[1; 16], [2; 16]];
        let mut strangers = stores::strangers(1);
        let mut hostile = learnt.iter().copied().cycle();
        let keys = mixed(&mut strangers, &mut hostile, 100, 0, 10_000);
        let count = |wanted: Key| keys.iter().filter(|key| **key == wanted).count();
        assert!(learnt.iter().all(|&key| (400..600).contains(&count(key))));
        let next = mixed(&mut strangers, &mut std::iter::empty(), 1000, 1, 10);
        assert!(next.iter().all(|key| !keys.contains(key)), "each non-member is queried once");
    }
}
