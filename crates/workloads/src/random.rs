//! Random numbers that are the same on every machine.

use rand::SeedableRng;

use crate::key::scatter;

/// The generator behind every workload: PCG64, whose stream is specified.
pub type Random = rand_pcg::Pcg64;

/// The numbers of one `purpose`. Each has its own, so that two workloads with the same seed,
/// say members and queries, aren't the same numbers.
pub(crate) fn random(seed: u64, purpose: &str) -> Random {
    let purpose = purpose.bytes().fold(0, |hash, byte| scatter(hash ^ u64::from(byte)));
    Random::seed_from_u64(scatter(seed ^ purpose))
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::random;

    #[test]
    fn seeds_and_purposes_tell_streams_apart() {
        let first = |seed, purpose| random(seed, purpose).random::<u64>();
        assert_eq!(first(1, "queries"), first(1, "queries"));
        assert_ne!(first(1, "queries"), first(2, "queries"));
        assert_ne!(first(1, "queries"), first(1, "members"));
    }

    /// A change of these is a change of every recorded experiment.
    #[test]
    fn the_stream_is_what_it_always_was() {
        let numbers: Vec<u64> = random(42, "queries").random_iter().take(2).collect();
        assert_eq!(numbers, [14_897_574_216_501_031_370, 17_072_752_462_771_908_447]);
    }
}
