//! A child process writes, acknowledges each batch through a pipe, and is killed at any moment:
//! what it acknowledged must be there, whole, and nothing but that and the batch it was at.
//!
//! `TWICESHY_KILL_CYCLES` sets how often, `TWICESHY_SEED` when.

#![cfg(any(feature = "fjall", feature = "redb"))]

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader, Write, stdout};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use twiceshy_store::backend::{Change, Result, Unbounded};
use twiceshy_store::{Backend, Batch, Durability, Keyspace};

/// Longer than this no write and no opening may take, even on a busy machine.
const STALLED: Duration = Duration::from_secs(30);

/// What the child finds in its environment.
const CHILD_ENGINE: &str = "TWICESHY_KILL_ENGINE";
const CHILD_PATH: &str = "TWICESHY_KILL_PATH";

#[cfg(feature = "fjall")]
#[test]
fn fjall_keeps_what_it_acknowledged() {
    kill_again_and_again("fjall");
}

#[cfg(feature = "redb")]
#[test]
fn redb_keeps_what_it_acknowledged() {
    kill_again_and_again("redb");
}

fn open(engine: &str, path: &Path) -> Result<Box<dyn Backend>> {
    match engine {
        #[cfg(feature = "fjall")]
        "fjall" => {
            let mut options = twiceshy_store::FjallOptions::default();
            // Memtables are sealed, flushed and compacted all the time.
            options.memtable_bytes = 64 << 10;
            options.cache_bytes = 256 << 10;
            Ok(Box::new(twiceshy_store::FjallBackend::open(path, options)?))
        }
        #[cfg(feature = "redb")]
        "redb" => {
            let options = twiceshy_store::RedbOptions::default();
            Ok(Box::new(twiceshy_store::RedbBackend::open(path, options)?))
        }
        _ => unreachable!("{engine}"),
    }
}

/// `SplitMix64`, because batches have to be the same in both processes.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

const COUNTER: &[u8] = b"last batch";

/// The batch of a number: a few changes in all keyspaces, and the number.
fn batch(number: u64) -> Batch {
    let mut random = Random(number);
    let mut batch = Batch::new();
    for _ in 0..random.below(20) {
        let space = Keyspace::ALL[random.below(3) as usize];
        let key = random.below(3000).to_be_bytes();
        if random.below(4) == 0 {
            batch.remove(space, key);
        } else {
            let length = if random.below(50) == 0 { 20_000 } else { random.below(400) };
            batch.insert(space, key, vec![number as u8; length as usize]);
        }
    }
    batch.insert(Keyspace::Meta, COUNTER, number.to_be_bytes());
    batch
}

fn last_batch(backend: &dyn Backend) -> u64 {
    let number = backend.get(Keyspace::Meta, COUNTER).unwrap();
    number.map_or(0, |number| u64::from_be_bytes((*number).try_into().unwrap()))
}

/// The child: no test of its own, so it does nothing unless it is asked to.
#[test]
fn child() {
    let (Ok(engine), Some(path)) = (env::var(CHILD_ENGINE), env::var_os(CHILD_PATH)) else {
        return;
    };
    let backend = open(&engine, Path::new(&path)).unwrap();
    for number in last_batch(&*backend) + 1.. {
        let durability = match number % 16 {
            0 => Durability::Synced,
            _ => Durability::Buffered,
        };
        backend.write(&batch(number), durability).unwrap();
        // Not by `println!`, which tests capture.
        if writeln!(stdout().lock(), "wrote {number}").is_err() {
            return;
        }
    }
}

fn spawn_child(engine: &str, path: &Path) -> (Child, Receiver<u64>) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "child", "--test-threads=1"])
        .env(CHILD_ENGINE, engine)
        .env(CHILD_PATH, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (sender, acknowledged) = channel();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    thread::spawn(move || {
        for line in lines.map_while(std::result::Result::ok) {
            // The test harness writes lines, too.
            if let Some((_, number)) = line.split_once("wrote ") {
                number.parse().map(|number| sender.send(number).unwrap()).unwrap();
            }
        }
    });
    (child, acknowledged)
}

fn kill_again_and_again(engine: &str) {
    let cycles = env::var("TWICESHY_KILL_CYCLES").map_or(10, |n| n.parse().unwrap());
    let seed = env::var("TWICESHY_SEED").map_or_else(
        |_| SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64,
        |seed| seed.parse().unwrap(),
    );
    println!("TWICESHY_SEED={seed}");
    let mut random = Random(seed);
    let mut directory = tempfile::tempdir().unwrap();
    let mut model: [BTreeMap<Vec<u8>, Vec<u8>>; 4] = Default::default();
    let (mut written, mut slowest) = (0, Duration::ZERO);

    for cycle in 0..cycles {
        // From time to time anew, so that kills hit the making of a directory, too.
        if random.below(8) == 0 {
            directory = tempfile::tempdir().unwrap();
            model = Default::default();
            written = 0;
        }
        let (mut child, acknowledged) = spawn_child(engine, directory.path());
        let mut last = written;
        if random.below(4) == 0 {
            thread::sleep(Duration::from_micros(random.below(30_000)));
        } else {
            // After some batches, so that each life gets somewhere.
            let goal = written + 1 + random.below(1500);
            let patience = Instant::now() + Duration::from_millis(20 + random.below(400));
            while last < goal && (last == written || Instant::now() < patience) {
                let asked = Instant::now();
                last = match acknowledged.recv_timeout(STALLED) {
                    Ok(number) => number,
                    Err(RecvTimeoutError::Timeout) => {
                        child.kill().unwrap();
                        panic!("cycle {cycle}, seed {seed}: stalled after batch {last}");
                    }
                    Err(RecvTimeoutError::Disconnected) => {
                        panic!("cycle {cycle}, seed {seed}: the child died by itself")
                    }
                };
                slowest = slowest.max(asked.elapsed());
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        last = acknowledged.iter().last().unwrap_or(last);

        let backend = open(engine, directory.path()).unwrap();
        let found = last_batch(&*backend);
        assert!(
            found == last || found == last + 1,
            "cycle {cycle}, seed {seed}: {last} was acknowledged, {found} is the last that is there"
        );
        for number in written + 1..=found {
            for Change { space, key, value } in batch(number).iter() {
                match value {
                    Some(value) => model[space as usize].insert(key.to_vec(), value.to_vec()),
                    None => model[space as usize].remove(key),
                };
            }
        }
        written = found;
        for space in Keyspace::ALL {
            let pairs = backend.range(space, (Unbounded, Unbounded)).map(|pair| {
                let (key, value) = pair.unwrap();
                (key.to_vec(), value.to_vec())
            });
            assert!(
                pairs.eq(model[space as usize].clone()),
                "cycle {cycle}, seed {seed}: {space:?} differs after batch {written}"
            );
        }
    }
    println!("{cycles} kills, {written} batches since the last new directory, slowest {slowest:?}");
}
