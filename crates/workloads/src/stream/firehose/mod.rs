//! The streams of the `FireHose` benchmark, written anew from its published description
//! (K. Anderson and S. Plimpton, `FireHose` streaming benchmarks, Sandia National Laboratories,
//! 2015). The keys are distributed as described there; they aren't the original program's.
//!
//! Every key comes with a bit. For one key in 256 it is biased, 0 in 15 cases of 16, otherwise it
//! is a fair coin: the benchmark's task is to find the biased ones. Who only needs keys takes
//! `map(|datum| datum.key)`.

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
    /// The bit that comes with it this time.
    pub value: bool,
    /// Whether the key is one whose bits are biased: the truth that is to be found out.
    pub is_biased: bool,
}

impl Datum {
    fn new(key: u64, random: &mut Random) -> Self {
        // A key is biased once and for all, so its hash decides.
        let is_biased = scatter(!key).is_multiple_of(256);
        let value = random.random_ratio(if is_biased { 1 } else { 8 }, 16);
        Self { key, value, is_biased }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::Datum;

    /// One key in 256 is biased, and bits are as they should be.
    pub(crate) fn assert_bits_are_biased(data: &[Datum]) {
        let mut keys: Vec<(u64, bool)> =
            data.iter().map(|datum| (datum.key, datum.is_biased)).collect();
        keys.sort_unstable();
        keys.dedup();
        let biased = keys.iter().filter(|(_, is_biased)| *is_biased).count();
        let share = biased as f64 / keys.len() as f64 * 256.0;
        assert!((0.85..1.15).contains(&share), "{share} keys of 256 are biased");
        let distinct = keys.len();
        keys.dedup_by_key(|(key, _)| *key);
        assert_eq!(keys.len(), distinct, "a key is biased or it isn't");
        for (is_biased, wanted) in [(true, 1.0 / 16.0), (false, 0.5)] {
            let values = data.iter().filter(|datum| datum.is_biased == is_biased);
            let ones = values.clone().filter(|datum| datum.value).count();
            let mean = ones as f64 / values.count() as f64;
            assert!((mean - wanted).abs() < 0.02, "{mean} instead of {wanted}");
        }
    }
}
