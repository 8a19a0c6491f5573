//! Table 4 of the `AdaptiveQF` paper: a store whose reverse map holds the pairs, and a store with a
//! separate reverse map.

use super::stores;
use super::{Context, Experiment, Outcome, progress};
use crate::bench::store::{
    Key, Kind, Run, Spent, in_turns, insert_in_turns, median, slices, thousands,
};
use std::time::Instant;
use twiceshy_report::{Best, Column, Table};

pub(super) const MERGED_SPLIT: Experiment = Experiment {
    name: "merged-split",
    title: "Merged or split",
    question: "What does it cost to keep the pairs in key order, with a separate reverse map?",
    paper: "AdaptiveQF, §6.4 and table 4: in a split store, inserts are half as fast (0.48 times) \
            and queries only 1 to 2 % slower; only a split store has range queries.",
    run,
};

const KINDS: [Kind; 3] = [Kind::Nothing, Kind::Adaptive, Kind::Split];
const NAMES: [&str; 3] = ["no filter", "ours, merged", "ours, split"];
const MERGED: usize = 1;
const SPLIT: usize = 2;
const TURNS: usize = 32;

/// The number of pairs per range query.
const RANGE: usize = 100;

/// The speeds of all setups in one round, in thousands of operations per second.
struct Round {
    inserts: [f64; 3],
    /// The speeds of queries for absent keys.
    strangers: [f64; 3],
    /// The speeds of queries for members.
    members: [f64; 3],
    ranges: [Option<f64>; 3],
}

/// Runs `work` on all setups by turns. Returns the speed of the median turn of each setup.
fn in_slices(runs: &[Run], keys: &[Key], work: impl Fn(&Run, &Key)) -> [f64; 3] {
    let turns = slices(keys, TURNS);
    let mut speeds = KINDS.map(|_| Vec::new());
    for (kind, turn) in in_turns(KINDS.len(), turns.len()) {
        let start = Instant::now();
        turns[turn].iter().for_each(|key| work(&runs[kind], key));
        speeds[kind].push(thousands(turns[turn].len(), start.elapsed()));
    }
    speeds.map(median)
}

fn round(context: &Context) -> Round {
    let size = stores::size(context, 1 << context.pick(14, 20, 26), 3);
    let queries = context.pick(20_000, 1 << 18, 100_000_000);
    let members = stores::members(&size);
    let mut runs = KINDS.map(|kind| Run::new(kind, &size, None));
    let spent = insert_in_turns(&runs, &members, TURNS);
    let inserts = |kind: usize| {
        let turns: &[Spent] = &spent[kind];
        thousands(members.len(), turns.iter().map(|turn| turn.time).sum())
    };
    let inserts = [inserts(0), inserts(MERGED), inserts(SPLIT)];
    stores::tidy(&runs);

    let tallies = stores::ask_in_turns(
        &mut runs,
        stores::strangers(context.seed).take(queries),
        queries,
        TURNS,
    );
    let asked = &members[..members.len().min(queries)];
    let found = in_slices(&runs, asked, |run, key| assert!(run.setup.contains(key), "a member"));

    let starts = &members[..members.len().min(context.pick(500, 20_000, 1_000_000))];
    let count = |run: &Run, key: &Key| run.setup.count_from(key, RANGE);
    let has_order = runs.each_ref().map(|run| count(run, &starts[0]).is_some());
    let ranges = in_slices(&runs, starts, |run, key| {
        assert!(
            count(run, key).is_none_or(|pairs| pairs >= 1),
            "a range includes its first member"
        );
    });
    let ranges = std::array::from_fn(|kind| has_order[kind].then_some(ranges[kind]));
    Round { inserts, strangers: tallies.map(|tally| median(tally.kops)), members: found, ranges }
}

fn run(context: &Context) -> Outcome {
    let count = context.pick(1, 3, 1);
    let bar = progress("rounds", count);
    let rounds: Vec<Round> = (0..count)
        .map(|_| {
            let round = round(context);
            bar.inc(1);
            round
        })
        .collect();
    bar.finish_and_clear();

    let over = |value: &dyn Fn(&Round) -> f64| median(rounds.iter().map(value).collect());
    let mut table = Table::new("Operations per second")
        .columns([
            Column::text("store"),
            Column::decimals("inserts", "thousands/s", 1),
            Column::decimals("queries, absent", "thousands/s", 1),
            Column::decimals("queries, present", "thousands/s", 1),
            Column::decimals("ranges of 100", "thousands/s", 2),
        ])
        .note("A merged store refuses range queries, because its pairs are in hash order.")
        .note(stores::MEMORY);
    for (kind, name) in NAMES.iter().enumerate() {
        let ranges =
            rounds[0].ranges[kind].map(|_| over(&|round| round.ranges[kind].unwrap_or_default()));
        table = table.row([
            (*name).into(),
            over(&|round| round.inserts[kind]).into(),
            over(&|round| round.strangers[kind]).into(),
            over(&|round| round.members[kind]).into(),
            ranges.into(),
        ]);
    }
    // The two setups were measured side by side, so each round has its own ratio.
    let ratio = |of: fn(&Round) -> &[f64; 3]| over(&|round| of(round)[SPLIT] / of(round)[MERGED]);
    let inserts = ratio(|round| &round.inserts);
    let absent = ratio(|round| &round.strangers);
    let present = ratio(|round| &round.members);
    let is_refused = rounds[0].ranges[MERGED].is_none();
    let has_ranges = rounds[0].ranges[SPLIT].is_some();
    let of_none = over(&|round| {
        round.ranges[SPLIT].unwrap_or_default() / round.ranges[0].unwrap_or(f64::INFINITY)
    });
    Outcome {
        seen: format!(
            "A split store's inserts are {inserts:.2} times as fast as a merged store's, its \
             queries for absent keys {absent:.2} times and for present keys {present:.2} times. \
             The merged store {} ranges; the split store's are {of_none:.2} times as fast as \
             without a filter.",
            if is_refused { "refuses" } else { "also has" },
        ),
        verdict: stores::judge(
            context,
            &[],
            &[inserts >= 0.48, absent >= 0.98, is_refused && has_ranges],
        ),
        blocks: vec![table.highlight(1, Best::Greatest).highlight(2, Best::Greatest).into()],
    }
}
