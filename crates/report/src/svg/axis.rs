//! Converts axes to pixels.

use super::label;
use crate::ticks::{linear_labels, log_labels, ticks, whole_ticks};
use crate::{Axis, Scale, number};

/// The maximum number of ticks on a wide horizontal axis.
const MOST: usize = 9;
/// The maximum number of ticks on a narrow horizontal axis.
const FEWEST: usize = 5;

/// The distance between a logarithmic axis and its zero, which is drawn apart.
const APART: f64 = 24.0;

/// An axis placed between two coordinates.
pub(super) struct Placed {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    /// The coordinate of zero on a logarithmic axis, where it is drawn apart.
    zero: f64,
    /// The coordinates and the labels of the ticks.
    pub(super) ticks: Vec<(f64, String)>,
}

/// The ticks of an axis that has not been placed yet.
pub(super) struct Numbers<'a> {
    axis: &'a Axis,
    has_zero: bool,
    values: Vec<f64>,
    /// The value that a label of 1 stands for.
    factor: f64,
    /// The unit that follows each number. It is empty if the title contains the unit.
    suffix: &'a str,
    labels: Vec<String>,
    /// The axis label with its unit.
    pub(super) title: String,
}

impl<'a> Numbers<'a> {
    /// Chooses ticks for a range. `has_zero` is whether a logarithmic axis must show zero.
    pub(super) fn new(
        axis: &'a Axis,
        range: Option<(f64, f64)>,
        has_zero: bool,
        at_most: usize,
    ) -> Self {
        // If there are no values, or only zeros, any range will do.
        let (low, high) = range.unwrap_or((1.0, 100.0));
        let log = axis.scale != Scale::Linear;
        let values = if axis.whole && !log {
            whole_ticks(low, high, at_most)
        } else {
            ticks(low, high, axis.scale, at_most)
        };
        let largest = values.iter().fold(0f64, |most, value| most.max(value.abs()));
        // If a unit is short and has SI prefixes, write it at each tick.
        let with_labels = log && axis.si && (1..=2).contains(&axis.unit.chars().count());
        let (factor, unit) = match (log, with_labels) {
            (true, true) => (1.0, String::new()),
            (true, false) => (1.0, axis.unit.clone()),
            (false, _) => unit(axis, largest),
        };
        let suffix = if with_labels { axis.unit.as_str() } else { "" };
        let labels = if log {
            let labels = log_labels(&values, axis.scale, axis.si);
            labels.into_iter().map(|label| label + suffix).collect()
        } else {
            linear_labels(&values.iter().map(|value| value / factor).collect::<Vec<_>>())
        };
        let title = match (axis.label.as_str(), unit.as_str()) {
            (label, "") => label.into(),
            ("", unit) => unit.into(),
            (label, unit) => format!("{label} ({unit})"),
        };
        Self { axis, has_zero: has_zero && log, values, factor, suffix, labels, title }
    }

    /// Chooses as many ticks as fit in a row of this width with their labels.
    pub(super) fn in_a_row(
        axis: &'a Axis,
        range: Option<(f64, f64)>,
        has_zero: bool,
        (width, font): (f64, f64),
    ) -> Self {
        let fits = |numbers: &Self| {
            let widest = label::widest(numbers.labels.iter().map(String::as_str), font);
            (widest + font) * (numbers.labels.len() as f64 - 1.0) <= width
        };
        let mut at_most = MOST;
        loop {
            let numbers = Self::new(axis, range, has_zero, at_most);
            if at_most == FEWEST || fits(&numbers) {
                return numbers;
            }
            at_most -= 1;
        }
    }

    pub(super) fn labels(&self) -> &[String] {
        &self.labels
    }

    /// Formats a value like a tick's label, in about three digits. All values have the same number
    /// of decimals, except for very small ones.
    pub(super) fn short(&self, value: f64) -> String {
        if self.axis.scale != Scale::Linear {
            return if self.axis.si {
                number::prefixed(value, 3) + self.suffix
            } else {
                number::significant(value, 3)
            };
        }
        let largest = self.values.iter().fold(0f64, |most, value| most.max(value.abs()));
        let whole = (largest / self.factor).log10().ceil() as i32;
        let decimals = (3 - whole).max(0);
        let value = value / self.factor;
        if value == 0.0 || value.abs() >= 10f64.powi(1 - decimals) {
            number::decimals(value, decimals as usize)
        } else {
            number::significant(value, 2)
        }
    }

