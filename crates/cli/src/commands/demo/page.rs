//! The results as a table and as a page.

use super::results::{Results, Tally, Traffic};
use super::traffic::{EXPONENT, HOSTILE, PRESENT};
use crate::output::{grouped, sized};
use twiceshy_report::{Axis, Cell, Column, Format, Page, Plot, Section, Series, Table};

/// What a person sees at a glance.
pub(super) fn table(results: &Results) -> Table {
    let mut table = Table::new("").columns([
        Column::text("traffic"),
        Column::text("adaptation"),
        Column::decimals("queries", "", 0),
        Column::decimals("disk visits", "", 0),
        Column::decimals("repeated", "", 0),
        Column::decimals("queries/s", "", 0),
        Column::number("visits", "off/on", Format::Decimals(1)),
        Column::number("speed", "on/off", Format::Decimals(1)),
    ]);
    for traffic in Traffic::ALL {
        let [(_, off), (_, on)] = results.runs().map(|(name, run)| (name, run.of(traffic)));
        let fewer = (on.visits > 0).then(|| off.visits as f64 / on.visits as f64);
        let faster = on.throughput() / off.throughput();
        table = table.row(row(traffic.name(), "off", off, [Cell::Empty, Cell::Empty])).row(row(
            "",
            "on",
            on,
            [fewer.into(), faster.into()],
        ));
    }
    table
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
    let Results { keys, queries, seed, .. } = *results;
    Page::new("Once bitten, twice shy")
        .lead(format!("{}\n\n{WHAT}", results.sentence()))
        .fact("Keys in each store", grouped(keys))
        .fact("Queries of each kind", grouped(queries))
        .fact("On the disk", sized(results.disk))
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
                .block(table(results))
                .command(format!("twiceshy demo --keys {keys} --queries {queries} --seed {seed}")),
        )
}

const WHAT: &str = "\
Two stores on a disk have the same keys, and a filter each, in memory, that knows most absent keys \
to be absent. For the others the disk is looked at, in vain. One store tells its filter of such \
mistakes, which adapts; the other doesn't. Both were asked the same, in turns.";

fn kinds() -> String {
    format!(
        "*Skewed* traffic asks for popular keys more often than for others (Zipf's law, exponent \
         {EXPONENT}); one query in {PRESENT} is for a key that is there. *Probing* is an adversary \
         who asks for random keys, and notes which of them cost a visit to the disk. *Hostile* \
         traffic is as skewed, but {:.0} % of it are the adversary's, who asks for these keys \
         again and again.",
        HOSTILE * 100.0
    )
}

/// Points of both stores at the ends of all slices.
fn curves(results: &Results, value: impl Fn(Tally, Tally) -> f64) -> [Series; 2] {
    results.runs().map(|(name, run)| {
        let mut so_far = Tally::default();
        let points = run.slices().map(|slice| {
            so_far = [so_far, slice].into_iter().sum();
            (so_far.queries as f64, value(slice, so_far))
        });
        Series::new(format!("adaptation {name}")).points(points.collect::<Vec<_>>())
    })
}

fn queries() -> Axis {
    Axis::linear("queries so far", "").si().from_zero()
}

fn when(results: &Results) -> String {
    let [one, two] = [1, 2].map(|times| grouped(times * results.queries));
    format!("Skewed traffic up to {one} queries, probing up to {two}, then hostile traffic.")
}

fn visits(results: &Results) -> Plot {
    let [off, on] = curves(results, |_, so_far| so_far.visits as f64);
    let visits = Axis::linear("visits so far", "").si().from_zero();
    Plot::lines("Visits to the disk for absent keys", queries(), visits)
        .series(off)
        .series(on)
        .note(when(results))
}

fn speed(results: &Results) -> Plot {
    let [off, on] = curves(results, |slice, _| slice.throughput());
    let speed = Axis::linear("queries a second", "").si().from_zero();
    Plot::lines("Queries answered in a second", queries(), speed)
        .series(off)
        .series(on)
        .note(when(results))
}
