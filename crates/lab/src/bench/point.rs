//! `twiceshy-lab bench point`.

use super::adapters::{Abf, Adapter, Aqf, Fuse, Mixed, Op, Ring, Work};
use super::coded::Coded;
use super::limit::{DISTANCES, Limit};
use super::measure::{self, Rates, timed};
use scalable_cuckoo_filter::ScalableCuckooFilter;
use serde::Serialize;
use std::io::Write;
use std::time::Instant;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    common: measure::Common,
    /// Lookups of each kind in each round.
    #[arg(long, default_value_t = 4_000_000, value_parser = measure::positive)]
    queries: usize,
    /// Only these filters, separated by commas.
    #[arg(long, value_delimiter = ',')]
    filters: Vec<String>,
}

/// One line of the result.
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
    p999_ns: Option<f64>,
}

/// The latency that one lookup in a thousand exceeds.
fn p999(adapter: &dyn Adapter, op: Op, work: &Work) -> Option<f64> {
    let Op::Lookup { positive, many: false, prehashed } = op else { return None };
    let (keys, hashes) = work.queries(positive);
    let mut times: Vec<f64> = keys
        .iter()
        .zip(hashes)
        .take(200_000)
        .map(|(&key, &hash)| {
            let start = Instant::now();
            std::hint::black_box(adapter.look_up(key, hash, prehashed));
            start.elapsed().as_nanos() as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    Some(times[times.len() * 999 / 1000])
}

/// Answers of one operation must be right in the same run.
fn check(name: &str, op: Op, answers: usize, work: &Work) {
    let must = match op {
        Op::Lookup { positive: true, .. } => work.asked.len(),
        Op::Lookup { .. } => return,
        _ => work.members.len(),
    };
    assert_eq!(answers, must, "{name} {}: false negatives", op.name());
}

pub(crate) fn run(options: &Options) {
    let Options { common, queries, .. } = options;
    let work = Work::new(1 << common.log2_slots, common.remainder_bits, common.load, *queries);
    let mut adapters: Vec<Box<dyn Adapter>> = vec![
        Box::new(Aqf::new(&work)),
        Box::new(Coded::telescoping(&work)),
        Box::new(Coded::extension(&work)),
        Box::new(Ring::<qfilter::Filter>::new(&work)),
        Box::new(Ring::<fastbloom::BloomFilter>::new(&work)),
        Box::new(Abf::new(&work)),
        Box::new(Ring::<sbbf_rs_safe::Filter>::new(&work)),
        Box::new(Ring::<ScalableCuckooFilter<u64, Mixed>>::new(&work)),
        Box::new(Ring::<Fuse>::new(&work)),
    ];
    adapters.retain(|adapter| {
        options.filters.is_empty() || options.filters.iter().any(|name| name == adapter.name())
    });
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
    print(options, &rows);
}

/// Fills a filter by the first operation that it can.
fn build(adapter: &mut dyn Adapter, work: &Work) {
    let insert = Op::Insert { many: false, prehashed: false };
    let op = if adapter.can(insert) { insert } else { Op::Bulk { prehashed: false } };
    adapter.reset(work);
    let answers = adapter.run(op, work);
    check(adapter.name(), op, answers, work);
}

fn print(options: &Options, rows: &[Row]) {
    let mut out = std::io::stdout().lock();
    let mut line = |text: String| writeln!(out, "{text}").is_ok();
    if options.common.json {
        rows.iter().all(|row| line(serde_json::to_string(row).expect("plain numbers")));
        return;
    }
    line(format!(
        "{:<14} {:<24} {:>8} {:>8} {:>7} {:>9} {:>8} {:>8}",
        "filter", "op", "M/s", "median", "limit", "bits/key", "fpr", "p99.9 ns"
    ));
    for row in rows {
        let number = measure::number;
        line(format!(
            "{:<14} {:<24} {:>8} {:>8} {:>6}% {:>9} {:>8} {:>8}",
            row.filter,
            row.op,
            number(row.mops, 2),
            number(row.median_mops, 2),
            number(row.share_of_limit.map(|share| share * 100.0), 0),
            number(row.bits_per_key, 2),
            number(row.fpr, 5),
            number(row.p999_ns, 0),
        ));
    }
}
