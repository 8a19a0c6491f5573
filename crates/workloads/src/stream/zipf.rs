use libm::{exp, expm1, log, log1p};
use rand::distr::Distribution;
use rand::{Rng, RngExt};

use crate::Invalid;
use crate::invalid::at_least_one;
use crate::random::random;

/// Zipf's law over the numbers `0..universe`: `n` has a probability proportional to
/// `1/(n+1)^exponent`.
///
/// Uses rejection-inversion (Hörmann and Derflinger 1996): it draws a point under a curve that lies
/// above the histogram, by inverting the curve's integral. In the rare case that the point isn't in
/// the histogram, it rejects the point. It takes constant memory and time for any universe, and
/// needs no truncated table. The formula of the integral avoids cancellation near the exponent 1.
///
/// Floats have 53 bits. For large numbers they can't distinguish the curve from the histogram, but
/// there the two differ by less than one part in 2^40, so nothing is rejected. Where neighbouring
/// floats are more than 1 apart, the lowest bits are filled in uniformly, with an error below one
/// part in 2^31. So with exponents up to about 1.3, every number of a universe of 2^64 can occur.
/// With larger exponents the floats are too far apart, for 1.5 from about 2^42: above that, some
/// numbers never occur, but the probability of getting there is below 2^-20.
// `rand_distr` has this law too, but in floats, which miss numbers above 2^53. It also uses the
// platform's powers and logarithms if any crate enables `num-traits/std`, so results would differ
// by platform.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    universe: u64,
    exponent: f64,
    /// The integrals up to the left end of the first rank (`from`) and up to the right end of the
    /// last rank (`to`).
    from: f64,
    to: f64,
    /// A point at most this far below its rank is always in the histogram.
    safe: f64,
}

/// Points at or above this rank are never rejected.
const FAR: u64 = 1 << 20;
/// Number of upper bits that are drawn by the law. If a rank is longer, its lower bits are uniform.
const FINE_BITS: u32 = 32;

impl Zipf {
    /// Creates the law for a universe of any size and any exponent; exponent 0 is uniform.
    ///
    /// # Errors
    ///
    /// If the universe is empty, or the exponent is negative or not finite.
    pub fn new(universe: u64, exponent: f64) -> Result<Self, Invalid> {
        at_least_one("the universe", universe)?;
        if !(exponent.is_finite() && exponent >= 0.0) {
            let wanted = "finite and at least 0";
            return Err(Invalid { parameter: "the exponent", given: exponent, wanted });
        }
        let mut zipf = Self { universe, exponent, from: 0.0, to: 0.0, safe: 0.0 };
        zipf.from = zipf.integral(1.5) - 1.0;
        zipf.to = zipf.integral(universe as f64 + 0.5);
        zipf.safe = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.height(2.0));
        Ok(zipf)
    }

    /// Returns an endless stream of numbers.
    pub fn stream(self, seed: u64) -> impl Iterator<Item = u64> {
        random(seed, "zipf").sample_iter(self)
    }

    /// Returns `x^-exponent`.
    fn height(&self, x: f64) -> f64 {
        exp(-self.exponent * log(x))
    }

    /// Returns the integral of the height from 1 to x.
    fn integral(&self, x: f64) -> f64 {
        let log_x = log(x);
        log_x * expm1_over((1.0 - self.exponent) * log_x)
    }

    /// Returns the x up to which the integral is `area`.
    fn inverse(&self, area: f64) -> f64 {
        // Clamp, because a rounding error must not leave the logarithm's domain.
        let t = (area * (1.0 - self.exponent)).max(-1.0);
        exp(area * log1p_over(t))
    }

    /// Returns the rank itself if floats are precise enough for it, otherwise a random one with the
    /// same upper bits.
    fn spread<R: Rng + ?Sized>(&self, rank: u64, random: &mut R) -> u64 {
        let coarse = (u64::BITS - rank.leading_zeros()).saturating_sub(FINE_BITS);
        if coarse == 0 {
            return rank;
        }
        let low = (1 << coarse) - 1;
        loop {
            let fine = rank & !low | random.random::<u64>() & low;
            if fine <= self.universe {
                return fine;
            }
        }
    }
}

impl Distribution<u64> for Zipf {
    fn sample<R: Rng + ?Sized>(&self, random: &mut R) -> u64 {
        loop {
            let area = self.to + random.random::<f64>() * (self.from - self.to);
            let x = self.inverse(area);
            // The cast saturates, so any x gives a valid rank.
            let rank = ((x + 0.5) as u64).clamp(1, self.universe);
            let center = rank as f64;
            if rank >= FAR
                || center - x <= self.safe
                || area >= self.integral(center + 0.5) - self.height(center)
            {
                return self.spread(rank, random) - 1;
            }
        }
    }
}

