//! Filters with a reverse map. The map lists the members that a repair or a removal needs.

use super::aqf::hasher;
use super::{Contestant, Shape};
use std::collections::BTreeSet;
use twiceshy::{Answer, Claim, Hash, hash::KeyedHasher};

/// A filter whose repairs and removals need all members in a claim's interval.
pub(super) trait NeedsMembers {
    fn insert(&mut self, hash: Hash);
    fn contains(&self, hash: Hash) -> bool;
    fn check(&self, hash: Hash) -> Answer;
    fn adapt(&mut self, claim: &Claim, members: &[Hash]);
    fn remove(&mut self, claim: &Claim, members: &[Hash]);
    fn bits(&self) -> u64;
    fn used_bits(&self) -> f64;
}

/// A filter with its reverse map.
pub(super) struct Listed<F> {
    filter: F,
    hasher: KeyedHasher,
    /// The reverse map: the hashes of the members.
    members: BTreeSet<Hash>,
}

impl<F> Listed<F> {
    pub(super) fn new(filter: F, shape: &Shape) -> Self {
        Self { filter, hasher: hasher(shape.seed), members: BTreeSet::new() }
    }

    fn suspects(&self, claim: &Claim) -> Vec<Hash> {
        self.members.range(claim.suspects()).copied().collect()
    }
}

impl<F: NeedsMembers> Contestant for Listed<F> {
    fn insert(&mut self, keys: &[u64]) {
        for key in keys {
            let hash = self.hasher.hash(key);
            self.filter.insert(hash);
            self.members.insert(hash);
        }
    }

    fn remove(&mut self, keys: &[u64]) -> bool {
        for key in keys {
            let hash = self.hasher.hash(key);
            let Answer::Maybe(claim) = self.filter.check(hash) else { panic!("a member") };
            let suspects = self.suspects(&claim);
            self.filter.remove(&claim, &suspects);
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
            self.filter.adapt(&claim, &suspects);
        }
    }

    fn bits(&self) -> u64 {
        self.filter.bits()
    }

    fn used_bits(&self) -> f64 {
        self.filter.used_bits()
    }
}
