//! Random numbers that are identical on every machine.

use rand::SeedableRng;

use crate::key::scatter;

/// The random number generator of all workloads: PCG64, whose output is specified.
pub type Random = rand_pcg::Pcg64;

/// Returns the generator for one `purpose`. Purposes have different streams, so that two workloads
/// with the same seed, such as members and queries, don't get the same numbers.
pub(crate) fn random(seed: u64, purpose: &str) -> Random {
    let purpose = purpose.bytes().fold(0, |hash, byte| scatter(hash ^ u64::from(byte)));
    Random::seed_from_u64(scatter(seed ^ purpose))
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::random;

    #[test]
    fn stream_depends_on_seed_and_purpose() {
        let first = |seed, purpose| random(seed, purpose).random::<u64>();
        assert_eq!(first(1, "queries"), first(1, "queries"));
        assert_ne!(first(1, "queries"), first(2, "queries"));
        assert_ne!(first(1, "queries"), first(1, "members"));
    }

    /// If these numbers change, every recorded experiment changes.
    #[test]
    fn stream_never_changes() {
        let numbers: Vec<u64> = random(42, "queries").random_iter().take(2).collect();
        assert_eq!(numbers, [14_897_574_216_501_031_370, 17_072_752_462_771_908_447]);
    }
}
