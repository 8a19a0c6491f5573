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
use super::report::{mebibytes, median, of_repairs, show_rows};
use super::run::thousands;
use super::setup::{Key, drain, key};
use super::{DATA, PATIENCE, in_turns};
use crate::bench::life::{Counting, least_listings};
use crate::bench::target::Target;
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

/// The maximum duration of a turn, without the wait at its end.
const TURN: Duration = Duration::from_secs(1);

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

    /// Opens the backend. Also returns a function for the memory of the engine.
    fn open(self, directory: &Path) -> (Arc<dyn Backend>, EngineBytes) {
        let data = directory.join(DATA);
        let expected = "a directory of its own";
        match self {
            Self::Memory => (Arc::new(MemoryBackend::new()), Box::new(|| 0)),
            Self::Fjall | Self::SyncedFjall => {
                let options = FjallOptions::default();
                let cache_bytes = options.cache_bytes;
                let backend = Arc::new(FjallBackend::open(data, options).expect(expected));
                let engine = Arc::clone(&backend);
                (backend, Box::new(move || cache_bytes + engine.engine_memory_bytes()))
            }
            Self::Redb => {
                let options = RedbOptions::default();
                let cache_bytes = options.cache_bytes as u64;
                let backend = RedbBackend::open(data, options).expect(expected);
                (Arc::new(backend), Box::new(move || cache_bytes))
            }
        }
    }

    fn durability(self) -> Durability {
        if self == Self::SyncedFjall { Durability::Synced } else { Durability::Buffered }
    }
}

/// Returns the memory of the engine, excluding data that is only in memory, in bytes.
type EngineBytes = Box<dyn Fn() -> u64>;

