//! The adaptive Bloom filter as a contestant.

use super::listed::NeedsMembers;
use super::{Listed, Shape};
use twiceshy::{AdaptiveBloomFilter, Answer, Claim, Hash, Listing};

/// Builds an adaptive Bloom filter with its reverse map.
pub(super) fn new(shape: &Shape) -> Listed<AdaptiveBloomFilter> {
    let builder = AdaptiveBloomFilter::builder();
    let builder = builder.false_positive_rate(shape.rate()).capacity(shape.members() as usize);
    Listed::new(builder.build().expect("memory for a filter"), shape)
}

impl NeedsMembers for AdaptiveBloomFilter {
    fn insert(&mut self, hash: Hash) {
        self.insert(hash).expect("room");
    }

    fn contains(&self, hash: Hash) -> bool {
        self.contains(hash)
    }

    fn check(&self, hash: Hash) -> Answer {
        self.check(hash)
    }

    fn adapt(&mut self, claim: &Claim, members: &[Hash]) {
        let listing = Listing::new(members).dropping_ghosts();
        self.adapt(claim, listing).expect("all suspects, and room");
    }

    fn remove(&mut self, claim: &Claim, members: &[Hash]) {
        self.remove(claim, members).expect("a member");
    }

    fn bits(&self) -> u64 {
        self.stats().memory * 8
    }

    /// Returns the bits in use: all bits of level 0, and the used share of the bits of the other
    /// levels.
    fn used_bits(&self) -> f64 {
        let details = self.details();
        let rest = (self.stats().memory - details.first_bytes) as f64;
        (details.first_bytes as f64 + rest * details.wear.min(1.0)) * 8.0
    }
}
