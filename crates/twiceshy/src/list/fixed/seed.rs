//! The remainder of a hash, by a seed.

use crate::Hash;

/// What a seed makes of hashes.
#[derive(Clone, Copy)]
pub(super) struct Mix {
    low: u64,
    high: u64,
}

impl Mix {
    /// The mix of a seed: different for all seeds that are ever tried.
    #[inline(always)]
    pub(super) fn of(seed: u64) -> Self {
        let number = seed.wrapping_add(1);
        Self {
            low: number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            high: number.wrapping_mul(0xd1b5_4a32_d192_ed03),
        }
    }

    /// The remainder of a hash, which depends on all its bits: any two that differ have different
    /// remainders by some seeds.
    #[inline(always)]
    pub(super) fn remainder(self, hash: Hash, bits: u32) -> u64 {
        let hash = hash.as_u128();
        let low = u128::from(hash as u64 ^ self.low);
        let product = low * u128::from((hash >> 64) as u64 ^ self.high);
        ((product >> 64) as u64 ^ product as u64) >> (64 - bits)
    }
}
