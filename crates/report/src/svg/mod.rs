//! Draws plots as SVG, in a wide and a narrow layout with text of similar size.

mod axis;
mod bars;
mod curves;
mod label;
mod style;

use crate::markup::{Escaped, Markup, put};
use crate::ticks::has_place;
use crate::{Axis, Kind, Plot, Point, Scale, number};
pub(crate) use style::Looks;

/// The sizes of a drawing, in pixels. If the page is too narrow, the drawing shrinks.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    class: &'static str,
    width: f64,
    /// The height of the area between the axes. Bars ignore it, and take the height they need.
    height: f64,
    font: f64,
    /// Whether there is room for names beside the curves, and for tooltips with values.
    roomy: bool,
}

pub(crate) const WIDE: Layout =
    Layout { class: "wide", width: 720.0, height: 280.0, font: 13.0, roomy: true };
pub(crate) const NARROW: Layout =
    Layout { class: "narrow", width: 358.0, height: 220.0, font: 12.0, roomy: false };

/// Draws a plot, and returns whether there was anything to draw.
pub(crate) fn draw(out: &mut Markup, plot: &Plot, looks: &Looks<'_>, layout: Layout) -> bool {
    if !plot.series.iter().flat_map(|series| &series.points).any(|point| is_drawn(plot, point)) {
        return false;
    }
    if plot.kind == Kind::Bars {
        bars::draw(out, plot, looks, layout);
    } else {
        curves::draw(out, plot, &looks.of_plot(plot), layout);
    }
    true
}

/// Returns whether the drawing contains the names of the series.
pub(crate) fn names_are_beside(plot: &Plot, layout: Layout) -> bool {
    plot.kind == Kind::Bars || (layout.roomy && curves::names_fit(plot, layout))
}

/// Returns whether a point fits in the plot.
pub(crate) fn is_drawn(plot: &Plot, point: &Point) -> bool {
    let x_has_place = match plot.kind {
        Kind::Bars => point.x >= 0.0 && point.x.fract() == 0.0 && point.x < 1e6,
        _ => has_place(point.x, plot.x.scale),
    };
    x_has_place && has_place(point.y, plot.y.scale)
}

/// Returns the spread of a point, if all of it fits in the plot.
fn spread(plot: &Plot, point: &Point) -> Option<(f64, f64)> {
    let (least, greatest) = point.spread?;
    let has_place = |value| has_place(value, plot.y.scale);
    (has_place(least) && has_place(greatest)).then(|| (least.min(greatest), least.max(greatest)))
}

/// Writes the start of the drawing, with a description for screen readers.
fn begin(out: &mut Markup, plot: &Plot, layout: Layout, height: f64) {
    let names: Vec<_> = plot.series.iter().map(|series| series.name.as_str()).collect();
    put!(
        out,
        "<svg class=\"plot {}\" viewBox=\"0 0 {} {height:.0}\" font-size=\"{}\" role=\"img\" \
         aria-label=\"{}\"><desc>{} by {}: {}. The data follows as a table.</desc>\n",
        layout.class,
        layout.width,
        layout.font,
        Escaped(&plot.title),
        Escaped(&plot.y.label),
        Escaped(&plot.x.label),
        Escaped(&names.join(", "))
    );
}

/// Draws a reference line that is visible over bars.
fn draw_reference(out: &mut Markup, path: std::fmt::Arguments<'_>) {
    put!(out, "<path class=\"under\" d=\"{path}\"/><path class=\"reference\" d=\"{path}\"/>\n");
}

/// Formats a value with its unit, in six digits.
fn with_unit(axis: &Axis, value: f64) -> String {
    let value = number::short(value, 6);
    if axis.unit.is_empty() { value } else { format!("{value} {}", axis.unit) }
}

/// Returns the tooltip of a point.
fn tip(plot: &Plot, name: &str, point: &Point) -> String {
    let (x, y) = (&plot.x, &plot.y);
    let at = match plot.category(point.x) {
        Some(category) => category.into(),
        None => format!("{} {}", x.label, with_unit(x, point.x)),
    };
    let mut text = format!("{name}\n{at}\n{} {}", y.label, with_unit(y, point.y));
    if let Some((least, greatest)) = spread(plot, point) {
        let (least, greatest) = (number::short(least, 6), number::short(greatest, 6));
        text.extend([" (", &least, " to ", &greatest, ")"]);
    }
    text
}

/// Returns the range of the values on an axis, without the zeros on a logarithmic one.
fn range_of(values: &[f64], axis: &Axis) -> Option<(f64, f64)> {
    let linear = axis.scale == Scale::Linear;
    let zero = (linear && axis.zero).then_some(0.0);
    let values = values.iter().copied().filter(|value| linear || *value > 0.0).chain(zero);
    let pairs = values.map(|value| (value, value));
    pairs.reduce(|(low, high), (value, _)| (low.min(value), high.max(value)))
}

/// Iterates over all values that are drawn along the `y` axis.
fn y_values(plot: &Plot) -> impl Iterator<Item = f64> {
    let points = plot.series.iter().flat_map(|series| &series.points);
    let points = points.filter(|point| is_drawn(plot, point));
    let references = plot.references.iter().map(|reference| reference.y);
    points
        .flat_map(|point| {
            let (least, greatest) = spread(plot, point).unwrap_or((point.y, point.y));
            [least, point.y, greatest]
        })
        .chain(references.filter(|y| has_place(*y, plot.y.scale)))
}
