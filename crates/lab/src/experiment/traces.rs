//! Table 3 of the `AdaptiveQF` paper: queries from traces of networks and programs.

use super::stores::{self, name};
use super::{Context, Experiment, Outcome, progress, why};
use crate::bench::store::{Kind, Tally, key, median};
use std::path::Path;
use twiceshy_report::{Axis, Best, Column, Plot, Series, Table};
use twiceshy_workloads::load::{LoadError, Trace};
use twiceshy_workloads::stream::firehose::{ActiveSet, ActiveSetConfig, PowerLaw, PowerLawConfig};
use twiceshy_workloads::stream::{Flows, FlowsConfig};

pub(super) const TRACES: Experiment = Experiment {
    name: "traces",
    title: "Traces",
    question: "How much do repairs help with the repetitive queries of networks and programs?",
    paper: "AdaptiveQF, §6.5 and table 3: on CAIDA's packets, queries are 1.3 times as fast as \
            with the quotient filter that doesn't adapt, because the most popular mistakes are \
            repaired; on Shalla's URLs, which are hardly skewed, 0.94 times.",
    run,
};

const KINDS: [Kind; 3] = [Kind::Engine, Kind::Plain, Kind::Adaptive];
const PLAIN: usize = 1;
const ADAPTIVE: usize = 2;
const TURNS: usize = 16;

/// The file of the block trace in the data directory.
const BLOCKS: &str = "block-io-trace.csv.gz";

/// Queries for non-members.
struct Queries {
    name: &'static str,
    numbers: Box<dyn Iterator<Item = u64>>,
}

/// Returns the generated queries.
fn generated(seed: u64) -> [Queries; 3] {
    let flows = Flows::new(FlowsConfig::default(), seed).expect("a shape");
    let active = ActiveSet::new(ActiveSetConfig::default(), seed).expect("a shape");
    let power = PowerLaw::new(PowerLawConfig::default(), seed).expect("a shape");
    [
        Queries { name: "network flows", numbers: Box::new(flows) },
        Queries { name: "FireHose active set", numbers: Box::new(active.map(|datum| datum.key)) },
        Queries { name: "FireHose power law", numbers: Box::new(power.map(|datum| datum.key)) },
    ]
}

/// Loads at most `most` accesses from the start of a recorded disk trace, as queries. Reads all
/// of them first, so that a damaged file is detected before the experiment begins.
fn blocks(data: &Path, most: usize) -> Result<Queries, LoadError> {
    let trace = Trace::open(data.join(BLOCKS))?;
    // Use keys that differ from the small numbers of the flows. If keys were the same, some
    // mistakes would already be repaired.
    let blocks = trace.take(most).map(|access| Ok(access?.block | 1 << 61));
    let blocks = blocks.collect::<Result<Vec<_>, LoadError>>()?;
    Ok(Queries { name: "block trace (real)", numbers: Box::new(blocks.into_iter()) })
}

/// The measurements with one trace.
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

    /// Returns the repeated disk reads, if known.
    fn repeated(&self, kind: usize) -> Option<u64> {
        self.tallies[kind].distinct.map(|distinct| self.visits(kind) - distinct)
    }
}

fn speeds(seen: &[Seen]) -> Table {
    let mut table = Table::new("Queries")
        .columns([
            Column::text("trace"),
            Column::text("filter"),
            Column::decimals("queries", "thousands/s", 1),
            Column::decimals("lookups in the engine", "", 0),
            Column::decimals("repeated mistakes", "", 0),
        ])
        .note("The engine doesn't report how often its own filter avoids a disk read.")
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
    let mut table = Table::new("With repairs, compared to without repairs").columns([
        Column::text("trace"),
        Column::decimals("queries", "", 0),
        Column::decimals("throughput", "times", 2),
        Column::decimals("fewer disk reads", "times", 1),
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
    let mut plot = Plot::bars("Queries per second", "trace", traces, axis);
    for (kind, setup) in KINDS.iter().enumerate() {
        let rates = seen.iter().map(|seen| seen.rate(kind));
        plot = plot.series(Series::new(name(*setup)).bars(rates));
    }
    plot.note("Medians over turns; all setups alternate.")
}

fn run(context: &Context) -> Outcome {
    let size = stores::size(context, 1 << context.pick(14, 20, 26), 3);
    let most = context.pick(50_000, 1 << 21, 100_000_000);
    let mut traces: Vec<Queries> = generated(context.seed).into();
    let mut notes = vec!["The network flows replace the paper's captured packets.".to_owned()];
    let mut skipped = String::new();
    match context.data.as_deref().map(|data| blocks(data, most)) {
        Some(Ok(trace)) => traces.push(trace),
        Some(Err(error)) => {
            skipped = format!(" Skipped: the real trace, {BLOCKS}: {}.", why(&error));
        }
        None => {
            notes.push(format!(
                "No real trace: give a directory that contains {BLOCKS} with `--data`."
            ));
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
             {fewest:.1} to {most_saved:.1} times fewer cause a disk read; {repeated} of them are \
             repeated mistakes.{skipped}"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_trace_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let write = |bytes: &[u8]| std::fs::write(directory.path().join(BLOCKS), bytes).unwrap();
        let trace = "time,op,size,lbn\n".to_owned() + &"1,28,512,7\n".repeat(100);
        write(trace.as_bytes());
        assert_eq!(blocks(directory.path(), 200).unwrap().numbers.count(), 100);
        // A truncated gzip file.
        let header = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 0xFF];
        let stored = [1, 0xFF, 0xFF, 0, 0];
        write(&[&header[..], &stored, trace.as_bytes()].concat());
        let error = blocks(directory.path(), 200).err().unwrap();
        assert!(why(&error).contains("reading failed: "), "{}", why(&error));
    }
}
