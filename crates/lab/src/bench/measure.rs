//! How things are measured, and shown.

use hdrhistogram::Histogram;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Significant digits of latencies.
const DIGITS: u8 = 3;

/// What to measure, of any benchmark.
#[derive(clap::Args)]
pub(crate) struct Common {
    /// Slots of the quotient filters, as a power of two.
    #[arg(long, default_value_t = 22, value_parser = clap::value_parser!(u32).range(12..=34))]
    pub(super) log2_slots: u32,
    /// Bits of a remainder.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(4..=24))]
    pub(super) remainder_bits: u32,
    /// Members as a share of the slots.
    #[arg(long, default_value_t = 0.9, value_parser = load)]
    pub(super) load: f64,
    /// Rounds; best and median of them are shown.
    #[arg(long, default_value_t = 5, value_parser = positive)]
    pub(super) rounds: usize,
    /// Only these operations, separated by commas.
    #[arg(long, value_delimiter = ',')]
    ops: Vec<String>,
    /// One JSON object a line instead of a table.
    #[arg(long)]
    pub(super) json: bool,
}

impl Common {
    /// Whether an operation is to be measured.
    pub(super) fn wants(&self, op: &str) -> bool {
        self.ops.is_empty() || self.ops.iter().any(|name| name == op)
    }
}

/// A load, as an option.
pub(super) fn load(text: &str) -> Result<f64, String> {
    let load = text.parse().ok().filter(|load| (0.01..=0.99).contains(load));
    load.ok_or_else(|| "choose a share from 0.01 to 0.99".into())
}

/// A number of things, as an option.
pub(super) fn positive(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|&count| count > 0);
    count.ok_or_else(|| "choose a whole number of at least 1".into())
}

/// Nanoseconds of this thread's CPU time.
fn cpu_nanoseconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Nanoseconds of all threads' CPU time.
pub(crate) fn process_cpu_nanoseconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Waits, for a few seconds at most, until no other thread works.
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

/// Bytes that went between this process and the operating system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Traffic {
    /// Read from files, also where the system had them in memory.
    pub(crate) read: u64,
    /// Read from the disk itself.
    pub(crate) from_disk: u64,
    pub(crate) written: u64,
}

impl Traffic {
    /// All so far, of all threads; nothing where the system doesn't tell.
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

    /// What came after another.
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

/// What `work` gives, and its nanoseconds.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = cpu_nanoseconds();
    let result = work();
    (result, cpu_nanoseconds() - start)
}

/// Measures the nanoseconds of each call, those of reading the clock included.
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

/// Millions a second, of the best round and of the median one.
pub(super) struct Rates {
    pub(super) best: f64,
    pub(super) median: f64,
}

pub(super) fn rates(count: usize, mut nanoseconds: Vec<f64>) -> Rates {
    nanoseconds.sort_by(f64::total_cmp);
    let rate = |time: f64| count as f64 * 1e3 / time;
    Rates { best: rate(nanoseconds[0]), median: rate(nanoseconds[nanoseconds.len() / 2]) }
}

/// Tells whoever watches how far it is.
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
    fn traffic_is_what_the_system_tells() {
        let told = "rchar: 70\nwchar: 8\nsyscr: 2\nread_bytes: 4096\nwrite_bytes: 1\n";
        let traffic = Traffic { read: 70, from_disk: 4096, written: 8 };
        assert_eq!(Traffic::of(told), traffic);
        assert_eq!(Traffic::of("nothing that is known"), Traffic::default());
        let mut sum = traffic;
        sum += traffic;
        assert_eq!(sum.since(traffic), traffic);
    }
}
