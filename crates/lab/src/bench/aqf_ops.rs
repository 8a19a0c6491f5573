//! `twiceshy-lab bench aqf-ops`: operations of the adaptive quotient filter that `bench point`
//! doesn't measure, such as merging and growing.

use super::measure::{self, Common, Rates, timed};
use crate::arch::map;
use crate::output::print_rows;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use twiceshy::{Concurrent, Frozen, Hash, QuotientFilter, Secret, Snapshot, hash::KeyedHasher};
use twiceshy_report::{Cell, Column, Table};

/// One row of the result.
#[derive(Serialize)]
struct Row {
    op: &'static str,
    /// Millions of members or lookups per second.
    mops: Option<f64>,
    median_mops: Option<f64>,
    gigabytes_per_second: Option<f64>,
    p50_ns: Option<f64>,
    p99_ns: Option<f64>,
    p999_ns: Option<f64>,
    max_ns: Option<f64>,
    log2_slots: u32,
    load: f64,
}

/// The members, and filters that contain them.
struct Work {
    slots: u64,
    remainder_bits: u32,
    members: Vec<Hash>,
    sorted: Vec<Hash>,
    strangers: Vec<Hash>,
    full: QuotientFilter,
    /// Two filters, each with half of the slots. Together they contain all members.
    halves: [QuotientFilter; 2],
    shared: Concurrent<QuotientFilter>,
    snapshot: Vec<u8>,
    /// The path of the saved snapshot.
    file: PathBuf,
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

/// The number of shards of the concurrent filter.
const SHARDS: usize = 16;

fn shared(slots: u64, remainder_bits: u32) -> Concurrent<QuotientFilter> {
    QuotientFilter::builder()
        .slots(slots)
        .remainder_bits(remainder_bits)
        .shards(SHARDS)
        .build_concurrent()
        .expect("memory for a filter")
}

/// Runs `work` in two threads, on one half of the hashes each. Returns the wall-clock time in
/// nanoseconds.
fn in_two_threads(hashes: &[Hash], work: impl Fn(&[Hash]) + Sync) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for half in hashes.chunks(hashes.len().div_ceil(2)) {
            scope.spawn(|| work(half));
        }
    });
    start.elapsed().as_nanos() as f64
}

fn empty(slots: u64, remainder_bits: u32) -> QuotientFilter {
    let builder = QuotientFilter::builder().slots(slots).remainder_bits(remainder_bits);
    builder.build().expect("memory for a filter")
}

fn filled(slots: u64, remainder_bits: u32, members: &[Hash]) -> QuotientFilter {
    let mut filter = empty(slots, remainder_bits);
    filter.insert_many(members).expect("room");
    filter
}

impl Work {
    fn new(options: &Common) -> Self {
        let slots = 1 << options.log2_slots;
        let bits = options.remainder_bits;
        let hasher = KeyedHasher::new(&Secret::from_bytes([7; 16]));
        let count = (slots as f64 * options.load) as u64;
        let members: Vec<Hash> = (0..count).map(|key| hasher.hash(&key)).collect();
        let strangers = (count..2 * count).map(|key| hasher.hash(&key)).collect();
        let mut sorted = members.clone();
        sorted.sort_unstable();
        let (one, other) = members.split_at(members.len() / 2);
        let full = filled(slots, bits, &members);
        let mut snapshot = Vec::new();
        full.write_to(&mut snapshot).expect("memory for a snapshot");
        let file = std::env::temp_dir().join(format!("twiceshy-lab-{}.aqf", std::process::id()));
        full.save(&file).expect("a file in the temporary directory");
        let shared = shared(slots, bits);
        shared.insert_each(&members).expect("room");
        Self {
            slots,
            remainder_bits: bits,
            full,
            shared,
            snapshot,
            file,
            halves: [one, other].map(|half| filled(slots / 2, bits + 1, half)),
            members,
            sorted,
            strangers,
        }
    }

    fn empty(&self) -> QuotientFilter {
        empty(self.slots, self.remainder_bits)
    }

