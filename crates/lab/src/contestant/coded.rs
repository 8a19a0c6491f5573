//! The telescoping and the extension filter, with the reverse map that they need.

use super::aqf::hasher;
use super::{Contestant, Shape};
use std::collections::BTreeSet;
use twiceshy::{
    AdaptError, AdaptiveFilter, Answer, CodedStatistics, Dynamic, ExtensionFilter, Hash,
    InsertError, KeyedHasher, Member, TelescopingFilter,
};

/// What members have to be listed for, but repairs.
pub(super) trait Listed: AdaptiveFilter + Dynamic {
    /// Inserts a member with the help of the others near it.
    fn insert_among(&mut self, hash: Hash, members: &BTreeSet<Hash>);

    /// Removes a member, with the help of the others near it if need be.
    fn remove_among(&mut self, hash: Hash, members: &BTreeSet<Hash>);
}

macro_rules! listed {
    ($($filter:ty)*) => {$(
        impl Listed for $filter {
            fn insert_among(&mut self, hash: Hash, members: &BTreeSet<Hash>) {
                let claim = self.claim_to_insert(hash);
                let near = near(members, claim.suspects());
                self.insert_listed(&claim, &near).expect("room");
            }

            fn remove_among(&mut self, hash: Hash, members: &BTreeSet<Hash>) {
                if self.remove(hash).is_ok() {
                    return;
                }
                let Answer::Maybe(claim) = self.check(hash) else { panic!("a member is lost") };
                let near = near(members, claim.suspects());
                self.remove_listed(&claim, &near).expect("a member");
            }
        }
    )*};
}

listed!(TelescopingFilter ExtensionFilter);

fn near(members: &BTreeSet<Hash>, hashes: std::ops::RangeInclusive<Hash>) -> Vec<Member> {
    members.range(hashes).map(|&hash| hash.into()).collect()
}

pub(crate) struct Coded<F> {
    filter: F,
    hasher: KeyedHasher,
    /// The members, by hash: the reverse map.
    members: BTreeSet<Hash>,
}

/// The telescoping filter, for experiments that look inside.
pub(crate) type Telescoping = Coded<TelescopingFilter>;

impl Telescoping {
    /// One whose codes have so many bits for 64 slots, about.
    pub(crate) fn with_code(shape: &Shape, code_bits: u32) -> Self {
        let builder = TelescopingFilter::builder().slots(shape.slots).code_bits(code_bits);
        Self::new(builder.remainder_bits(shape.remainder_bits).build(), shape)
    }

    pub(crate) fn statistics(&self) -> CodedStatistics {
        self.filter.statistics()
    }
}

pub(super) fn telescoping(shape: &Shape) -> Box<dyn Contestant> {
    let builder = TelescopingFilter::builder().slots(shape.slots);
    Box::new(Coded::new(builder.remainder_bits(shape.remainder_bits).build(), shape))
}

pub(super) fn extension(shape: &Shape) -> Box<dyn Contestant> {
    let builder = ExtensionFilter::builder().slots(shape.slots);
    Box::new(Coded::new(builder.remainder_bits(shape.remainder_bits).build(), shape))
}

impl<F> Coded<F> {
    fn new<E: std::fmt::Debug>(filter: Result<F, E>, shape: &Shape) -> Self {
        let filter = filter.expect("memory for a filter");
        Self { filter, hasher: hasher(shape.seed), members: BTreeSet::new() }
    }
}

impl<F: Listed> Contestant for Coded<F> {
    fn insert(&mut self, keys: &[u64]) {
        for key in keys {
            let hash = self.hasher.hash(key);
            match self.filter.insert(hash) {
                Err(InsertError::Crowded) => self.filter.insert_among(hash, &self.members),
                inserted => inserted.expect("room"),
            }
            self.members.insert(hash);
        }
    }

    fn remove(&mut self, keys: &[u64]) -> bool {
        for key in keys {
            let hash = self.hasher.hash(key);
            self.filter.remove_among(hash, &self.members);
            self.members.remove(&hash);
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
        let Answer::Maybe(claim) = self.filter.check(self.hasher.hash(&mistake)) else { return };
        match self.filter.adapt(&claim, &near(&self.members, claim.suspects())) {
            // The next claim names more members, so that other repairs can be forgotten.
            Err(AdaptError::Crowded) => {
                let wider = self.filter.check(claim.query());
                if matches!(wider, Answer::Maybe(wider) if wider.suspects() != claim.suspects()) {
                    self.repair(mistake);
                }
            }
            // It stays a mistake.
            Ok(_) | Err(AdaptError::Inseparable) => {}
            Err(error) => panic!("all suspects are listed: {error}"),
        }
    }

    fn bits(&self) -> u64 {
        self.filter.memory_usage() * 8
    }

    fn used_bits(&self) -> f64 {
        self.bits() as f64
    }
}
