//! The looks of series. A look has a colour, a mark and a dash pattern, so that colour isn't the
//! only cue.

use std::collections::HashMap;

use crate::markup::{Markup, put};
use crate::{Page, Plot};

/// The number of colours. There are as many marks.
const COLOURS: usize = 8;
const DASHES: [&str; 3] = ["", "7 4", "2 3"];
const LOOKS: usize = COLOURS * DASHES.len();

/// The look of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look(usize);

impl Look {
    /// Returns the colour's number in the style sheet.
    pub(super) fn colour(self) -> usize {
        self.0 % COLOURS
    }

    /// Returns an attribute for the dash pattern, or an empty string for a solid line.
    pub(super) fn dash(self) -> String {
        match DASHES[self.0 / COLOURS] {
            "" => String::new(),
            dash => format!(" stroke-dasharray=\"{dash}\""),
        }
    }

    /// Draws the mark.
    pub(super) fn mark(self, out: &mut Markup, x: f64, y: f64) {
        let path = match self.colour() {
            0 => "m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
            1 => "m-3.2-3.2h6.4v6.4h-6.4z",
            2 => "m0-4.2l4 7h-8z",
            3 => "m0-4.6l4.2 4.6l-4.2 4.6l-4.2-4.6z",
            4 => "m0 4.2l4-7h-8z",
            5 => "m-3.4-3.4l6.8 6.8m0-6.8l-6.8 6.8",
            6 => "m-4.2 0h8.4m-4.2-4.2v8.4",
            _ => "m-4 0l4-1l0-3.5l1 3.5l3.5 1l-3.5 1l-1 3.5l-1-3.5z",
        };
        put!(out, "<path class=\"mark\" d=\"M{x:.1} {y:.1}{path}\"/>");
    }

    /// Draws a short line with a mark on it, as in a legend.
    pub(super) fn sample(self, out: &mut Markup, x: f64, y: f64, line: bool) {
        put!(out, "<g class=\"c{}\">", self.colour());
        if line {
            let dash = self.dash();
            put!(out, "<path class=\"line\" d=\"M{x:.1} {y:.1}h24\"{dash}/>");
        }
        self.mark(out, x + 12.0, y);
        put!(out, "</g>");
    }

    /// Writes a separate drawing of [`Look::sample`].
    pub(crate) fn swatch(self, out: &mut Markup, line: bool) {
        put!(
            out,
            "<svg class=\"swatch\" viewBox=\"0 0 24 12\" width=\"24\" height=\"12\" \
             aria-hidden=\"true\">"
        );
        self.sample(out, 0.0, 6.0, line);
        put!(out, "</svg>");
    }
}

/// The looks of all names on a page. A name has the same look in all plots.
pub(crate) struct Looks<'a>(HashMap<&'a str, Look>);

impl<'a> Looks<'a> {
    /// Assigns looks to names, in the order in which the names appear. A name gets the least used
    /// look. If possible, the look has a colour that is new in its plot.
    pub(crate) fn of(page: &'a Page) -> Self {
        let mut looks: HashMap<&str, Look> = HashMap::new();
        let mut given = [0; LOOKS];
        for plot in page.plots() {
            let names = || plot.series.iter().map(|series| series.name.as_str());
            let mut in_plot = [false; COLOURS];
            for look in names().filter_map(|name| looks.get(name)) {
                in_plot[look.colour()] = true;
            }
            for name in names() {
                if looks.contains_key(name) {
                    continue;
                }
                let free = |look: &usize| (in_plot[*look % COLOURS], given[*look]);
                let look = (0..LOOKS).min_by_key(free).expect("there are looks");
                given[look] += 1;
                in_plot[look % COLOURS] = true;
                looks.insert(name, Look(look));
            }
        }
        Self(looks)
    }

    /// Returns the look of a name, if there is a series with this name.
    pub(super) fn of_name(&self, name: &str) -> Option<Look> {
        self.0.get(name).copied()
    }

    /// Returns the looks of a plot's series. They are all different, if there are enough looks.
    pub(crate) fn of_plot(&self, plot: &Plot) -> Vec<Look> {
        let mut looks: Vec<Look> = Vec::new();
        for series in &plot.series {
            let own = self.of_name(&series.name).unwrap_or(Look(0));
            let free = (0..LOOKS).map(Look).find(|look| !looks.contains(look));
            let look = if looks.contains(&own) { free.unwrap_or(own) } else { own };
            looks.push(look);
        }
        looks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Section, Series};

    fn plot(names: &[&str]) -> Plot {
        let plot = Plot::lines("", Axis::default(), Axis::default());
        names.iter().fold(plot, |plot, name| plot.series(Series::new(*name)))
    }

    #[test]
    fn equal_names_look_alike_in_all_plots_and_others_differ_within_a_plot() {
        let names: Vec<String> = (0..9).map(|name| name.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (many, few) = (plot(&names), plot(&["new", "0", "8"]));
        let section = Section::new("", "").block(many.clone()).block(few.clone());
        let page = Page::new("").section(section);
        let looks = Looks::of(&page);
        let (many, few) = (looks.of_plot(&many), looks.of_plot(&few));
        assert_eq!((few[1], few[2]), (many[0], many[8]));
        assert!((0..9).all(|one| (0..one).all(|other| many[one] != many[other])));
        assert!(few[0].colour() != few[1].colour() && few[0].colour() != few[2].colour());
    }

    #[test]
    fn series_of_the_same_name_in_one_plot_look_different() {
        let plot = plot(&["a", "a"]);
        let page = Page::new("").section(Section::new("", "").block(plot.clone()));
        let looks = Looks::of(&page).of_plot(&plot);
        assert_ne!(looks[0], looks[1]);
    }
}
