//! Chooses the ticks of an axis: round values that cover the range.

use crate::{Scale, number};

/// The largest absolute value that is drawn. With this limit, no calculation here overflows.
pub(crate) const LARGEST: f64 = 1e150;
/// Smaller absolute values count as zero, also so that no calculation overflows.
const SMALLEST: f64 = 1e-150;

/// Returns whether a value fits on an axis. Zero also fits on a logarithmic axis.
pub(crate) fn has_place(value: f64, scale: Scale) -> bool {
    value.abs() <= LARGEST && (scale == Scale::Linear || value >= SMALLEST || value == 0.0)
}

/// Returns at least 3 and at most `at_most` round values that enclose the range. `at_most` must be
/// at least 5. On a logarithmic axis, the values are positive if `low` is positive.
pub(crate) fn ticks(low: f64, high: f64, scale: Scale, at_most: usize) -> Vec<f64> {
    debug_assert!(low <= high && at_most >= 5);
    match scale {
        Scale::Linear => linear(low, high, at_most, i32::MIN),
        Scale::Log10 => log10(low, high, at_most),
        Scale::Log2 => log2(low, high, at_most),
    }
}

/// Returns ticks at integers, for a linear axis of counts. There may be only two.
pub(crate) fn whole_ticks(low: f64, high: f64, at_most: usize) -> Vec<f64> {
    linear(low, high, at_most, 0)
}

/// Returns ticks whose distance is at least 10^`least`.
fn linear(low: f64, high: f64, at_most: usize, least: i32) -> Vec<f64> {
    let (low, high) = widened(low, high);
    let mut exponent = (((high - low) / at_most as f64).log10().floor() as i32).max(least);
    loop {
        for round in [1.0, 2.0, 5.0] {
            let step = Step { round, exponent };
            let (first, last) = ((low / step.size()).floor(), (high / step.size()).ceil());
            if last - first < at_most as f64 {
                return (first as i64..=last as i64).map(|tick| step.times(tick)).collect();
            }
        }
        exponent += 1;
    }
}

/// Widens a range until its ends are distinct floating-point numbers.
fn widened(low: f64, high: f64) -> (f64, f64) {
    let size = low.abs().max(high.abs());
    if size < SMALLEST {
        return (0.0, 1.0);
    }
    if high <= low {
        return (low - size * 0.1, high + size * 0.1);
    }
    let missing = (size * 1e-6 - (high - low)).max(0.0);
    (low - missing / 2.0, high + missing / 2.0)
}

#[derive(Clone, Copy)]
struct Step {
    round: f64,
    exponent: i32,
}

impl Step {
    fn size(self) -> f64 {
        self.scaled(self.round)
    }

    fn times(self, tick: i64) -> f64 {
        self.scaled(tick as f64 * self.round)
    }

    /// Multiplies a value by a power of ten. If the exponent is negative, divides by the positive
    /// power, because negative powers aren't exact.
    fn scaled(self, value: f64) -> f64 {
        if self.exponent < 0 {
            value / 10f64.powi(-self.exponent)
        } else {
            value * 10f64.powi(self.exponent)
        }
    }
}

fn log10(low: f64, high: f64, at_most: usize) -> Vec<f64> {
    let (first, last) = (exponent_below(low, 10.0), exponent_above(high, 10.0));
    let one_two_five: Vec<_> = (first..last.max(first + 1))
        .flat_map(|exponent| [1.0, 2.0, 5.0].map(|round| Step { round, exponent }.size()))
        .chain([Step { round: 1.0, exponent: last.max(first + 1) }.size()])
        .collect();
    let from = one_two_five.iter().rposition(|tick| *tick <= low).unwrap_or(0);
    let to = one_two_five.iter().position(|tick| *tick >= high);
    let enough = &one_two_five[from..=to.unwrap_or(one_two_five.len() - 1)];
    match enough.len() {
        0..3 => linear(low, high, at_most, i32::MIN),
        count if count <= at_most => enough.to_vec(),
        _ => powers(10.0, first, last, at_most),
    }
}

fn log2(low: f64, high: f64, at_most: usize) -> Vec<f64> {
    let (first, last) = (exponent_below(low, 2.0), exponent_above(high, 2.0));
    powers(2.0, first, last.max(first + 2), at_most)
}

/// Returns powers of the base: all of them, or every second, every third, and so on.
fn powers(base: f64, first: i32, last: i32, at_most: usize) -> Vec<f64> {
    let mut stride = 1;
    loop {
        let (from, to) = (first.div_euclid(stride), -(-last).div_euclid(stride));
        if ((to - from) as usize) < at_most {
            let exponents = (from..=to).map(|exponent| exponent * stride);
            return exponents.map(|exponent| base.powi(exponent)).collect();
        }
        stride += 1;
    }
}

fn exponent_below(value: f64, base: f64) -> i32 {
    let guess = value.log(base).round() as i32;
    if base.powi(guess) <= value { guess } else { guess - 1 }
}

fn exponent_above(value: f64, base: f64) -> i32 {
    let guess = value.log(base).round() as i32;
    if base.powi(guess) >= value { guess } else { guess + 1 }
}

