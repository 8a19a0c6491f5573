//! Uniform absent keys, each queried once, with and without repairs.
//!
//! Repairs can't help here, because no key comes twice. The comparison shows only what repairs cost.
//! A turn runs for a fixed time, and then waits until all background work is done. The wait is part
//! of the measured time. Without it, the work would slow down the turn of the other contestant.
//!
//! Repairs fill a shard until it is rotated, which means rebuilt with fresh remainders. Turns go on
//! until every shard was rotated, up to a limit, even if fewer turns were requested. Nothing is
//! written meanwhile, so every rebuild is a rotation. The backend counts the rotations, because a
//! rebuild lists the members of one shard.

use super::super::random::Random;
use super::report::{median, verdict};
use super::run::thousands;
use super::setup::{Key, drain, key};
use super::{DATA, in_turns};
use crate::bench::life::{Counting, least_listings};
use crate::output::{print, print_rows};
use serde::Serialize;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use twiceshy_report::{Column, Table};
use twiceshy_store::{
    Backend, Durability, FjallBackend, FjallOptions, MemoryBackend, OpenOptions, RedbBackend,
    RedbOptions, Store,
};

/// The duration of a turn, without the wait at its end.
const TURN: Duration = Duration::from_secs(1);

/// The maximum number of turns, as a multiple of the requested number. Turns beyond that number end
/// when all shards were rotated.
const PATIENCE: usize = 10;

/// The minimum number of seconds after which the goals are meaningful.
const LEAST_SECONDS: f64 = 10.0;

/// The largest share of mistakes whose repair may be skipped.
const MOST_SKIPPED: f64 = 0.01;

/// A backend, and how its writes are made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Engine {
    Memory,
    Fjall,
    SyncedFjall,
    Redb,
}

impl Engine {
    const ALL: [Self; 4] = [Self::Memory, Self::Fjall, Self::SyncedFjall, Self::Redb];

    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Fjall => "fjall",
            Self::SyncedFjall => "synced fjall",
            Self::Redb => "redb",
        }
    }

    /// Returns the goal if all cores read: the ratio of the speed with repairs to that without.
    fn wanted_with_all_cores(self) -> f64 {
        match self {
            Self::Memory | Self::Redb => 0.9,
            Self::Fjall | Self::SyncedFjall => 0.75,
        }
    }

    fn open(self, directory: &Path) -> Arc<dyn Backend> {
        let data = directory.join(DATA);
        let expected = "a directory of its own";
        match self {
            Self::Memory => Arc::new(MemoryBackend::new()),
            Self::Fjall | Self::SyncedFjall => {
                Arc::new(FjallBackend::open(data, FjallOptions::default()).expect(expected))
            }
            Self::Redb => {
                Arc::new(RedbBackend::open(data, RedbOptions::default()).expect(expected))
            }
        }
    }

    fn durability(self) -> Durability {
        if self == Self::SyncedFjall { Durability::Synced } else { Durability::Buffered }
    }
}

/// A store with all pairs.
struct Contestant {
    store: Store<Arc<Counting>>,
    backend: Arc<Counting>,
    /// The number of the next absent key.
    next: u64,
    /// This is the last field, so that the files are removed last.
    _directory: TempDir,
}

impl Contestant {
    fn new(engine: Engine, repairs: bool, pairs: usize, parent: Option<&Path>) -> Self {
        let directory = parent.map_or_else(tempfile::tempdir, tempfile::tempdir_in);
        let directory = directory.expect("room for a directory");
        let options =
            OpenOptions::new().capacity(pairs).repairs(repairs).durability(engine.durability());
        let backend = Arc::new(Counting::new(engine.open(directory.path())));
        let store = options.open_with(Arc::clone(&backend), None);
        let mut store: Store<Arc<Counting>> = store.expect("a store");
        backend.set_shards(store.stats().shards);
        store.wait_until_ready().expect("a backend that can be read");
        let members = (0..pairs as u64).map(|number| key(number, true));
        store.import(members.map(|key| (key, key))).expect("room on the disk");
        store.compact().expect("room on the disk");
        drain(&store);
        Self { store, backend, next: 0, _directory: directory }
    }

    /// Asks for absent keys with some threads, and waits for the background work. Returns thousands
    /// of queries per second.
    fn turn(&mut self, threads: usize) -> f64 {
        let (store, first, start) = (&self.store, self.next, Instant::now());
        let ask = |thread: u64| {
            let mut asked = 0;
            while start.elapsed() < TURN {
                for number in asked..asked + 1024 {
                    let key = stranger(thread << 40 | (first + number));
                    assert!(!store.contains(&key).expect("a disk that can be read"));
                }
                asked += 1024;
            }
            asked
        };
        let asked: Vec<u64> = thread::scope(|scope| {
            let readers = (0..threads as u64).map(|thread| scope.spawn(move || ask(thread)));
            let readers: Vec<_> = readers.collect();
            readers.into_iter().map(|reader| reader.join().expect("no panic")).collect()
        });
        drain(store);
        self.next += asked.iter().max().expect("a thread");
        thousands(asked.iter().sum::<u64>() as usize, start.elapsed())
    }
}

