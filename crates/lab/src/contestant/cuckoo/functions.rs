//! The hash functions of a key.

use twiceshy::Hash;
use twiceshy_workloads::key::scatter;

/// The hash functions of one key. There are any number of them, all derived from its keyed hash.
///
/// If the keyed hash is random, functions with different numbers are independent: if two keys
/// agree in one function, they are no more likely to agree in another.
#[derive(Clone, Copy)]
pub(super) struct Functions {
    low: u64,
    high: u64,
}

/// The number of the first fingerprint function. Functions with lower numbers give places.
const FINGERPRINTS: u64 = 1 << 32;

impl Functions {
    pub(super) fn new(hash: Hash) -> Self {
        Self { low: hash.as_u128() as u64, high: (hash.as_u128() >> 64) as u64 }
    }

    fn number(self, number: u64) -> u64 {
        scatter(self.low ^ scatter(self.high ^ number))
    }

    /// Returns a place below `bound`.
    pub(super) fn place(self, number: u32, bound: usize) -> usize {
        reduce(self.number(number.into()), bound)
    }

    /// Returns a fingerprint of `bits` bits. It is never 0, because 0 marks an empty slot.
    pub(super) fn fingerprint(self, number: u32, bits: u32) -> u64 {
        1 + reduce(self.number(FINGERPRINTS + u64::from(number)), (1 << bits) - 1) as u64
    }
}

/// Maps a 64-bit number to a number below `bound`.
pub(super) fn reduce(number: u64, bound: usize) -> usize {
    ((u128::from(number) * bound as u128) >> 64) as usize
}
