//! Generates queries as numbers. Numbers below the number of keys are present keys.

use anyhow::Result;
use twiceshy_workloads::key::scatter;
use twiceshy_workloads::stream::Zipf;

pub(super) const EXPONENT: f64 = 1.5;

/// One query in this many is for a present key.
pub(super) const PRESENT: u64 = 10;

/// The attacker's share of the hostile traffic.
pub(super) const HOSTILE: f64 = 0.1;

/// Numbers from here on are absent keys, in order of popularity.
const ABSENT: u64 = 1 << 63;

/// The number of absent keys that can be queried.
const UNIVERSE: u64 = 1 << 40;

/// Returns an endless stream of popular and less popular keys, some of them present.
pub(super) fn skewed(keys: u64, seed: u64) -> Result<impl Iterator<Item = u64>> {
    let ranks = Zipf::new(UNIVERSE, EXPONENT)?.stream(seed);
    let coins = (0..).map(move |at: u64| scatter(scatter(seed) ^ at).is_multiple_of(PRESENT));
    Ok(ranks.zip(coins).map(move |(rank, is_present)| {
        // Scatter the popular keys among the present ones.
        if is_present { scatter(rank) % keys } else { ABSENT | rank }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skewed_traffic_has_present_and_popular_keys() {
        let numbers: Vec<u64> = skewed(1000, 7).unwrap().take(100_000).collect();
        let present = numbers.iter().filter(|&&number| number < 1000).count();
        assert!((9_500..10_500).contains(&present), "{present}");
        assert!(numbers.iter().all(|number| !(1000..ABSENT).contains(number)));
        // The expected share is 0.9/ζ(1.5).
        let first = numbers.iter().filter(|&&number| number == ABSENT).count();
        assert!((33_500..35_500).contains(&first), "{first}");
    }
}
