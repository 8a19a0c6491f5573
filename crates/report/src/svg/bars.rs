//! Draws horizontal bars, each with its name and value.

use super::axis::{Numbers, Placed};
use super::style::{Look, Looks};
use super::{Layout, begin, is_drawn, label, range_of, spread, tip, y_values};
use crate::markup::{Escaped, Markup, put};
use crate::ticks::has_place;
use crate::{Axis, Plot, Point, Scale};

/// The maximum share of the width that names take.
const NAMES: f64 = 0.38;

/// A row of the plot: a bar, or the heading of a group of bars.
enum Row<'a> {
    Heading(String),
    Bar { name: String, series: &'a str, look: Look, point: &'a Point },
}

pub(super) fn draw(out: &mut Markup, plot: &Plot, looks: &Looks<'_>, layout: Layout) {
    let font = layout.font;
    let rows = rows(plot, looks);
    let axis = Axis { zero: true, ..plot.y.clone() };
    // On a logarithmic axis even the shortest bar must be visible, so begin the axis below its end.
    let foot = if axis.scale == Scale::Linear { 1.0 } else { 0.7 };
    let range =
        range_of(&y_values(plot).collect::<Vec<_>>(), &axis).map(|(low, high)| (low * foot, high));
    // About half of the width is used for names and values.
    let numbers = Numbers::in_a_row(&axis, range, false, (layout.width / 2.0, font));

    let value_of = |row: &Row<'_>| match row {
        Row::Bar { point, .. } => numbers.short(point.y),
        Row::Heading(_) => String::new(),
    };
    let values: Vec<_> = rows.iter().map(value_of).collect();
    let names = rows.iter().filter_map(|row| match row {
        Row::Bar { name, .. } => Some(name.as_str()),
        Row::Heading(_) => None,
    });
    let left = label::widest(names, font).min(layout.width * NAMES) + 8.0;
    let right = layout.width - label::widest(values.iter().map(String::as_str), font) - 8.0;
    let title = label::wrap(&numbers.title, font, right - left);
    let axis = numbers.place(left, right);

    let (thick, pitch, gap) = (font, font * 1.45, font * 0.8);
    let headings = rows.iter().filter(|row| matches!(row, Row::Heading(_))).count();
    let top = if plot.references.is_empty() { 4.0 } else { font * 1.5 };
    let bottom = top + rows.len() as f64 * pitch + headings as f64 * gap + 4.0;
    let below = bottom + font * 3.0;
    begin(out, plot, layout, below - font * 0.6 + label::height(&title, font));
    axes(out, &axis, (top, bottom), font);
    label::title(out, "middle", (f64::midpoint(left, right), below), font, &title);
    let mut places = Vec::new();
    let mut at = top + 2.0;
    for row in &rows {
        at += if matches!(row, Row::Heading(_)) { gap } else { 0.0 };
        places.push(at);
        at += pitch;
    }
    let mut ends = Vec::new();
    for (row, at) in rows.iter().zip(&places) {
        ends.push(bar(out, plot, row, &axis, (*at, thick)));
    }
    references(out, plot, &axis, (top, bottom), layout);
    // Draw text last, so that it is over everything else.
    for (((row, at), end), value) in rows.iter().zip(places).zip(ends).zip(&values) {
        match row {
            Row::Heading(name) => {
                let name = label::cut(name, font * 1.1, layout.width);
                label::write(out, "group", "start", (0.0, at + font * 0.9), &name);
            }
            Row::Bar { name, .. } => {
                let baseline = at + thick * 0.5 + font * 0.35;
                let name = label::cut(name, font, left - 8.0);
                label::write(out, "key", "end", (left - 6.0, baseline), &name);
                label::write(out, "value", "start", (end + 5.0, baseline), value);
            }
        }
    }
    put!(out, "</svg>\n");
}

