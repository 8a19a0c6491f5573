//! Hashes in the whole filter, and in a shard of it.

use crate::{Fingerprint, Hash};

/// 2^`bits` shards, each an interval of hashes.
///
/// ```text
///  hash in the whole   │ shard: k bits │ the rest: 128 − k bits   │
///  hash in the shard                   │ the rest                 │ k zeros │
/// ```
///
/// A hash is a fraction, so a shard is a part of the whole, made 2^k times as wide. What is
/// slot `q` of a shard's `s` slots is slot `shard · s + q` of `2^k · s` slots in the whole,
/// and the fractions behind them are the same. So each fingerprint of a shard is one of the
/// whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sharding {
    bits: u32,
}

impl Sharding {
    /// The most shards: the slots of all of them together are still a 64-bit number.
    pub(crate) const MOST: usize = 1 << 12;

    /// So many shards, or up to twice as many: a power of two, at most
    /// [`MOST`](Self::MOST).
    pub(crate) fn at_least(shards: usize) -> Self {
        Self { bits: shards.next_power_of_two().ilog2() }
    }

    /// Returns whether a filter can have this many shards.
    pub(crate) fn is_possible(shards: usize) -> bool {
        (1..=Self::MOST).contains(&shards) && shards.is_power_of_two()
    }

    pub(crate) fn shards(self) -> usize {
        1 << self.bits
    }

    /// Where a hash belongs.
    #[inline(always)]
    pub(crate) fn shard(self, hash: Hash) -> usize {
        hash.as_u128().unbounded_shr(128 - self.bits) as usize
    }

    /// What a hash is in its shard.
    #[inline(always)]
    pub(crate) fn inner(self, hash: Hash) -> Hash {
        Hash::from_u128(hash.as_u128() << self.bits)
    }

    /// What a shard's hash is in the whole.
    pub(crate) fn outer(self, shard: usize, inner: Hash) -> Hash {
        let first = (shard as u128).unbounded_shl(128 - self.bits);
        Hash::from_u128(first | inner.as_u128() >> self.bits)
    }

    /// What a shard's fingerprint is in the whole.
    #[inline(always)]
    pub(crate) fn outer_fingerprint(self, shard: usize, inner: Fingerprint) -> Fingerprint {
        inner.within(shard as u64, self.bits)
    }

    /// What a fingerprint of the whole is in its shard.
    pub(crate) fn inner_fingerprint(self, shard: usize, outer: Fingerprint) -> Fingerprint {
        outer.of_part(shard as u64, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Scaled;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_fingerprint_of_a_shard_is_one_of_the_whole(
            hash in any::<u128>(), bits in 0u32..=12, slots in 1u64..1 << 48, length in 1u32..=128,
        ) {
            let sharding = Sharding::at_least(1 << bits);
            let hash = Hash::from_u128(hash);
            let (shard, inner) = (sharding.shard(hash), sharding.inner(hash));
            prop_assert!(shard < sharding.shards());
            prop_assert_eq!(sharding.outer(shard, inner), hash);
            let of_shard = Fingerprint::of(Scaled::new(inner, slots), length, slots);
            let all = slots << bits;
            let of_whole = Fingerprint::of(Scaled::new(hash, all), length, all);
            prop_assert_eq!(sharding.outer_fingerprint(shard, of_shard), of_whole);
            prop_assert_eq!(sharding.inner_fingerprint(shard, of_whole), of_shard);
            // And its hashes are all of that shard.
            let hashes = of_whole.hashes();
            prop_assert_eq!(sharding.shard(*hashes.start()), shard);
            prop_assert_eq!(sharding.shard(*hashes.end()), shard);
        }
    }
}
