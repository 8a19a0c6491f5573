//! Renders the results of the demo as a table and as a page.

use super::results::{Results, Tally, Traffic};
use super::traffic::{EXPONENT, HOSTILE, PRESENT};
use crate::output::{grouped, sized};
use twiceshy_report::{Axis, Cell, Column, Format, Page, Plot, Section, Series, Table};

/// Returns the table that the demo prints.
pub(super) fn table(results: &Results) -> Table {
    let mut table = Table::new("").columns([
        Column::text("traffic"),
        Column::text("adapting"),
        Column::decimals("queries", "", 0),
        Column::decimals("disk reads", "", 0),
        Column::decimals("repeated", "", 0),
        Column::decimals("queries/s", "", 0),
        Column::number("fewer", "times", Format::Significant(2)),
        Column::number("faster", "times", Format::Significant(2)),
    ]);
    for traffic in Traffic::ALL {
        let [off, on] = [&results.off, &results.on].map(|run| run.of(traffic));
        let fewer = (on.visits > 0).then(|| off.visits as f64 / on.visits as f64);
        let faster = on.throughput() / off.throughput();
        table.rows.push(row(traffic.name(), "off", off, [Cell::Empty, Cell::Empty]));
        table.rows.push(row("", "on", on, [fewer.into(), faster.into()]));
    }
    table.note("Only disk reads for absent keys count. A repaired key causes no more of them.")
}

fn row(traffic: &str, adaptation: &str, tally: Tally, ratios: [Cell; 2]) -> Vec<Cell> {
    let mut cells = vec![
        traffic.into(),
        adaptation.into(),
        tally.queries.into(),
        tally.visits.into(),
        tally.repeated.into(),
        tally.throughput().into(),
    ];
    cells.extend(ratios);
    cells
}

pub(super) fn page(results: &Results) -> Page {
    let mut numbers = table(results);
    // A phone is too narrow for all columns. Drop the number of queries, because the facts at the
    // top of the page contain it.
    numbers.columns.remove(QUERIES);
    numbers.rows.iter_mut().for_each(|row| drop(row.remove(QUERIES)));
    // Every second row is about the store that adapts. Highlight these rows.
    numbers.highlights = (1..numbers.rows.len()).step_by(2).map(|row| (row, REPEATED)).collect();
    let Results { keys, queries, seed, .. } = *results;
    Page::new("Once bitten, twice shy")
        .lead(format!("{}\n\n{WHAT}", results.sentence()))
        .fact("Keys in each store", grouped(keys))
        .fact("Queries of each kind", grouped(queries))
        .fact("Data in each store", sized(results.data))
        .fact("Engine cache", sized(results.cache))
        .fact("Filter, in memory", sized(results.filter))
        .fact("Seed", seed.to_string())
        .section(
            Section::new("visits", "Disk reads")
                .question("How often does a store read its disk for absent keys?")
                .block(visits(results))
                .block(kinds()),
        )
        .section(
            Section::new("speed", "Queries per second")
                .question("How do these disk reads affect all queries?")
                .block(speed(results)),
        )
        .section(
            Section::new("numbers", "All numbers")
                .block(numbers)
                .command(format!("twiceshy demo --keys {keys} --queries {queries} --seed {seed}")),
        )
}

/// The index of the column with the number of queries.
const QUERIES: usize = 2;
/// The index of the column with the repeated disk reads, after the column `QUERIES` is removed.
const REPEATED: usize = 3;

const WHAT: &str = "\
Two stores on a disk have the same keys. Each has a filter in memory that recognises most absent \
keys. For the others, the store reads the disk in vain. One store repairs its filter after such a \
mistake, the other does not. Both stores answered the same queries, by turns.";

/// Returns a table that explains the kinds of traffic.
fn kinds() -> Table {
    let skewed = format!(
        "Popular keys are queried more often than others (Zipf's law with exponent {EXPONENT}); \
         one query in {PRESENT} is for a present key."
    );
    let hostile = format!(
        "Like skewed, but {:.0} % of the queries come from the attacker, who repeats the noted keys.",
        HOSTILE * 100.0
    );
    let probing = "An attacker queries random keys, and notes which of them cost a disk read.";
    Table::new("")
        .columns([Column::text("traffic"), Column::text("queries")])
        .row([Traffic::Skewed.name().into(), skewed.into()])
        .row([Traffic::Probing.name().into(), probing.into()])
        .row([Traffic::Hostile.name().into(), hostile.into()])
}

/// Returns the named curve of one store, without points.
fn curve(adaptation: &str) -> Series {
    Series::new(format!("adapting {adaptation}"))
}

fn queries() -> Axis {
    Axis::linear("queries so far", "").si().from_zero()
}

/// Marks where each kind of traffic begins.
fn with_phases(plot: Plot, results: &Results) -> Plot {
    Traffic::ALL.into_iter().fold(plot, |plot, traffic| {
        plot.phase(traffic.name(), (traffic as u64 * results.queries) as f64)
    })
}

fn visits(results: &Results) -> Plot {
    let visits = Axis::linear("disk reads so far", "").si().from_zero();
    let plot = Plot::lines("Disk reads for absent keys", queries(), visits);
    let curves = results.runs().map(|(name, run)| {
        let mut so_far = Tally::default();
        let points = run.slices().map(|slice| {
            so_far = [so_far, slice].into_iter().sum();
            (so_far.queries as f64, so_far.visits as f64)
        });
        curve(name).points([(0.0, 0.0)]).points(points.collect::<Vec<_>>())
    });
    with_phases(curves.into_iter().fold(plot, Plot::series), results)
}

/// The number of slices per point of the speed curve. A single slice is too short for a reliable
/// speed.
const SLICES: usize = 5;

fn speed(results: &Results) -> Plot {
    let speed = Axis::linear("queries per second", "").si().from_zero();
    let plot = Plot::lines("Queries answered per second", queries(), speed);
    let curves = results.runs().map(|(name, run)| {
        let mut so_far = 0.0;
        let turns =
            Traffic::ALL.into_iter().flat_map(|traffic| run.slices_of(traffic).chunks(SLICES));
        let points = turns.map(|slices| {
            let sum: Tally = slices.iter().copied().sum();
            let middle = so_far + sum.queries as f64 / 2.0;
            so_far += sum.queries as f64;
            (middle, sum.throughput())
        });
        curve(name).points(points.collect::<Vec<_>>())
    });
    with_phases(curves.into_iter().fold(plot, Plot::series), results).note(
        "Probing is fast because all of its keys are absent. The stores take turns, so other work \
         of the machine bends both curves alike.",
    )
}
