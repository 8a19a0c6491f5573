//! The adaptive quotient filter with its reverse map.

use super::{Contestant, Shape};
use std::collections::BTreeSet;
use twiceshy::{Answer, Hash, QuotientFilter, Secret, error::AdaptError, hash::KeyedHasher};

pub(super) struct Aqf {
    filter: QuotientFilter,
    hasher: KeyedHasher,
    /// The reverse map: the hashes of the members. `None` if the filter isn't told of its mistakes.
    members: Option<BTreeSet<Hash>>,
}

impl Aqf {
    pub(super) fn new(shape: &Shape, adapts: bool) -> Self {
        let builder = QuotientFilter::builder();
        let builder = builder.slots(shape.slots).remainder_bits(shape.remainder_bits);
        Self {
            filter: builder.build().expect("memory for a filter"),
            hasher: hasher(shape.seed),
            members: adapts.then(BTreeSet::new),
        }
    }
}

/// Returns the hasher of the keys.
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
            self.filter.remove_trusting(hash).expect("a member");
            if let Some(members) = &mut self.members {
                members.remove(&hash);
            }
        }
        true
    }

    fn contains(&self, key: u64) -> bool {
        self.filter.contains(self.hasher.hash(&key))
    }

    fn repair(&mut self, mistake: u64) {
        let Some(members) = &self.members else { return };
        if let Answer::Maybe(claim) = self.filter.check(self.hasher.hash(&mistake)) {
            let suspects: Vec<Hash> = members.range(claim.suspects()).copied().collect();
            match self.filter.adapt(&claim, &suspects) {
                // The space is fixed. If there is no room for a repair, the mistake stays.
                Ok(_) | Err(AdaptError::Full { .. }) => {}
                Err(error) => panic!("all suspects are listed: {error}"),
            }
        }
    }

    fn bits(&self) -> u64 {
        self.filter.stats().memory * 8
    }

    fn used_bits(&self) -> f64 {
        self.bits() as f64 * self.filter.stats().load
    }
}
