//! What is asked for, as numbers: those below the number of keys are there.

use anyhow::Result;
use twiceshy_workloads::key::scatter;
use twiceshy_workloads::stream::Zipf;

pub(super) const EXPONENT: f64 = 1.5;

/// Of so many queries, one is for a key that is there.
pub(super) const PRESENT: u64 = 10;

/// The share of the hostile traffic that is the adversary's.
pub(super) const HOSTILE: f64 = 0.1;

/// From here on, numbers are of keys that aren't there; popular ones first.
const ABSENT: u64 = 1 << 63;

/// How many absent keys anybody ever asks for.
const UNIVERSE: u64 = 1 << 40;

/// Popular and less popular keys, some of them there, without end.
pub(super) fn skewed(keys: u64, seed: u64) -> Result<impl Iterator<Item = u64>> {
    let ranks = Zipf::new(UNIVERSE, EXPONENT)?.stream(seed);
    let coins = (0..).map(move |at: u64| scatter(scatter(seed) ^ at).is_multiple_of(PRESENT));
    Ok(ranks.zip(coins).map(move |(rank, is_present)| {
        // Any key can be the most popular of those that are there.
        if is_present { scatter(rank) % keys } else { ABSENT | rank }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_are_there_and_some_are_popular() {
        let numbers: Vec<u64> = skewed(1000, 7).unwrap().take(100_000).collect();
        let present = numbers.iter().filter(|&&number| number < 1000).count();
        assert!((9_500..10_500).contains(&present), "{present}");
        assert!(numbers.iter().all(|number| !(1000..ABSENT).contains(number)));
        // 0.9/ζ(1.5) of all.
        let first = numbers.iter().filter(|&&number| number == ABSENT).count();
        assert!((33_500..35_500).contains(&first), "{first}");
    }
}
