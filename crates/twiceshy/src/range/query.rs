//! Splits ranges of keys by partition.

use super::RangeKey;
use super::boxes::{Piece, Spot};
use crate::bits::word::low_bits;
use crate::{Hash, Secret, hash::KeyedHasher};
use core::fmt;
use core::marker::PhantomData;
use core::ops::RangeBounds;

/// Maps keys to partitions and their hashes.
///
/// It is the same for all filters with the same secret and the same
/// [longest range](Self::longest_range), so an index of members by hash doesn't need the filter.
#[derive(Clone)]
pub struct Partitions<K> {
    hasher: KeyedHasher,
    secret: Secret,
    memento_bits: u32,
    keys: PhantomData<fn(K)>,
}

/// A range of numbers that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    first: u128,
    last: u128,
}

impl<K: RangeKey> Partitions<K> {
    pub(super) fn new(secret: Secret, memento_bits: u32) -> Self {
        const { assert!(K::BITS >= 1 && K::BITS <= 128, "numbers of keys have 1 to 128 bits") };
        Self { hasher: KeyedHasher::new(&secret), secret, memento_bits, keys: PhantomData }
    }

    pub(super) fn secret(&self) -> &Secret {
        &self.secret
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

    /// Returns the number of partitions in a span, minus one.
    pub(super) fn borders(&self, span: Span) -> u128 {
        self.partition(span.last) - self.partition(span.first)
    }

    /// Splits a span by partition.
    #[inline]
    pub(super) fn pieces(&self, span: Span) -> impl Iterator<Item = Piece> {
        let (first, last) = (self.partition(span.first), self.partition(span.last));
        (first..=last).map(move |partition| {
            let start = if partition == first { self.memento(span.first) } else { 0 };
            let end = if partition == last {
                self.memento(span.last)
            } else {
                low_bits(self.memento_bits)
            };
            Piece { partition: self.hash(partition), least: start, most: end }
        })
    }

    /// Returns the two pieces of a span, or the same piece twice if it has one. Returns `None` if
    /// it has more than two.
    #[inline(always)]
    pub(super) fn pair(&self, span: Span) -> Option<[Piece; 2]> {
        let (first, last) = (self.partition(span.first), self.partition(span.last));
        let (least, most) = (self.memento(span.first), self.memento(span.last));
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

impl Span {
    /// Returns the numbers of the keys in a range, or `None` if the range is empty.
    pub(super) fn of<K: RangeKey>(range: &impl RangeBounds<K>) -> Option<Self> {
        K::numbers(range).map(|numbers| {
            let (first, last) = numbers.into_inner();
            Self { first, last }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ops::Bound;
    use proptest::prelude::*;

    #[test]
    fn spans_match_range_bounds() {
        let of = |first, last| Some(Span { first, last });
        assert_eq!(Span::of(&(3u8..7)), of(3, 6));
        assert_eq!(Span::of(&(3u8..=7)), of(3, 7));
        assert_eq!(Span::of(&(3u8..)), of(3, 255));
        assert_eq!(Span::of(&(..=3u8)), of(0, 3));
        assert_eq!(Span::of::<u128>(&(..)), of(0, u128::MAX));
        let excluded = (Bound::Excluded(3u8), Bound::Unbounded);
        assert_eq!(Span::of(&excluded), of(4, 255));
        let nothing = [
            Span::of(&(3u8..3)),
            Span::of(&(..0u8)),
            #[expect(clippy::reversed_empty_ranges, reason = "it tests such a range")]
            Span::of(&(7u8..=3)),
            Span::of(&(Bound::Excluded(3u8), Bound::Excluded(4))),
            Span::of(&(Bound::Excluded(u128::MAX), Bound::Unbounded)),
        ];
        assert_eq!(nothing, [None; 5]);
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
            let span = Span::of(&(first..=last)).unwrap();
            let spot: Spot = partitions.spot(key);
            let pieces: Vec<Piece> = partitions.pieces(span).collect();
            prop_assert_eq!(pieces.len() as u128, partitions.borders(span) + 1);
            let has = |piece: &&Piece| {
                piece.partition == spot.partition && piece.has(spot.memento)
            };
            let pair = partitions.pair(span);
            prop_assert_eq!(pair.is_some(), pieces.len() < 3);
            if let Some([one, other]) = pair {
                prop_assert_eq!([Some(&one), Some(&other)], [pieces.first(), pieces.last()]);
            }
            let found = pieces.iter().filter(has).count();
            prop_assert_eq!(found, usize::from((first..=last).contains(&key)));
        }
    }
}
