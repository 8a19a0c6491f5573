//! Renders plots with their legend, notes and data.

use std::collections::HashMap;

use super::table;
use crate::markup::{Escaped, Markup, inline, prose, put};
use crate::svg::{self, Looks, NARROW, WIDE};
use crate::{Cell, Column, Format, Kind, Plot, Point, Table, number};

pub(super) fn figure(out: &mut Markup, plot: &Plot, looks: &Looks<'_>) {
    put!(out, "<figure>\n<figcaption>");
    inline(out, &plot.title);
    put!(out, "</figcaption>\n");
    legend(out, plot, looks);
    let drawn = svg::draw(out, plot, looks, WIDE) && svg::draw(out, plot, looks, NARROW);
    if !drawn {
        put!(out, "<p class=\"nothing\">No data.</p>\n");
    }
    prose(out, "note", &plot.note);
    prose(out, "note", &missing(plot));
    if plot.series.iter().any(|series| !series.points.is_empty()) {
        put!(out, "<details>\n<summary>Data</summary>\n");
        table::cells(out, &data(plot));
        put!(out, "</details>\n");
    }
    put!(out, "</figure>\n");
}

/// Writes the names of the series, unless the drawing contains them.
fn legend(out: &mut Markup, plot: &Plot, looks: &Looks<'_>) {
    let named = plot.series.iter().any(|series| !series.name.is_empty());
    if svg::names_are_beside(plot, NARROW) || !named {
        return;
    }
    let class = if svg::names_are_beside(plot, WIDE) { "legend narrow" } else { "legend" };
    put!(out, "<ul class=\"{class}\">\n");
    for (series, look) in plot.series.iter().zip(looks.of_plot(plot)) {
        put!(out, "<li>");
        look.swatch(out, plot.kind != Kind::Points);
        put!(out, "{}</li>\n", Escaped(&series.name));
    }
    put!(out, "</ul>\n");
}

/// Returns a note about points that aren't drawn. The note is empty if all are drawn.
fn missing(plot: &Plot) -> String {
    let missing = plot.series.iter().filter_map(|series| {
        let count = series.points.iter().filter(|point| !svg::is_drawn(plot, point)).count();
        (count > 0).then(|| format!("{count} of {}", series.name))
    });
    let missing: Vec<_> = missing.collect();
    if missing.is_empty() {
        return String::new();
    }
    format!(
        "Not drawn because they aren't finite or don't fit on the axes: {}.",
        missing.join(", ")
    )
}

/// Returns the points as a table with one row per `x` and one column per series.
fn data(plot: &Plot) -> Table {
    let points = || plot.series.iter().flat_map(|series| &series.points);
    let mut xs: Vec<f64> = points().map(|point| point.x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup_by(|one, other| one.to_bits() == other.to_bits());
    let unit = |unit: &str| if unit.is_empty() { String::new() } else { format!(" ({unit})") };
    let x_name = format!("{}{}", plot.x.label, unit(&plot.x.unit));
    let column = |name: &str| Column::number(name, plot.y.unit.as_str(), Format::Significant(1));
    let mut table = Table::new(format!("Data of: {}", plot.title)).columns([Column::text(x_name)]);
    table.columns.extend(plot.series.iter().map(|series| column(&series.name)));
    let by_x: Vec<_> = plot.series.iter().map(|series| by_x(&series.points)).collect();
    for x in xs {
        let name = plot.category(x).map_or(Cell::Number(x), Cell::from);
        // If a series has several points at this x, there are several rows.
        let here: Vec<_> = by_x.iter().map(|points| points.get(&x.to_bits())).collect();
        let count = here.iter().flatten().map(|points| points.len()).max().unwrap_or(0);
        for nth in 0..count {
            let cells = here.iter().map(|points| {
                points.and_then(|points| points.get(nth)).map_or(Cell::Empty, |point| value(point))
            });
            table.rows.push(std::iter::once(name.clone()).chain(cells).collect());
        }
    }
    table
}

/// Groups points by the bits of their `x`.
fn by_x(points: &[Point]) -> HashMap<u64, Vec<&Point>> {
    let mut by_x: HashMap<_, Vec<_>> = HashMap::new();
    for point in points {
        by_x.entry(point.x.to_bits()).or_default().push(point);
    }
    by_x
}

fn value(point: &Point) -> Cell {
    let short = |value| number::short(value, 6);
    let Some((least, greatest)) = point.spread else { return Cell::Text(short(point.y)) };
    Cell::Text(format!("{} ({} to {})", short(point.y), short(least), short(greatest)))
}