    /// Places the axis between two coordinates.
    pub(super) fn place(self, from: f64, to: f64) -> Placed {
        let zero = from;
        let from = if self.has_zero { from + APART * (to - from).signum() } else { from };
        let mut placed = Placed {
            scale: self.axis.scale,
            low: self.values[0],
            high: self.values[self.values.len() - 1],
            from,
            to,
            zero,
            ticks: Vec::new(),
        };
        if self.has_zero {
            placed.ticks.push((zero, "0".into()));
        }
        let places = self.values.iter().map(|value| placed.at(*value)).collect::<Vec<_>>();
        placed.ticks.extend(places.into_iter().zip(self.labels));
        placed
    }
}

impl Placed {
    /// Returns the coordinate of a value.
    pub(super) fn at(&self, value: f64) -> f64 {
        let part = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            _ if value <= 0.0 => return self.zero,
            // Subtract logarithms, because the ratio of two values could overflow.
            _ => (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln()),
        };
        self.from + part.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Returns where the axis starts. A zero that is drawn apart doesn't count.
    pub(super) fn foot(&self) -> f64 {
        self.from
    }

    /// Returns where bars start.
    pub(super) fn base(&self) -> f64 {
        self.at(0.0)
    }
}

/// Returns the value that a label of 1 stands for on a linear axis, and its unit.
fn unit(axis: &Axis, largest: f64) -> (f64, String) {
    if axis.si && !axis.unit.is_empty() {
        let (factor, prefix) = number::prefix(largest);
        return (factor, format!("{prefix}{}", axis.unit));
    }
    if (1e-3..1e6).contains(&largest) {
        return (1.0, axis.unit.clone());
    }
    let exponent = (largest.log10() / 3.0 + 1e-9).floor() as i32 * 3;
    let unit = match (exponent, axis.unit.as_str()) {
        (6, "") => "millions".into(),
        (6, unit) => format!("millions of {unit}"),
        (_, "") => format!("×{}", number::power(10, exponent)),
        (_, unit) => format!("{} {unit}", number::power(10, exponent)),
    };
    (10f64.powi(exponent), unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithmic_axis_places_values_whose_quotient_overflows() {
        let axis = Axis::log10("", "");
        let numbers = Numbers::new(&axis, Some((1e-149, 1e150)), true, 5);
        let placed = numbers.place(300.0, 0.0);
        let places = [0.0, 1e-149, 1.0, 1e150].map(|value| placed.at(value));
        assert!(places.is_sorted_by(|one, next| one > next), "{places:?}");
    }

    #[test]
    fn units_have_si_prefixes_or_number_words() {
        let title = |axis: Axis, high| Numbers::new(&axis, Some((0.0, high)), false, 7).title;
        assert_eq!(title(Axis::linear("speed", "op/s").si(), 4e7), "speed (Mop/s)");
        assert_eq!(title(Axis::linear("time", "s").si(), 2e-5), "time (µs)");
        assert_eq!(title(Axis::linear("queries", ""), 2e8), "queries (millions)");
        assert_eq!(title(Axis::linear("rate", ""), 3e-5), "rate (×10⁻⁶)");
        assert_eq!(title(Axis::linear("load", "%"), 95.0), "load (%)");
    }

    #[test]
    fn bar_labels_have_the_same_number_of_decimals_unless_tiny() {
        let axis = Axis::linear("", "op/s").si();
        let numbers = Numbers::new(&axis, Some((0.0, 2.5e6)), false, 7);
        let shown = [2.5e6, 9e5, 1.234e4, 0.0].map(|value| numbers.short(value));
        assert_eq!(shown, ["2.50", "0.90", "0.012", "0.00"]);
    }
}
