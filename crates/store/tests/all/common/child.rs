//! Child processes that are killed.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, SystemTime};

/// The maximum time that a write or an open may take, even on a busy machine.
pub const STALLED: Duration = Duration::from_secs(30);

/// Names of the child's environment variables.
pub const CHILD_ENGINE: &str = "TWICESHY_KILL_ENGINE";
pub const CHILD_PATH: &str = "TWICESHY_KILL_PATH";
pub const CHILD_FIRST: &str = "TWICESHY_KILL_FIRST";

/// Runs a test of the same file in a child process. Returns the child, and a receiver of the writes that it
/// acknowledges.
pub fn spawn_child(test: &str, engine: &str, path: &Path, first: u64) -> (Child, Receiver<String>) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--test-threads=1", "--nocapture"])
        .env(CHILD_ENGINE, engine)
        .env(CHILD_PATH, path)
        .env(CHILD_FIRST, first.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (sender, acknowledged) = channel();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            // Skip lines of the test harness.
            if let Some((_, written)) = line.split_once("wrote ") {
                // The parent stops listening when it has what it waits for, so the receiver may be gone.
                let _ = sender.send(written.to_owned());
            }
        }
    });
    (child, acknowledged)
}

pub fn cycles_and_seed() -> (u64, u64) {
    let cycles = env::var("TWICESHY_KILL_CYCLES").map_or(10, |n| n.parse().unwrap());
    let seed = env::var("TWICESHY_SEED").map_or_else(
        |_| SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64,
        |seed| seed.parse().unwrap(),
    );
    println!("TWICESHY_SEED={seed}");
    (cycles, seed)
}