    /// Runs an operation once. Returns its time in nanoseconds.
    fn run(&self, op: &str) -> f64 {
        let check = |filter: &QuotientFilter| {
            assert_eq!(filter.len(), self.members.len(), "{op}: a member is missing");
        };
        match op {
            "insert" => {
                let mut filter = self.empty();
                let insert = |&hash| filter.insert(hash).expect("room");
                let ((), time) = timed(|| self.members.iter().for_each(insert));
                check(&filter);
                time
            }
            "bulk" => {
                let mut filter = self.empty();
                let ((), time) = timed(|| filter.insert_many(&self.members).expect("room"));
                check(&filter);
                time
            }
            "sorted_build" => {
                let sorted = self.sorted.iter().copied();
                let (filter, time) =
                    timed(|| QuotientFilter::from_sorted(self.full.parameters(), sorted, []));
                check(&filter.expect("room"));
                time
            }
            "merge_halves" => {
                let halves = self.halves.each_ref();
                let (filter, time) = timed(|| QuotientFilter::merged(&halves));
                let filter = filter.expect("filters of one shape");
                assert_eq!(filter.parameters().slots, self.slots);
                check(&filter);
                time
            }
            "double" => {
                let (filter, time) = timed(|| self.full.doubled().expect("memory"));
                check(&filter);
                time
            }
            "remove" => {
                let mut filter = self.full.clone();
                let remove = |&hash| filter.remove_trusting(hash).expect("a member");
                let ((), time) = timed(|| self.members.iter().for_each(remove));
                assert!(filter.is_empty());
                time
            }
            "negative_plain" => {
                let (maybe, time) = timed(|| {
                    self.strangers.iter().filter(|&&hash| self.full.contains(hash)).count()
                });
                assert!(maybe < self.strangers.len() / 4);
                time
            }
            "negative_concurrent_1t" => {
                let (maybe, time) = timed(|| {
                    self.strangers.iter().filter(|&&hash| self.shared.contains(hash)).count()
                });
                assert!(maybe < self.strangers.len() / 4);
                time
            }
            "negative_concurrent_2t" => in_two_threads(&self.strangers, |hashes| {
                let maybe = hashes.iter().filter(|&&hash| self.shared.contains(hash)).count();
                assert!(maybe < self.strangers.len() / 4);
            }),
            "insert_1t" | "insert_2t" => {
                let filter = shared(self.slots, self.remainder_bits);
                let insert = |hashes: &[Hash]| {
                    for &hash in hashes {
                        filter.insert(hash).expect("room");
                    }
                };
                let time = match op {
                    "insert_2t" => in_two_threads(&self.members, insert),
                    _ => timed(|| insert(&self.members)).1,
                };
                assert_eq!(filter.len(), self.members.len(), "{op}: a member is missing");
                time
            }
            "save" => {
                let mut bytes = Vec::with_capacity(self.snapshot.len());
                let ((), time) = timed(|| self.full.write_to(&mut bytes).expect("memory"));
                assert!(bytes == self.snapshot);
                time
            }
            "load" => {
                let (filter, time) = timed(|| QuotientFilter::read_from(&self.snapshot[..]));
                check(&filter.expect("what was saved"));
                time
            }
            "map_open" => {
                let open =
                    || Frozen::<QuotientFilter>::from_bytes(map(&self.file).expect("a file"));
                let (frozen, time) = timed(|| open().expect("what was saved"));
                assert_eq!(frozen.len(), self.members.len());
                assert!(self.members[..100].iter().all(|&member| frozen.contains(member)));
                time
            }
            _ => unreachable!("an operation of the list"),
        }
    }
}

const OPS: [&str; 14] = [
    "insert",
    "sorted_build",
    "merge_halves",
    "bulk",
    "remove",
    "double",
    "save",
    "load",
    "map_open",
    "negative_plain",
    "negative_concurrent_1t",
    "negative_concurrent_2t",
    "insert_1t",
    "insert_2t",
];