fn stranger(number: u64) -> Key {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&Random(number ^ 0x5bd1_e995 << 32).next().to_be_bytes());
    key[8..].copy_from_slice(&(number << 1).to_be_bytes());
    key
}

/// One row of the result.
#[derive(Clone, Serialize)]
pub(super) struct Row {
    setup: &'static str,
    op: &'static str,
    /// Number of threads that read.
    threads: usize,
    /// The cores that read: `one`, so that the others are free for background work, or `all`.
    cores: &'static str,
    /// Duration of all turns of each contestant, in seconds.
    seconds: usize,
    /// Thousands of queries per second with repairs, in the median turn.
    kops: f64,
    /// Thousands of queries per second without repairs, in the median turn.
    plain_kops: f64,
    /// The median of the ratios of neighbouring turns.
    ratio: f64,
    mistakes: u64,
    repairs: u64,
    skipped_repairs: u64,
    /// Number of rotations of the shard that was rotated least often.
    least_rotations: u64,
    rotations_per_shard: f64,
    /// All memory of the store, excluding the engine.
    memory_bytes: u64,
    plain_memory_bytes: u64,
}

/// Measures one engine, with one thread and with all cores.
fn measure(engine: Engine, pairs: usize, seconds: usize, parent: Option<&Path>) -> Vec<Row> {
    let cores = thread::available_parallelism().map_or(2, usize::from);
    let mut contestants =
        [true, false].map(|repairs| Contestant::new(engine, repairs, pairs, parent));
    let measure = |(threads, cores)| {
        let before = contestants[0].store.stats();
        let listed = contestants[0].backend.listings_of_shards();
        let mut speeds = [Vec::new(), Vec::new()];
        let mut least_rotations = 0;
        for (one, turn) in in_turns(2, seconds * PATIENCE) {
            if turn >= seconds && least_rotations > 0 && speeds[0].len() == speeds[1].len() {
                break;
            }
            speeds[one].push(contestants[one].turn(threads));
            let now = contestants[0].backend.listings_of_shards();
            least_rotations = least_listings(&listed, &now);
        }
        let seconds = speeds[0].len();
        let after = contestants[0].store.stats();
        let ratios = speeds[0].iter().zip(&speeds[1]).map(|(adapting, plain)| adapting / plain);
        let ratio = median(ratios.collect());
        let [kops, plain_kops] = speeds.map(median);
        Row {
            setup: engine.name(),
            op: "uniform",
            threads,
            cores,
            seconds,
            kops,
            plain_kops,
            ratio,
            mistakes: after.false_positives - before.false_positives,
            repairs: after.repairs - before.repairs,
            skipped_repairs: after.repairs_skipped - before.repairs_skipped,
            least_rotations,
            rotations_per_shard: (after.rotations - before.rotations) as f64 / after.shards as f64,
            memory_bytes: after.memory(),
            plain_memory_bytes: contestants[1].store.stats().memory(),
        }
    };
    // With one reader, one core is free for background work.
    [(1, "one"), (cores.max(2), "all")].map(measure).into()
}

/// Measures all engines, and prints the results.
pub(super) fn run(
    pairs: usize,
    seconds: usize,
    parent: Option<&Path>,
    json: bool,
) -> Result<(), ExitCode> {
    let engines = Engine::ALL.into_iter();
    let rows: Vec<Row> =
        engines.flat_map(|engine| measure(engine, pairs, seconds, parent)).collect();
    print_rows(&rows, json, table)?;
    if json {
        return Ok(());
    }
    print("")?;
    goals(&rows).into_iter().try_for_each(print)
}

/// Returns a line for each goal. `rows` has two rows per engine: one with a single reading core,
/// and one with all cores reading.
fn goals(rows: &[Row]) -> Vec<String> {
    let mut lines = Vec::new();
    for (engine, rows) in Engine::ALL.into_iter().zip(rows.chunks(2)) {
        for (row, wanted) in rows.iter().zip([0.95, engine.wanted_with_all_cores()]) {
            let name = |what: &str| format!("{}, {} threads: {what}", row.setup, row.threads);
            let skipped = row.skipped_repairs as f64 / (row.mistakes as f64).max(1.0);
            lines.extend([
                at_least(&name("repairs / none"), wanted, row.ratio),
                at_most(&name("skipped repairs / mistakes"), MOST_SKIPPED, skipped),
                at_least(&name("fewest rotations of a shard"), 1.0, row.least_rotations as f64),
                at_least(&name("seconds"), LEAST_SECONDS, row.seconds as f64),
            ]);
        }
    }
    let one_thread = |engine: Engine| {
        let is_it = |row: &&Row| row.setup == engine.name() && row.cores == "one";
        rows.iter().find(is_it).map(|row| row.kops)
    };
    for engine in [Engine::SyncedFjall, Engine::Redb] {
        if let (Some(one), Some(fjall)) = (one_thread(engine), one_thread(Engine::Fjall)) {
            let what = format!("{} / fjall, 1 thread", engine.name());
            lines.push(at_least(&what, 0.9, one / fjall));
        }
    }
    lines
}

