//! The cascade as a contestant.

use super::QuotientCascade;
use crate::contestant::listed::NeedsMembers;
use crate::contestant::{Listed, Shape};
use twiceshy::{Answer, Claim, Hash};

/// Builds a cascade with its reverse map.
pub(in crate::contestant) fn new(shape: &Shape) -> Listed<QuotientCascade> {
    let filter = QuotientCascade::new(shape.rate(), shape.members() as usize);
    Listed::new(filter.expect("memory for a filter"), shape)
}

impl NeedsMembers for QuotientCascade {
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
        self.adapt(claim, members).expect("all suspects, and room");
    }

    fn remove(&mut self, claim: &Claim, members: &[Hash]) {
        self.remove_listed(claim, members).expect("a member");
    }

    fn bits(&self) -> u64 {
        self.memory_usage() * 8
    }

    fn used_bits(&self) -> f64 {
        self.used_bytes() * 8.0
    }
}
