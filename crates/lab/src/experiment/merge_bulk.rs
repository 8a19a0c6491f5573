//! Table 5 of the `AdaptiveQF` paper: inserting one by one, merging, and building from sorted
//! members.

use super::stores;
use super::summary::spread;
use super::{Context, Experiment, Outcome, progress};
use crate::bench::measure::timed;
use crate::contestant::Shape;
use twiceshy::{Hash, QuotientFilter, Secret, hash::KeyedHasher};
use twiceshy_report::{Axis, Column, Plot, Point, Series, Table};

pub(super) const MERGE_BULK: Experiment = Experiment {
    name: "merge-bulk",
    title: "Merging and building in one call",
    question: "How long does a member take if it is inserted alone, merged, or built together with \
               all others?",
    paper: "AdaptiveQF, table 5: merging two filters is 13 times faster than filling one from \
            scratch; sorting the members and building from them takes 71 % of the time (the paper \
            says “70 % faster”).",
    run,
};

/// The measured steps, and the microseconds per member that the paper reports for each.
const STEPS: [(&str, Option<f64>); 6] = [
    ("insert one by one", Some(0.520_092)),
    ("insert into two halves", Some(0.353_332)),
    ("merge the halves", Some(0.039_147)),
    ("sort by hash", Some(0.348_060)),
    ("build from sorted", Some(0.019_569)),
    ("insert all in one call", None),
];

fn empty(slots: u64, remainder_bits: u32) -> QuotientFilter {
    let builder = QuotientFilter::builder().slots(slots).remainder_bits(remainder_bits);
    builder.build().expect("memory for a filter")
}

fn insert_each(filter: &mut QuotientFilter, members: &[Hash]) {
    for &member in members {
        filter.insert(member).expect("room");
    }
}

/// Measures each step once. Returns times in nanoseconds.
fn measure(shape: &Shape, members: &[Hash]) -> [f64; STEPS.len()] {
    let Shape { slots, remainder_bits, .. } = *shape;
    let mut alone = empty(slots, remainder_bits);
    let ((), inserting) = timed(|| insert_each(&mut alone, members));

    // Each of the two filters has half of the slots. It also has one more remainder bit, so that
    // its fingerprints are as long as those of the merged filter.
    let (one, other) = members.split_at(members.len() / 2);
    let mut halves = [(); 2].map(|()| empty(slots / 2, remainder_bits + 1));
    let ((), halving) = timed(|| {
        insert_each(&mut halves[0], one);
        insert_each(&mut halves[1], other);
    });
    let (merged, merging) = timed(|| QuotientFilter::merged(&halves.each_ref()));

    let mut sorted = members.to_vec();
    let ((), sorting) = timed(|| sorted.sort_unstable());
    let (built, building) = timed(|| QuotientFilter::from_sorted(alone.parameters(), sorted, []));

    let mut at_once = empty(slots, remainder_bits);
    let ((), all) = timed(|| at_once.insert_many(members).expect("room"));

    let (merged, built) = (merged.expect("filters of one shape"), built.expect("room"));
    for filter in [&alone, &merged, &built, &at_once] {
        assert_eq!(filter.len(), members.len(), "a member is missing");
    }
    [inserting, halving, merging, sorting, building, all]
}

fn run(context: &Context) -> Outcome {
    // As in the paper, the filter is larger than the caches, so that single inserts wait for
    // memory.
    let shape = Shape { slots: 1 << context.pick(16, 24, 26), ..context.shape() };
    let rounds = 5;
    let hasher = KeyedHasher::new(&Secret::from_bytes([7; 16]));
    let members: Vec<Hash> = (0..shape.members()).map(|key| hasher.hash(&key)).collect();
    let bar = progress("rounds", rounds);
    let rounds: Vec<_> = (0..rounds)
        .map(|_| {
            let times = measure(&shape, &members);
            bar.inc(1);
            times
        })
        .collect();
    bar.finish_and_clear();

    let times: Vec<(f64, f64)> = (0..STEPS.len())
        .map(|step| {
            let each = |round: &[f64; STEPS.len()]| round[step] / members.len() as f64;
            spread(&rounds.iter().map(each).collect::<Vec<_>>())
        })
        .collect();
    let best = |step: usize| times[step].0;
    let mut table = Table::new("Nanoseconds per member").columns([
        Column::text("step"),
        Column::decimals("best round", "ns", 1),
        Column::decimals("worst round", "ns", 1),
        Column::decimals("the paper's", "ns", 1),
        Column::decimals("speed-up", "times", 1),
        Column::decimals("the paper's speed-up", "times", 1),
    ]);
    let paper = |step: usize| STEPS[step].1.map(|microseconds| microseconds * 1000.0);
    let ratio = |step: usize| paper(0).zip(paper(step)).map(|(one, other)| one / other);
    for (step, (name, _)) in STEPS.into_iter().enumerate() {
        table = table.row([
            name.into(),
            best(step).into(),
            times[step].1.into(),
            paper(step).into(),
            (best(0) / best(step)).into(),
            ratio(step).into(),
        ]);
    }
    table = table.note(
        "Speed-up over inserting one by one. Merging requires two filled halves, and building \
         requires sorted members. Inserting all in one call includes sorting and building. The paper \
         used a different machine.",
    );
    let point = |step: usize| {
        let (least, greatest) = times[step];
        Point::new(step as f64, least).spread(least, greatest)
    };
    let plot = Plot::bars(
        "Time per member, by step",
        "step",
        STEPS.map(|(name, _)| name),
        Axis::linear("time", "ns/member"),
    )
    .note(format!("Best of {} rounds; whiskers extend to the worst.", rounds.len()))
    .series(Series::new("AQF").points((0..STEPS.len()).map(point)));

    let merging = best(0) / best(2);
    let sorted = (best(3) + best(4)) / best(0);
    Outcome {
        seen: format!(
            "In a filter with 2^{} slots, merging is {merging:.1} times faster than filling from \
             scratch, which takes {:.0} ns per member. Sorting and building take {:.0} % of the \
             time of inserting one by one; inserting all in one call takes {:.0} %.",
            shape.slots.ilog2(),
            best(0),
            sorted * 100.0,
            best(5) / best(0) * 100.0
        ),
        verdict: stores::judge(context, &[], &[merging >= 13.0, sorted <= 0.71]),
        blocks: vec![plot.into(), table.into()],
    }
}
