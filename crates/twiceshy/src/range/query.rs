//! Splits ranges of keys by partition.

use super::RangeKey;
use super::boxes::{Piece, Spot};
use crate::bits::word::low_bits;
use crate::{Hash, Secret, hash::KeyedHasher};
use core::fmt;
use core::marker::PhantomData;
use core::ops::RangeInclusive;

/// Maps keys to partitions and their hashes.
///
/// All filters with the same secret and the same [longest range](Self::longest_range) map keys in
/// the same way, so an index of members by hash doesn't need the filter.
#[derive(Clone)]
pub struct Partitions<K> {
    hasher: KeyedHasher,
    pub(super) secret: Secret,
    memento_bits: u32,
    keys: PhantomData<fn(K)>,
}

impl<K: RangeKey> Partitions<K> {
    pub(super) fn new(secret: Secret, memento_bits: u32) -> Self {
        const { assert!(K::BITS >= 1 && K::BITS <= 128, "numbers of keys have 1 to 128 bits") };
        Self { hasher: KeyedHasher::new(&secret), secret, memento_bits, keys: PhantomData }
    }

    /// Returns the number of keys per partition, which is the length of the longest planned range.
    pub fn longest_range(&self) -> u64 {
        1 << self.memento_bits
    }

    /// Returns the hash of a key's partition.
    #[inline]
    pub fn hash_of(&self, key: K) -> Hash {
        self.hash(self.partition(key.number()))
    }

    #[inline]
    pub(super) fn spot(&self, key: K) -> Spot {
        let number = key.number();
        Spot { partition: self.hash(self.partition(number)), memento: self.memento(number) }
    }

    #[inline]
    fn partition(&self, number: u128) -> u128 {
        if K::BITS <= u64::BITS {
            (number as u64 >> self.memento_bits).into()
        } else {
            number >> self.memento_bits
        }
    }

    #[inline]
    fn memento(&self, number: u128) -> u64 {
        number as u64 & low_bits(self.memento_bits)
    }

    /// Returns the hash of a partition. Different partitions have different hashes, because the
    /// hasher permutes inputs of these sizes.
    #[inline]
    fn hash(&self, partition: u128) -> Hash {
        if K::BITS <= u64::BITS {
            self.hasher.hash(&(partition as u64))
        } else {
            self.hasher.hash(&partition)
        }
    }

    /// Returns the number of partitions that a range of numbers touches, minus one.
    pub(super) fn borders(&self, numbers: &RangeInclusive<u128>) -> u128 {
        self.partition(*numbers.end()) - self.partition(*numbers.start())
    }

    /// Splits a range of numbers by partition.
    #[inline]
    pub(super) fn pieces(&self, numbers: RangeInclusive<u128>) -> impl Iterator<Item = Piece> {
        let (start, end) = numbers.into_inner();
        let (first, last) = (self.partition(start), self.partition(end));
        (first..=last).map(move |partition| Piece {
            partition: self.hash(partition),
            least: if partition == first { self.memento(start) } else { 0 },
            most: self.memento(if partition == last { end } else { u128::MAX }),
        })
    }

    /// Returns the two pieces of a range of numbers, or the same piece twice if there is only one.
    /// Returns `None` if there are more than two.
    #[inline(always)]
    pub(super) fn pair(&self, numbers: &RangeInclusive<u128>) -> Option<[Piece; 2]> {
        let (start, end) = (*numbers.start(), *numbers.end());
        let (first, last) = (self.partition(start), self.partition(end));
        let (least, most) = (self.memento(start), self.memento(end));
        match last - first {
            0 => Some([Piece { partition: self.hash(first), least, most }; 2]),
            1 => Some([
                Piece { partition: self.hash(first), least, most: low_bits(self.memento_bits) },
                Piece { partition: self.hash(last), least: 0, most },
            ]),
            _ => None,
        }
    }
}

impl<K> fmt::Debug for Partitions<K> {
    /// Omits the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Partitions")
            .field("memento_bits", &self.memento_bits)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ops::Bound;
    use proptest::prelude::*;

    #[test]
    fn numbers_match_range_bounds() {
        assert_eq!(u8::numbers(&(3..7)), Some(3..=6));
        assert_eq!(u8::numbers(&(3..=7)), Some(3..=7));
        assert_eq!(u8::numbers(&(3..)), Some(3..=255));
        assert_eq!(u8::numbers(&(..=3)), Some(0..=3));
        assert_eq!(u128::numbers(&(..)), Some(0..=u128::MAX));
        let excluded = (Bound::Excluded(3), Bound::Unbounded);
        assert_eq!(u8::numbers(&excluded), Some(4..=255));
        let nothing = [
            u8::numbers(&(3..3)),
            u8::numbers(&(..0)),
            #[expect(clippy::reversed_empty_ranges, reason = "it tests such a range")]
            u8::numbers(&(7..=3)),
            u8::numbers(&(Bound::Excluded(3), Bound::Excluded(4))),
            u128::numbers(&(Bound::Excluded(u128::MAX), Bound::Unbounded)),
        ];
        assert_eq!(nothing, [const { None }; 5]);
    }

    proptest! {
        #[test]
        fn pieces_contain_exactly_the_keys_of_the_range(
            first in any::<u16>(), length in 0u16..300, key in any::<u16>(), near in any::<bool>(),
            memento_bits in 0u32..=8,
        ) {
            let last = first.saturating_add(length);
            let key = if near { first.wrapping_sub(9).wrapping_add(key % 330) } else { key };
            let partitions = Partitions::new(Secret::from_bytes([1; 16]), memento_bits);
            let numbers = u128::from(first)..=last.into();
            let spot: Spot = partitions.spot(key);
            let pieces: Vec<Piece> = partitions.pieces(numbers.clone()).collect();
            prop_assert_eq!(pieces.len() as u128, partitions.borders(&numbers) + 1);
            let has = |piece: &&Piece| {
                piece.partition == spot.partition && piece.has(spot.memento)
            };
            let pair = partitions.pair(&numbers);
            prop_assert_eq!(pair.is_some(), pieces.len() < 3);
            if let Some([one, other]) = pair {
                prop_assert_eq!([Some(&one), Some(&other)], [pieces.first(), pieces.last()]);
            }
            let found = pieces.iter().filter(has).count();
            prop_assert_eq!(found, usize::from((first..=last).contains(&key)));
        }
    }
}
