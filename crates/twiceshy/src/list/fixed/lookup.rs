//! Looking keys up.

use super::YesNoFilter;
use super::block::{BLOCK, Block};
use super::seed::Mix;
use super::shape::BLOCK_BITS;
use crate::Hash;
use crate::bits::machine::{Machine, Operation};

/// Lookups whose lines are asked for at once.
const BATCH: usize = 16;

impl YesNoFilter {
    /// Whether a key of this hash is on the yes list: certainly right if it is on one of the lists.
    #[inline]
    pub fn contains(&self, hash: Hash) -> bool {
        self.level.run(Contains { filter: self, hash })
    }

    /// Answers many lookups: `answers` is cleared and then has one for each hash, as of
    /// [`contains`](Self::contains). Several times as fast where the filter is larger than the
    /// cache.
    ///
    /// ```
    /// use twiceshy::{Hash, YesNoFilter};
    /// let hashes: Vec<Hash> = (0..100).map(|n| Hash::from_u128(n << 121)).collect();
    /// let filter = YesNoFilter::build(&hashes[..50], &hashes[50..], 0.01)?;
    /// let mut answers = Vec::new();
    /// filter.contains_many(&hashes, &mut answers);
    /// assert!(answers[..50].iter().all(|&yes| yes) && !answers[50..].iter().any(|&yes| yes));
    /// # Ok::<(), twiceshy::BuildError>(())
    /// ```
    pub fn contains_many(&self, hashes: &[Hash], answers: &mut Vec<bool>) {
        self.contains_each(hashes, |&hash| hash, answers);
    }

    pub(crate) fn contains_each<K>(
        &self,
        keys: &[K],
        hash: impl Fn(&K) -> Hash,
        answers: &mut Vec<bool>,
    ) {
        answers.clear();
        answers.reserve(keys.len());
        self.level.run(ContainsEach { filter: self, keys, hash, answers });
    }

    /// The quotient of a hash, as a block and its number there.
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

/// A hash times the number of quotients: the whole part. The first half of the hash is enough,
/// because no filter has so many.
#[inline(always)]
pub(super) fn quotient(hash: Hash, quotients: u64) -> u64 {
    (((hash.as_u128() >> 64) * u128::from(quotients)) >> 64) as u64
}

struct Contains<'a> {
    filter: &'a YesNoFilter,
    hash: Hash,
}

impl Operation for Contains<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> bool {
        let Self { filter, hash } = self;
        let (block, quotient) = filter.quotient(hash);
        filter.is_in(machine, filter.place(block).0, quotient, hash)
    }
}

struct ContainsEach<'a, K, H> {
    filter: &'a YesNoFilter,
    keys: &'a [K],
    hash: H,
    answers: &'a mut Vec<bool>,
}

impl<K, H: Fn(&K) -> Hash> Operation for ContainsEach<'_, K, H> {
    type Output = ();

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        let Self { filter, keys, hash, answers } = self;
        let ask = |key: &K| {
            let hash = hash(key);
            let (block, quotient) = filter.quotient(hash);
            let first = filter.place(block).0;
            filter.lines.prefetch(first);
            for distance in Block::guess(&filter.shape, quotient) {
                filter.lines.prefetch(first + distance);
            }
            (first, quotient, hash)
        };
        for batch in keys.chunks(BATCH) {
            let mut asked = [(0, 0, Hash::MIN); BATCH];
            for (place, key) in asked.iter_mut().zip(batch) {
                *place = ask(key);
            }
            let found = asked[..batch.len()]
                .iter()
                .map(|&(first, quotient, hash)| filter.is_in(machine, first, quotient, hash));
            answers.extend(found);
        }
    }
}
