//! Measures time, and defines the options that benchmarks share.

use hdrhistogram::Histogram;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// The number of significant digits of latencies.
const DIGITS: u8 = 3;

/// Options that benchmarks share.
#[derive(clap::Args)]
pub(crate) struct Common {
    /// Binary logarithm of the number of slots of the quotient filters.
    #[arg(long, default_value_t = 22, value_parser = clap::value_parser!(u32).range(12..=34))]
    pub(super) log2_slots: u32,
    /// Bits per remainder.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(4..=24))]
    pub(super) remainder_bits: u32,
    /// Number of members as a share of the slots.
    #[arg(long, default_value_t = 0.9, value_parser = load)]
    pub(super) load: f64,
    /// Number of rounds. The best and the median round are printed.
    #[arg(long, default_value_t = 5, value_parser = positive)]
    pub(super) rounds: usize,
    /// Measure only these operations, separated by commas and named as in the output.
    #[arg(long, value_delimiter = ',')]
    ops: Vec<String>,
    /// Print one JSON object per line instead of a table.
    #[arg(long)]
    pub(super) json: bool,
}

impl Common {
    /// Returns whether an operation should be measured.
    pub(super) fn wants(&self, op: &str) -> bool {
        self.ops.is_empty() || self.ops.iter().any(|name| name == op)
    }
}

/// Parses a load.
pub(super) fn load(text: &str) -> Result<f64, String> {
    let load = text.parse().ok().filter(|load| (0.01..=0.99).contains(load));
    load.ok_or_else(|| "expected a number from 0.01 to 0.99".into())
}

/// Parses a positive integer.
pub(super) fn positive(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|&count| count > 0);
    count.ok_or_else(|| "expected an integer of at least 1".into())
}

/// Parses a positive integer.
pub(super) fn positive_u64(text: &str) -> Result<u64, String> {
    positive(text).map(|count| count as u64)
}

/// Returns this thread's CPU time in nanoseconds.
fn cpu_nanoseconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Returns the CPU time of all threads in nanoseconds.
pub(crate) fn process_cpu_nanoseconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Waits until no other thread of this process is working, but at most a few seconds.
pub(crate) fn settle() {
    const WINDOW: Duration = Duration::from_millis(2);
    const IDLE_NANOSECONDS: f64 = 1e5;
    let patience = Instant::now() + Duration::from_secs(5);
    let mut idle = 0;
    while idle < 2 && Instant::now() < patience {
        let before = process_cpu_nanoseconds();
        std::thread::sleep(WINDOW);
        let is_idle = process_cpu_nanoseconds() - before < IDLE_NANOSECONDS;
        idle = if is_idle { idle + 1 } else { 0 };
    }
}

/// The number of bytes that this process has read from and written to files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Traffic {
    /// The number of bytes read from files, including those that the system had cached.
    pub(crate) read: u64,
    /// The number of bytes read from disk.
    pub(crate) from_disk: u64,
    pub(crate) written: u64,
}

impl Traffic {
    /// Returns the totals of all threads so far. Returns zeros if the system doesn't report them.
    pub(crate) fn so_far() -> Self {
        std::fs::read_to_string("/proc/self/io")
            .map_or_else(|_| Self::default(), |io| Self::of(&io))
    }

    fn of(io: &str) -> Self {
        let number = |name: &str| {
            let mut values = io.lines().filter_map(|line| line.strip_prefix(name));
            values.next().and_then(|value| value.trim().parse().ok()).unwrap_or_default()
        };
        Self { read: number("rchar:"), from_disk: number("read_bytes:"), written: number("wchar:") }
    }

    /// Returns the difference from an earlier total.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            read: self.read - before.read,
            from_disk: self.from_disk - before.from_disk,
            written: self.written - before.written,
        }
    }
}

impl std::ops::AddAssign for Traffic {
    fn add_assign(&mut self, more: Self) {
        self.read += more.read;
        self.from_disk += more.from_disk;
        self.written += more.written;
    }
}

/// Returns the result of `work` and its CPU time in nanoseconds.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = cpu_nanoseconds();
    let result = work();
    (result, cpu_nanoseconds() - start)
}

/// Measures the latency of each call in nanoseconds. This includes the time to read the clock.
pub(super) fn latencies<T>(
    items: impl IntoIterator<Item = T>,
    mut call: impl FnMut(T),
) -> Histogram<u64> {
    let mut latencies = Histogram::new(DIGITS).expect("a valid number of digits");
    for item in items {
        let start = Instant::now();
        call(item);
        latencies += start.elapsed().as_nanos() as u64;
    }
    latencies
}

/// Millions of operations per second, in the best and in the median round.
pub(super) struct Rates {
    pub(super) best: f64,
    pub(super) median: f64,
}

pub(super) fn rates(count: usize, mut nanoseconds: Vec<f64>) -> Rates {
    nanoseconds.sort_by(f64::total_cmp);
    let rate = |time: f64| count as f64 * 1e3 / time;
    Rates { best: rate(nanoseconds[0]), median: rate(nanoseconds[nanoseconds.len() / 2]) }
}

/// Shows the progress on a terminal.
pub(super) fn show_round(round: usize, rounds: usize) {
    if std::io::stderr().is_terminal() {
        eprint!("\rround {round} of {rounds} ");
    }
}

pub(super) fn hide_round() {
    if std::io::stderr().is_terminal() {
        eprint!("\r               \r");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_counters_are_parsed_from_proc() {
        let told = "rchar: 70\nwchar: 8\nsyscr: 2\nread_bytes: 4096\nwrite_bytes: 1\n";
        let traffic = Traffic { read: 70, from_disk: 4096, written: 8 };
        assert_eq!(Traffic::of(told), traffic);
        assert_eq!(Traffic::of("unknown: 1"), Traffic::default());
        let mut sum = traffic;
        sum += traffic;
        assert_eq!(sum.since(traffic), traffic);
    }
}
