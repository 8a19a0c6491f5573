//! The hash functions of a key.

use twiceshy::Hash;
use twiceshy_workloads::key::scatter;

/// As many hash functions of one key as are needed, all from its one keyed hash.
///
/// Functions of different numbers are independent, as far as the keyed hash is random: two keys
/// that agree in one are no more likely to agree in another.
#[derive(Clone, Copy)]
pub(super) struct Functions {
    low: u64,
    high: u64,
}

/// The number of the first function that gives fingerprints; those before give places.
const FINGERPRINTS: u64 = 1 << 32;

impl Functions {
    pub(super) fn new(hash: Hash) -> Self {
        Self { low: hash.as_u128() as u64, high: (hash.as_u128() >> 64) as u64 }
    }

    fn number(self, number: u64) -> u64 {
        scatter(self.low ^ scatter(self.high ^ number))
    }

    /// A place below `bound`.
    pub(super) fn place(self, number: u32, bound: usize) -> usize {
        reduce(self.number(number.into()), bound)
    }

    /// A fingerprint of so many bits; never 0, which is an empty slot.
    pub(super) fn fingerprint(self, number: u32, bits: u32) -> u64 {
        1 + reduce(self.number(FINGERPRINTS + u64::from(number)), (1 << bits) - 1) as u64
    }
}

/// From all 64-bit numbers to those below `bound`.
pub(super) fn reduce(number: u64, bound: usize) -> usize {
    ((u128::from(number) * bound as u128) >> 64) as usize
}
