//! The streams of the `FireHose` benchmark, reimplemented from its published description (K.
//! Anderson and S. Plimpton, `FireHose` streaming benchmarks, Sandia National Laboratories, 2015).
//! The keys follow the same distributions, but aren't the original program's keys.
//!
//! Every item has a key and a bit. For one key in 256 the bit is biased: it is 0 in 15 of 16 cases.
//! For the others it is a fair coin. The benchmark's task is to find the biased keys. To get only
//! the keys, use `map(|datum| datum.key)`.

mod active_set;
mod power_law;

pub use active_set::{ActiveSet, ActiveSetConfig};
pub use power_law::{PowerLaw, PowerLawConfig};
use rand::RngExt;

use crate::key::scatter;
use crate::random::Random;

/// One item of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datum {
    /// The key.
    pub key: u64,
    /// The bit of this item.
    pub value: bool,
    /// Whether the key's bits are biased: the solution of the benchmark's task.
    pub is_biased: bool,
}

impl Datum {
    fn new(key: u64, random: &mut Random) -> Self {
        // Bias is a fixed property of a key, so a hash decides.
        let is_biased = scatter(!key).is_multiple_of(256);
        let value = random.random_ratio(if is_biased { 1 } else { 8 }, 16);
        Self { key, value, is_biased }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::Datum;

    /// Checks that one key in 256 is biased, and that the bits have the right frequencies.
    pub(crate) fn assert_bits_are_biased(data: &[Datum]) {
        let mut keys: Vec<(u64, bool)> =
            data.iter().map(|datum| (datum.key, datum.is_biased)).collect();
        keys.sort_unstable();
        keys.dedup();
        let biased = keys.iter().filter(|(_, is_biased)| *is_biased).count();
        let share = biased as f64 / keys.len() as f64 * 256.0;
        assert!((0.85..1.15).contains(&share), "{share} of 256 keys are biased");
        let distinct = keys.len();
        keys.dedup_by_key(|(key, _)| *key);
        assert_eq!(keys.len(), distinct, "a key is sometimes biased and sometimes not");
        for (is_biased, wanted) in [(true, 1.0 / 16.0), (false, 0.5)] {
            let values = data.iter().filter(|datum| datum.is_biased == is_biased);
            let ones = values.clone().filter(|datum| datum.value).count();
            let mean = ones as f64 / values.count() as f64;
            assert!((mean - wanted).abs() < 0.02, "{mean} instead of {wanted}");
        }
    }
}
