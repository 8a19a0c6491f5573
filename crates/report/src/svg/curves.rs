//! Draws lines, steps and points between two axes.

use super::axis::{Numbers, Placed};
use super::style::Look;
use super::{Layout, begin, draw_reference, is_drawn, label, range_of, spread, tip, y_values};
use crate::markup::{Escaped, Markup, put};
use crate::ticks::has_place;
use crate::{Kind, Plot, Point, Series};

/// The maximum number of ticks on the vertical axis.
const TICKS: usize = 7;
/// The maximum number of marks per series.
const MARKS: usize = 30;
/// The maximum number of points with a tooltip per series.
const TIPS: usize = 150;
/// The width of the line sample before a name.
const SAMPLE: f64 = 46.0;
/// The maximum width of a name.
const NAME: f64 = 170.0;
/// Line height of the names beside the curves, relative to the font size.
const LEADING: f64 = 1.4;

/// The area between the axes.
struct Area {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// Returns whether all names fit beside their curves. Names of point series are in the legend,
/// because their samples would look like more points.
pub(super) fn names_fit(plot: &Plot, layout: Layout) -> bool {
    let count = plot.series.len() as f64;
    plot.kind != Kind::Points
        && count * layout.font * LEADING <= layout.height
        && widest_name(plot, layout) <= NAME
}

fn widest_name(plot: &Plot, layout: Layout) -> f64 {
    label::widest(plot.series.iter().map(|series| series.name.as_str()), layout.font)
}

pub(super) fn draw(out: &mut Markup, plot: &Plot, looks: &[Look], layout: Layout) {
    let font = layout.font;
    let points = plot.series.iter().flat_map(|series| &series.points);
    let xs: Vec<_> = points.filter(|point| is_drawn(plot, point)).map(|point| point.x).collect();
    let ys: Vec<_> = y_values(plot).collect();
    let beside = layout.roomy && names_fit(plot, layout);
    let names_room = if beside { widest_name(plot, layout) + SAMPLE + 12.0 } else { 0.0 };
    let y = Numbers::new(&plot.y, range_of(&ys, &plot.y), ys.contains(&0.0), TICKS);
    let left = label::widest(y.labels().iter().map(String::as_str), font) + 10.0;
    let room = layout.width - left - names_room;
    let x = Numbers::in_a_row(&plot.x, range_of(&xs, &plot.x), xs.contains(&0.0), (room, font));
    let x_title = label::wrap(&x.title, font, room);
    let y_title = label::wrap(&y.title, font, layout.width);
    let last = x.labels().last().map_or(0.0, |text| label::width(text, font) / 2.0);
    let area = Area {
        left,
        right: layout.width - names_room.max(last).max(8.0),
        top: font + label::height(&y_title, font),
        bottom: font + label::height(&y_title, font) + layout.height,
    };
    // Keep points away from the axis. Lines may start on it.
    let inset = if plot.kind == Kind::Points { font } else { 0.0 };
    let x = x.place(area.left + inset, area.right - inset);
    let y = y.place(area.bottom, area.top);

    let below = area.bottom + font * 3.0;
    begin(out, plot, layout, below - font * 0.6 + label::height(&x_title, font));
    axes(out, &x, &y, &area, font);
    label::title(out, "start", (0.0, font), font, &y_title);
    label::title(out, "middle", (f64::midpoint(area.left, area.right), below), font, &x_title);
    references(out, plot, &y, &area);
    let phases = phases(plot, &x, &area);
    phase_starts(out, &phases, &area);
    for (series, look) in plot.series.iter().zip(looks) {
        let mut runs = Vec::new();
        for run in series.points.split(|point| !is_drawn(plot, point)) {
            runs.push(run.iter().map(|point| Placement::of(plot, point, &x, &y)).collect());
        }
        curve(out, plot.kind, &runs, *look);
    }
    reference_names(out, plot, &y, &area, font);
    phase_names(out, &phases, &area, font);
    if layout.roomy {
        tips(out, plot, &x, &y);
    }
    if beside {
        names(out, plot, looks, &y, &area, font);
    }
    put!(out, "</svg>\n");
}

fn axes(out: &mut Markup, x: &Placed, y: &Placed, area: &Area, font: f64) {
    let Area { left, right, top, bottom } = area;
    put!(out, "<path class=\"grid\" d=\"");
    for (place, _) in &y.ticks {
        put!(out, "M{left:.1} {place:.1}H{right:.1}");
    }
    for (place, _) in &x.ticks {
        put!(out, "M{place:.1} {bottom:.1}V{top:.1}");
    }
    let foot = y.foot();
    put!(out, "\"/>\n<path class=\"axis\" d=\"M{left:.1} {top:.1}V{foot:.1}");
    put!(out, "M{left:.1} {bottom:.1}H{right:.1}\"/>\n");
    for (place, text) in &y.ticks {
        label::write(out, "tick", "end", (left - 6.0, place + font * 0.35), text);
    }
    for (place, text) in &x.ticks {
        label::write(out, "tick", "middle", (*place, bottom + font * 1.5), text);
    }
}

fn references(out: &mut Markup, plot: &Plot, y: &Placed, area: &Area) {
    let drawn = plot.references.iter().filter(|reference| has_place(reference.y, plot.y.scale));
    for reference in drawn {
        let (left, right, at) = (area.left, area.right, y.at(reference.y));
        draw_reference(out, format_args!("M{left:.1} {at:.1}H{right:.1}"));
    }
}

/// Writes the name of each reference above its line. The names are drawn on top of the curves.
fn reference_names(out: &mut Markup, plot: &Plot, y: &Placed, area: &Area, font: f64) {
    let drawn = plot.references.iter().filter(|reference| has_place(reference.y, plot.y.scale));
    for (index, reference) in drawn.enumerate() {
        // Alternate between both ends of the line, so that neighbouring names rarely overlap.
        let (x, anchor) =
            if index % 2 == 0 { (area.right - 6.0, "end") } else { (area.left + 6.0, "start") };
        let name = label::cut(&reference.label, font, area.right - area.left);
        let above = y.at(reference.y) - font * 0.5;
        let baseline = if above - font < area.top { above + font * 1.9 } else { above };
        label::write(out, "halo", anchor, (x, baseline), &name);
    }
}

/// Returns the coordinates and names of the phases that begin within the area.
fn phases<'a>(plot: &'a Plot, x: &Placed, area: &Area) -> Vec<(f64, &'a str)> {
    let phases = plot.phases.iter().filter(|phase| has_place(phase.from, plot.x.scale));
    let phases = phases.map(|phase| (x.at(phase.from), phase.label.as_str()));
    phases.filter(|(place, _)| (area.left..area.right).contains(place)).collect()
}