pub(crate) fn run(options: &Common) -> Result<(), ExitCode> {
    let wanted = |op: &&str| options.wants(op);
    let work = Work::new(options);
    let row = |op, load| Row {
        op,
        mops: None,
        median_mops: None,
        gigabytes_per_second: None,
        p50_ns: None,
        p99_ns: None,
        p999_ns: None,
        max_ns: None,
        log2_slots: options.log2_slots,
        load,
    };
    let mut times = vec![Vec::new(); OPS.len()];
    for round in 1..=options.rounds {
        measure::show_round(round, options.rounds);
        for (op, times) in OPS.iter().zip(&mut times).filter(|(op, _)| wanted(op)) {
            times.push(work.run(op));
        }
    }
    measure::hide_round();
    let mut rows = Vec::new();
    for (op, times) in OPS.into_iter().zip(times).filter(|(_, times)| !times.is_empty()) {
        let gigabytes = ["save", "load"].contains(&op).then(|| {
            let best = times.iter().copied().fold(f64::INFINITY, f64::min);
            work.snapshot.len() as f64 / best
        });
        if op == "map_open" {
            // The time to open a file doesn't depend on the number of members, so report it as a
            // duration.
            let mut times = times;
            times.sort_by(f64::total_cmp);
            let (median, most) = (times[times.len() / 2], times[times.len() - 1]);
            rows.push(Row { p50_ns: Some(median), max_ns: Some(most), ..row(op, options.load) });
            continue;
        }
        let Rates { best, median } = measure::rates(work.members.len(), times);
        rows.push(Row {
            mops: Some(best),
            median_mops: Some(median),
            gigabytes_per_second: gigabytes,
            ..row(op, options.load)
        });
    }
    for (op, load, latencies) in latencies(&work).into_iter().filter(|(op, ..)| wanted(op)) {
        let at = |share| Some(latencies.value_at_quantile(share) as f64);
        rows.push(Row {
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: Some(latencies.max() as f64),
            ..row(op, load)
        });
    }
    print_rows(&rows, options.json, table)
}

fn each_timed(hashes: &[Hash], call: impl FnMut(Hash)) -> Histogram<u64> {
    measure::latencies(hashes.iter().copied(), call)
}

/// Measures latencies of lookups and inserts near 90 and 95 % load, and while the filter grows.
fn latencies(work: &Work) -> Vec<(&'static str, f64, Histogram<u64>)> {
    let mut rows = Vec::new();
    for (lookup, insert, load) in [
        ("lookup_latency_90", "insert_latency_90", 0.9),
        ("lookup_latency_95", "insert_latency_95", 0.95),
    ] {
        let hashes: Vec<Hash> = work.members.iter().chain(&work.strangers).copied().collect();
        let end = (work.slots as f64 * load) as usize;
        let (before, last) = hashes[..end].split_at(end - end / 100);
        let mut filter = filled(work.slots, work.remainder_bits, before);
        rows.push((insert, load, each_timed(last, |hash| filter.insert(hash).expect("room"))));
        let lookups = each_timed(&work.strangers, |hash| {
            std::hint::black_box(filter.contains(hash));
        });
        rows.push((lookup, load, lookups));
    }
    let mut filter = QuotientFilter::builder()
        .slots(work.slots / 16)
        .remainder_bits(work.remainder_bits + 4)
        .grow_at(0.9)
        .build()
        .expect("memory for a filter");
    let growing = each_timed(&work.members, |hash| filter.insert(hash).expect("room"));
    rows.push(("insert_latency_growing", 0.9, growing));
    rows
}

fn table(rows: &[Row]) -> Table {
    let columns = [
        Column::text("op"),
        Column::decimals("M/s", "", 2),
        Column::decimals("median", "", 2),
        Column::decimals("GB/s", "", 2),
        Column::decimals("p50", "ns", 0),
        Column::decimals("p99", "ns", 0),
        Column::decimals("p99.9", "ns", 0),
        Column::decimals("max", "ns", 0),
    ];
    rows.iter().fold(Table::default().columns(columns), |table, row| {
        let rates = [row.mops, row.median_mops, row.gigabytes_per_second];
        let latencies = [row.p50_ns, row.p99_ns, row.p999_ns, row.max_ns];
        let numbers = rates.into_iter().chain(latencies).map(Cell::from);
        table.row([row.op.into()].into_iter().chain(numbers))
    })
}