fn at_least(what: &str, wanted: f64, measured: f64) -> String {
    line(what, "at least", wanted, measured, measured >= wanted)
}

fn at_most(what: &str, wanted: f64, measured: f64) -> String {
    line(what, "at most", wanted, measured, measured <= wanted)
}

fn line(what: &str, sign: &str, wanted: f64, measured: f64, is_met: bool) -> String {
    let verdict = verdict(is_met);
    format!("{what:<48} goal {sign} {wanted:.2}, measured {measured:.3}: {verdict}")
}

fn table(rows: &[Row]) -> Table {
    let columns = [
        Column::text("setup"),
        Column::decimals("threads", "", 0),
        Column::decimals("seconds", "", 0),
        Column::decimals("k/s", "", 0),
        Column::decimals("no repairs", "", 0),
        Column::decimals("ratio", "", 3),
        Column::decimals("mistakes", "", 0),
        Column::decimals("repairs", "", 0),
        Column::decimals("skipped", "", 0),
        Column::decimals("rotations", "least", 0),
        Column::decimals("rotations", "per shard", 1),
        Column::decimals("memory", "MiB", 2),
        Column::decimals("no repairs", "MiB", 2),
    ];
    rows.iter().fold(Table::default().columns(columns), |table, row| {
        table.row([
            row.setup.into(),
            (row.threads as u64).into(),
            (row.seconds as u64).into(),
            row.kops.into(),
            row.plain_kops.into(),
            row.ratio.into(),
            row.mistakes.into(),
            row.repairs.into(),
            row.skipped_repairs.into(),
            row.least_rotations.into(),
            row.rotations_per_shard.into(),
            (row.memory_bytes as f64 / f64::from(1 << 20)).into(),
            (row.plain_memory_bytes as f64 / f64::from(1 << 20)).into(),
        ])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_repairs_mistakes_and_rotates_remainders() {
        for engine in Engine::ALL {
            let rows = measure(engine, 2000, 1, None);
            assert_eq!(rows.len(), 2);
            for row in rows {
                assert!(row.kops > 0.0 && row.plain_kops > 0.0 && row.repairs > 0, "{engine:?}");
                assert!(row.mistakes >= row.repairs + row.skipped_repairs);
                assert!(row.least_rotations > 0 || row.seconds == PATIENCE, "{engine:?}");
            }
        }
    }

    fn row(cores: &'static str, ratio: f64, skipped_repairs: u64, least_rotations: u64) -> Row {
        Row {
            setup: "memory",
            op: "uniform",
            threads: 1,
            cores,
            seconds: 10,
            kops: 1000.0,
            plain_kops: 1000.0,
            ratio,
            mistakes: 1000,
            repairs: 900,
            skipped_repairs,
            least_rotations,
            rotations_per_shard: 2.0,
            memory_bytes: 1,
            plain_memory_bytes: 1,
        }
    }

    #[test]
    fn goals_are_set_for_speed_and_rotations_and_skipped_repairs() {
        let verdicts = |rows: &[Row]| -> Vec<bool> {
            goals(rows).iter().map(|line| line.ends_with(": met")).collect()
        };
        let rows = [row("one", 0.95, 10, 1), row("all", 0.9, 0, 1)];
        assert_eq!(verdicts(&rows), [true; 8]);
        let rows = [row("one", 0.94, 11, 0), row("all", 0.89, 0, 1)];
        assert_eq!(verdicts(&rows), [false, false, false, true, false, true, true, true]);
    }

    #[test]
    fn redb_and_synced_fjall_are_compared_with_fjall() {
        let rows = Engine::ALL.into_iter().flat_map(|engine| {
            let kops = if engine == Engine::Redb { 890.0 } else { 1000.0 };
            let row = |cores| Row { setup: engine.name(), kops, ..row(cores, 1.0, 0, 1) };
            [row("one"), row("all")]
        });
        let lines = goals(&rows.collect::<Vec<_>>());
        let [.., synced, redb] = &lines[..] else { panic!("{lines:?}") };
        assert!(synced.starts_with("synced fjall / fjall") && synced.ends_with("met"), "{synced}");
        assert!(redb.starts_with("redb / fjall") && redb.ends_with("missed"), "{redb}");
    }
}
