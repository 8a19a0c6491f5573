//! Plots: data, and what it means.

use serde::{Deserialize, Deserializer, Serialize};

/// A plot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// A remark, shown below; may be empty.
    pub note: String,
    /// How it is drawn.
    pub kind: Kind,
    /// The axis of what was varied.
    pub x: Axis,
    /// The axis of what was measured.
    pub y: Axis,
    /// What was measured. A name looks the same in all plots of a page.
    pub series: Vec<Series>,
    /// Values to compare with: a target, a limit.
    pub references: Vec<Reference>,
    /// Named stretches of `x`, in order; bars have none.
    pub phases: Vec<Phase>,
}

/// How a plot is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Points, joined in the order given.
    #[default]
    Lines,
    /// Values that hold until the next point.
    Steps,
    /// Points.
    Points,
    /// Bars in groups, one group for each category of `x`; they lie, so that names have room.
    Bars,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Axis {
    /// What is along it.
    pub label: String,
    /// What its numbers count; may be empty.
    pub unit: String,
    /// How values are laid out.
    pub scale: Scale,
    /// Whether it shows zero even if no value is near. Bars always begin there, if they can.
    pub zero: bool,
    /// Whether the unit takes prefixes: 5,000,000 op/s are 5 Mop/s.
    pub si: bool,
    /// Whether the ticks of a linear axis are whole: there is no half a thread.
    pub whole: bool,
    /// The names of 0, 1, 2…, for bars.
    pub categories: Vec<String>,
}

/// How values are laid out along an axis.
///
/// A logarithmic axis shows a zero at its foot, apart from the rest; it has no place for
/// what is negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Equal distances are equal differences.
    #[default]
    Linear,
    /// Equal distances are equal ratios; ticks at powers of ten.
    Log10,
    /// Equal distances are equal ratios; ticks at powers of two.
    Log2,
}

/// A named sequence of points.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Series {
    /// What was measured.
    pub name: String,
    /// The results.
    pub points: Vec<Point>,
}

/// A result. What isn't finite isn't drawn, but the plot says so.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// What was varied; for bars, the index of the category.
    #[serde(deserialize_with = "number_or_null")]
    pub x: f64,
    /// What was measured.
    #[serde(deserialize_with = "number_or_null")]
    pub y: f64,
    /// The least and the greatest of several rounds.
    #[serde(default, deserialize_with = "numbers_or_null")]
    pub spread: Option<(f64, f64)>,
}

/// A value to compare with, drawn across the plot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// What it is.
    pub label: String,
    /// Where it is, along `y`.
    #[serde(deserialize_with = "number_or_null")]
    pub y: f64,
}

/// A stretch of `x`, up to the next one, in which something was different.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// What it was.
    pub label: String,
    /// Where it begins, along `x`.
    #[serde(deserialize_with = "number_or_null")]
    pub from: f64,
}

/// JSON has no word for what is no number, and writes `null`.
fn number_or_null<'de, D: Deserializer<'de>>(input: D) -> Result<f64, D::Error> {
    Option::deserialize(input).map(|number: Option<f64>| number.unwrap_or(f64::NAN))
}

fn numbers_or_null<'de, D: Deserializer<'de>>(input: D) -> Result<Option<(f64, f64)>, D::Error> {
    let pair: Option<(Option<f64>, Option<f64>)> = Option::deserialize(input)?;
    Ok(pair.map(|(one, other)| (one.unwrap_or(f64::NAN), other.unwrap_or(f64::NAN))))
}

