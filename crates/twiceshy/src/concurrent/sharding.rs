//! Converts between hashes of the whole filter and hashes inside a shard.

use crate::claim::Cells;
use crate::error::BuildError;
use crate::{Hash, fingerprint::Fingerprint};

/// 2^`bits` shards, each an interval of hashes.
///
/// ```text
///  hash in the whole   │ shard: k bits │ the rest: 128 − k bits   │
///  hash in the shard                   │ the rest                 │ k zeros │
/// ```
///
/// A hash is a fraction, so a shard is a part of the whole range, made 2^k times as wide. Slot `q`
/// of a shard with `s` slots corresponds to slot `shard · s + q` of `2^k · s` slots in the whole
/// filter, and the fractions within these slots are the same, so each fingerprint of a shard
/// corresponds to one of the whole filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sharding {
    bits: u32,
    /// Number of shards before the filter's first one. It is 0 in a whole filter. A filter with a
    /// single shard may stand for any of them.
    before: usize,
}

impl Sharding {
    /// Maximum number of shards. The slots of all shards together still fit in a 64-bit number.
    pub(crate) const MOST: usize = 1 << 12;

    /// Returns a sharding with `shards` shards, rounded up to a power of two. There must be at
    /// most [`MOST`](Self::MOST).
    pub(crate) fn at_least(shards: usize) -> Self {
        Self { bits: shards.next_power_of_two().ilog2(), before: 0 }
    }

    /// Returns the sharding of a filter that has only this shard.
    pub(super) fn only(self, shard: usize) -> Self {
        Self { before: self.before + shard, ..self }
    }

    /// Returns whether a filter can have `shards` shards.
    pub(crate) fn is_possible(shards: usize) -> bool {
        (1..=Self::MOST).contains(&shards) && shards.is_power_of_two()
    }

    /// Returns the number of shards of a whole filter.
    pub(crate) fn shards(self) -> usize {
        1 << self.bits
    }

    /// Returns the number of the shard that a hash belongs to. The filter has no shard with this
    /// number if it isn't whole and the hash belongs elsewhere.
    #[inline(always)]
    pub(crate) fn shard(self, hash: Hash) -> usize {
        (hash.as_u128().unbounded_shr(128 - self.bits) as usize).wrapping_sub(self.before)
    }

    /// Converts a hash of the whole filter to a hash inside its shard.
    #[inline(always)]
    pub(crate) fn inner(self, hash: Hash) -> Hash {
        Hash::from_u128(hash.as_u128() << self.bits)
    }

    /// Converts a hash inside a shard to a hash of the whole filter.
    pub(crate) fn outer(self, shard: usize, inner: Hash) -> Hash {
        let first = ((self.before + shard) as u128).unbounded_shl(128 - self.bits);
        Hash::from_u128(first | inner.as_u128() >> self.bits)
    }

    /// Converts a fingerprint of a shard to a fingerprint of the whole filter.
    #[inline(always)]
    pub(crate) fn outer_fingerprint(self, shard: usize, inner: Fingerprint) -> Fingerprint {
        inner.within((self.before + shard) as u64, self.bits)
    }

    /// Converts cells of a shard to cells of the whole filter.
    pub(crate) fn outer_cells(self, shard: usize, inner: Cells) -> Cells {
        let (shard, slots) = ((self.before + shard) as u64, inner.slots << self.bits);
        let before = shard * inner.slots;
        Cells { first: before + inner.first, last: before + inner.last, slots }
    }

    /// Converts the hash in a shard's error to a hash of the whole filter.
    pub(crate) fn outer_build_error(self, shard: usize, error: BuildError) -> BuildError {
        match error {
            BuildError::MistakeIsMember { hash, position } => {
                BuildError::MistakeIsMember { hash: self.outer(shard, hash), position }
            }
            other => other,
        }
    }

    /// Converts cells of the whole filter to cells of a shard. The result is meaningless if they
    /// belong to a different shard or a different filter.
    pub(crate) fn inner_cells(self, shard: usize, outer: Cells) -> Cells {
        let slots = (outer.slots >> self.bits).max(1);
        let before = ((self.before + shard) as u64).saturating_mul(slots);
        let inner = |cell: u64| cell.saturating_sub(before).min(slots - 1);
        Cells { first: inner(outer.first), last: inner(outer.last), slots }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::Digits;
    use crate::hash::Remainders;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shard_fingerprint_maps_to_fingerprint_of_whole_filter(
            hash in any::<u128>(), bits in 0u32..=12, slots in 1u64..1 << 48, length in 1u32..=128,
            mixed in any::<[u8; 16]>(), is_only: bool,
        ) {
            let remainders = Remainders::from_bytes(mixed);
            let digits = |slots| Digits { slots, remainder: 1, width: 1, remainders };
            let sharding = Sharding::at_least(1 << bits);
            let hash = Hash::from_u128(hash);
            let (number, inner) = (sharding.shard(hash), sharding.inner(hash));
            prop_assert!(number < sharding.shards());
            // The same is true of a filter that has only this shard.
            let (sharding, shard) =
                if is_only { (sharding.only(number), 0) } else { (sharding, number) };
            prop_assert_eq!(sharding.shard(hash), shard);
            prop_assert_eq!(sharding.outer(shard, inner), hash);
            let of_shard = Fingerprint::of(digits(slots).scale(inner), length, slots, remainders);
            let all = slots << bits;
            let of_whole = Fingerprint::of(digits(all).scale(hash), length, all, remainders);
            prop_assert_eq!(sharding.outer_fingerprint(shard, of_shard), of_whole);
            let cells = Cells::one(of_shard.quotient(), slots);
            let outer = sharding.outer_cells(shard, cells);
            prop_assert_eq!(outer, Cells::one(of_whole.quotient(), all));
            prop_assert_eq!(sharding.inner_cells(shard, outer), cells);
            // All hashes that the fingerprint covers belong to this shard.
            let hashes = outer.hashes();
            prop_assert!(hashes.contains(&hash));
            prop_assert_eq!(sharding.shard(*hashes.start()), shard);
            prop_assert_eq!(sharding.shard(*hashes.end()), shard);
        }
    }
}
