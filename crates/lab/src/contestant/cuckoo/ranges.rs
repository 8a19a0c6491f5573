//! Chooses how far apart the two bins of a key are in a vacuum filter (Wang and Zhou 2019).
//!
//! Bins that are near each other share a page or a cache line. But if the two bins of every key
//! were near, some part of the table would fill up before the others. So there are four range
//! lengths, selected by a fingerprint's last two bits. The longest ranges balance the parts of the
//! table.

use super::partial_key::BIN;

/// The number of bins per range, for each value of a fingerprint's last two bits. The longest is
/// first, and all are powers of two.
pub(super) type Ranges = [usize; 4];

pub(super) fn range_of(ranges: &Ranges, fingerprint: u64) -> usize {
    ranges[(fingerprint % 4) as usize]
}

/// The load that the table must reach.
const LOAD: f64 = 0.95;
/// The load that a range can reach if its bins have four slots.
const FULL: f64 = 0.97;

/// Returns the shortest ranges with which a table of `bins` bins can be filled.
///
/// For tables with fewer than about ten thousand bins, the longest range is the whole table.
pub(super) fn choose(bins: usize) -> Ranges {
    // Find the four lengths. For each length, `share` is the share of fingerprints whose range is
    // at most this long. A member with such a fingerprint can't leave its range.
    let mut ranges = [1.0, 0.75, 0.5, 0.25].map(|share| {
        let mut range = 1;
        while range < bins && !is_enough(range, share, bins) {
            range *= 2;
        }
        range
    });
    // The last estimate is based on the fewest members, so it is the least certain. Double it.
    ranges[3] = (ranges[3] * 2).min(ranges[0]);
    ranges
}

/// Returns whether ranges of `range` bins can hold this share of the members without overflowing.
fn is_enough(range: usize, share: f64, bins: usize) -> bool {
    let number = bins.div_ceil(range) as f64;
    let slots = (range * BIN) as f64;
    let mean = share * LOAD * slots;
    // Estimate how many members the fullest of `number` ranges has, with some margin.
    let fullest = mean + 1.5 * (2.0 * mean * number.ln()).sqrt();
    fullest < FULL * slots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_powers_of_two_and_shorter_than_a_large_table() {
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
