//! Summary statistics.

use twiceshy_report::{Point, Verdict};

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the minimum and the maximum.
pub(super) fn spread(values: &[f64]) -> (f64, f64) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    (least, values.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}

/// Returns a point at the mean of several runs, with a band from the minimum to the maximum.
pub(super) fn around(x: f64, values: &[f64]) -> Point {
    let (least, greatest) = spread(values);
    Point::new(x, mean(values)).spread(least, greatest)
}

/// Returns the geometric mean. For example, the geometric mean of a half and two is one.
pub(super) fn geometric_mean(values: &[f64]) -> f64 {
    mean(&values.iter().map(|value| value.ln()).collect::<Vec<_>>()).exp()
}

/// Returns the throughput of the best of several rounds with `count` operations each. The best
/// round counts, because other load on a machine only slows a round down.
pub(super) fn fastest(x: f64, count: usize, nanoseconds: &[f64]) -> Point {
    let (least, greatest) = spread(nanoseconds);
    let rate = |time: f64| count as f64 * 1e9 / time;
    Point::new(x, rate(least)).spread(rate(greatest), rate(least))
}

/// Like [`fastest`], but returns the median round. Used for workloads in which a round can be fast
/// by luck.
pub(super) fn typical(x: f64, count: usize, nanoseconds: &[f64]) -> Point {
    let mut sorted = nanoseconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = count as f64 * 1e9 / sorted[sorted.len() / 2];
    Point { y: middle, ..fastest(x, count, nanoseconds) }
}

/// Judges a claim that has several parts. `holds` says for each part whether it holds.
pub(super) fn judge(holds: &[bool]) -> Verdict {
    match holds.iter().filter(|&&holds| holds).count() {
        0 => Verdict::Refuted,
        all if all == holds.len() => Verdict::Confirmed,
        _ => Verdict::Partly,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn point_is_fastest_median_or_mean_and_has_spread() {
        let point = fastest(0.5, 1000, &[2e6, 1e6, 4e6]);
        assert_eq!(point, Point::new(0.5, 1e6).spread(0.25e6, 1e6));
        let point = typical(0.5, 1000, &[2e6, 1e6, 4e6]);
        assert_eq!(point, Point::new(0.5, 0.5e6).spread(0.25e6, 1e6));
        let point = around(0.5, &[2.0, 1.0, 6.0]);
        assert_eq!(point, Point::new(0.5, 3.0).spread(1.0, 6.0));
        assert!((geometric_mean(&[0.5, 2.0]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn claim_of_a_paper_is_confirmed_if_all_its_parts_hold() {
        assert_eq!(judge(&[true, true]), Verdict::Confirmed);
        assert_eq!(judge(&[true, false]), Verdict::Partly);
        assert_eq!(judge(&[false]), Verdict::Refuted);
    }
}
