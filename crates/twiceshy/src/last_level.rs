//! The last level of a cascade: whole hashes, so that it is never wrong.

use crate::Hash;
use core::ops::RangeInclusive;

/// Hashes in order, each once.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastLevel {
    hashes: Vec<Hash>,
}

impl LastLevel {
    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        (self.hashes.capacity() * size_of::<Hash>()) as u64
    }

    pub(crate) fn contains(&self, hash: Hash) -> bool {
        self.hashes.binary_search(&hash).is_ok()
    }

    pub(crate) fn insert(&mut self, hash: Hash) {
        if let Err(at) = self.hashes.binary_search(&hash) {
            self.hashes.insert(at, hash);
        }
    }

    pub(crate) fn remove(&mut self, hash: Hash) {
        if let Ok(at) = self.hashes.binary_search(&hash) {
            self.hashes.remove(at);
        }
    }

    fn places(&self, interval: &RangeInclusive<Hash>) -> core::ops::Range<usize> {
        let first = self.hashes.partition_point(|hash| hash < interval.start());
        let behind = self.hashes.partition_point(|hash| hash <= interval.end());
        first..behind
    }

    /// All hashes of an interval.
    pub(crate) fn within(&self, interval: &RangeInclusive<Hash>) -> &[Hash] {
        &self.hashes[self.places(interval)]
    }

    /// Puts other hashes in the place of all of an interval.
    pub(crate) fn replace(&mut self, interval: &RangeInclusive<Hash>, hashes: &[Hash]) {
        self.hashes.splice(self.places(interval), hashes.iter().copied());
    }

    pub(crate) fn all(&self) -> &[Hash] {
        &self.hashes
    }
}
