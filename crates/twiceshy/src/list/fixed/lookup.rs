//! Lookups.

use super::YesNoFilter;
use super::block::{BLOCK, Block};
use super::seed::Mix;
use super::shape::BLOCK_BITS;
use crate::Hash;
use crate::batch::{self, Lookup};
use crate::bits::machine::{AnyShape, Machine, Operation};

impl YesNoFilter {
    /// Returns whether a key with this hash is on the yes list. The answer is exact for keys on one
    /// of the lists.
    #[inline]
    pub fn contains(&self, hash: Hash) -> bool {
        self.target.run(Contains { filter: self, hash })
    }

    /// Looks up many hashes: clears `answers`, and then pushes the answer of
    /// [`contains`](Self::contains) for each hash. This is several times as fast as single lookups
    /// if the filter is larger than the cache.
    pub fn contains_many(&self, hashes: &[Hash], answers: &mut Vec<bool>) {
        batch::fill_answers(answers, hashes.len(), |answers| {
            self.target.run(ContainsMany { filter: self, hashes, answers });
        });
    }

    /// Returns the quotient of a hash as a block and an index in it.
    #[inline(always)]
    pub(super) fn quotient(&self, hash: Hash) -> (usize, usize) {
        let quotient = quotient(hash, self.shape.quotients());
        ((quotient >> BLOCK_BITS) as usize, quotient as usize % BLOCK)
    }

    #[inline(always)]
    fn is_in<M: Machine>(&self, machine: M, first: usize, quotient: usize, hash: Hash) -> bool {
        let bits = self.shape.remainder_bits;
        let remainder = |seed| Mix::of(seed).remainder(hash, bits);
        self.block(first).contains(machine, quotient, remainder)
    }
}

/// Returns the integer part of a hash times the number of quotients. The first half of the hash is
/// precise enough, because no filter has that many quotients.
#[inline(always)]
pub(super) fn quotient(hash: Hash, quotients: u64) -> u64 {
    (((hash.as_u128() >> 64) * u128::from(quotients)) >> 64) as u64
}

struct Contains<'a> {
    filter: &'a YesNoFilter,
    hash: Hash,
}

impl Operation for Contains<'_> {
    type Argument = ();
    type Output = bool;
    type Shapes = AnyShape;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) -> bool {
        let Self { filter, hash } = self;
        let (block, quotient) = filter.quotient(hash);
        filter.is_in(machine, filter.place(block).0, quotient, hash)
    }
}

struct ContainsMany<'a> {
    filter: &'a YesNoFilter,
    hashes: &'a [Hash],
    answers: &'a mut [bool],
}

impl Operation for ContainsMany<'_> {
    type Argument = ();
    type Output = ();
    type Shapes = AnyShape;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) {
        batch::answer(&Steps { machine, filter: self.filter }, self.hashes, self.answers);
    }
}

struct Steps<'a, M> {
    machine: M,
    filter: &'a YesNoFilter,
}

/// The first byte of a block, a quotient in it, and the hash.
type Begun = (usize, usize, u128);

impl<M: Machine> Lookup<Hash> for Steps<'_, M> {
    type Begun = Begun;

    #[inline(always)]
    fn begin(&self, &hash: &Hash) -> Begun {
        let filter = self.filter;
        let (block, quotient) = filter.quotient(hash);
        let first = filter.place(block).0;
        filter.lines.prefetch(first);
        for distance in Block::guess(&filter.shape, quotient) {
            filter.lines.prefetch(first + distance);
        }
        (first, quotient, hash.as_u128())
    }

    #[inline(always)]
    fn scan(&self, &(first, quotient, hash): &Begun) -> (bool, bool) {
        let hash = Hash::from_u128(hash);
        (self.filter.is_in(self.machine, first, quotient, hash), false)
    }

    #[inline(always)]
    fn contains(&self, &hash: &Hash) -> bool {
        self.filter.contains(hash)
    }
}
