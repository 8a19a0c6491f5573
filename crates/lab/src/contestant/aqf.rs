//! The adaptive quotient filter, with the reverse map that it needs.

use super::{Contestant, Shape};
use std::collections::BTreeSet;
use twiceshy::{AdaptError, AdaptiveQuotientFilter, Answer, Hash, KeyedHasher, Secret};

pub(super) struct Aqf {
    filter: AdaptiveQuotientFilter,
    hasher: KeyedHasher,
    /// The members, by hash: the reverse map. Who isn't told of mistakes has none.
    members: Option<BTreeSet<Hash>>,
}

impl Aqf {
    pub(super) fn new(shape: &Shape, adapts: bool) -> Self {
        let builder = AdaptiveQuotientFilter::builder();
        let builder = builder.slots(shape.slots).remainder_bits(shape.remainder_bits);
        Self {
            filter: builder.build().expect("memory for a filter"),
            hasher: hasher(shape.seed),
            members: adapts.then(BTreeSet::new),
        }
    }
}

/// What keys are hashed with.
pub(super) fn hasher(seed: u64) -> KeyedHasher {
    let mut secret = [0; 16];
    secret[..8].copy_from_slice(&seed.to_le_bytes());
    KeyedHasher::new(&Secret::from_bytes(secret))
}

impl Contestant for Aqf {
    fn insert(&mut self, keys: &[u64]) {
        let hashes: Vec<Hash> = keys.iter().map(|key| self.hasher.hash(key)).collect();
        self.filter.insert_many(&hashes).expect("room");
        if let Some(members) = &mut self.members {
            members.extend(hashes);
        }
    }

    fn insert_each(&mut self, keys: &[u64]) {
        for key in keys {
            let hash = self.hasher.hash(key);
            self.filter.insert(hash).expect("room");
            if let Some(members) = &mut self.members {
                members.insert(hash);
            }
        }
    }

    fn remove(&mut self, keys: &[u64]) -> bool {
        for key in keys {
            let hash = self.hasher.hash(key);
            self.filter.remove(hash).expect("a member");
            if let Some(members) = &mut self.members {
                members.remove(&hash);
            }
        }
        true
    }

    fn contains(&self, key: u64) -> bool {
        self.filter.contains(self.hasher.hash(&key))
    }

    fn count(&self, keys: &[u64]) -> usize {
        keys.iter().filter(|&&key| self.contains(key)).count()
    }

    fn repair(&mut self, mistake: u64) {
        let Some(members) = &self.members else { return };
        if let Answer::Maybe(claim) = self.filter.check(self.hasher.hash(&mistake)) {
            let suspects: Vec<Hash> = members.range(claim.suspects()).copied().collect();
            match self.filter.adapt(&claim, &suspects) {
                // Its space is what it was given: a mistake that there is no room for stays.
                Ok(_) | Err(AdaptError::Full { .. }) => {}
                Err(error) => panic!("all suspects are listed: {error}"),
            }
        }
    }

    fn bits(&self) -> u64 {
        self.filter.memory_usage() * 8
    }

    fn used_bits(&self) -> f64 {
        self.bits() as f64 * self.filter.load()
    }
}
