//! `twiceshy-lab bench store`: stores on disk with and without an adaptive filter.
//!
//! The adversary is that of the `AdaptiveQF` paper. It first queries absent keys and notes which
//! ones made the store read its disk. Then it mixes these keys into other clients' queries. If the
//! store uses the engine's own filter, the adversary can't see the disk reads. Then it notes the
//! keys with the slowest answers.
//!
//! Inserts into different setups are measured by turns, and so are the different shares of hostile
//! queries. This way, other load on the machine affects all of them equally. Between two turns, the
//! engine's threads have time to finish, so that no setup pays for the compaction of another. The
//! background work of our filter belongs to the turn. At the end, each engine writes what it still
//! has in memory to disk, which counts as well.
//!
//! All setups have the same memory, because an engine without our filter gets all memory of our
//! store as additional block cache. The engine's own filter is read through the block cache and
//! must stay in it, so it needs the larger cache. At the bottom level, the engine's filter is in
//! parts of 4 KiB. At higher levels, the filter of a table is one block, which can be too large for
//! the cache, so all setups are compacted before the queries.
//!
//! The time to rebuild the filter is compared with the time to read the data that it is built from.
//! Each is measured with a freshly opened engine on the same compacted tables.

mod report;
mod run;
mod setup;
mod uniform;

pub(crate) use report::median;
pub(crate) use run::{
    DATA, Run, Spent, Tally, copy, in_turns, insert_in_turns, mixed, slices, thousands,
};
pub(crate) use setup::{Key, Kind, Setup, Size, key, scan};

use super::measure::{self, positive};
use super::random::Random;
use report::Row;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Options of `bench store`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Number of pairs of 32 bytes, half of which are the key.
    #[arg(long, default_value_t = 1 << 20, value_parser = positive)]
    pairs: usize,
    /// Number of queries per operation.
    #[arg(long, default_value_t = 1 << 19, value_parser = positive)]
    queries: usize,
    /// Size of the engine's block cache in bytes. The memory of our filter is not included.
    #[arg(long, default_value_t = 1 << 20)]
    cache_bytes: u64,
    /// Number of rounds, each with new stores. The best and the median round are printed.
    #[arg(long, default_value_t = 3, value_parser = positive)]
    rounds: usize,
    /// Seconds per measurement with uniform queries for absent keys. Each measurement is made with
    /// repairs and without. With 0, all are skipped.
    #[arg(long, default_value_t = 10)]
    uniform_seconds: usize,
    /// Directory for the stores, which are removed afterwards [default: the system's temporary
    /// directory].
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Print one JSON object per line instead of a table.
    #[arg(long)]
    json: bool,
}

impl Options {
    fn size(&self) -> Size {
        Size { pairs: self.pairs, cache_bytes: self.cache_bytes, seed: None }
    }
}

/// The adversary's shares of the queries, in percent.
const HOSTILE: [u32; 5] = [0, 1, 3, 5, 10];

/// The number of turns for each setup, or for each share of hostile queries.
const TURNS: usize = 64;

impl Run {
    fn row(&self) -> Row {
        Row {
            setup: self.kind.name(),
            op: "",
            hostile_percent: 0,
            kops: 0.0,
            median_kops: 0.0,
            cpu_us: None,
            memory_bytes: self.setup.memory_bytes(),
            backend_gets: 0,
            backend_scans: 0,
            distinct_mistakes: None,
            repeated_mistakes: None,
        }
    }

    /// Returns the row of a query operation. Its speed is that of the median turn, which
    /// interruptions hardly affect.
    fn query_row(&self, op: &'static str, hostile_percent: u32, tally: Tally) -> Row {
        Row {
            op,
            hostile_percent,
            kops: median(tally.kops),
            backend_gets: tally.gets,
            backend_scans: tally.scans,
            distinct_mistakes: tally.distinct,
            repeated_mistakes: tally.distinct.map(|distinct| tally.gets - distinct),
            ..self.row()
        }
    }

    /// Runs all queries.
    fn ask_all(&mut self, options: &Options) -> Vec<Row> {
        let mut random = Random(7);
        let mut fresh = (0u64..).map(|number| key(number, false));
        let mut strangers = || fresh.by_ref().take(options.queries).collect::<Vec<Key>>();
        let mut rows = Vec::new();
        let ranks = (0..options.queries).map(|_| key(1 << 60 | random.zipf().min(1 << 40), false));
        for (op, keys) in [("negative", strangers()), ("zipf", ranks.collect())] {
            let mut tally = Tally::default();
            self.ask(&keys, &mut tally);
            rows.push(self.query_row(op, 0, tally));
        }

        let learnt = self.learn(&strangers());
        let mixtures = HOSTILE.map(|percent| {
            let mut keys = strangers();
            for key in &mut keys {
                if !learnt.is_empty() && random.below(100) < percent as usize {
                    *key = learnt[random.below(learnt.len())];
                }
            }
            keys
        });
        let mut tallies = HOSTILE.map(|_| Tally::default());
        let turns = mixtures.each_ref().map(|keys| slices(keys, TURNS));
        for (index, turn) in in_turns(HOSTILE.len(), turns[0].len()) {
            self.ask(turns[index][turn], &mut tallies[index]);
        }
        let hostile = HOSTILE.into_iter().zip(tallies);
        rows.extend(hostile.map(|(percent, tally)| self.query_row("hostile", percent, tally)));
        rows
    }

