//! Lookups in a static yes/no filter.

use super::YesNoFilter;
use super::block::{BLOCK, Block};
use super::shape::BLOCK_BITS;
use crate::Hash;
use crate::batch::{self, Lookup};
use crate::bits::machine::{AnyShape, Machine, dispatched};

impl YesNoFilter {
    /// Returns whether a key with this hash is on the yes list. The answer is exact for keys on one
    /// of the lists.
    #[inline]
    pub fn contains(&self, hash: Hash) -> bool {
        contains(self, hash)
    }

    /// Looks up many hashes; see [`Filter::contains_many`](crate::Filter::contains_many).
    pub fn contains_many(&self, hashes: &[Hash], answers: &mut Vec<bool>) {
        batch::fill_answers(answers, hashes.len(), |answers| contains_many(self, hashes, answers));
    }

    /// Returns the offset of a hash's block in bytes, and the index of its quotient in the block.
    #[inline(always)]
    fn locate(&self, hash: Hash) -> (usize, usize) {
        let quotient = quotient(hash, self.shape.quotients());
        (self.place((quotient >> BLOCK_BITS) as usize).0, quotient as usize % BLOCK)
    }
}

/// Returns the integer part of a hash times the number of quotients. The first half of the hash is
/// precise enough, because a filter has far fewer than 2^64 quotients.
#[inline(always)]
pub(super) fn quotient(hash: Hash, quotients: u64) -> u64 {
    (((hash.as_u128() >> 64) * u128::from(quotients)) >> 64) as u64
}

/// Returns the remainder of a hash under a seed. It depends on all bits of the hash, so two
/// different hashes have different remainders under some seeds.
#[inline(always)]
pub(super) fn remainder(hash: Hash, seed: u64, bits: u32) -> u64 {
    let number = seed.wrapping_add(1);
    let low_key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let high_key = number.wrapping_mul(0xd1b5_4a32_d192_ed03);
    let low = u128::from(hash.as_u128() as u64 ^ low_key);
    let product = low * u128::from((hash.as_u128() >> 64) as u64 ^ high_key);
    ((product >> 64) as u64 ^ product as u64) >> (64 - bits)
}

dispatched! {
    #[inline(always)]
    fn contains<'a>(filter: &'a YesNoFilter, hash: Hash) -> bool
    => filter.target, AnyShape, |machine| {
        let (first, quotient) = filter.locate(hash);
        filter.block(first).contains(machine, quotient, hash)
    }
}

dispatched! {
    fn contains_many<'a>(
        filter: &'a YesNoFilter,
        hashes: &'a [Hash],
        answers: &'a mut [bool],
    ) -> () => filter.target, AnyShape, |machine| {
        batch::answer(&Steps { machine, filter }, hashes, answers);
    }
}

struct Steps<'a, M> {
    machine: M,
    filter: &'a YesNoFilter,
}

impl<M: Machine> Lookup<Hash> for Steps<'_, M> {
    /// The offset of a block, the index of a quotient in it, and the hash.
    type Begun = (usize, usize, u128);

    #[inline(always)]
    fn begin(&self, &hash: &Hash) -> Self::Begun {
        let filter = self.filter;
        let (first, quotient) = filter.locate(hash);
        filter.lines.prefetch(first);
        for distance in Block::guess(&filter.shape, quotient) {
            filter.lines.prefetch(first + distance);
        }
        (first, quotient, hash.as_u128())
    }

    #[inline(always)]
    fn scan(&self, &(first, quotient, hash): &Self::Begun) -> (bool, bool) {
        let block = self.filter.block(first);
        (block.contains(self.machine, quotient, Hash::from_u128(hash)), false)
    }

    #[inline(always)]
    fn contains(&self, &hash: &Hash) -> bool {
        self.filter.contains(hash)
    }
}
