//! The cascade as a contestant, with its reverse map.

use super::QuotientCascade;
use crate::contestant::aqf::hasher;
use crate::contestant::{Contestant, Shape};
use std::collections::BTreeSet;
use twiceshy::{Answer, Claim, Hash, hash::KeyedHasher};

pub(crate) struct Cascade {
    filter: QuotientCascade,
    hasher: KeyedHasher,
    /// The members, by hash: the reverse map.
    members: BTreeSet<Hash>,
}

impl Cascade {
    pub(crate) fn new(shape: &Shape) -> Self {
        let filter = QuotientCascade::new(shape.rate(), shape.members() as usize);
        Self {
            filter: filter.expect("memory for a filter"),
            hasher: hasher(shape.seed),
            members: BTreeSet::new(),
        }
    }

    fn suspects(&self, claim: &Claim) -> Vec<Hash> {
        self.members.range(claim.suspects()).copied().collect()
    }
}

impl Contestant for Cascade {
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
            self.filter.remove_listed(&claim, &suspects).expect("a member");
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
            self.filter.adapt(&claim, &suspects).expect("all suspects, and room");
        }
    }

    fn bits(&self) -> u64 {
        self.filter.memory_usage() * 8
    }

    fn used_bits(&self) -> f64 {
        self.filter.used_bytes() * 8.0
    }
}
