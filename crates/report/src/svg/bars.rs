//! Lying bars, each with its name and its value.

use super::axis::{Numbers, Placed};
use super::style::{Look, Looks};
use super::{Layout, begin, is_drawn, label, range_of, spread, tip, y_values};
use crate::markup::{Escaped, Markup, put};
use crate::ticks::has_place;
use crate::{Axis, Plot, Point, Scale};

/// The names' share of the width, at most.
const NAMES: f64 = 0.38;

/// A bar, or a group's heading.
enum Row<'a> {
    Heading(String),
    Bar { name: String, series: &'a str, look: Look, point: &'a Point },
}

pub(super) fn draw(out: &mut Markup, plot: &Plot, looks: &Looks<'_>, layout: Layout) {
    let font = layout.font;
    let rows = rows(plot, looks);
    let axis = Axis { zero: true, ..plot.y.clone() };
    // On a logarithmic axis the shortest bar must be one, too.
    let foot = if axis.scale == Scale::Linear { 1.0 } else { 0.7 };
    let range =
        range_of(&y_values(plot).collect::<Vec<_>>(), &axis).map(|(low, high)| (low * foot, high));
    // About half of the width is for names and values.
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
    let axis = numbers.place(left, right);

    let (thick, pitch, gap) = (font, font * 1.45, font * 0.8);
    let headings = rows.iter().filter(|row| matches!(row, Row::Heading(_))).count();
    let top = if plot.references.is_empty() { 4.0 } else { font * 1.5 };
    let bottom = top + rows.len() as f64 * pitch + headings as f64 * gap + 4.0;
    begin(out, plot, layout, bottom + font * 3.6);
    axes(out, &axis, (top, bottom), font);
    let mut at = top + 2.0;
    for (row, value) in rows.iter().zip(&values) {
        match row {
            Row::Heading(name) => {
                at += gap;
                let name = label::cut(name, font * 1.1, layout.width);
                label::write(out, "group halo", "start", (0.0, at + font * 0.9), &name);
            }
            Row::Bar { name, series, look, point } => {
                let baseline = at + thick * 0.5 + font * 0.35;
                let name = label::cut(name, font, left - 8.0);
                label::write(out, "key", "end", (left - 6.0, baseline), &name);
                put!(out, "<g class=\"c{} tipped\"><title>", look.colour());
                put!(out, "{}</title>", Escaped(&tip(plot, series, point)));
                let ends = (axis.base(), axis.at(point.y));
                let (from, to) = (ends.0.min(ends.1), ends.0.max(ends.1));
                put!(
                    out,
                    "<path class=\"bar\" d=\"M{from:.1} {at:.1}H{to:.1}v{thick:.1}H{from:.1}z\"/>"
                );
                let mut end = to;
                if let Some((least, greatest)) = spread(plot, point) {
                    let (least, greatest) = (axis.at(least), axis.at(greatest));
                    let (middle, h) = (at + thick / 2.0, thick * 0.5);
                    put!(
                        out,
                        "<path class=\"whisker over\" d=\"M{least:.1} {:.1}v{h:.1}m0 {:.1}H{greatest:.1}\
                         m0 {:.1}v{h:.1}\"/>",
                        middle - h / 2.0,
                        -h / 2.0,
                        -h / 2.0
                    );
                    end = end.max(greatest);
                }
                label::write(out, "value", "start", (end + 5.0, baseline), value);
                put!(out, "</g>\n");
            }
        }
        at += pitch;
    }
    references(out, plot, &axis, (top, bottom), font);
    put!(out, "</svg>\n");
}

/// Groups of bars; with a single series, the categories are the bars' names, and what is
/// called so elsewhere on the page looks as it does there.
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
        let category = plot.x.categories.get(group);
        let category = category.cloned().unwrap_or_else(|| group.to_string());
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
        label::write(out, "tick", "middle", (*place, bottom + font * 1.4), text);
    }
    let middle = axis.ticks.iter().map(|(place, _)| place).sum::<f64>() / axis.ticks.len() as f64;
    label::write(out, "name", "middle", (middle, bottom + font * 3.0), &axis.title);
}

fn references(out: &mut Markup, plot: &Plot, axis: &Placed, (top, bottom): (f64, f64), font: f64) {
    for reference in plot.references.iter().filter(|line| has_place(line.y, plot.y.scale)) {
        let at = axis.at(reference.y);
        super::draw_reference(out, format_args!("M{at:.1} {top:.1}V{bottom:.1}"));
        let left = at > axis.base() + label::width(&reference.label, font);
        let anchor = if left { "end" } else { "start" };
        label::write(out, "halo", anchor, (at, top - font * 0.4), &reference.label);
    }
}
