//! `twiceshy-lab bench range`: range filters.

use super::limit::{DISTANCES, Limit};
use super::measure::{self, Rates, timed};
use super::random::Random;
use crate::contestant::range::{Keys, RangeContestant, RangeKind, RangeOp, RangeShape, has_member};
use crate::output::{failure, print_rows};
use serde::Serialize;
use std::process::ExitCode;
use twiceshy::{Hash, Keyed, QuotientFilter, Secret, hash::KeyedHasher};
use twiceshy_report::{Column, Table};

/// Options of `bench range`.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    common: measure::Common,
    /// Number of keys per range.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    range: u64,
    /// Number of range lookups per operation and round.
    #[arg(long, default_value_t = 4_000_000, value_parser = measure::positive)]
    queries: usize,
    /// Measure only these filters, separated by commas: memento, aeris, grafite, fst-truncated,
    /// aqf.
    #[arg(long, value_delimiter = ',')]
    filters: Vec<String>,
}

/// One row of the result.
#[derive(Clone, Serialize)]
struct Row {
    filter: &'static str,
    op: &'static str,
    mops: f64,
    median_mops: f64,
    log2_slots: u32,
    load: f64,
    range: u64,
    remainder_bits: u32,
    bits_per_key: Option<f64>,
    fpr: Option<f64>,
    share_of_limit: f64,
    /// The ratio to the speed of Grafite in its best round. Grafite answers one range at a time.
    ratio_to_grafite: Option<f64>,
    /// The ratio of the insert speed to that of a quotient filter with as many slots, in the best
    /// rounds.
    ratio_to_aqf: Option<f64>,
    p999_ns: Option<u64>,
}

/// The filters, and their names on the command line.
const KINDS: [(&str, RangeKind); 4] = [
    ("memento", RangeKind::Memento),
    ("aeris", RangeKind::AerisNotAdapting),
    ("grafite", RangeKind::Grafite),
    ("fst-truncated", RangeKind::FstTruncated),
];

/// A quotient filter with the same slots and remainders, as a reference for the speed of inserts.
/// It doesn't support ranges.
const AQF: &str = "aqf";

/// The keys and the ranges. They are the same for all filters.
struct Work {
    shape: RangeShape,
    secret: Secret,
    members: Vec<u64>,
    sorted: Vec<u64>,
    /// Empty ranges.
    ranges: Vec<Keys>,
    /// The hashes of the ranges' first keys. They serve as random positions.
    hashes: Vec<Hash>,
}

impl Work {
    fn new(options: &Options) -> Self {
        let Options { common, range, queries, .. } = options;
        let slots = 1 << common.log2_slots;
        let shape = RangeShape {
            slots,
            members: (slots as f64 * common.load) as u64,
            longest_range: *range,
            remainder_bits: common.remainder_bits,
            seed: 7,
        };
        let mut random = Random(shape.seed);
        let members: Vec<u64> = (0..shape.members).map(|_| random.next()).collect();
        let mut sorted = members.clone();
        sorted.sort_unstable();
        let next = || {
            let first = random.next().min(u64::MAX - range);
            first..=first + (range - 1)
        };
        let ranges = std::iter::repeat_with(next).filter(|range| !has_member(&sorted, range));
        let ranges: Vec<Keys> = ranges.take(*queries).collect();
        let secret = Secret::from_bytes([7; 16]);
        let hasher = KeyedHasher::new(&secret);
        let hashes = ranges.iter().map(|range| hasher.hash(range.start())).collect();
        Self { shape, secret, members, sorted, ranges, hashes }
    }

    fn count(&self, op: RangeOp) -> usize {
        match op {
            RangeOp::Insert | RangeOp::Bulk => self.members.len(),
            RangeOp::Negative | RangeOp::NegativeMany => self.ranges.len(),
        }
    }

    /// Inserts all members into the quotient filter. Returns the time in nanoseconds.
    fn insert_into_aqf(&self) -> f64 {
        let filter = QuotientFilter::builder()
            .remainder_bits(self.shape.remainder_bits)
            .slots(self.shape.slots)
            .build()
            .expect("memory for a filter");
        let mut filter = Keyed::<u64, _>::new(filter, self.secret.clone());
        timed(|| self.members.iter().for_each(|key| filter.insert(key).expect("room"))).1
    }
}

struct Entrant {
    name: &'static str,
    kind: RangeKind,
    filter: Box<dyn RangeContestant>,
    /// The time in nanoseconds, by operation and round.
    times: [Vec<f64>; RangeOp::ALL.len()],
    maybe: Vec<bool>,
}