    /// Measures reading all pairs, and then rebuilding the filter, if there is one. A rebuild also
    /// has to read all pairs.
    fn read_all(self, round: usize, options: &Options) -> Vec<Row> {
        let Self { kind, ref directory, .. } = self;
        let (row, has_filter) = (self.row(), self.setup.members().is_some());
        self.setup.compact();
        drop(self.setup);
        let data = directory.path().join(DATA);
        let open = || {
            let backend = kind.engine(&data, &options.size());
            measure::settle();
            backend
        };
        let scan = || {
            let backend = open();
            let start = Instant::now();
            let found = scan(&backend, kind.scanned());
            let kops = thousands(found, start.elapsed());
            assert_eq!(found, options.pairs, "all pairs");
            Row { op: "scan", kops, ..row.clone() }
        };
        let rebuild = || {
            let backend = open();
            let start = Instant::now();
            // There is no directory for a saved filter, so the filter is rebuilt.
            let setup = Setup::over(backend, kind, &options.size());
            let kops = thousands(options.pairs, start.elapsed());
            assert_eq!(setup.members(), Some(options.pairs as u64), "all pairs");
            Row { op: "rebuild", kops, ..row.clone() }
        };
        match (has_filter, round % 2) {
            (false, _) => vec![scan()],
            (true, 0) => vec![scan(), rebuild()],
            (true, _) => {
                let rebuild = rebuild();
                vec![scan(), rebuild]
            }
        }
    }
}

/// Inserts all members into every setup. The setups take turns.
fn insert_all(runs: &[Run], members: &[Key]) -> Vec<Row> {
    let spent = insert_in_turns(runs, members, TURNS);
    let row = |(run, turns): (&Run, Vec<Spent>)| {
        let (start, start_cpu) = (Instant::now(), measure::process_cpu_nanoseconds());
        run.setup.flush();
        let time = start.elapsed() + turns.iter().map(|turn| turn.time).sum::<Duration>();
        measure::settle();
        let cpu = measure::process_cpu_nanoseconds() - start_cpu;
        let cpu = cpu + turns.iter().map(|turn| turn.cpu).sum::<f64>();
        run.setup.compact();
        Row {
            op: "insert",
            kops: thousands(members.len(), time),
            cpu_us: Some(cpu / 1e3 / members.len() as f64),
            backend_gets: run.setup.asked().map_or(0, |asked| asked.len() as u64),
            ..run.row()
        }
    };
    let rows = runs.iter().zip(spent).map(row).collect();
    measure::settle();
    rows
}

/// Returns the rows of a round, by setup.
fn one_round(round: usize, options: &Options) -> Vec<Row> {
    let members: Vec<Key> = (0..options.pairs as u64).map(|number| key(number, true)).collect();
    let runs = Kind::ALL.map(|kind| Run::new(kind, &options.size(), options.directory.as_deref()));
    let inserted = insert_all(&runs, &members);
    let mut rows = Vec::new();
    for (mut run, inserted) in runs.into_iter().zip(inserted) {
        rows.push(inserted);
        rows.extend(run.ask_all(options));
        rows.extend(run.read_all(round, options));
    }
    rows
}

pub(crate) fn run(options: &Options) -> Result<(), ExitCode> {
    let mut rounds = Vec::new();
    for round in 1..=options.rounds {
        measure::show_round(round, options.rounds);
        rounds.push(one_round(round, options));
    }
    measure::hide_round();
    report::show(&rounds, options.json)?;
    if options.uniform_seconds > 0 {
        let directory = options.directory.as_deref();
        uniform::run(options.pairs, options.uniform_seconds, directory, options.json)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Options = Options {
        pairs: 4000,
        queries: 20_000,
        cache_bytes: 1 << 20,
        rounds: 1,
        uniform_seconds: 0,
        directory: None,
        json: true,
    };

    #[test]
    fn all_setups_have_the_same_memory() {
        let memory = Kind::ALL.map(|kind| Run::new(kind, &SMALL.size(), None).setup.memory_bytes());
        assert!(memory[0] > SMALL.cache_bytes && memory.iter().all(|&bytes| bytes <= memory[0]));
        assert!(memory.iter().all(|&bytes| bytes as f64 > memory[0] as f64 * 0.99), "{memory:?}");
    }

    #[test]
    fn all_setups_run_all_operations_and_adaptive_ones_repeat_no_mistake() {
        let rows = one_round(1, &SMALL);
        let of = |kind: Kind| rows.iter().filter(move |row| row.setup == kind.name());
        for kind in Kind::ALL {
            let ops = ["insert", "negative", "zipf", "hostile", "scan"];
            assert!(ops.iter().all(|op| of(kind).any(|row| row.op == *op)), "{}", kind.name());
            assert!(of(kind).all(|row| row.kops > 0.0));
        }
        for kind in [Kind::Adaptive, Kind::Split] {
            assert!(of(kind).all(|row| row.repeated_mistakes.unwrap_or_default() == 0));
            assert!(of(kind).any(|row| row.distinct_mistakes > Some(0)));
        }
        assert!(of(Kind::Plain).any(|row| row.repeated_mistakes > Some(0)));
        let rebuilt: Vec<_> = rows.iter().filter(|row| row.op == "rebuild").collect();
        assert_eq!(rebuilt.len(), 3);
    }
}
