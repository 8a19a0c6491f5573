//! `twiceshy-lab bench point`: point filters.

use super::adapters::{Abf, Adapter, Aqf, Fuse, Mixed, Op, PeerAdapter, Work};
use super::fixed::OneSize;
use super::lab::Baseline;
use super::limit::{DISTANCES, Limit};
use super::measure::{self, Rates, timed};
use crate::contestant::Kind;
use crate::contestant::utaf::Utaf;
use crate::output::print_rows;
use scalable_cuckoo_filter::ScalableCuckooFilter;
use serde::Serialize;
use std::process::ExitCode;
use twiceshy::{ExtensionFilter, PlainQuotientFilter, TelescopingFilter};
use twiceshy_report::{Column, Table};

/// Options of `bench point`.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    common: measure::Common,
    /// Number of lookups per operation and round.
    #[arg(long, default_value_t = 4_000_000, value_parser = measure::positive)]
    queries: usize,
    /// Measure only these filters, separated by commas [default: all except those ending in
    /// `-adapted`]
    ///
    /// aqf, taf, exaf and abf are the adaptive quotient, telescoping, extension and Bloom filters.
    /// taf-adapted, exaf-adapted and utaf-adapted are measured after one repair per four members.
    /// qf is our table as a plain quotient filter. utaf is the telescoping filter without a code.
    /// In the list of possible values, plain-cuckoo to cuckooing are implemented in the lab, and
    /// take the same space as taf. The values after cuckooing are filters from other crates.
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = clap::builder::PossibleValuesParser::new(FILTERS.map(|(name, _)| name))
    )]
    filters: Vec<String>,
}

impl Options {
    fn wants_filter(&self, name: &str) -> bool {
        let is_usual = self.filters.is_empty() && !name.ends_with(ADAPTED);
        is_usual || self.filters.iter().any(|wanted| wanted == name)
    }
}

/// The suffix in the names of filters that are measured after repairs.
const ADAPTED: &str = "-adapted";

