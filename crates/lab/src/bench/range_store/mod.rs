//! `twiceshy-lab bench range-store`: stores on disk with different range filters.
//!
//! All stores have the same memory. They are compacted before the queries, and take turns. The
//! adaptive store keeps a reverse map and a record of its mistakes on its disk. Its figures include
//! the cost of both.

mod run;
mod setup;

pub(crate) use run::{SHARES, Seen, Tally, Work, play};
pub(crate) use setup::{Kind, Size};

use super::measure::{Traffic, positive};
use crate::contestant::range::RangeShape;
use crate::output::{print, print_rows};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use twiceshy_report::{Column, Table};

/// Options of `bench range-store`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Number of pairs of 512 bytes, 8 of which are the key.
    #[arg(long, default_value_t = 1 << 18, value_parser = positive)]
    pairs: usize,
    /// Number of keys per range.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    range: u64,
    /// Number of queries for each share of hostile queries. The adversary first learns from the
    /// same number of queries.
    #[arg(long, default_value_t = 1 << 19, value_parser = positive)]
    queries: usize,
    /// Size of the engine's block cache in bytes. The memory of our filter is not included.
    #[arg(long, default_value_t = 1 << 20)]
    cache_bytes: u64,
    /// Planned false-positive rate of all filters, as a power of 1/2: 9 means a rate of 1/512.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(2..=16))]
    rate_bits: u32,
    /// Directory for the stores, which are removed afterwards [default: the system's temporary
    /// directory].
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Print one JSON object per line instead of a table.
    #[arg(long)]
    json: bool,
}

/// The share of its throughput that a store should keep if 10 % of the queries are hostile.
const AT_LEAST: f64 = 0.95;

/// Number of turns per setup.
const TURNS: usize = 64;

/// One row of the result.
#[derive(Serialize)]
struct Row {
    setup: &'static str,
    range: u64,
    hostile_percent: f64,
    /// Thousands of queries per second by the wall clock, in the median turn.
    kops: f64,
    /// The ratio to the throughput of the same setup without hostile queries.
    kept: f64,
    /// The number of disk reads per 1000 queries.
    visits: f64,
    /// The number of intervals that were read from the reverse map, per 1000 queries.
    listed: f64,
    repeated_mistakes: u64,
    traffic: Traffic,
    filter_bytes: u64,
    /// The memory of the filter and the block cache, in bytes.
    memory_bytes: u64,
    disk_bytes: u64,
    /// Load of our filter after the last query.
    load: Option<f64>,
}

impl Seen {
    fn rows(&self, range: u64) -> impl Iterator<Item = Row> {
        let calm = self.shares[0].kops();
        SHARES.iter().zip(&self.shares).map(move |(&share, tally)| Row {
            setup: self.kind.name(),
            range,
            hostile_percent: share as f64 / 10.0,
            kops: tally.kops(),
            kept: tally.kops() / calm,
            visits: tally.per_1000(tally.visits),
            listed: tally.per_1000(tally.listed),
            repeated_mistakes: tally.repeated,
            traffic: tally.traffic,
            filter_bytes: self.filter_bytes,
            memory_bytes: self.memory_bytes,
            disk_bytes: self.disk_bytes,
            load: self.load.map(|[_, after]| after),
        })
    }
}

fn rows(options: &Options) -> Vec<Row> {
    let &Options { pairs, range, queries, cache_bytes, rate_bits, .. } = options;
    let shape = RangeShape::new((pairs as u64 * 10).div_ceil(9), range, rate_bits, 1);
    let work = Work { warm_up: queries, queries: queries.div_ceil(TURNS), turns: TURNS };
    let seen = play(&Size { shape, cache_bytes }, &work, options.directory.as_deref());
    seen.iter().flat_map(|seen| seen.rows(range)).collect()
}

pub(crate) fn run(options: &Options) -> Result<(), ExitCode> {
    let rows = rows(options);
    print_rows(&rows, options.json, table)?;
    if options.json {
        return Ok(());
    }
    let mut adaptive = rows.iter().filter(|row| row.setup == Kind::Adaptive.name());
    let kept = adaptive.next_back().map_or(0.0, |row| row.kept);
    let verdict = if kept >= AT_LEAST { "reached" } else { "missed" };
    print(format_args!(
        "\nadaptive: 10 % hostile queries / none hostile, goal {AT_LEAST:.2}, measured {kept:.2}: {verdict}"
    ))
}

fn table(rows: &[Row]) -> Table {
    let columns = [
        Column::text("setup"),
        Column::decimals("hostile", "%", 1),
        Column::decimals("k/s", "", 1),
        Column::decimals("kept", "", 2),
        Column::decimals("disk reads", "‰", 2),
        Column::decimals("listed", "‰", 2),
        Column::decimals("repeated", "", 0),
        Column::decimals("read", "MiB", 1),
        Column::decimals("filter", "MiB", 2),
        Column::decimals("disk", "MiB", 1),
    ];
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    rows.iter().fold(Table::default().columns(columns), |table, row| {
        table.row([
            row.setup.into(),
            row.hostile_percent.into(),
            row.kops.into(),
            row.kept.into(),
            row.visits.into(),
            row.listed.into(),
            row.repeated_mistakes.into(),
            mib(row.traffic.read).into(),
            mib(row.filter_bytes).into(),
            mib(row.disk_bytes).into(),
        ])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(range: u64) -> Options {
        Options {
            pairs: 2000,
            range,
            queries: 6000,
            cache_bytes: 1 << 20,
            rate_bits: 6,
            directory: None,
            json: true,
        }
    }

    #[test]
    fn adaptive_store_repeats_no_mistake_and_all_stores_use_equal_memory() {
        for range in [1, 32] {
            let rows = rows(&options(range));
            assert_eq!(rows.len(), Kind::ALL.len() * SHARES.len());
            for row in &rows {
                let is_adaptive = row.setup == Kind::Adaptive.name();
                let is_hostile = row.hostile_percent > 0.0;
                assert_eq!(row.repeated_mistakes > 0, is_hostile && !is_adaptive, "{}", row.setup);
                // The filters that don't adapt let all hostile queries through.
                let least = if is_adaptive { 0.0 } else { row.hostile_percent * 8.0 };
                assert!(row.visits > least, "{}: {}", row.setup, row.visits);
                assert_eq!(row.listed > 0.0, is_adaptive, "{}", row.setup);
                assert_eq!(row.memory_bytes, rows[0].memory_bytes, "{}", row.setup);
            }
            // The adaptive store also has a reverse map, so it takes more space.
            assert!(rows[0].disk_bytes > rows[SHARES.len()].disk_bytes);
        }
    }

    /// Before any repair, the adaptive store's filter answers like the Memento filter.
    #[test]
    fn adaptive_store_at_first_makes_as_many_mistakes_as_the_memento_filter() {
        let shape = RangeShape::new(2000, 32, 6, 1);
        let work = Work { warm_up: 4000, queries: 1, turns: 1 };
        let seen = play(&Size { shape, cache_bytes: 1 << 20 }, &work, None);
        let [adaptive, memento] = [&seen[0].warm_up, &seen[1].warm_up];
        assert!(memento.visits > 20 && adaptive.visits <= memento.visits);
        assert!(adaptive.visits > memento.visits * 9 / 10);
        assert!(
            seen[0]
                .load
                .is_some_and(|[before, after]| (before - 0.9).abs() < 0.01 && after > before)
        );
    }
}