/// Draws a bar and its spread, and returns where they end.
fn bar(
    out: &mut Markup,
    plot: &Plot,
    row: &Row<'_>,
    axis: &Placed,
    (at, thick): (f64, f64),
) -> f64 {
    let Row::Bar { series, look, point, .. } = row else { return 0.0 };
    let ends = (axis.base(), axis.at(point.y));
    let (from, mut to) = (ends.0.min(ends.1), ends.0.max(ends.1));
    put!(out, "<g class=\"c{} tipped\"><title>", look.colour());
    put!(out, "{}</title>", Escaped(&tip(plot, series, point)));
    put!(out, "<path class=\"bar\" d=\"M{from:.1} {at:.1}H{to:.1}v{thick:.1}H{from:.1}z\"/>");
    if let Some((least, greatest)) = spread(plot, point) {
        let (least, greatest) = (axis.at(least), axis.at(greatest));
        let (high, low, middle) = (at + thick * 0.25, at + thick * 0.75, at + thick * 0.5);
        put!(out, "<path class=\"whisker over\" d=\"M{least:.1} {high:.1}V{low:.1}");
        put!(out, "M{least:.1} {middle:.1}H{greatest:.1}M{greatest:.1} {high:.1}V{low:.1}\"/>");
        to = to.max(greatest);
    }
    put!(out, "</g>\n");
    to
}

/// Returns the rows of all groups. If there is a single series, each bar has the name of its
/// category. If a category is the name of a series elsewhere on the page, its bar has that series'
/// look.
fn rows<'a>(plot: &'a Plot, looks: &Looks<'_>) -> Vec<Row<'a>> {
    let of_series = looks.of_plot(plot);
    let points = || {
        plot.series.iter().zip(&of_series).flat_map(|(series, look)| {
            let points = series.points.iter().filter(|point| is_drawn(plot, point));
            points.map(move |point| (series.name.as_str(), *look, point))
        })
    };
    let mut groups: Vec<_> = points().map(|(_, _, point)| point.x as usize).collect();
    groups.sort_unstable();
    groups.dedup();
    let mut rows = Vec::new();
    for group in groups {
        let category = plot.category(group as f64);
        let category = category.map_or_else(|| group.to_string(), str::to_owned);
        let single = plot.series.len() == 1;
        if !single {
            rows.push(Row::Heading(category.clone()));
        }
        let bars = points().filter(|(_, _, point)| point.x as usize == group);
        rows.extend(bars.map(|(series, look, point)| {
            let name = if single { category.clone() } else { series.into() };
            let of_category = looks.of_name(&category).filter(|_| single);
            let look = of_category.unwrap_or(look);
            Row::Bar { name, series, look, point }
        }));
    }
    rows
}

fn axes(out: &mut Markup, axis: &Placed, (top, bottom): (f64, f64), font: f64) {
    put!(out, "<path class=\"grid\" d=\"");
    for (place, _) in &axis.ticks {
        put!(out, "M{place:.1} {top:.1}V{bottom:.1}");
    }
    let base = axis.base();
    put!(out, "\"/>\n<path class=\"axis\" d=\"M{base:.1} {top:.1}V{bottom:.1}\"/>\n");
    for (place, text) in &axis.ticks {
        label::write(out, "tick", "middle", (*place, bottom + font * 1.5), text);
    }
}

fn references(
    out: &mut Markup,
    plot: &Plot,
    axis: &Placed,
    (top, bottom): (f64, f64),
    layout: Layout,
) {
    let Layout { width, font, .. } = layout;
    for reference in plot.references.iter().filter(|line| has_place(line.y, plot.y.scale)) {
        let at = axis.at(reference.y);
        super::draw_reference(out, format_args!("M{at:.1} {top:.1}V{bottom:.1}"));
        let (anchor, room) = if at > width / 2.0 { ("end", at) } else { ("start", width - at) };
        let name = label::cut(&reference.label, font, room);
        label::write(out, "halo", anchor, (at, top - font * 0.4), &name);
    }
}