/// Returns `(e^t - 1)/t`, or its limit if `t` is 0.
fn expm1_over(t: f64) -> f64 {
    if t.abs() > 1e-8 { expm1(t) / t } else { 1.0 + t / 2.0 }
}

/// Returns `log(1 + t)/t`, or its limit if `t` is 0.
fn log1p_over(t: f64) -> f64 {
    if t.abs() > 1e-8 { log1p(t) / t } else { 1.0 - t / 2.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Zipf;
    use crate::testing::{assert_fits, histogram};

    fn probabilities(universe: u32, exponent: f64) -> Vec<f64> {
        let heights = (1..=universe).map(|rank| f64::from(rank).powf(-exponent));
        let sum: f64 = heights.clone().sum();
        heights.map(|height| height / sum).collect()
    }

    #[test]
    fn frequencies_are_exact_in_small_universes() {
        for exponent in [0.0, 0.5, 0.99, 1.0, 1.0 + 1e-9, 1.01, 1.5, 2.0, 3.0] {
            for universe in [1, 2, 10, 100] {
                let zipf = Zipf::new(u64::from(universe), exponent).unwrap();
                let counts = histogram(universe as usize, zipf.stream(7).take(1_000_000));
                let mut probabilities = probabilities(universe, exponent);
                // Rare numbers are counted together.
                let common = probabilities.iter().take_while(|p| **p > 1e-5).count();
                let rare = probabilities.drain(common..).sum::<f64>();
                let mut counts = counts;
                let few = counts.drain(common..).sum::<u64>();
                if rare > 1e-5 {
                    probabilities.push(rare);
                    counts.push(few);
                }
                if counts.len() > 1 {
                    assert_fits(&counts, &probabilities);
                }
            }
        }
    }

    /// Compares the share of each power of two with the integral, which is as good as the sum for
    /// large numbers.
    #[test]
    fn frequencies_are_right_in_huge_universes() {
        for exponent in [0.5, 1.0, 1.2] {
            let zipf = Zipf::new(u64::MAX, exponent).unwrap();
            let octaves = histogram(
                64,
                zipf.stream(8)
                    .filter(|number| *number >= 1 << 20)
                    .map(|number| u64::from(number.ilog2()))
                    .take(1_000_000),
            );
            let shares: Vec<f64> =
                (20..64).map(|octave| 2.0_f64.powf(f64::from(octave) * (1.0 - exponent))).collect();
            let sum: f64 = shares.iter().sum();
            // Octaves at either end that are too rare for the statistic are left out.
            let kept = |share: &f64| share / sum > 1e-5;
            let counts: Vec<u64> = octaves[20..]
                .iter()
                .zip(&shares)
                .filter(|(_, share)| kept(share))
                .map(|(count, _)| *count)
                .collect();
            let shares: Vec<f64> = shares.iter().filter(|s| kept(s)).copied().collect();
            let sum: f64 = shares.iter().sum();
            assert_fits(&counts, &shares.iter().map(|share| share / sum).collect::<Vec<_>>());
        }
    }

    #[test]
    fn low_bits_of_huge_numbers_are_uniform() {
        let zipf = Zipf::new(u64::MAX, 0.5).unwrap();
        let huge = zipf.stream(9).filter(|number| *number > 1 << 60).take(100_000);
        assert_fits(&histogram(256, huge.map(|number| number % 256)), &[1.0 / 256.0; 256]);
    }

    /// If these numbers change, every recorded experiment changes.
    #[test]
    fn stream_never_changes() {
        let stream = |universe, exponent| -> Vec<u64> {
            Zipf::new(universe, exponent).unwrap().stream(42).take(5).collect()
        };
        assert_eq!(stream(1_000_000_000, 1.5), [2, 9, 0, 35, 161]);
        let huge = [
            95_840_396_933_108_508,
            107_757,
            4_797_492_051_200_978_209,
            511_231_768_431_469_087,
            72_344_792_843_214_091,
        ];
        assert_eq!(stream(u64::MAX, 0.9), huge);
    }

    #[test]
    fn invalid_parameters_are_errors() {
        assert!(Zipf::new(0, 1.0).is_err());
        for exponent in [-0.1, f64::NAN, f64::INFINITY] {
            let refusal = Zipf::new(10, exponent).unwrap_err();
            assert!(refusal.to_string().contains("must be finite"), "{refusal}");
        }
    }

    proptest! {
        #[test]
        fn no_number_is_outside_the_universe(universe in 1_u64.., exponent in 0.0..30.0, seed: u64) {
            let zipf = Zipf::new(universe, exponent).unwrap();
            prop_assert!(zipf.stream(seed).take(100).all(|number| number < universe));
        }
    }
}
