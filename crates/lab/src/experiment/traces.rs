//! Table 3: queries as networks and programs ask them.

use super::stores::{self, name};
use super::{Context, Experiment, Outcome, progress};
use crate::bench::store::{Kind, Tally, key, median};
use std::path::Path;
use twiceshy_report::{Axis, Best, Column, Plot, Series, Table};
use twiceshy_workloads::load::{LoadError, Trace};
use twiceshy_workloads::stream::firehose::{ActiveSet, ActiveSetConfig, PowerLaw, PowerLawConfig};
use twiceshy_workloads::stream::{Flows, FlowsConfig};

pub(super) const TRACES: Experiment = Experiment {
    name: "traces",
    title: "Traces",
    question: "What are repairs worth when queries repeat themselves as those of networks and \
               programs do?",
    paper: "AdaptiveQF, §6.5 and table 3: on CAIDA's packets, queries are 1.3 times as fast as with \
            the quotient filter that doesn't adapt, because the most popular mistakes are \
            repaired; on Shalla's URLs, which are hardly skewed, 0.94 times.",
    run,
};

const KINDS: [Kind; 3] = [Kind::Engine, Kind::Plain, Kind::Adaptive];
const PLAIN: usize = 1;
const ADAPTIVE: usize = 2;
const TURNS: usize = 16;

/// The trace of a disk's blocks, in a directory of the user's.
const BLOCKS: &str = "block-io-trace.csv.gz";

/// Queries, none of which is a member.
struct Queries {
    name: &'static str,
    numbers: Box<dyn Iterator<Item = u64>>,
}

/// Those that can be made anywhere.
fn made(seed: u64) -> [Queries; 3] {
    let flows = Flows::new(FlowsConfig::default(), seed).expect("a shape");
    let active = ActiveSet::new(ActiveSetConfig::default(), seed).expect("a shape");
    let power = PowerLaw::new(PowerLawConfig::default(), seed).expect("a shape");
    [
        Queries { name: "network flows", numbers: Box::new(flows) },
        Queries { name: "FireHose active set", numbers: Box::new(active.map(|datum| datum.key)) },
        Queries { name: "FireHose power law", numbers: Box::new(power.map(|datum| datum.key)) },
    ]
}

/// The blocks that real programs accessed.
fn blocks(data: &Path) -> Result<Queries, LoadError> {
    let trace = Trace::open(data.join(BLOCKS))?;
    // Apart from the flows' small numbers, so that nothing is repaired already.
    let blocks = trace.map_while(Result::ok).map(|access| access.block | 1 << 61);
    Ok(Queries { name: "block trace (real)", numbers: Box::new(blocks) })
}

/// What each setup did with one trace.
struct Seen {
    trace: &'static str,
    queries: usize,
    tallies: [Tally; KINDS.len()],
}

impl Seen {
    fn rate(&self, kind: usize) -> f64 {
        median(self.tallies[kind].kops.clone()) * 1e3
    }

    fn visits(&self, kind: usize) -> u64 {
        self.tallies[kind].gets
    }

    /// Visits for keys that had gone to the disk before, if that is known.
    fn repeated(&self, kind: usize) -> Option<u64> {
        self.tallies[kind].distinct.map(|distinct| self.visits(kind) - distinct)
    }
}

fn speeds(seen: &[Seen]) -> Table {
    let mut table = Table::new("Queries")
        .columns([
            Column::text("trace"),
            Column::text("before the engine"),
            Column::decimals("queries", "thousands/s", 1),
            Column::decimals("engine asked", "", 0),
            Column::decimals("repeated mistakes", "", 0),
        ])
        .note("How often the engine's own filter then spares the disk, it doesn't tell.")
        .note(stores::MEMORY);
    for seen in seen {
        for (kind, setup) in KINDS.iter().enumerate() {
            table = table.row([
                seen.trace.into(),
                name(*setup).into(),
                (seen.rate(kind) / 1e3).into(),
                seen.visits(kind).into(),
                seen.repeated(kind).into(),
            ]);
        }
    }
    table
}

fn ratios(seen: &[Seen]) -> Table {
    let mut table = Table::new("Adapting, compared with not adapting").columns([
        Column::text("trace"),
        Column::decimals("queries", "", 0),
        Column::decimals("throughput", "times", 2),
        Column::decimals("fewer visits", "times", 1),
    ]);
    for seen in seen {
        table = table.row([
            seen.trace.into(),
            (seen.queries as u64).into(),
            (seen.rate(ADAPTIVE) / seen.rate(PLAIN)).into(),
            (seen.visits(PLAIN) as f64 / seen.visits(ADAPTIVE).max(1) as f64).into(),
        ]);
    }
    table.highlight(2, Best::Greatest)
}

fn plot(seen: &[Seen]) -> Plot {
    let traces = seen.iter().map(|seen| seen.trace);
    let axis = Axis::log10("queries", "op/s").si();
    let mut plot = Plot::bars("Queries a second", "trace", traces, axis);
    for (kind, setup) in KINDS.iter().enumerate() {
        let rates = seen.iter().map(|seen| seen.rate(kind));
        plot = plot.series(Series::new(name(*setup)).bars(rates));
    }
    plot.note("Medians of turns, in which all setups alternate.")
}

fn run(context: &Context) -> Outcome {
    let size = stores::size(context, 1 << context.pick(14, 20, 26), 3);
    let most = context.pick(50_000, 1 << 21, 100_000_000);
    let mut traces: Vec<Queries> = made(context.seed).into();
    let mut notes = vec!["The network's flows stand for the paper's captured packets.".to_owned()];
    match context.data.as_deref().map(blocks) {
        Some(Ok(trace)) => traces.push(trace),
        Some(Err(error)) => notes.push(format!("No real trace: {BLOCKS} can't be read: {error}.")),
        None => {
            notes
                .push(format!("No real trace: `--data` names no directory with a {BLOCKS} in it."));
        }
    }
    let bar = progress("traces", traces.len() + 1);
    let mut runs = stores::filled(KINDS, &size);
    bar.inc(1);
    let seen: Vec<Seen> = traces
        .into_iter()
        .map(|trace| {
            let mut queries = 0;
            let keys = trace.numbers.take(most).map(|number| key(number, false));
            let keys = keys.inspect(|_| queries += 1);
            let tallies = stores::ask_in_turns(&mut runs, keys, most, TURNS);
            bar.inc(1);
            Seen { trace: trace.name, queries, tallies }
        })
        .filter(|seen| seen.queries > 0)
        .collect();
    bar.finish_and_clear();

    let extremes = |value: &dyn Fn(&Seen) -> f64| {
        let values = || seen.iter().map(value);
        (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max))
    };
    let (slowest, fastest) = extremes(&|seen| seen.rate(ADAPTIVE) / seen.rate(PLAIN));
    let (fewest, most_saved) =
        extremes(&|seen| seen.visits(PLAIN) as f64 / seen.visits(ADAPTIVE).max(1) as f64);
    let repeated: u64 = seen.iter().map(|seen| seen.repeated(ADAPTIVE).unwrap_or_default()).sum();
    Outcome {
        seen: format!(
            "With repairs, queries are {slowest:.2} to {fastest:.2} times as fast as without, and \
             {fewest:.1} to {most_saved:.1} times fewer go to the disk; {repeated} of them had gone \
             there before."
        ),
        verdict: stores::judge(context, &[], &[slowest >= 0.94, fastest >= 1.3]),
        blocks: vec![
            plot(&seen).into(),
            speeds(&seen).into(),
            ratios(&seen).into(),
            notes.join("\n\n").into(),
        ],
    }
}
