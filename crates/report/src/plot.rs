//! Plots and their data.

use serde::{Deserialize, Deserializer, Serialize};

/// A plot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Plot {
    /// The title.
    pub title: String,
    /// A note that is shown below the plot. It may be empty.
    pub note: String,
    /// How the plot is drawn.
    pub kind: Kind,
    /// The axis of the independent variable.
    pub x: Axis,
    /// The axis of the measured values.
    pub y: Axis,
    /// The measured values. Series with the same name look the same in all plots of a page.
    pub series: Vec<Series>,
    /// Values to compare with, such as a target or a limit.
    pub references: Vec<Reference>,
    /// Named intervals of `x`, in order. Bar plots ignore them.
    pub phases: Vec<Phase>,
}

/// How a plot is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Points, connected by lines in the given order.
    #[default]
    Lines,
    /// Steps: each value holds until the next point.
    Steps,
    /// Unconnected points.
    Points,
    /// Horizontal bars in groups, one group per category of `x`.
    Bars,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Axis {
    /// The name of the variable.
    pub label: String,
    /// The unit. It may be empty.
    pub unit: String,
    /// The scale.
    pub scale: Scale,
    /// Whether the axis shows zero even if no value is near zero. Bars start at zero if their axis
    /// can show zero.
    pub zero: bool,
    /// Whether the unit can have an SI prefix. For example, 5,000,000 op/s become 5 Mop/s.
    pub si: bool,
    /// Whether the ticks of a linear axis are integers, as for a number of threads.
    pub whole: bool,
    /// For bar plots: the names of the values 0, 1, 2….
    pub categories: Vec<String>,
}

/// The scale of an axis.
///
/// A logarithmic axis shows zero at its end, apart from the other values. It can't show negative
/// values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Equal distances stand for equal differences.
    #[default]
    Linear,
    /// Equal distances stand for equal ratios. Ticks are at powers of ten.
    Log10,
    /// Equal distances stand for equal ratios. Ticks are at powers of two.
    Log2,
}

/// A named sequence of points.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Series {
    /// The name of the series.
    pub name: String,
    /// The points.
    pub points: Vec<Point>,
}

/// A measured value. Values that aren't finite are not drawn. A note below the plot says how many
/// there are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The value of the independent variable. For bars, the index of the category.
    #[serde(deserialize_with = "number_or_null")]
    pub x: f64,
    /// The measured value.
    #[serde(deserialize_with = "number_or_null")]
    pub y: f64,
    /// The minimum and the maximum over several rounds.
    #[serde(default, deserialize_with = "numbers_or_null")]
    pub spread: Option<(f64, f64)>,
}

/// A value to compare with, drawn as a line across the plot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// The label.
    pub label: String,
    /// The value on the `y` axis.
    #[serde(deserialize_with = "number_or_null")]
    pub y: f64,
}

/// A named interval of `x`, up to the next phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// The label.
    pub label: String,
    /// The start on the `x` axis.
    #[serde(deserialize_with = "number_or_null")]
    pub from: f64,
}

/// Reads a number. Reads `null` as NaN, because JSON can't represent numbers that aren't finite.
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

    /// Creates a plot of curves.
    pub fn lines(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self::new(Kind::Lines, title, x, y)
    }

    /// Creates a plot of values that hold until the next point.
    pub fn steps(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self::new(Kind::Steps, title, x, y)
    }

    /// Creates a plot of points.
    pub fn points(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self::new(Kind::Points, title, x, y)
    }

    /// Creates a plot of bars, one group per category.
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

    /// Returns the name of the group of bars at `x`, if there is one.
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

    /// Adds a phase. It begins where the previous one ends.
    #[must_use]
    pub fn phase(mut self, label: impl Into<String>, from: f64) -> Self {
        self.phases.push(Phase { label: label.into(), from });
        self
    }

    /// Sets the note.
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

    /// Creates a linear axis.
    pub fn linear(label: impl Into<String>, unit: impl Into<String>) -> Self {
        Self::new(Scale::Linear, label, unit)
    }

    /// Creates a logarithmic axis with ticks at powers of ten.
    pub fn log10(label: impl Into<String>, unit: impl Into<String>) -> Self {
        Self::new(Scale::Log10, label, unit)
    }

    /// Creates a logarithmic axis with ticks at powers of two.
    pub fn log2(label: impl Into<String>, unit: impl Into<String>) -> Self {
        Self::new(Scale::Log2, label, unit)
    }

    /// Makes the axis show zero in any case.
    #[must_use]
    pub fn from_zero(mut self) -> Self {
        self.zero = true;
        self
    }

    /// Places ticks only at integers, if the axis is linear.
    #[must_use]
    pub fn whole(mut self) -> Self {
        self.whole = true;
        self
    }

    /// Lets the unit have an SI prefix, such as k or µ.
    #[must_use]
    pub fn si(mut self) -> Self {
        self.si = true;
        self
    }
}

impl Series {
    /// Creates a series without points.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), points: Vec::new() }
    }

    /// Adds points.
    #[must_use]
    pub fn points<P: Into<Point>>(mut self, points: impl IntoIterator<Item = P>) -> Self {
        self.points.extend(points.into_iter().map(Into::into));
        self
    }

    /// Adds one bar per category, in order.
    #[must_use]
    pub fn bars(self, values: impl IntoIterator<Item = f64>) -> Self {
        let values = values.into_iter().enumerate();
        self.points(values.map(|(category, value)| (category as f64, value)))
    }
}

impl Point {
    /// Creates a point without a spread.
    pub fn new(x: f64, y: f64) -> Self {
        Self { x, y, spread: None }
    }

    /// Sets the minimum and maximum over several rounds.
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
    fn non_finite_numbers_become_nan_in_json() {
        let point = Point::new(f64::INFINITY, 1.0).spread(f64::NAN, 2.0);
        let json = serde_json::to_string(&point).unwrap();
        assert_eq!(json, r#"{"x":null,"y":1.0,"spread":[null,2.0]}"#);
        let read: Point = serde_json::from_str(&json).unwrap();
        assert!(read.x.is_nan() && read.spread.unwrap().0.is_nan());
        let short: Series = serde_json::from_str(r#"{"points":[{"x":1,"y":2}]}"#).unwrap();
        assert_eq!(short.points, [Point::new(1.0, 2.0)]);
    }
}