/// A function that builds an empty filter with this name.
type Make = fn(&'static str, &Work) -> Box<dyn Adapter>;

const FILTERS: [(&str, Make); 21] = [
    ("aqf", |_, work| Box::new(Aqf::new(work))),
    ("qf", |name, work| Box::new(OneSize::<PlainQuotientFilter>::new(name, work))),
    ("taf", |name, work| Box::new(OneSize::<TelescopingFilter>::new(name, work))),
    ("exaf", |name, work| Box::new(OneSize::<ExtensionFilter>::new(name, work))),
    ("utaf", |name, work| Box::new(OneSize::<Utaf>::new(name, work))),
    ("taf-adapted", |name, work| Box::new(OneSize::<TelescopingFilter>::adapted(name, work))),
    ("exaf-adapted", |name, work| Box::new(OneSize::<ExtensionFilter>::adapted(name, work))),
    ("utaf-adapted", |name, work| Box::new(OneSize::<Utaf>::adapted(name, work))),
    ("abf", |_, work| Box::new(Abf::new(work))),
    ("plain-cuckoo", |name, work| Box::new(Baseline::new(name, Kind::PlainCuckoo, work))),
    ("vacuum", |name, work| Box::new(Baseline::new(name, Kind::Vacuum, work))),
    ("cyclic-1", |name, work| Box::new(Baseline::new(name, Kind::Cyclic1, work))),
    ("cyclic-2", |name, work| Box::new(Baseline::new(name, Kind::Cyclic2, work))),
    ("cyclic-3", |name, work| Box::new(Baseline::new(name, Kind::Cyclic3, work))),
    ("swapping", |name, work| Box::new(Baseline::new(name, Kind::Swapping, work))),
    ("cuckooing", |name, work| Box::new(Baseline::new(name, Kind::Cuckooing, work))),
    ("qfilter", |_, work| Box::new(PeerAdapter::<qfilter::Filter>::new(work))),
    ("fastbloom", |_, work| Box::new(PeerAdapter::<fastbloom::BloomFilter>::new(work))),
    ("split-block", |_, work| Box::new(PeerAdapter::<sbbf_rs_safe::Filter>::new(work))),
    ("cuckoo", |_, work| Box::new(PeerAdapter::<ScalableCuckooFilter<u64, Mixed>>::new(work))),
    ("binary-fuse-8", |_, work| Box::new(PeerAdapter::<Fuse>::new(work))),
];

/// One row of the result.
#[derive(Serialize)]
struct Row {
    filter: &'static str,
    op: String,
    mops: Option<f64>,
    median_mops: Option<f64>,
    log2_slots: u32,
    load: f64,
    bits_per_key: Option<f64>,
    fpr: Option<f64>,
    share_of_limit: Option<f64>,
    share_of_qf: Option<f64>,
    p999_ns: Option<u64>,
}

/// Returns the latency that one lookup in a thousand exceeds.
fn p999(adapter: &dyn Adapter, op: Op, work: &Work) -> Option<u64> {
    let Op::Lookup { positive, many: false, prehashed } = op else { return None };
    let (keys, hashes) = work.queries(positive);
    let queries = keys.iter().zip(hashes).take(200_000);
    let latencies = measure::latencies(queries, |(&key, &hash)| {
        std::hint::black_box(adapter.look_up(key, hash, prehashed));
    });
    Some(latencies.value_at_quantile(0.999))
}

/// Checks the answers of a measured operation.
fn check(name: &str, op: Op, answers: usize, work: &Work) {
    let must = match op {
        Op::Lookup { positive: true, .. } => work.asked.len(),
        Op::Lookup { .. } => return,
        _ => work.members.len(),
    };
    assert_eq!(answers, must, "{name} {}: false negatives", op.name());
}

pub(crate) fn run(options: &Options) -> Result<(), ExitCode> {
    let Options { common, queries, .. } = options;
    let work = Work::new(1 << common.log2_slots, common.remainder_bits, common.load, *queries);
    let wanted_filters = FILTERS.iter().filter(|(name, _)| options.wants_filter(name));
    let mut adapters: Vec<Box<dyn Adapter>> =
        wanted_filters.map(|&(name, make)| make(name, &work)).collect();
    let wanted = |op: &Op| common.wants(&op.name());
    let limit = Limit::new(Aqf::new(&work).bytes());

    let mut times = vec![vec![Vec::new(); Op::ALL.len()]; adapters.len()];
    let mut limit_times = Vec::new();
    for adapter in &mut adapters {
        build(adapter.as_mut(), &work);
    }
    for round in 1..=common.rounds {
        measure::show_round(round, common.rounds);
        for (index, op) in Op::ALL.into_iter().enumerate().filter(|(_, op)| wanted(op)) {
            for (adapter, times) in adapters.iter_mut().zip(&mut times) {
                if !adapter.can(op) {
                    continue;
                }
                if !matches!(op, Op::Lookup { .. }) {
                    adapter.reset(&work);
                }
                let (answers, time) = timed(|| adapter.run(op, &work));
                check(adapter.name(), op, answers, &work);
                times[index].push(time);
            }
        }
        let touch = |distance| timed(|| limit.touch(&work.stranger_hashes, distance)).1;
        limit_times.extend(DISTANCES.map(touch));
    }
    measure::hide_round();

    let Rates { best: limit_best, median: limit_median } =
        measure::rates(work.strangers.len(), limit_times);
    let row = |filter, op: &str| Row {
        filter,
        op: op.into(),
        mops: None,
        median_mops: None,
        log2_slots: common.log2_slots,
        load: common.load,
        bits_per_key: None,
        fpr: None,
        share_of_limit: None,
        share_of_qf: None,
        p999_ns: None,
    };
    let mut rows = vec![Row {
        mops: Some(limit_best),
        median_mops: Some(limit_median),
        share_of_limit: Some(1.0),
        ..row("limit", "touch")
    }];
    for (adapter, times) in adapters.iter_mut().zip(times) {
        let bits_per_key = Some(adapter.bytes() as f64 * 8.0 / work.members.len() as f64);
        let negative = Op::Lookup { positive: false, many: false, prehashed: true };
        let fpr = Some(adapter.run(negative, &work) as f64 / work.strangers.len() as f64);
        for (op, times) in Op::ALL.into_iter().zip(times).filter(|(op, _)| wanted(op)) {
            let mut row = Row { bits_per_key, fpr, ..row(adapter.name(), &op.name()) };
            if !times.is_empty() {
                let lookup = matches!(op, Op::Lookup { .. });
                let count = if lookup { work.strangers.len() } else { work.members.len() };
                let Rates { best, median } = measure::rates(count, times);
                row.mops = Some(best);
                row.median_mops = Some(median);
                row.share_of_limit = Some(best / limit_best);
                row.p999_ns = p999(adapter.as_ref(), op, &work);
            }
            rows.push(row);
        }
    }
    compare(&mut rows);
    print_rows(&rows, common.json, table)
}

/// Sets the ratio of each filter's speed to that of the plain quotient filter.
fn compare(rows: &mut [Row]) {
    let is_qf = |row: &&Row| row.filter == "qf";
    let qf: Vec<(String, Option<f64>)> =
        rows.iter().filter(is_qf).map(|row| (row.op.clone(), row.mops)).collect();
    for row in rows {
        let same = qf.iter().find(|(op, _)| *op == row.op);
        let rates = same.and_then(|&(_, qf)| Some((row.mops?, qf?)));
        row.share_of_qf = rates.map(|(rate, qf)| rate / qf);
    }
}

/// Fills a filter with an operation that it supports.
fn build(adapter: &mut dyn Adapter, work: &Work) {
    let insert = Op::Insert { many: false, prehashed: false };
    let op = if adapter.can(insert) { insert } else { Op::Bulk { prehashed: false } };
    adapter.reset(work);
    let answers = adapter.run(op, work);
    check(adapter.name(), op, answers, work);
}

fn table(rows: &[Row]) -> Table {
    let columns = [
        Column::text("filter"),
        Column::text("op"),
        Column::decimals("M/s", "", 2),
        Column::decimals("median", "", 2),
        Column::percent("limit", 0),
        Column::percent("qf", 0),
        Column::decimals("bits/key", "", 2),
        Column::decimals("fpr", "", 5),
        Column::decimals("p99.9", "ns", 0),
    ];
    rows.iter().fold(Table::default().columns(columns), |table, row| {
        table.row([
            row.filter.into(),
            row.op.as_str().into(),
            row.mops.into(),
            row.median_mops.into(),
            row.share_of_limit.into(),
            row.share_of_qf.into(),
            row.bits_per_key.into(),
            row.fpr.into(),
            row.p999_ns.into(),
        ])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_have_expected_names_and_answer_correctly() {
        for remainder_bits in [8, 9] {
            let work = Work::new(1 << 12, remainder_bits, 0.9, 4000);
            for (name, make) in FILTERS {
                let mut adapter = make(name, &work);
                assert_eq!(adapter.name(), name);
                build(adapter.as_mut(), &work);
                for op in Op::ALL.into_iter().filter(|op| matches!(op, Op::Lookup { .. })) {
                    if adapter.can(op) {
                        check(name, op, adapter.run(op, &work), &work);
                    }
                }
                let negative = Op::Lookup { positive: false, many: false, prehashed: false };
                let mistakes = adapter.run(negative, &work) as f64 / work.strangers.len() as f64;
                // Some of the filters have the same size, but compare each key with four times as
                // many fingerprints.
                assert!(mistakes < 5.0 * work.rate(), "{name}: {mistakes}");
                let bits = adapter.bytes() as f64 * 8.0 / work.members.len() as f64;
                assert!((8.0..25.0).contains(&bits), "{name}: {bits} bits per key");
            }
        }
    }
}
