//! `twiceshy-lab bench store`: stores on disk with and without an adaptive filter.
//!
//! The adversary is that of the `AdaptiveQF` paper. It first queries absent keys and notes which
//! ones made the store read its disk. Then it mixes these keys into other clients' queries. If the
//! store uses the engine's own filter, the adversary can't see the disk reads. Then it notes the
//! keys with the slowest answers.
//!
//! Inserts into different setups are measured by turns, and so are the different shares of hostile
//! queries. This way, other load on the machine affects all of them equally. Between two turns of
//! inserts, the engine's threads have time to finish, so that no setup pays for the compaction of
//! another. The background work of our filter belongs to the turn. After the inserts, each engine
//! writes what it still has in memory to disk, which counts as well.
//!
//! A short run would not show what repairs cost later, because repairs fill a shard until it is
//! rotated, which means rebuilt with fresh remainders. So inserts are repeated with new stores, and
//! hostile queries go on with new absent keys, until they have taken `--seconds`, all rounds
//! together. If there are repairs, hostile queries also go on until every shard was rotated.
//!
//! All setups have the same memory, because an engine without our filter gets all memory of our
//! store as additional block cache. Only memtables, and what the engine keeps in memory of its
//! tables, come on top; the results count them. The engine's own filter is read through the block
//! cache and must stay in it, so it needs the larger cache. At the bottom level, the engine's
//! filter is in parts of 4 KiB. At higher levels, the filter of a table is one block, which can be
//! too large for the cache, so all setups are compacted before the queries. The engine pins the
//! filters of its latest tables, which count as memory as well.
//!
//! The time to rebuild the filter is compared with the time to read the data that it is built from.
//! Each is measured with a freshly opened engine on a copy of the compacted tables. The copy is
//! made before the long queries, so the records of few mistakes are read with the members.

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
use crate::output::print_origin;
use report::Row;
use run::Memory;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Options of `bench store`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Number of pairs of 32 bytes, half of which are the key.
    #[arg(long, default_value_t = 300_000, value_parser = positive)]
    pairs: usize,
    /// Number of queries per turn.
    #[arg(long, default_value_t = 1 << 19, value_parser = positive)]
    queries: usize,
    /// Size of the engine's block cache in bytes. The memory of our filter is not included.
    #[arg(long, default_value_t = 1 << 20)]
    cache_bytes: u64,
    /// Number of rounds, each with new stores. The best and the median round are printed.
    #[arg(long, default_value_t = 3, value_parser = positive)]
    rounds: usize,
    /// Number of seconds that the inserts of each setup take at least, all rounds together. The
    /// same applies to its queries for each share of hostile ones, and to uniform absent keys with
    /// and without repairs. Measurements of less than 10 seconds are not judged. 0 measures inserts
    /// and hostile queries once per round, and skips uniform absent keys.
    #[arg(long, default_value_t = 10.0, value_parser = seconds)]
    seconds: f64,
    /// Measure only uniform absent keys.
    #[arg(long)]
    uniform_only: bool,
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

    /// Returns the number of seconds that each timed measurement takes at least in one round.
    fn seconds_per_round(&self) -> f64 {
        self.seconds / self.rounds as f64
    }
}

/// Parses a number of seconds.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.0..=1e6).contains(seconds));
    seconds.ok_or_else(|| "expected a number of seconds".into())
}

/// The adversary's shares of the queries, in percent.
const HOSTILE: [u32; 3] = [0, 1, 10];

/// The number of turns of inserts for each setup.
const TURNS: usize = 64;

/// The maximum duration of queries until all shards are rotated, as a multiple of the requested
/// duration.
const PATIENCE: usize = 10;

/// The totals of the inserts into one setup.
#[derive(Clone, Copy, Default)]
struct Inserted {
    count: usize,
    time: Duration,
    /// CPU time in nanoseconds.
    cpu: f64,
    gets: u64,
    skipped_repairs: u64,
    memory: Memory,
}

