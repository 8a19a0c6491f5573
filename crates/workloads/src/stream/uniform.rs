use rand::RngExt;
use rand::distr::Uniform;

use crate::Invalid;
use crate::random::random;

/// Draws the numbers `0..universe` uniformly and independently.
///
/// # Errors
///
/// If the universe is empty.
pub fn uniform(universe: u64, seed: u64) -> Result<impl Iterator<Item = u64> + use<>, Invalid> {
    let law = Uniform::new(0, universe).map_err(|_| Invalid {
        parameter: "the universe",
        given: 0.0,
        wanted: "at least 1",
    })?;
    Ok(random(seed, "uniform").sample_iter(law))
}

#[cfg(test)]
mod tests {
    use super::uniform;
    use crate::testing::{assert_fits, histogram};

    #[test]
    fn all_numbers_are_equally_frequent() {
        let counts = histogram(1000, uniform(1000, 1).unwrap().take(1_000_000));
        assert_fits(&counts, &[0.001; 1000]);
    }

    #[test]
    fn consecutive_numbers_are_independent() {
        let numbers: Vec<u64> = uniform(10, 2).unwrap().take(1_000_000).collect();
        let pairs = numbers.array_windows().map(|[a, b]| a * 10 + b);
        assert_fits(&histogram(100, pairs), &[0.01; 100]);
    }

    #[test]
    fn universe_can_be_maximal_but_not_empty() {
        assert!(uniform(u64::MAX, 3).unwrap().take(100).any(|number| number > u64::MAX / 2));
        assert_eq!(uniform(1, 3).unwrap().take(3).max(), Some(0));
        assert!(uniform(0, 3).is_err());
    }
}
