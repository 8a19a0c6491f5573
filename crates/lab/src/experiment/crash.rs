//! An experiment that is not in the papers: which repairs remain after the process is killed?

use super::stores::{self, name};
use super::{Context, Experiment, Outcome, progress};
use crate::bench::measure;
use crate::bench::store::{DATA, Key, Kind, Run, Size, Tally, median, scan};
use std::time::Instant;
use twiceshy_report::{Axis, Best, Column, Plot, Series, Table};

pub(super) const CRASH: Experiment = Experiment {
    name: "crash",
    title: "After a crash",
    question: "If the process is killed, how long does it take to get the filter back, and are the \
               repairs lost?",
    paper: "AdaptiveQF, §2.3, on filters of LSM trees: a crash would lose the repairs, but that is \
            rare enough not to matter. We claim that they needn't be lost: our store gets its \
            filter back in at most the time it takes to read the members, with all repairs.",
    run,
};

const KINDS: [Kind; 3] = [Kind::Plain, Kind::Forgetful, Kind::Adaptive];
const FORGETFUL: usize = 1;
const ADAPTIVE: usize = 2;

/// The measurements of one setup.
struct Seen {
    /// The number of keys that cost a disk read when they were first queried.
    learnt: u64,
    /// The numbers of disk reads when all these keys are queried again: before the crash, after
    /// it, and once more.
    replays: [u64; 3],
    /// Seconds to read all members, and to build the filter.
    scan: f64,
    rebuild: f64,
}

const REPLAYS: [&str; 3] = ["before the crash", "after it", "once more"];

fn replay(run: &mut Run, learnt: &[Key]) -> u64 {
    let mut tally = Tally::default();
    run.ask(learnt, &mut tally);
    tally.gets
}

fn observe(kind: Kind, size: &Size, queries: usize, is_scan_first: bool) -> Seen {
    let [mut run] = stores::filled([kind], size);
    let learnt = stores::learn(&mut run, queries, size.seed.unwrap_or_default());
    let before = replay(&mut run, &learnt);
    let [to_scan, to_rebuild] = [run.crash_image(None), run.crash_image(None)];
    drop(run);

    let scan = || {
        let engine = kind.engine(&to_scan.path().join(DATA), size);
        measure::settle();
        let start = Instant::now();
        let found = scan(&engine, kind.scanned());
        assert_eq!(found, size.pairs, "all pairs");
        start.elapsed().as_secs_f64()
    };
    let early = is_scan_first.then(scan);
    let engine = kind.engine(&to_rebuild.path().join(DATA), size);
    measure::settle();
    let start = Instant::now();
    let mut run = Run::over(engine, to_rebuild, kind, size);
    let rebuild = start.elapsed().as_secs_f64();
    assert_eq!(run.setup.members(), Some(size.pairs as u64), "all pairs");
    run.setup.asked();
    let [after, again] = [replay(&mut run, &learnt), replay(&mut run, &learnt)];
    drop(run);
    Seen {
        learnt: learnt.len() as u64,
        replays: [before, after, again],
        scan: early.unwrap_or_else(scan),
        rebuild,
    }
}

fn table(rounds: &[[Seen; 3]]) -> Table {
    let mut table = Table::new("Repeated mistakes, and time to rebuild the filter")
        .columns([
            Column::text("store"),
            Column::decimals("mistakes learnt", "", 0),
            Column::decimals("disk reads before the crash", "", 0),
            Column::decimals("after it", "", 0),
            Column::decimals("once more", "", 0),
            Column::decimals("reading members", "ms", 1),
            Column::decimals("building the filter", "ms", 1),
        ])
        .note(
            "The crash is simulated: the files are copied while the store is open, and the copy is \
             opened. Data in the operating system's buffers survives, as if a process is killed; a \
             power cut may lose the last mistakes, unless writes are synced.",
        )
        .note(
            "Counts are from the last round, times are medians. One thread reads the members; up \
             to four build the filter. Until it is ready, each query reads the disk.",
        );
    let last = rounds.last().expect("a round");
    for (kind, seen) in last.iter().enumerate() {
        let time = |value: fn(&Seen) -> f64| {
            median(rounds.iter().map(|round| value(&round[kind]) * 1e3).collect())
        };
        let [before, after, again] = seen.replays;
        table = table.row([
            name(KINDS[kind]).into(),
            seen.learnt.into(),
            before.into(),
            after.into(),
            again.into(),
            time(|seen| seen.scan).into(),
            time(|seen| seen.rebuild).into(),
        ]);
    }
    table.highlight(3, Best::Least).highlight(6, Best::Least)
}

fn plot(last: &[Seen; 3]) -> Plot {
    let axis = Axis::log10("disk reads", "");
    let mut plot = Plot::bars("The adversary repeats what it has learnt", "when", REPLAYS, axis);
    for (kind, seen) in KINDS.iter().zip(last) {
        plot = plot.series(Series::new(name(*kind)).bars(seen.replays.map(|visits| visits as f64)));
    }
    plot
}

fn run(context: &Context) -> Outcome {
    let size = stores::size(context, 1 << context.pick(14, 19, 26), 3);
    let queries = context.pick(50_000, 1 << 20, 100_000_000);
    let count = context.pick(1, 3, 1);
    let bar = progress("stores", count * KINDS.len());
    let rounds: Vec<[Seen; 3]> = (0..count)
        .map(|round| {
            KINDS.map(|kind| {
                let seen = observe(kind, &size, queries, round % 2 == 0);
                bar.inc(1);
                seen
            })
        })
        .collect();
    bar.finish_and_clear();

    let ours = || rounds.iter().map(|round| &round[ADAPTIVE]);
    let after: u64 = ours().map(|seen| seen.replays[1]).sum();
    let learnt: u64 = ours().map(|seen| seen.learnt).sum();
    let forgotten: u64 = rounds.iter().map(|round| round[FORGETFUL].replays[1]).sum();
    let ratio = median(ours().map(|seen| seen.rebuild / seen.scan).collect());
    Outcome {
        seen: format!(
            "After the crash, {after} of {learnt} repaired mistakes cost a disk read again; \
             {forgotten} did if mistakes aren't stored outside the filter. Building the filter \
             takes {ratio:.2} times as long as reading the members."
        ),
        verdict: stores::judge(context, &[learnt > 0 && after == 0], &[ratio <= 1.0]),
        blocks: vec![plot(rounds.last().expect("a round")).into(), table(&rounds).into()],
    }
}
