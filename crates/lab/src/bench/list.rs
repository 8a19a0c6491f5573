//! `twiceshy-lab bench list`: filters for a yes list and a no list.

use super::measure::{self, Rates, timed};
use crate::contestant::lists::{ListFilter, ListKind};
use crate::output::print_rows;
use serde::Serialize;
use std::process::ExitCode;
use twiceshy::{Hash, Secret, hash::KeyedHasher};
use twiceshy_report::{Cell, Column, Table};

/// Options of `bench list`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Number of keys on the yes list.
    #[arg(long, default_value_t = 1_000_000, value_parser = measure::positive)]
    yes: usize,
    /// Number of keys on the no list.
    #[arg(long, default_value_t = 1_000_000)]
    no: usize,
    /// False-positive rate: the share of unlisted keys that get the answer yes.
    #[arg(long, default_value_t = 1.0 / 256.0)]
    rate: f64,
    /// Number of rounds. The best and the median round are printed.
    #[arg(long, default_value_t = 5, value_parser = measure::positive)]
    rounds: usize,
    /// Measure only these filters, separated by commas: fixed, changing, cascade, clubcard.
    #[arg(long, value_delimiter = ',')]
    filters: Vec<String>,
    /// Print one JSON object per line instead of a table.
    #[arg(long)]
    json: bool,
}

/// One row of the result.
#[derive(Serialize)]
struct Row {
    filter: &'static str,
    op: &'static str,
    /// Millions of keys per second.
    mops: f64,
    median_mops: f64,
    bits_per_yes_key: f64,
    fpr: f64,
}

/// The operations: building, and lookups one by one and in batches. The looked-up keys are on the
/// yes list, on the no list, or on neither.
const OPS: [&str; 7] = ["build", "yes", "no", "other", "yes_many", "no_many", "other_many"];

pub(crate) fn run(options: &Options) -> Result<(), ExitCode> {
    let hasher = KeyedHasher::new(&Secret::from_bytes([4; 16]));
    let hashes = |range: std::ops::Range<usize>| -> Vec<Hash> {
        range.map(|number| hasher.hash(&(number as u64))).collect()
    };
    let (yes, no) = (hashes(0..options.yes), hashes(options.yes..options.yes + options.no));
    let others = hashes(1 << 40..(1 << 40) + options.yes.max(1 << 20));
    let wanted = |kind: &ListKind| {
        options.filters.is_empty() || options.filters.iter().any(|name| name == kind.word())
    };
    let kinds: Vec<ListKind> = ListKind::ALL.into_iter().filter(wanted).collect();
    let mut times = vec![vec![Vec::new(); OPS.len()]; kinds.len()];
    let mut built: Vec<Option<Box<dyn ListFilter>>> = kinds.iter().map(|_| None).collect();
    for round in 1..=options.rounds {
        measure::show_round(round, options.rounds);
        for ((kind, times), built) in kinds.iter().zip(&mut times).zip(&mut built) {
            let (filter, time) = timed(|| kind.build(&yes, &no, options.rate));
            times[0].push(time);
            let asked = [(&yes, Some(yes.len())), (&no, Some(0)), (&others, None)];
            for (at, (list, expected)) in asked.into_iter().enumerate() {
                let one_by_one = || list.iter().filter(|&&hash| filter.contains(hash)).count();
                let (count, time) = timed(one_by_one);
                times[1 + at].push(time);
                let (count_many, time) = timed(|| filter.count(list));
                times[4 + at].push(time);
                assert_eq!(count, count_many, "{kind:?}");
                assert!(expected.is_none_or(|expected| count == expected), "{kind:?} is wrong");
            }
            *built = Some(filter);
        }
    }
    measure::hide_round();
    let mut rows = Vec::new();
    for ((kind, times), filter) in kinds.iter().zip(times).zip(built) {
        let filter = filter.expect("a round");
        let fpr = filter.count(&others) as f64 / others.len() as f64;
        let bits_per_yes_key = filter.bits() as f64 / yes.len() as f64;
        for (op, times) in OPS.into_iter().zip(times) {
            let count = match op.split('_').next() {
                Some("build") => yes.len() + no.len(),
                Some("yes") => yes.len(),
                Some("no") => no.len(),
                _ => others.len(),
            };
            let Rates { best, median } = measure::rates(count, times);
            let filter = kind.word();
            rows.push(Row { filter, op, mops: best, median_mops: median, bits_per_yes_key, fpr });
        }
    }
    print_rows(&rows, options.json, table)
}

fn table(rows: &[Row]) -> Table {
    let columns = [
        Column::text("filter"),
        Column::text("op"),
        Column::decimals("M/s", "", 2),
        Column::decimals("median", "", 2),
        Column::decimals("bits/yes-list key", "", 2),
        Column::decimals("fpr", "", 5),
    ];
    rows.iter().fold(Table::default().columns(columns), |table, row| {
        let &Row { filter, op, mops, median_mops, bits_per_yes_key, fpr } = row;
        let numbers = [mops, median_mops, bits_per_yes_key, fpr].map(Cell::from);
        table.row([filter.into(), op.into()].into_iter().chain(numbers))
    })
}