/// Returns the labels for ticks on a logarithmic axis.
pub(crate) fn log_labels(ticks: &[f64], scale: Scale, si: bool) -> Vec<String> {
    let far = ticks.iter().any(|tick| *tick > 1e4 || *tick < 1e-3);
    let label = |tick: f64| match scale {
        _ if si => number::prefixed(tick, 6),
        Scale::Log2 if far => number::power(2, tick.log2().round() as i32),
        Scale::Log2 => number::short(tick, 12),
        _ if far => {
            let exponent = exponent_below(tick * (1.0 + 1e-9), 10.0);
            let mantissa = number::short(tick / 10f64.powi(exponent), 6);
            let power = number::power(10, exponent);
            if mantissa == "1" { power } else { format!("{mantissa}×{power}") }
        }
        _ => number::short(tick, 6),
    };
    ticks.iter().map(|tick| label(*tick)).collect()
}

/// Returns the labels for ticks on a linear axis. All labels have the same number of decimals, as
/// many as needed.
pub(crate) fn linear_labels(ticks: &[f64]) -> Vec<String> {
    let step = ticks.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
    let is_exact = |decimals: i32| {
        ticks.iter().all(|tick| {
            let factor = 10f64.powi(decimals);
            ((tick * factor).round() / factor - tick).abs() < step * 1e-3
        })
    };
    let decimals = (0..12).find(|decimals| is_exact(*decimals)).unwrap_or(12);
    ticks.iter().map(|tick| number::decimals(*tick, decimals as usize)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(low: f64, high: f64, scale: Scale, at_most: usize) {
        let ticks = ticks(low, high, scale, at_most);
        let shown = format!("{low}..{high} {scale:?}: {ticks:?}");
        assert!((3..=at_most).contains(&ticks.len()), "{shown}");
        assert!(ticks.is_sorted_by(|a, b| a < b), "{shown}");
        // A tick may be off by a rounding error, and tiny values count as zero.
        let error = 1e-9 * low.abs().max(high.abs()) + SMALLEST;
        assert!(ticks[0] <= low + error && high <= ticks[ticks.len() - 1] + error, "{shown}");
        assert!(scale == Scale::Linear || ticks[0] > 0.0, "{shown}");
        let labels = match scale {
            Scale::Linear => linear_labels(&ticks),
            _ => log_labels(&ticks, scale, false),
        };
        if high / low < 1e6 && (1e-6..1e6).contains(&high.abs()) && high - low > 1e-4 * high.abs() {
            let different: std::collections::HashSet<_> = labels.iter().collect();
            assert_eq!(different.len(), ticks.len(), "{labels:?} {shown}");
        }
    }

    fn value() -> impl Strategy<Value = f64> {
        prop_oneof![
            -1e3..1e3f64,
            (-1.0..1.0f64, -150..149i32).prop_map(|(value, exponent)| value * 10f64.powi(exponent)),
            (-100i32..100).prop_map(f64::from),
        ]
    }

    proptest! {
        #[test]
        fn linear_ticks_are_few_and_cover_the_range(a in value(), b in value(), n in 5..=10usize) {
            check(a.min(b), a.max(b), Scale::Linear, n);
            check(a, a, Scale::Linear, n);
            check(a, a + a.abs() * 1e-14, Scale::Linear, n);
        }

        #[test]
        fn logarithmic_ticks_are_few_and_cover_the_range(
            a in -149.0..149.0f64, ratio in 0.0..10.0f64, far in -149.0..149.0f64, n in 5..=10usize
        ) {
            for scale in [Scale::Log10, Scale::Log2] {
                for b in [a, (a + ratio * 0.1).min(149.0), (a + ratio).min(149.0), far.max(a)] {
                    check(10f64.powf(a), 10f64.powf(b), scale, n);
                }
                check(10f64.powi(a as i32), 10f64.powi(a as i32), scale, n);
            }
        }

        #[test]
        fn linear_ticks_have_round_steps(a in -1e6..1e6f64, b in -1e6..1e6f64) {
            let ticks = ticks(a.min(b), a.max(b), Scale::Linear, 8);
            let step = ticks[1] - ticks[0];
            let round = step / 10f64.powf((step * 1.000_001).log10().floor());
            prop_assert!([1.0, 2.0, 5.0].iter().any(|nice| (nice - round).abs() < 1e-6));
        }
    }

    #[test]
    fn example_ranges_have_the_expected_ticks() {
        assert_eq!(ticks(-4.6e-151, 0.0, Scale::Linear, 5), [0.0, 0.5, 1.0]);
        assert_eq!(ticks(0.0, 0.93, Scale::Linear, 7), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        assert_eq!(
            ticks(3.0, 700.0, Scale::Log10, 9),
            [2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]
        );
        assert_eq!(ticks(1.0, 12.0, Scale::Log2, 7), [1.0, 2.0, 4.0, 8.0, 16.0]);
        assert_eq!(whole_ticks(0.0, 2.0, 9), [0.0, 1.0, 2.0]);
        assert_eq!(whole_ticks(0.0, 12.0, 7), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
        assert_eq!(linear_labels(&[0.0, 0.25, 0.5]), ["0.00", "0.25", "0.50"]);
        assert_eq!(log_labels(&[1e-5, 1e-4, 1e-3], Scale::Log10, false), ["10⁻⁵", "10⁻⁴", "10⁻³"]);
        assert_eq!(log_labels(&[2e5, 5e5, 1e6], Scale::Log10, true), ["200k", "500k", "1M"]);
        assert_eq!(log_labels(&[1024.0, 65536.0], Scale::Log2, false), ["2¹⁰", "2¹⁶"]);
    }
}
