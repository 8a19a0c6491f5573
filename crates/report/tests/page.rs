//! Compares a small page with a recorded one.

use twiceshy_report::{Axis, Column, Page, Plot, Point, Section, Series, Table, Verdict};

/// After an intended change, look at the page, and then record it again with `BLESS=1`.
#[test]
fn small_page_matches_the_recorded_page() {
    let plot = Plot::lines(
        "Inserts",
        Axis::linear("load factor", ""),
        Axis::linear("throughput", "op/s").si().from_zero(),
    )
    .series(Series::new("AQF").points([
        Point::new(0.1, 9.1e6).spread(8.8e6, 9.2e6),
        Point::new(0.9, 7.2e6).spread(7.0e6, 7.3e6),
    ]))
    .series(Series::new("QF").points([(0.1, 8.0e6), (0.5, f64::NAN), (0.9, 6.0e6)]))
    .phase("warm", 0.1)
    .phase("hot", 0.6);
    let bars = Plot::bars("Space", "filter", ["AQF", "QF"], Axis::linear("space", "bits/key"))
        .series(Series::new("space").bars([12.2, 11.9]));
    let table = Table::new("Space")
        .columns([Column::text("filter"), Column::decimals("space", "bits/key", 2)])
        .row(["AQF".into(), 12.23.into()]);
    let section = Section::new("inserts", "Inserts & space")
        .question("Is `insert` fast?")
        .paper("Yes.")
        .seen("Yes, too.")
        .verdict(Verdict::Confirmed)
        .command("lab bench insert")
        .block(plot)
        .block(bars)
        .block(table);
    let html = Page::new("Small").fact("CPU", "any").section(section).to_html();
    // Leave out the style sheet, because it is in a separate file.
    let (before, rest) = html.split_once("<style>").unwrap();
    let (_, after) = rest.split_once("</style>").unwrap();
    let seen = format!("{before}<style></style>{after}");

    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/page.html");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &seen).unwrap();
    }
    let recorded = std::fs::read_to_string(path).unwrap();
    for (number, (seen, recorded)) in seen.lines().zip(recorded.lines()).enumerate() {
        assert_eq!(seen, recorded, "line {} of {path}", number + 1);
    }
    assert_eq!(seen.len(), recorded.len());
}
