//! Generates queries. Keys are numbers, and a key is present if it is below the number of keys in
//! the store.

use anyhow::Result;
use twiceshy_workloads::key::scatter;
use twiceshy_workloads::stream::Zipf;

pub(super) const EXPONENT: f64 = 1.5;

/// One query in `PRESENT` asks for a present key.
pub(super) const PRESENT: u64 = 10;

/// The share of the queries in the hostile traffic that come from the attacker.
pub(super) const HOSTILE: f64 = 0.1;

/// The first absent key. It is the most popular one, and popularity decreases from there.
const ABSENT: u64 = 1 << 63;

/// The number of absent keys that can be queried.
const UNIVERSE: u64 = 1 << 40;

/// Returns an endless stream of keys. Some keys are far more popular than others, and some are
/// present.
pub(super) fn skewed(keys: u64, seed: u64) -> Result<impl Iterator<Item = u64>> {
    let ranks = Zipf::new(UNIVERSE, EXPONENT)?.stream(seed);
    let coins = (0..).map(move |at: u64| scatter(scatter(seed) ^ at).is_multiple_of(PRESENT));
    Ok(ranks.zip(coins).map(move |(rank, is_present)| {
        // Scatter the popular keys over all present keys.
        if is_present { scatter(rank) % keys } else { ABSENT | rank }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skewed_traffic_queries_present_keys_and_popular_absent_keys() {
        let numbers: Vec<u64> = skewed(1000, 7).unwrap().take(100_000).collect();
        let present = numbers.iter().filter(|&&number| number < 1000).count();
        assert!((9_500..10_500).contains(&present), "{present}");
        assert!(numbers.iter().all(|number| !(1000..ABSENT).contains(number)));
        // The most popular absent key has an expected share of 0.9/ζ(1.5).
        let first = numbers.iter().filter(|&&number| number == ABSENT).count();
        assert!((33_500..35_500).contains(&first), "{first}");
    }
}
