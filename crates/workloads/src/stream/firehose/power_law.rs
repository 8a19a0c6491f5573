use super::Datum;
use crate::Invalid;
use crate::random::{Random, random};
use crate::stream::Zipf;
use rand::distr::Distribution;

/// The first `FireHose` stream: a fixed range of keys, with low keys far more frequent than high
/// ones.
#[derive(Clone, Debug)]
pub struct PowerLaw {
    law: Zipf,
    random: Random,
}

/// The shape of a [`PowerLaw`].
#[derive(Clone, Copy, Debug)]
pub struct PowerLawConfig {
    /// Number of keys.
    pub keys: u64,
    /// The skew: the key at rank k has a probability proportional to `k^-exponent`.
    pub exponent: f64,
}

/// The published configuration: 100,000 keys. The description gives no exponent, only that nine
/// keys in ten appear even in a short run; an exponent of 0.5 satisfies that.
impl Default for PowerLawConfig {
    fn default() -> Self {
        Self { keys: 100_000, exponent: 0.5 }
    }
}

/// The offset that is added to all keys.
const OFFSET: u64 = 1_000_000_000;

impl PowerLaw {
    /// Creates the stream.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Zipf::new`].
    pub fn new(config: PowerLawConfig, seed: u64) -> Result<Self, Invalid> {
        Ok(Self {
            law: Zipf::new(config.keys, config.exponent)?,
            random: random(seed, "power law"),
        })
    }
}

impl Iterator for PowerLaw {
    type Item = Datum;

    fn next(&mut self) -> Option<Datum> {
        let key = self.law.sample(&mut self.random).wrapping_add(OFFSET);
        Some(Datum::new(key, &mut self.random))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::tests::assert_bits_are_biased;
    use super::{OFFSET, PowerLaw, PowerLawConfig};
    use crate::testing::{assert_fits, histogram};

    fn published(seed: u64) -> PowerLaw {
        PowerLaw::new(PowerLawConfig::default(), seed).unwrap()
    }

    #[test]
    fn short_stream_contains_nine_tenths_of_all_keys() {
        let keys: HashSet<u64> = published(1).take(1_000_000).map(|d| d.key).collect();
        assert!(keys.len() > 90_000, "{} keys", keys.len());
        assert!(keys.iter().all(|key| (OFFSET..OFFSET + 100_000).contains(key)));
    }

    #[test]
    fn key_frequencies_follow_the_power_law() {
        let keys = PowerLaw::new(PowerLawConfig { keys: 50, exponent: 1.0 }, 2)
            .unwrap()
            .take(500_000)
            .map(|d| d.key - OFFSET);
        let sum: f64 = (1..=50).map(|rank| 1.0 / f64::from(rank)).sum();
        let law: Vec<f64> = (1..=50).map(|rank| 1.0 / f64::from(rank) / sum).collect();
        assert_fits(&histogram(50, keys), &law);
    }

    #[test]
    fn one_key_in_256_has_biased_bits() {
        assert_bits_are_biased(&published(3).take(2_000_000).collect::<Vec<_>>());
    }
}
