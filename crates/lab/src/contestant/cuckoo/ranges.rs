//! How far apart the two bins of a key are in a vacuum filter (Wang and Zhou 2019).
//!
//! Bins that are near to each other are in one page, or one line of a cache. But if all were near,
//! some part of the table would be full before the others. So there are four lengths of ranges,
//! and a fingerprint's last two bits say which is its own: with the longest, what is too much in
//! one part goes to another.

use super::partial_key::BIN;

/// Bins of a range, by a fingerprint's last two bits, from the longest: powers of two.
pub(super) type Ranges = [usize; 4];

pub(super) fn range_of(ranges: &Ranges, fingerprint: u64) -> usize {
    ranges[(fingerprint % 4) as usize]
}

/// The load that must be reached.
const LOAD: f64 = 0.95;
/// How full a range can be made, of bins of four.
const FULL: f64 = 0.97;

/// The shortest ranges with which so many bins can be filled.
///
/// For tables of less than some ten thousand bins the longest is all of the table.
pub(super) fn choose(bins: usize) -> Ranges {
    // Those fingerprints whose ranges are no longer than a quarter's have nowhere else to go.
    let mut ranges = [1.0, 0.75, 0.5, 0.25].map(|share| {
        let mut range = 1;
        while range < bins && !is_enough(range, share, bins) {
            range *= 2;
        }
        range
    });
    // The last estimate is of few, and so the least certain.
    ranges[3] = (ranges[3] * 2).min(ranges[0]);
    ranges
}

/// Whether that share of the members, thrown into ranges of so many bins, would fill none.
fn is_enough(range: usize, share: f64, bins: usize) -> bool {
    let number = bins.div_ceil(range) as f64;
    let slots = (range * BIN) as f64;
    let mean = share * LOAD * slots;
    // The fullest of `number`, with some confidence.
    let fullest = mean + 1.5 * (2.0 * mean * number.ln()).sqrt();
    fullest < FULL * slots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_powers_of_two_that_need_not_grow_with_the_table() {
        for bins in (1..2000).chain([1 << 16, 3 << 16, 5 << 20, (1 << 24) + 1]) {
            let ranges = choose(bins);
            assert!(ranges.iter().all(|range| range.is_power_of_two()), "{bins}: {ranges:?}");
            assert!(ranges.is_sorted_by(|long, short| long >= short), "{bins}: {ranges:?}");
        }
        assert_eq!(choose(1 << 10)[0], 1 << 10);
        assert!(choose(3 << 16)[0] <= 1 << 14);
        assert!(choose(1 << 24)[3] <= 64);
    }
}
