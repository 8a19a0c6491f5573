//! The telescoping and extension filters with their reverse maps.

use super::aqf::hasher;
use super::{Contestant, Shape};
use std::collections::BTreeSet;
use twiceshy::{
    Adaptive, Answer, ExtensionFilter, Hash, Member, TelescopingFilter,
    error::{AdaptError, InsertError},
    hash::KeyedHasher,
    telescoping,
};

fn near(members: &BTreeSet<Hash>, hashes: std::ops::RangeInclusive<Hash>) -> Vec<Member> {
    members.range(hashes).map(|&hash| hash.into()).collect()
}

pub(crate) struct Coded<F> {
    filter: F,
    hasher: KeyedHasher,
    /// The reverse map: the hashes of the members.
    members: BTreeSet<Hash>,
}

/// The telescoping filter, for experiments that read its statistics.
pub(crate) type Telescoping = Coded<TelescopingFilter>;

impl Telescoping {
    /// Creates a filter with about `code_bits` code bits per 64 slots.
    pub(crate) fn with_code(shape: &Shape, code_bits: u32) -> Self {
        let builder = TelescopingFilter::builder().slots(shape.slots).code_bits(code_bits);
        Self::new(builder.remainder_bits(shape.remainder_bits).build(), shape)
    }

    pub(crate) fn details(&self) -> telescoping::Details {
        self.filter.details()
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

impl<F: Adaptive> Contestant for Coded<F> {
    fn insert(&mut self, keys: &[u64]) {
        for key in keys {
            let hash = self.hasher.hash(key);
            match self.filter.insert(hash) {
                Err(InsertError::NeedsMembers(claim)) => {
                    let near = near(&self.members, claim.suspects());
                    self.filter.insert_listed(&claim, near.into()).expect("room");
                }
                inserted => inserted.expect("room"),
            }
            self.members.insert(hash);
        }
    }

    fn remove(&mut self, keys: &[u64]) -> bool {
        for key in keys {
            let hash = self.hasher.hash(key);
            if self.filter.remove_trusting(hash).is_err() {
                let Answer::Maybe(claim) = self.filter.check(hash) else {
                    panic!("a member is lost")
                };
                let near = near(&self.members, claim.suspects());
                self.filter.remove(&claim, near.into()).expect("a member");
            }
            self.members.remove(&hash);
        }
        true
    }

    fn contains(&self, key: u64) -> bool {
        self.filter.contains(self.hasher.hash(&key))
    }

    fn repair(&mut self, mistake: u64) {
        let Answer::Maybe(claim) = self.filter.check(self.hasher.hash(&mistake)) else { return };
        match self.filter.adapt(&claim, near(&self.members, claim.suspects()).into()) {
            // Try again: the next claim covers a wider range. If all members in it are listed, the
            // filter can make room by forgetting older repairs.
            Err(AdaptError::Crowded) => {
                let wider = self.filter.check(claim.query());
                if matches!(wider, Answer::Maybe(wider) if wider.suspects() != claim.suspects()) {
                    self.repair(mistake);
                }
            }
            // If the repair is impossible, the mistake stays.
            Ok(_) | Err(AdaptError::Inseparable) => {}
            Err(error) => panic!("all suspects are listed: {error}"),
        }
    }

    fn bits(&self) -> u64 {
        self.filter.stats().memory * 8
    }

    fn used_bits(&self) -> f64 {
        self.bits() as f64
    }
}
