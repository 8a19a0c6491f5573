//! Computes the remainder of a hash from a seed.

use crate::Hash;

/// A hash function that depends on a seed.
#[derive(Clone, Copy)]
pub(super) struct Mix {
    low: u64,
    high: u64,
}

impl Mix {
    /// Returns the function of a seed. Different seeds have different functions.
    #[inline(always)]
    pub(super) fn of(seed: u64) -> Self {
        let number = seed.wrapping_add(1);
        Self {
            low: number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            high: number.wrapping_mul(0xd1b5_4a32_d192_ed03),
        }
    }

    /// Returns the remainder of a hash. It depends on all bits of the hash, so two different hashes
    /// have different remainders under some seeds.
    #[inline(always)]
    pub(super) fn remainder(self, hash: Hash, bits: u32) -> u64 {
        let hash = hash.as_u128();
        let low = u128::from(hash as u64 ^ self.low);
        let product = low * u128::from((hash >> 64) as u64 ^ self.high);
        ((product >> 64) as u64 ^ product as u64) >> (64 - bits)
    }
}