impl Entrant {
    fn new(name: &'static str, kind: RangeKind, work: &Work) -> Result<Self, String> {
        let filter = kind.filled(&work.shape, &work.sorted)?;
        Ok(Self { name, kind, filter, times: Default::default(), maybe: Vec::new() })
    }

    fn run(&mut self, op: RangeOp, work: &Work) -> Result<f64, String> {
        let time = match op {
            RangeOp::Insert => {
                self.filter = self.kind.empty(&work.shape)?;
                timed(|| self.filter.insert_each(&work.members)).1
            }
            RangeOp::Bulk => timed(|| self.filter.bulk(&work.sorted)).1,
            RangeOp::Negative => timed(|| self.filter.count(&work.ranges)).1,
            RangeOp::NegativeMany => {
                timed(|| self.filter.count_many(&work.ranges, &mut self.maybe)).1
            }
        };
        Ok(time)
    }

    /// Checks that every hundredth member is still found.
    fn check(&self, work: &Work) {
        for &member in work.members.iter().step_by(100) {
            assert!(self.filter.contains(&(member..=member)), "{}: a false negative", self.name);
        }
    }

    /// Returns the latency that one range in a thousand exceeds.
    fn p999(&self, work: &Work) -> u64 {
        let queries = work.ranges.iter().take(200_000);
        let latencies = measure::latencies(queries, |range| {
            std::hint::black_box(self.filter.contains(range));
        });
        latencies.value_at_quantile(0.999)
    }
}

fn measure(options: &Options) -> Result<Vec<Row>, String> {
    let Options { common, filters, .. } = options;
    let names = || KINDS.iter().map(|(name, _)| *name).chain([AQF]);
    if let Some(unknown) = filters.iter().find(|filter| names().all(|name| name != **filter)) {
        let names: Vec<_> = names().collect();
        return Err(format!("unknown filter {unknown:?}; choose from {}", names.join(", ")));
    }
    let is_wanted = |name: &str| filters.is_empty() || filters.iter().any(|filter| filter == name);
    let work = Work::new(options);
    let entrants = KINDS.into_iter().filter(|(name, _)| is_wanted(name));
    let entrants = entrants.map(|(name, kind)| Entrant::new(name, kind, &work));
    let mut entrants = entrants.collect::<Result<Vec<_>, _>>()?;
    let ops = RangeOp::ALL.into_iter().enumerate().filter(|(_, op)| common.wants(op.name()));
    let limit = Limit::new(RangeKind::Memento.empty(&work.shape)?.bits() / 8);
    let (mut limit_times, mut aqf_times) = (Vec::new(), Vec::new());
    for round in 1..=common.rounds {
        measure::show_round(round, common.rounds);
        for (index, op) in ops.clone() {
            for entrant in entrants.iter_mut().filter(|entrant| entrant.kind.can(op)) {
                let time = entrant.run(op, &work)?;
                entrant.times[index].push(time);
            }
            if op == RangeOp::Insert && is_wanted(AQF) {
                aqf_times.push(work.insert_into_aqf());
            }
        }
        let touch = |distance| timed(|| limit.touch(&work.hashes, distance)).1;
        limit_times.extend(DISTANCES.map(touch));
    }
    measure::hide_round();
    Ok(rows(options, &work, entrants, aqf_times, limit_times))
}

fn rows(
    options: &Options,
    work: &Work,
    entrants: Vec<Entrant>,
    aqf_times: Vec<f64>,
    limit_times: Vec<f64>,
) -> Vec<Row> {
    let limit = measure::rates(work.hashes.len(), limit_times);
    let row = |filter, op, rates: &Rates| Row {
        filter,
        op,
        mops: rates.best,
        median_mops: rates.median,
        log2_slots: options.common.log2_slots,
        load: options.common.load,
        range: options.range,
        remainder_bits: options.common.remainder_bits,
        bits_per_key: None,
        fpr: None,
        share_of_limit: rates.best / limit.best,
        ratio_to_grafite: None,
        ratio_to_aqf: None,
        p999_ns: None,
    };
    let mut rows = vec![row("limit", "touch", &limit)];
    if !aqf_times.is_empty() {
        let rates = measure::rates(work.members.len(), aqf_times);
        rows.push(row(AQF, RangeOp::Insert.name(), &rates));
    }
    for mut entrant in entrants {
        entrant.check(work);
        let bits_per_key = Some(entrant.filter.bits() as f64 / work.members.len() as f64);
        let mistakes = entrant.filter.count(&work.ranges);
        let fpr = Some(mistakes as f64 / work.ranges.len() as f64);
        let times = std::mem::take(&mut entrant.times);
        for (op, times) in RangeOp::ALL.into_iter().zip(times).filter(|(_, t)| !t.is_empty()) {
            let rates = measure::rates(work.count(op), times);
            let p999_ns = (op == RangeOp::Negative).then(|| entrant.p999(work));
            let row = row(entrant.name, op.name(), &rates);
            rows.push(Row { bits_per_key, fpr, p999_ns, ..row });
        }
    }
    compare(&mut rows);
    rows
}