impl Inserted {
    /// Adds the turns of a run, and the time to write the rest to disk.
    fn add(&mut self, run: &Run, turns: &[Spent]) {
        let (start, start_cpu) = (Instant::now(), measure::process_cpu_nanoseconds());
        run.setup.flush();
        self.time += start.elapsed() + turns.iter().map(|turn| turn.time).sum::<Duration>();
        measure::settle();
        let cpu = measure::process_cpu_nanoseconds() - start_cpu;
        self.cpu += cpu + turns.iter().map(|turn| turn.cpu).sum::<f64>();
        self.count += turns.iter().map(|turn| turn.count).sum::<usize>();
        self.gets += run.setup.asked().map_or(0, |asked| asked.len() as u64);
        self.skipped_repairs += run.setup.skipped_repairs();
        let memory = turns.iter().map(|turn| turn.memory).max();
        self.memory = self.memory.max(memory.unwrap_or_default());
    }

    fn row(&self, run: &Run) -> Row {
        Row {
            op: "insert",
            seconds: self.time.as_secs_f64(),
            count: self.count as u64,
            kops: thousands(self.count, self.time),
            cpu_us: Some(self.cpu / 1e3 / self.count as f64),
            memory_bytes: self.memory.all,
            engine_bytes: self.memory.engine,
            backend_gets: self.gets,
            skipped_repairs: run.kind.repairs().then_some(self.skipped_repairs),
            ..run.row()
        }
    }
}

impl Run {
    fn row(&self) -> Row {
        Row {
            setup: self.kind.name(),
            op: "",
            hostile_percent: 0,
            seconds: 0.0,
            count: 0,
            kops: 0.0,
            median_kops: 0.0,
            cpu_us: None,
            memory_bytes: self.setup.memory_bytes(),
            engine_bytes: self.setup.engine_bytes(),
            backend_gets: 0,
            backend_scans: 0,
            distinct_mistakes: None,
            repeated_mistakes: None,
            repeated_per_million: None,
            skipped_repairs: None,
            least_rotations: None,
        }
    }

    /// Returns the row of a query operation.
    fn query_row(&self, op: &'static str, hostile_percent: u32, tally: &Tally) -> Row {
        let repeated = tally.distinct.map(|distinct| tally.gets - distinct);
        Row {
            op,
            hostile_percent,
            seconds: tally.time.as_secs_f64(),
            count: tally.queries,
            kops: thousands(tally.queries as usize, tally.time),
            memory_bytes: tally.memory.all,
            engine_bytes: tally.memory.engine,
            backend_gets: tally.gets,
            backend_scans: tally.scans,
            distinct_mistakes: tally.distinct,
            repeated_mistakes: repeated,
            repeated_per_million: repeated.map(|repeated| per_million(repeated, tally.queries)),
            skipped_repairs: self.kind.repairs().then_some(tally.skipped_repairs),
            least_rotations: self.kind.repairs().then(|| tally.least_rotations()),
            ..self.row()
        }
    }

    /// Runs all queries, and measures reading all pairs in between.
    fn ask_and_read(&mut self, round: usize, options: &Options) -> Vec<Row> {
        let mut random = Random(7);
        let mut fresh = (0u64..).map(|number| key(number, false));
        let mut strangers = || fresh.by_ref().take(options.queries).collect::<Vec<Key>>();
        let mut rows = Vec::new();
        let ranks = (0..options.queries).map(|_| key(1 << 60 | random.zipf().min(1 << 40), false));
        for (op, keys) in [("negative", strangers()), ("zipf", ranks.collect())] {
            let mut tally = Tally::default();
            self.ask(&keys, &mut tally);
            rows.push(self.query_row(op, 0, &tally));
        }

        let learnt = self.learn(&strangers());
        let read = self.read_all(round, options);

        let mut tallies = HOSTILE.map(|_| Tally::default());
        let (least, repairs) = (options.seconds_per_round(), self.kind.repairs());
        let is_done = |tally: &Tally| {
            let seconds = tally.time.as_secs_f64();
            let is_rotated = !repairs || tally.least_rotations() > 0;
            tally.queries > 0
                && seconds >= least
                && (is_rotated || seconds >= least * PATIENCE as f64)
        };
        let mut turns = in_turns(HOSTILE.len(), usize::MAX);
        while !tallies.iter().all(is_done) {
            for (index, _) in turns.by_ref().take(HOSTILE.len()) {
                let mut keys = strangers();
                for key in &mut keys {
                    if !learnt.is_empty() && random.below(100) < HOSTILE[index] as usize {
                        *key = learnt[random.below(learnt.len())];
                    }
                }
                self.ask(&keys, &mut tallies[index]);
            }
        }
        let hostile = HOSTILE.into_iter().zip(&tallies);
        rows.extend(hostile.map(|(percent, tally)| self.query_row("hostile", percent, tally)));
        rows.extend(read);
        rows
    }