/// A store with all pairs.
struct Contestant {
    store: Store<Arc<Counting>>,
    backend: Arc<Counting>,
    engine_bytes: EngineBytes,
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
        let (backend, engine_bytes) = engine.open(directory.path());
        let backend = Arc::new(Counting::new(backend));
        let store = options.open_with(Arc::clone(&backend), None);
        let mut store: Store<Arc<Counting>> = store.expect("a store");
        backend.set_shards(store.stats().shards);
        store.wait_until_ready().expect("a backend that can be read");
        let members = (0..pairs as u64).map(|number| key(number, true));
        store.import(members.map(|key| (key, key))).expect("room on the disk");
        store.compact().expect("room on the disk");
        drain(&store);
        Self { store, backend, engine_bytes, next: 0, _directory: directory }
    }

    /// Asks for absent keys with some threads for a while, and waits for the background work.
    /// Returns thousands of queries per second, and the duration in seconds.
    fn turn(&mut self, threads: usize, least: Duration) -> (f64, f64) {
        let (store, first, start) = (&self.store, self.next, Instant::now());
        let ask = |thread: u64| {
            let mut asked = 0;
            while start.elapsed() < least {
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
        let time = start.elapsed();
        (thousands(asked.iter().sum::<u64>() as usize, time), time.as_secs_f64())
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
    /// Duration of all turns of a contestant, in seconds: of the faster one.
    seconds: f64,
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
    /// The most memory of the store after a turn, excluding the engine.
    memory_bytes: u64,
    plain_memory_bytes: u64,
    /// The most memory of the engine after a turn, including its cache.
    engine_bytes: u64,
    plain_engine_bytes: u64,
}

/// Measures one engine, with one thread and with all cores.
fn measure(engine: Engine, pairs: usize, seconds: f64, parent: Option<&Path>) -> Vec<Row> {
    let cores = thread::available_parallelism().map_or(2, usize::from);
    let mut contestants =
        [true, false].map(|repairs| Contestant::new(engine, repairs, pairs, parent));
    let measure = |(threads, cores)| {
        let before = contestants[0].store.stats();
        let listed = contestants[0].backend.listings_of_shards();
        let mut speeds = [Vec::new(), Vec::new()];
        let (mut times, mut memory, mut engines) = ([0.0; 2], [0; 2], [0; 2]);
        let mut least_rotations = 0;
        let one_turn = TURN.min(Duration::from_secs_f64(seconds));
        let turns = (seconds / one_turn.as_secs_f64()).ceil() as usize;
        for (one, turn) in in_turns(2, turns * PATIENCE) {
            if turn >= turns && least_rotations > 0 && speeds[0].len() == speeds[1].len() {
                break;
            }
            let contestant = &mut contestants[one];
            let (speed, time) = contestant.turn(threads, one_turn);
            speeds[one].push(speed);
            times[one] += time;
            memory[one] = memory[one].max(contestant.store.stats().memory());
            engines[one] = engines[one].max((contestant.engine_bytes)());
            let now = contestants[0].backend.listings_of_shards();
            least_rotations = least_listings(&listed, &now);
        }
        let after = contestants[0].store.stats();
        let ratios = speeds[0].iter().zip(&speeds[1]).map(|(adapting, plain)| adapting / plain);
        let ratio = median(ratios.collect());
        let [kops, plain_kops] = speeds.map(median);
        Row {
            setup: engine.name(),
            op: "uniform",
            threads,
            cores,
            seconds: times[0].min(times[1]),
            kops,
            plain_kops,
            ratio,
            mistakes: after.false_positives - before.false_positives,
            repairs: after.repairs - before.repairs,
            skipped_repairs: after.repairs_skipped - before.repairs_skipped,
            least_rotations,
            rotations_per_shard: (after.rotations - before.rotations) as f64 / after.shards as f64,
            memory_bytes: memory[0],
            plain_memory_bytes: memory[1],
            engine_bytes: engines[0],
            plain_engine_bytes: engines[1],
        }
    };
    // With one reader, one core is free for background work.
    [(1, "one"), (cores.max(2), "all")].map(measure).into()
}

/// Measures all engines, and prints the results.
pub(super) fn run(
    pairs: usize,
    seconds: f64,
    parent: Option<&Path>,
    json: bool,
) -> Result<(), ExitCode> {
    let engines = Engine::ALL.into_iter();
    let rows: Vec<Row> =
        engines.flat_map(|engine| measure(engine, pairs, seconds, parent)).collect();
    show_rows(&rows, &targets(&rows), json, table)
}

/// Compares rows with the goals. `rows` has two rows per engine: one with a single reading core,
/// and one with all cores reading.
fn targets(rows: &[Row]) -> Vec<Target> {
    let mut targets = Vec::new();
    for (engine, rows) in Engine::ALL.into_iter().zip(rows.chunks(2)) {
        for (row, wanted) in rows.iter().zip([0.95, engine.wanted_with_all_cores()]) {
            let reads = if row.cores == "one" { "one core reads" } else { "all cores read" };
            let name = format!("uniform, {}, {reads}", row.setup);
            let ratio =
                Target::at_least(format!("{name}: repairs / none"), "", wanted, Some(row.ratio));
            targets.push(ratio.measured_for(row.seconds));
            targets.extend(of_repairs(
                &name,
                row.seconds,
                row.skipped_repairs,
                row.mistakes,
                row.least_rotations,
            ));
        }
    }
    let one_thread =
        |engine: Engine| rows.iter().find(|row| row.setup == engine.name() && row.cores == "one");
    for engine in [Engine::SyncedFjall, Engine::Redb] {
        if let (Some(one), Some(fjall)) = (one_thread(engine), one_thread(Engine::Fjall)) {
            let name = format!("uniform, {} / fjall, one core reads", engine.name());
            let target = Target::at_least(name, "", 0.9, Some(one.kops / fjall.kops));
            targets.push(target.measured_for(one.seconds.min(fjall.seconds)));
        }
    }
    targets
}

fn table(rows: &[Row]) -> Table {
    let columns = [
        Column::text("setup"),
        Column::decimals("threads", "", 0),
        Column::decimals("seconds", "", 1),
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
        Column::decimals("engine", "MiB", 2),
        Column::decimals("no repairs", "MiB", 2),
    ];
    rows.iter().fold(Table::default().columns(columns), |table, row| {
        table.row([
            row.setup.into(),
            (row.threads as u64).into(),
            row.seconds.into(),
            row.kops.into(),
            row.plain_kops.into(),
            row.ratio.into(),
            row.mistakes.into(),
            row.repairs.into(),
            row.skipped_repairs.into(),
            row.least_rotations.into(),
            row.rotations_per_shard.into(),
            mebibytes(row.memory_bytes),
            mebibytes(row.plain_memory_bytes),
            mebibytes(row.engine_bytes),
            mebibytes(row.plain_engine_bytes),
        ])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::target::Judged;

    #[test]
    fn every_engine_repairs_mistakes_and_rotates_remainders() {
        for engine in Engine::ALL {
            let rows = measure(engine, 2000, 0.5, None);
            assert_eq!(rows.len(), 2);
            for row in rows {
                assert!(row.kops > 0.0 && row.plain_kops > 0.0 && row.repairs > 0, "{engine:?}");
                assert!(row.mistakes >= row.repairs + row.skipped_repairs);
                let is_patient = row.seconds >= 0.5 * PATIENCE as f64;
                assert!(row.least_rotations > 0 || is_patient, "{engine:?}");
                assert_eq!(row.engine_bytes > 0, engine != Engine::Memory, "{engine:?}");
            }
        }
    }

    fn row(cores: &'static str, ratio: f64, skipped_repairs: u64, least_rotations: u64) -> Row {
        Row {
            setup: "memory",
            op: "uniform",
            threads: 1,
            cores,
            seconds: 10.0,
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
            engine_bytes: 1,
            plain_engine_bytes: 1,
        }
    }

    fn verdicts(rows: &[Row]) -> Vec<Judged> {
        targets(rows).iter().map(|target| target.verdict).collect()
    }

    #[test]
    fn targets_are_set_for_speed_and_rotations_and_skipped_repairs() {
        use Judged::{Met, Missed, TooShort};
        let rows = [row("one", 0.95, 10, 1), row("all", 0.9, 0, 1)];
        assert_eq!(verdicts(&rows), [Met; 6]);
        let rows = [row("one", 0.94, 11, 0), row("all", 0.89, 0, 1)];
        assert_eq!(verdicts(&rows), [Missed, Missed, Missed, Missed, Met, Met]);
        let rows = rows.map(|row| Row { seconds: 9.0, ..row });
        assert_eq!(verdicts(&rows), [TooShort; 6]);
    }

    #[test]
    fn redb_and_synced_fjall_are_compared_with_fjall() {
        let rows = Engine::ALL.into_iter().flat_map(|engine| {
            let kops = if engine == Engine::Redb { 890.0 } else { 1000.0 };
            let row = |cores| Row { setup: engine.name(), kops, ..row(cores, 1.0, 0, 1) };
            [row("one"), row("all")]
        });
        let targets = targets(&rows.collect::<Vec<_>>());
        let [.., synced, redb] = &targets[..] else { panic!("{targets:?}") };
        assert!(synced.name.starts_with("uniform, synced fjall / fjall"), "{synced:?}");
        assert!(redb.name.starts_with("uniform, redb / fjall"), "{redb:?}");
        assert_eq!([synced.verdict, redb.verdict], [Judged::Met, Judged::Missed]);
    }
}