fn phase_starts(out: &mut Markup, phases: &[(f64, &str)], area: &Area) {
    // The first phase begins at the axis, so it needs no line.
    for (place, _) in phases.iter().filter(|(place, _)| *place > area.left + 1.0) {
        let (top, bottom) = (area.top, area.bottom);
        draw_reference(out, format_args!("M{place:.1} {bottom:.1}V{top:.1}"));
    }
}

/// Writes the names of the phases at the top. The names are drawn on top of the curves.
fn phase_names(out: &mut Markup, phases: &[(f64, &str)], area: &Area, font: f64) {
    for (index, (place, name)) in phases.iter().enumerate() {
        let end = phases.get(index + 1).map_or(area.right, |(next, _)| *next);
        let name = label::cut(name, font, end - place - 6.0);
        label::write(out, "halo", "start", (place + 6.0, area.top + font), &name);
    }
}

/// A point in pixels, with its spread.
struct Placement {
    x: f64,
    y: f64,
    spread: Option<(f64, f64)>,
}

impl Placement {
    fn of(plot: &Plot, point: &Point, x: &Placed, y: &Placed) -> Self {
        let spread = spread(plot, point).map(|(least, greatest)| (y.at(least), y.at(greatest)));
        Self { x: x.at(point.x), y: y.at(point.y), spread }
    }
}

