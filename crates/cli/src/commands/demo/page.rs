//! The results as a table and as a page.

use super::results::{Results, Tally, Traffic};
use super::traffic::{EXPONENT, HOSTILE, PRESENT};
use crate::output::{grouped, sized};
use twiceshy_report::{Axis, Cell, Column, Format, Page, Plot, Section, Series, Table};

/// What a person sees at a glance.
pub(super) fn table(results: &Results) -> Table {
    let mut table = Table::new("").columns([
        Column::text("traffic"),
        Column::text("adapting"),
        Column::decimals("queries", "", 0),
        Column::decimals("disk visits", "", 0),
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
    table.note("Visits are for absent keys; a key costs its first one either way, see probing.")
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
    // A phone hasn't got room for all, and the facts say how many queries there are.
    numbers.columns.remove(QUERIES);
    numbers.rows.iter_mut().for_each(|row| drop(row.remove(QUERIES)));
    // In the rows of the store that adapts.
    numbers.highlights = (1..numbers.rows.len()).step_by(2).map(|row| (row, REPEATED)).collect();
    let Results { keys, queries, seed, .. } = *results;
    Page::new("Once bitten, twice shy")
        .lead(format!("{}\n\n{WHAT}", results.sentence()))
        .fact("Keys in each store", grouped(keys))
        .fact("Queries of each kind", grouped(queries))
        .fact("Data in each store", sized(results.data))
        .fact("Cache of the engine", sized(results.cache))
        .fact("Filter, in memory", sized(results.filter))
        .fact("Seed", seed.to_string())
        .section(
            Section::new("visits", "Visits to the disk")
                .question("How often does a store look at its disk for keys that aren't there?")
                .block(visits(results))
                .block(kinds()),
        )
        .section(
            Section::new("speed", "Queries a second")
                .question("What does that do to everybody's queries?")
                .block(speed(results)),
        )
        .section(
            Section::new("numbers", "All numbers")
                .block(numbers)
                .command(format!("twiceshy demo --keys {keys} --queries {queries} --seed {seed}")),
        )
}

/// The columns of queries, and, when they are gone, of repeated visits.
const QUERIES: usize = 2;
const REPEATED: usize = 3;

const WHAT: &str = "\
Two stores on a disk have the same keys, and a filter each, in memory, that knows most absent keys \
to be absent. For the others the disk is looked at, in vain. One store tells its filter of such \
mistakes, which adapts; the other doesn't. Both were asked the same, in turns.";

/// What is asked for.
fn kinds() -> Table {
    let skewed = format!(
        "Popular keys are asked for more often than others (Zipf's law with exponent {EXPONENT}); \
         one query in {PRESENT} is for a key that is there."
    );
    let hostile = format!(
        "As skewed, but {:.0} % of the queries are the adversary's, who asks for these keys again \
         and again.",
        HOSTILE * 100.0
    );
    let probing = "An adversary asks for random keys, and notes which cost a visit to the disk.";
    Table::new("")
        .columns([Column::text("traffic"), Column::text("what is asked for")])
        .row([Traffic::Skewed.name().into(), skewed.into()])
        .row([Traffic::Probing.name().into(), probing.into()])
        .row([Traffic::Hostile.name().into(), hostile.into()])
}

/// The name of a curve.
fn curve(adaptation: &str) -> Series {
    Series::new(format!("adapting {adaptation}"))
}

fn queries() -> Axis {
    Axis::linear("queries so far", "").si().from_zero()
}

/// Says when which traffic began.
fn with_phases(plot: Plot, results: &Results) -> Plot {
    Traffic::ALL.into_iter().fold(plot, |plot, traffic| {
        plot.phase(traffic.name(), (traffic as u64 * results.queries) as f64)
    })
}

fn visits(results: &Results) -> Plot {
    let visits = Axis::linear("visits so far", "").si().from_zero();
    let plot = Plot::lines("Visits to the disk for absent keys", queries(), visits);
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

/// How many slices make a point: single ones are too short to tell.
const SLICES: usize = 5;

fn speed(results: &Results) -> Plot {
    let speed = Axis::linear("queries a second", "").si().from_zero();
    let plot = Plot::lines("Queries answered in a second", queries(), speed);
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
        "Probing is fast because nothing that it asks for is there. Otherwise, what bends both \
         curves alike is what else the machine had to do: both are asked in turns.",
    )
}
