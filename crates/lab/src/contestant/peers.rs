//! Filters from other crates. They take 64-bit hashes, and don't adapt.

use super::aqf::hasher;
use super::{Contestant, Shape};
use crate::bench::Mixed;
use scalable_cuckoo_filter::{ScalableCuckooFilter, ScalableCuckooFilterBuilder};
use twiceshy::hash::KeyedHasher;

pub(super) type Cuckoo = ScalableCuckooFilter<u64, Mixed>;

/// The operations of a filter from another crate.
pub(super) trait Plain {
    fn build(shape: &Shape) -> Self;
    fn insert(&mut self, hash: u64);
    /// Removes a member. Returns `false` if the filter can't remove members.
    fn remove(&mut self, hash: u64) -> bool;
    fn contains(&self, hash: u64) -> bool;
    fn bits(&self) -> u64;
}

pub(super) struct Peer<F> {
    filter: F,
    hasher: KeyedHasher,
}

impl<F: Plain> Peer<F> {
    pub(super) fn new(shape: &Shape) -> Self {
        Self { filter: F::build(shape), hasher: hasher(shape.seed) }
    }

    fn hash(&self, key: u64) -> u64 {
        self.hasher.hash(&key).as_u128() as u64
    }
}

impl<F: Plain> Contestant for Peer<F> {
    fn insert(&mut self, keys: &[u64]) {
        for &key in keys {
            self.filter.insert(self.hash(key));
        }
    }

    fn remove(&mut self, keys: &[u64]) -> bool {
        keys.iter().all(|&key| self.filter.remove(self.hash(key)))
    }

    fn contains(&self, key: u64) -> bool {
        self.filter.contains(self.hash(key))
    }

    fn repair(&mut self, _: u64) {}

    fn bits(&self) -> u64 {
        self.filter.bits()
    }

    fn used_bits(&self) -> f64 {
        self.bits() as f64
    }
}

impl Plain for qfilter::Filter {
    fn build(shape: &Shape) -> Self {
        let bits = shape.slots.ilog2() + shape.remainder_bits;
        Self::with_fingerprint_size(shape.members(), bits as u8).expect("a filter")
    }
    fn insert(&mut self, hash: u64) {
        self.insert_fingerprint(true, hash).expect("room");
    }
    fn remove(&mut self, hash: u64) -> bool {
        self.remove_fingerprint(hash)
    }
    fn contains(&self, hash: u64) -> bool {
        self.contains_fingerprint(hash)
    }
    fn bits(&self) -> u64 {
        self.memory_usage() as u64 * 8
    }
}

impl Plain for Cuckoo {
    fn build(shape: &Shape) -> Self {
        ScalableCuckooFilterBuilder::new()
            .initial_capacity(shape.members() as usize)
            .false_positive_probability(shape.rate())
            .hasher(Mixed::default())
            .finish()
    }
    fn insert(&mut self, hash: u64) {
        ScalableCuckooFilter::insert(self, &hash);
    }
    fn remove(&mut self, _: u64) -> bool {
        false
    }
    fn contains(&self, hash: u64) -> bool {
        ScalableCuckooFilter::contains(self, &hash)
    }
    fn bits(&self) -> u64 {
        ScalableCuckooFilter::bits(self)
    }
}

impl Plain for fastbloom::BloomFilter {
    fn build(shape: &Shape) -> Self {
        Self::with_false_pos(shape.rate()).expected_items(shape.members() as usize)
    }
    fn insert(&mut self, hash: u64) {
        self.insert_hash(hash);
    }
    fn remove(&mut self, _: u64) -> bool {
        false
    }
    fn contains(&self, hash: u64) -> bool {
        self.contains_hash(hash)
    }
    fn bits(&self) -> u64 {
        self.num_bits() as u64
    }
}
