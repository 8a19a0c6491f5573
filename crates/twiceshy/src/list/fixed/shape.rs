//! Computes the sizes of a filter from a model of its space.

use super::block::{BLOCK, HEAD_BITS};

/// The sizes of a filter's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Number of blocks, of [`BLOCK`] quotients each.
    pub(crate) blocks: u64,
    pub(crate) remainder_bits: u32,
    /// log₂ of the number of quotients per group.
    pub(crate) group_bits: u32,
    /// Number of low bits of a seed that are stored verbatim; the high bits are stored in unary.
    pub(crate) low_bits: u32,
}

/// log₂ of the number of quotients per block.
pub(crate) const BLOCK_BITS: u32 = BLOCK.ilog2();

/// Maximum number of remainder bits that fit in one word beside a quotient's position in its group.
pub(crate) const MAX_REMAINDER_BITS: u32 = 55;

/// Maximum number of low bits of a seed. No seed has more bits.
pub(crate) const MAX_LOW_BITS: u32 = 20;

/// Maximum number of blocks that the index can address.
pub(crate) const MAX_BLOCKS: u64 = 1 << 26;

/// Maximum average number of seeds per group that a new shape may need to try. Each try hashes all
/// no-list keys of the group again.
const TRIES: f64 = 12.0;

/// Maximum average number of seeds per group that a reused shape may need to try. Such a shape was
/// planned for other lists.
const MAX_TRIES: f64 = 64.0;

/// Maximum average number of keys per quotient; with more, lookups are slow.
const MAX_LOAD: f64 = 5.0;

impl Shape {
    /// Returns the number of quotients in all blocks.
    pub(crate) fn quotients(&self) -> u64 {
        self.blocks * BLOCK as u64
    }

    /// Returns the number of possible fingerprints.
    pub(super) fn fingerprints(&self) -> f64 {
        self.quotients() as f64 * f64::from(self.remainder_bits).exp2()
    }

    /// Returns the number of groups per block.
    pub(crate) fn groups(&self) -> usize {
        BLOCK >> self.group_bits
    }

    /// Returns whether a filter can have this shape.
    pub(crate) fn is_possible(&self) -> bool {
        (1..=MAX_BLOCKS).contains(&self.blocks)
            && (1..=MAX_REMAINDER_BITS).contains(&self.remainder_bits)
            && self.group_bits <= BLOCK_BITS
            && self.low_bits <= MAX_LOW_BITS
    }

    /// Returns the smallest shape that holds `yes` and `no` keys, and whose remainders have at
    /// least `least` bits.
    pub(crate) fn plan(yes: u64, no: u64, rate: f64, least: u32) -> Option<Self> {
        let mut best: Option<(f64, Self)> = None;
        for remainder_bits in least..=MAX_REMAINDER_BITS {
            let most = rate * f64::from(remainder_bits).exp2();
            // Lower loads than these never save space, and neither do much higher loads.
            let loads = (0..12).map(|step| 0.4 * 1.15f64.powi(step));
            let loads = loads.filter(|&load| load < most).chain((most >= 0.35).then_some(most));
            let shapes = loads.filter(|&load| load <= 2.5).map(|load| {
                let blocks = (yes as f64 / (load * BLOCK as f64)).ceil().max(1.0) as u64;
                Self { blocks, remainder_bits, group_bits: 0, low_bits: 0 }
            });
            let possible = shapes.filter(|shape| shape.blocks <= MAX_BLOCKS);
            let sized = possible.flat_map(|shape| shape.with_groups(yes, no));
            best = best.into_iter().chain(sized).min_by(|a, b| a.0.total_cmp(&b.0));
            // Stop if one more remainder bit costs more than dropping all seeds could save.
            let without_seeds = f64::from(remainder_bits + 1) * yes as f64;
            if best.is_some_and(|(bits, _)| bits <= without_seeds) {
                break;
            }
        }
        best.map(|(_, shape)| shape).filter(Self::is_possible)
    }

    /// Iterates over the shapes whose groups need few tries, each with the size of the filter in
    /// bits.
    fn with_groups(self, yes: u64, no: u64) -> impl Iterator<Item = (f64, Self)> {
        let shapes = (0..=BLOCK_BITS).rev().map(move |group_bits| Self { group_bits, ..self });
        shapes.filter(move |shape| shape.tries(yes, no) <= TRIES).map(move |shape| {
            let (_, low_bits) = shape.seed_bits(yes, no);
            (shape.expected_bits(yes, no), Self { low_bits, ..shape })
        })
    }