/// Draws a series, with gaps for missing values.
fn curve(out: &mut Markup, kind: Kind, runs: &[Vec<Placement>], look: Look) {
    put!(out, "<g class=\"c{}\">", look.colour());
    let count: usize = runs.iter().map(Vec::len).sum();
    for run in runs.iter().filter(|run| !run.is_empty()) {
        spreads(out, kind, run);
        if kind == Kind::Points || run.len() == 1 {
            continue;
        }
        put!(out, "<path class=\"line\"{} d=\"", look.dash());
        for (index, Placement { x, y, .. }) in run.iter().enumerate() {
            match (index, kind) {
                (0, _) => put!(out, "M{x:.1} {y:.1}"),
                (_, Kind::Steps) => put!(out, "H{x:.1}V{y:.1}"),
                _ => put!(out, "L{x:.1} {y:.1}"),
            }
        }
        put!(out, "\"/>\n");
    }
    let every = if kind == Kind::Points { 1 } else { count.div_ceil(MARKS).max(1) };
    // Shift the marks, so that marks of different series don't cover each other.
    let first = look.colour() * every / 8;
    for (index, Placement { x, y, .. }) in runs.iter().flatten().enumerate() {
        if index % every == first || count == 1 {
            look.mark(out, *x, *y);
        }
    }
    put!(out, "</g>\n");
}

/// Draws the spread of the values. It is a band along a line, or else a whisker at each point.
fn spreads(out: &mut Markup, kind: Kind, run: &[Placement]) {
    let ends: Vec<_> = run.iter().filter_map(|at| Some((at.x, at.spread?))).collect();
    if kind == Kind::Lines && ends.len() == run.len() && run.len() > 1 {
        put!(out, "<path class=\"band\" d=\"");
        for (index, (x, (least, _))) in ends.iter().enumerate() {
            put!(out, "{}{x:.1} {least:.1}", if index == 0 { 'M' } else { 'L' });
        }
        for (x, (_, greatest)) in ends.iter().rev() {
            put!(out, "L{x:.1} {greatest:.1}");
        }
        put!(out, "z\"/>\n");
    } else if !ends.is_empty() {
        put!(out, "<path class=\"whisker\" d=\"");
        for (x, (least, greatest)) in ends {
            put!(out, "M{:.1} {least:.1}h6m-3 0V{greatest:.1}m-3 0h6", x - 3.0);
        }
        put!(out, "\"/>\n");
    }
}

/// Draws invisible circles that show exact values as tooltips.
fn tips(out: &mut Markup, plot: &Plot, x: &Placed, y: &Placed) {
    for Series { name, points } in &plot.series {
        for point in points.iter().step_by(points.len().div_ceil(TIPS).max(1)) {
            if is_drawn(plot, point) {
                put!(
                    out,
                    "<circle class=\"tip\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"7\"><title>{}</title></circle>\n",
                    x.at(point.x),
                    y.at(point.y),
                    Escaped(&tip(plot, name, point))
                );
            }
        }
    }
}

/// Writes the names beside the curves, in the order of the curves' ends.
fn names(out: &mut Markup, plot: &Plot, looks: &[Look], y: &Placed, area: &Area, font: f64) {
    let mut names: Vec<_> = plot
        .series
        .iter()
        .zip(looks)
        .map(|(series, look)| {
            let last = series.points.iter().rfind(|point| is_drawn(plot, point));
            (last.map_or(area.bottom, |point| y.at(point.y)), &series.name, look)
        })
        .collect();
    names.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut places: Vec<_> = names.iter().map(|(place, ..)| *place).collect();
    let half = font * LEADING / 2.0;
    label::spread(&mut places, font * LEADING, area.top + half, area.bottom - half);
    for (place, (_, name, look)) in places.iter().zip(names) {
        look.sample(out, area.right + 16.0, *place, true);
        label::write(out, "key", "start", (area.right + SAMPLE, place + font * 0.35), name);
    }
}