    /// Measures reading all pairs of a copy, and then rebuilding the filter, if there is one. A
    /// rebuild also has to read all pairs.
    fn read_all(&self, round: usize, options: &Options) -> Vec<Row> {
        let (kind, row, has_filter) = (self.kind, self.row(), self.setup.members().is_some());
        self.setup.compact();
        let copy = self.crash_image(options.directory.as_deref());
        let data = copy.path().join(DATA);
        let open = || {
            let backend = kind.engine(&data, &options.size());
            measure::settle();
            backend
        };
        let timed = |op, time: Duration| Row {
            op,
            seconds: time.as_secs_f64(),
            count: options.pairs as u64,
            kops: thousands(options.pairs, time),
            ..row.clone()
        };
        let scan = || {
            let backend = open();
            let start = Instant::now();
            let found = scan(&backend, kind.scanned());
            let time = start.elapsed();
            assert_eq!(found, options.pairs, "all pairs");
            timed("scan", time)
        };
        let rebuild = || {
            let backend = open();
            let start = Instant::now();
            // There is no directory for a saved filter, so the filter is rebuilt.
            let setup = Setup::over(backend, kind, &options.size());
            let time = start.elapsed();
            assert_eq!(setup.members(), Some(options.pairs as u64), "all pairs");
            timed("rebuild", time)
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

/// Inserts all members into every setup. The setups take turns. Repeats this with new stores until
/// it has taken long enough, and returns the last stores.
fn insert_all(options: &Options) -> ([Run; Kind::ALL.len()], Vec<Row>) {
    let members: Vec<Key> = (0..options.pairs as u64).map(|number| key(number, true)).collect();
    let mut totals = Kind::ALL.map(|_| Inserted::default());
    loop {
        let directory = options.directory.as_deref();
        let runs = Kind::ALL.map(|kind| Run::new(kind, &options.size(), directory));
        let spent = insert_in_turns(&runs, &members, TURNS);
        for ((total, run), turns) in totals.iter_mut().zip(&runs).zip(&spent) {
            total.add(run, turns);
        }
        let least = Duration::from_secs_f64(options.seconds_per_round());
        if totals.iter().all(|total| total.time >= least) {
            for run in &runs {
                run.setup.compact();
            }
            measure::settle();
            let rows = totals.iter().zip(&runs).map(|(total, run)| total.row(run)).collect();
            return (runs, rows);
        }
    }
}

/// Returns the rows of a round, by setup.
fn one_round(round: usize, options: &Options) -> Vec<Row> {
    let (runs, inserted) = insert_all(options);
    let mut rows = Vec::new();
    for (mut run, inserted) in runs.into_iter().zip(inserted) {
        rows.push(inserted);
        rows.extend(run.ask_and_read(round, options));
    }
    rows
}

fn per_million(count: u64, of: u64) -> f64 {
    count as f64 * 1e6 / of as f64
}

pub(crate) fn run(options: &Options) -> Result<(), ExitCode> {
    if options.json {
        print_origin()?;
    }
    if !options.uniform_only {
        let mut rounds = Vec::new();
        for round in 1..=options.rounds {
            measure::show_round(round, options.rounds);
            rounds.push(one_round(round, options));
        }
        measure::hide_round();
        report::show(&rounds, options.json)?;
    }
    if options.seconds > 0.0 {
        let directory = options.directory.as_deref();
        uniform::run(options.pairs, options.seconds, directory, options.json)?;
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
        seconds: 0.0,
        uniform_only: false,
        directory: None,
        json: true,
    };

    #[test]
    fn all_setups_have_the_same_memory() {
        // Memtables come on top.
        let memory = Kind::ALL.map(|kind| {
            let setup = Run::new(kind, &SMALL.size(), None).setup;
            setup.memory_bytes() - setup.engine_bytes()
        });
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
        assert!(rows.iter().filter(|row| row.op == "insert").all(|row| row.engine_bytes > 0));
    }
}