impl Plot {
    fn new(kind: Kind, title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), kind, x, y, ..Self::default() }
    }

    /// A plot of curves.
    pub fn lines(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self::new(Kind::Lines, title, x, y)
    }

    /// A plot of values that hold until the next point.
    pub fn steps(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self::new(Kind::Steps, title, x, y)
    }

    /// A plot of points.
    pub fn points(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self::new(Kind::Points, title, x, y)
    }

    /// A plot of bars, a group for each category.
    pub fn bars<C: Into<String>>(
        title: impl Into<String>,
        label: impl Into<String>,
        categories: impl IntoIterator<Item = C>,
        y: Axis,
    ) -> Self {
        let mut x = Axis::linear(label, "");
        x.categories = categories.into_iter().map(Into::into).collect();
        Self::new(Kind::Bars, title, x, y)
    }

    /// The name of a group of bars, if `x` is one that has a name.
    pub(crate) fn category(&self, x: f64) -> Option<&str> {
        let index = (self.kind == Kind::Bars && x >= 0.0 && x.fract() == 0.0).then_some(x as usize);
        self.x.categories.get(index?).map(String::as_str)
    }

    /// Adds a series.
    #[must_use]
    pub fn series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// Adds a value to compare with.
    #[must_use]
    pub fn reference(mut self, label: impl Into<String>, y: f64) -> Self {
        self.references.push(Reference { label: label.into(), y });
        self
    }

    /// Adds a phase, which ends the one before.
    #[must_use]
    pub fn phase(mut self, label: impl Into<String>, from: f64) -> Self {
        self.phases.push(Phase { label: label.into(), from });
        self
    }

    /// Adds a remark.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }
}

impl Axis {
    fn new(scale: Scale, label: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { label: label.into(), unit: unit.into(), scale, ..Self::default() }
    }

    /// A linear axis.
    pub fn linear(label: impl Into<String>, unit: impl Into<String>) -> Self {
        Self::new(Scale::Linear, label, unit)
    }

    /// A logarithmic axis with ticks at powers of ten.
    pub fn log10(label: impl Into<String>, unit: impl Into<String>) -> Self {
        Self::new(Scale::Log10, label, unit)
    }

    /// A logarithmic axis with ticks at powers of two.
    pub fn log2(label: impl Into<String>, unit: impl Into<String>) -> Self {
        Self::new(Scale::Log2, label, unit)
    }

    /// Shows zero.
    #[must_use]
    pub fn from_zero(mut self) -> Self {
        self.zero = true;
        self
    }

    /// Has no ticks but whole ones, if it is linear.
    #[must_use]
    pub fn whole(mut self) -> Self {
        self.whole = true;
        self
    }

    /// Gives the unit a prefix: k, M, G, m, µ, n.
    #[must_use]
    pub fn si(mut self) -> Self {
        self.si = true;
        self
    }
}

impl Series {
    /// A series without points yet.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), points: Vec::new() }
    }

    /// Adds points.
    #[must_use]
    pub fn points<P: Into<Point>>(mut self, points: impl IntoIterator<Item = P>) -> Self {
        self.points.extend(points.into_iter().map(Into::into));
        self
    }

    /// Adds a bar for each category, in their order.
    #[must_use]
    pub fn bars(self, values: impl IntoIterator<Item = f64>) -> Self {
        let values = values.into_iter().enumerate();
        self.points(values.map(|(category, value)| (category as f64, value)))
    }
}

impl Point {
    /// A result of one round.
    pub fn new(x: f64, y: f64) -> Self {
        Self { x, y, spread: None }
    }

    /// Says how far the rounds were apart.
    #[must_use]
    pub fn spread(mut self, least: f64, greatest: f64) -> Self {
        self.spread = Some((least, greatest));
        self
    }
}

impl From<(f64, f64)> for Point {
    fn from((x, y): (f64, f64)) -> Self {
        Self::new(x, y)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_survives_json() {
        let point = Point::new(f64::INFINITY, 1.0).spread(f64::NAN, 2.0);
        let json = serde_json::to_string(&point).unwrap();
        assert_eq!(json, r#"{"x":null,"y":1.0,"spread":[null,2.0]}"#);
        let read: Point = serde_json::from_str(&json).unwrap();
        assert!(read.x.is_nan() && read.spread.unwrap().0.is_nan());
        let short: Series = serde_json::from_str(r#"{"points":[{"x":1,"y":2}]}"#).unwrap();
        assert_eq!(short.points, [Point::new(1.0, 2.0)]);
    }
}
