//! The adaptive Bloom filter with its reverse map.

use super::aqf::hasher;
use super::{Contestant, Shape};
use std::collections::BTreeSet;
use twiceshy::{AdaptiveBloomFilter, Answer, Claim, Hash, Listing, hash::KeyedHasher};

pub(super) struct Abf {
    filter: AdaptiveBloomFilter,
    hasher: KeyedHasher,
    /// The members, by hash: the reverse map.
    members: BTreeSet<Hash>,
}

impl Abf {
    pub(super) fn new(shape: &Shape) -> Self {
        let builder = AdaptiveBloomFilter::builder();
        let builder = builder.false_positive_rate(shape.rate()).capacity(shape.members() as usize);
        Self {
            filter: builder.build().expect("memory for a filter"),
            hasher: hasher(shape.seed),
            members: BTreeSet::new(),
        }
    }

    fn suspects(&self, claim: &Claim) -> Vec<Hash> {
        self.members.range(claim.suspects()).copied().collect()
    }
}

impl Contestant for Abf {
    fn insert(&mut self, keys: &[u64]) {
        for key in keys {
            let hash = self.hasher.hash(key);
            self.filter.insert(hash).expect("room");
            self.members.insert(hash);
        }
    }

    fn remove(&mut self, keys: &[u64]) -> bool {
        for key in keys {
            let hash = self.hasher.hash(key);
            let Answer::Maybe(claim) = self.filter.check(hash) else { panic!("a member") };
            let suspects = self.suspects(&claim);
            self.filter.remove(&claim, &suspects).expect("a member");
            self.members.remove(&hash);
        }
        true
    }

    fn contains(&self, key: u64) -> bool {
        self.filter.contains(self.hasher.hash(&key))
    }

    fn repair(&mut self, mistake: u64) {
        if let Answer::Maybe(claim) = self.filter.check(self.hasher.hash(&mistake)) {
            let suspects = self.suspects(&claim);
            let listing = Listing::new(&suspects).dropping_ghosts();
            self.filter.adapt(&claim, listing).expect("all suspects, and room");
        }
    }

    fn bits(&self) -> u64 {
        self.filter.stats().memory * 8
    }

    /// Counts all of level 0, and of the other levels the share that is worn.
    fn used_bits(&self) -> f64 {
        let details = self.filter.details();
        let rest = (self.filter.stats().memory - details.first_bytes) as f64;
        (details.first_bytes as f64 + rest * details.wear.min(1.0)) * 8.0
    }
}