    /// Returns the expected size of a filter with `yes` and `no` keys on its lists, in bits.
    pub(super) fn expected_bits(&self, yes: u64, no: u64) -> f64 {
        let load = yes as f64 / self.quotients() as f64;
        let others = load + 1.0 + load * f64::from(self.remainder_bits);
        let others = others + HEAD_BITS / BLOCK as f64;
        let (seed, _) = self.seed_bits(yes, no);
        (others + seed / f64::from(1 << self.group_bits)) * self.quotients() as f64
    }

    /// Returns the average number of no-list keys that collide with a given yes-list key under one
    /// seed.
    fn confused(&self, no: u64) -> f64 {
        no as f64 / self.fingerprints()
    }

    /// Returns the average number of yes-list keys per group.
    fn group_keys(&self, yes: u64) -> f64 {
        yes as f64 / (self.quotients() >> self.group_bits) as f64
    }

    /// Returns the number of seeds that a group tries, averaged over all group sizes.
    fn tries(&self, yes: u64, no: u64) -> f64 {
        if yes == 0 { 1.0 } else { (self.group_keys(yes) * self.confused(no).exp_m1()).exp() }
    }

    /// Returns the average number of bits per seed, and the best number of low bits.
    fn seed_bits(&self, yes: u64, no: u64) -> (f64, u32) {
        let (keys, confused) = (self.group_keys(yes), self.confused(no));
        let most = (keys + 8.0 * keys.sqrt() + 8.0) as u32;
        let ones = |low_bits: u32| {
            // `chance` is the logarithm of the probability that a group has `count` keys (a Poisson
            // distribution).
            let (mut chance, mut sum) = (-keys, 0.0);
            for count in 0..=most {
                let fails = -(-f64::from(count) * confused).exp_m1();
                let all = fails.powf(f64::from(low_bits).exp2());
                sum += chance.exp() * (all / (1.0 - all).max(f64::MIN_POSITIVE));
                chance += keys.ln() - f64::from(count + 1).ln();
            }
            sum
        };
        let mut best = (f64::INFINITY, 0);
        for low_bits in 0..=MAX_LOW_BITS {
            let bits = f64::from(low_bits) + 1.0 + ones(low_bits);
            if bits >= best.0 {
                break;
            }
            best = (bits, low_bits);
        }
        best
    }

    /// Returns whether a filter of this shape can hold these numbers of keys at this rate, and is
    /// not much slower to build than a new shape.
    pub(crate) fn serves(&self, yes: u64, no: u64, rate: f64) -> bool {
        let most = (rate * self.fingerprints()).min(MAX_LOAD * self.quotients() as f64);
        yes as f64 <= most && self.tries(yes, no) <= MAX_TRIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned_bits(yes: u64, no: u64, rate: f64) -> f64 {
        let shape = Shape::plan(yes, no, rate, 1).unwrap();
        shape.expected_bits(yes, no) / yes as f64
    }

    #[test]
    fn planned_sizes_are_near_the_lower_bound() {
        // The bound is log(max(1/rate, no/yes)) + log(e) min(rate no/yes, 1) bits (theorem 7 of
        // the paper).
        for (yes, no) in
            [(1u64 << 20, 0), (1 << 20, 1 << 20), (1 << 16, 1 << 22), (1 << 10, 1 << 22)]
        {
            for rate in [0.1, 1.0 / 256.0, 0.001, 1e-6f64] {
                let ratio = no as f64 / yes as f64;
                let bound = (1.0 / rate).max(ratio).log2() + (rate * ratio).min(1.0) / 2f64.ln();
                let bits = planned_bits(yes, no, rate);
                assert!(bits > bound && bits < bound + 3.2, "{yes} {no} {rate}: {bits}, {bound}");
            }
        }
    }

    #[test]
    fn planned_shape_meets_rate_within_try_limit() {
        for yes in [0u64, 1, 100, 512, 10_000, 1 << 30] {
            for no in [0u64, 1, 1000, 1 << 32] {
                for rate in [0.5, 0.01, 1e-9] {
                    let shape = Shape::plan(yes, no, rate, 1).unwrap();
                    assert!(shape.serves(yes, no, rate), "{yes} {no} {rate}: {shape:?}");
                    assert!(shape.tries(yes, no) <= TRIES);
                }
            }
        }
    }

    #[test]
    fn impossible_plans_are_refused() {
        assert!(Shape::plan(1 << 40, 0, 0.01, 1).is_none());
        assert!(Shape::plan(1000, 0, 1e-30, 1).is_none());
        assert_eq!(Shape::plan(1000, 0, 0.01, 30).unwrap().remainder_bits, 30);
    }
}