/// Sets the ratios to the reference filters, if these were measured.
fn compare(rows: &mut [Row]) {
    let rate = |filter: &str, op: RangeOp| {
        let row = rows.iter().find(|row| row.filter == filter && row.op == op.name());
        row.map(|row| row.mops)
    };
    let [bulk, negative] = [RangeOp::Bulk, RangeOp::Negative].map(|op| rate("grafite", op));
    let insert = rate(AQF, RangeOp::Insert);
    for row in rows.iter_mut().filter(|row| row.bits_per_key.is_some()) {
        let op = RangeOp::ALL.into_iter().find(|op| op.name() == row.op);
        let (grafite, aqf) = match op {
            Some(RangeOp::Insert) => (None, insert),
            Some(RangeOp::Bulk) => (bulk, None),
            _ => (negative, None),
        };
        row.ratio_to_grafite = grafite.map(|other| row.mops / other);
        row.ratio_to_aqf = aqf.map(|other| row.mops / other);
    }
}

pub(crate) fn run(options: &Options) -> Result<(), ExitCode> {
    let rows = measure(options).map_err(failure)?;
    print_rows(&rows, options.common.json, table)
}

fn table(rows: &[Row]) -> Table {
    let columns = [
        Column::text("filter"),
        Column::text("op"),
        Column::decimals("M/s", "", 2),
        Column::decimals("median", "", 2),
        Column::percent("limit", 0),
        Column::decimals("to grafite", "", 2),
        Column::decimals("to aqf", "", 2),
        Column::decimals("bits/key", "", 2),
        Column::decimals("fpr", "", 5),
        Column::decimals("p99.9", "ns", 0),
    ];
    rows.iter().fold(Table::default().columns(columns), |table, row| {
        table.row([
            row.filter.into(),
            row.op.into(),
            row.mops.into(),
            row.median_mops.into(),
            row.share_of_limit.into(),
            row.ratio_to_grafite.into(),
            row.ratio_to_aqf.into(),
            row.bits_per_key.into(),
            row.fpr.into(),
            row.p999_ns.into(),
        ])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use serde_json::Value;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn rows(line: &str) -> Result<Vec<Value>, String> {
        let small = "range --log2-slots 12 --rounds 1 --queries 2000 ";
        let line = [small, line].concat();
        let rows = measure(&Line::parse_from(line.split_whitespace()).options)?;
        Ok(rows.iter().map(|row| serde_json::to_value(row).unwrap()).collect())
    }

    #[test]
    fn all_filters_run_their_operations() {
        let rows = rows("--range 1024").unwrap();
        let find = |filter: &str, op: &str| {
            rows.iter().find(|row| row["filter"] == filter && row["op"] == op)
        };
        for (name, kind) in KINDS {
            for op in RangeOp::ALL {
                let row = find(name, op.name());
                assert_eq!(row.is_some(), kind.can(op), "{name} {}", op.name());
                let Some(row) = row else { continue };
                assert!(row["mops"].as_f64().unwrap() > 0.0 && row["range"] == 1024);
                let is_insert = op == RangeOp::Insert;
                assert_eq!(row["ratio_to_aqf"].is_number(), is_insert, "{name} {}", op.name());
                assert_eq!(row["ratio_to_grafite"].is_number(), !is_insert);
                assert_eq!(row["p999_ns"].is_number(), op == RangeOp::Negative);
                let rate = row["fpr"].as_f64().unwrap();
                assert!(rate < if name == "fst-truncated" { 0.5 } else { 0.02 }, "{name}: {rate}");
                assert!((9.0..35.0).contains(&row["bits_per_key"].as_f64().unwrap()), "{name}");
            }
        }
        assert!(find("limit", "touch").is_some() && find(AQF, "insert").is_some());
        assert_eq!(find("grafite", "range_negative").unwrap()["ratio_to_grafite"], 1.0);
    }

    #[test]
    fn only_chosen_filters_run_and_unknown_ones_are_errors() {
        let few = rows("--filters memento --ops range_negative").unwrap();
        assert_eq!(few.len(), 2, "the limit and the chosen filter");
        assert!(few[1]["filter"] == "memento" && few[1]["ratio_to_grafite"].is_null());
        assert!(rows("--filters momento").unwrap_err().contains("momento"));
    }
}
