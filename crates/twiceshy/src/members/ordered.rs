//! A compact sorted set of hashes.

use crate::Hash;
use crate::invalid::Invalid;
use core::ops::RangeInclusive;

/// A sorted set of hashes that takes 16 bytes per hash, plus about 10 %.
///
/// A `BTreeSet` filled in random order takes nearly twice as much.
///
/// # Complexity
/// A lookup takes two binary searches. An insert or a removal moves a few kilobytes. One operation
/// in several hundred also moves the directory, which takes 24 bytes per 350 hashes or so.
///
/// # Examples
/// ```
/// use twiceshy::{Hash, members::OrderedHashes};
/// let mut hashes: OrderedHashes = [9, 5, 7].map(Hash::from_u128).into_iter().collect();
/// assert!(!hashes.insert(Hash::from_u128(5)) && hashes.remove(Hash::from_u128(9)));
/// let near = Hash::from_u128(6)..=Hash::from_u128(8);
/// assert_eq!(hashes.range(near).collect::<Vec<_>>(), [Hash::from_u128(7)]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct OrderedHashes {
    /// The hashes in order, cut into chunks. No chunk is empty.
    chunks: Vec<Vec<Hash>>,
    len: usize,
}

/// Maximum number of hashes per chunk: small enough that moving them takes no longer than finding
/// one.
const MOST: usize = 512;

/// Two adjacent chunks are merged if they have at most `FEW` hashes together, or if one is
/// empty.
const FEW: usize = MOST / 2;

impl OrderedHashes {
    /// Creates an empty set.
    pub const fn new() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }

    /// Returns the number of hashes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the set is empty.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the bytes of memory that the set takes.
    pub fn memory_usage(&self) -> u64 {
        let hashes: usize = self.chunks.iter().map(Vec::capacity).sum();
        let directory = self.chunks.capacity() * size_of::<Vec<Hash>>();
        (size_of::<Self>() + hashes * size_of::<Hash>() + directory) as u64
    }

    /// Returns whether a hash is in the set.
    pub fn contains(&self, hash: Hash) -> bool {
        let chunk = self.chunks.get(self.chunk_of(hash));
        chunk.is_some_and(|chunk| chunk.binary_search(&hash).is_ok())
    }

    /// Returns the index of the chunk that a hash belongs to.
    fn chunk_of(&self, hash: Hash) -> usize {
        self.chunks.partition_point(|chunk| chunk[0] <= hash).saturating_sub(1)
    }

    /// Inserts a hash. Returns whether it is new.
    pub fn insert(&mut self, hash: Hash) -> bool {
        let mut at = self.chunk_of(hash);
        let Some(chunk) = self.chunks.get_mut(at) else {
            self.chunks.push(vec![hash]);
            self.len = 1;
            return true;
        };
        let Err(mut position) = chunk.binary_search(&hash) else { return false };
        if chunk.len() == MOST {
            // Don't split the last chunk if hashes arrive in order, so that chunks become full.
            let is_last = at + 1 == self.chunks.len() && position == MOST;
            let middle = if is_last { MOST } else { MOST / 2 };
            let second = self.chunks[at].split_off(middle);
            self.chunks[at].shrink_to_fit();
            self.chunks.insert(at + 1, second);
            if position > middle || is_last {
                (at, position) = (at + 1, position - middle);
            }
        }
        let chunk = &mut self.chunks[at];
        if chunk.len() == chunk.capacity() {
            chunk.reserve_exact((chunk.len() / 8).max(4));
        }
        chunk.insert(position, hash);
        self.len += 1;
        true
    }

    /// Removes a hash. Returns whether it was present.
    pub fn remove(&mut self, hash: Hash) -> bool {
        let at = self.chunk_of(hash);
        let Some(chunk) = self.chunks.get_mut(at) else { return false };
        let Ok(position) = chunk.binary_search(&hash) else { return false };
        chunk.remove(position);
        if chunk.capacity() > 2 * chunk.len() {
            chunk.shrink_to_fit();
        }
        self.len -= 1;
        // Merge small neighbours.
        for left in [at.wrapping_sub(1), at] {
            let chunks = self.chunks.get_mut(left..).unwrap_or_default();
            let [first, second, ..] = chunks else { continue };
            if first.is_empty() || second.is_empty() || first.len() + second.len() <= FEW {
                first.reserve_exact(second.len());
                first.append(second);
                self.chunks.remove(left + 1);
            }
        }
        if self.is_empty() {
            *self = Self::new();
        }
        true
    }

    /// Iterates over all hashes, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Hash> + Clone {
        self.chunks.iter().flatten().copied()
    }

    /// Iterates over the hashes in an interval, in order.
    pub fn range(&self, hashes: RangeInclusive<Hash>) -> impl Iterator<Item = Hash> + Clone {
        let (first, last) = hashes.into_inner();
        let at = self.chunk_of(first);
        let chunk = self.chunks.get(at).map_or(&[][..], Vec::as_slice);
        let begun = &chunk[chunk.partition_point(|&hash| hash < first)..];
        let rest = self.chunks.iter().skip(at + 1).flatten();
        begun.iter().chain(rest).copied().take_while(move |&hash| hash <= last)
    }

    /// Checks every invariant. For tests, and for diagnosing suspected corruption.
    ///
    /// # Errors
    /// Returns an error that names the broken invariant.
    pub fn validate(&self) -> Result<(), Invalid> {
        let invalid = |what: String| Err(Invalid(what));
        if !self.iter().is_sorted_by(|a, b| a < b) {
            return invalid("hashes are out of order".into());
        }
        if self.iter().count() != self.len {
            return invalid(format!("there are not {} hashes", self.len));
        }
        match self.chunks.iter().position(|chunk| chunk.is_empty() || chunk.len() > MOST) {
            Some(at) => invalid(format!("chunk {at} has {} hashes", self.chunks[at].len())),
            None => Ok(()),
        }
    }
}

/// Collects hashes in any order. Sorted input is fastest, and takes the least memory.
impl FromIterator<Hash> for OrderedHashes {
    fn from_iter<I: IntoIterator<Item = Hash>>(hashes: I) -> Self {
        let mut set = Self::new();
        for hash in hashes {
            set.insert(hash);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Maps a number to a hash. Numbers are drawn from so few that many inserts find a duplicate.
    fn hash(number: u16) -> Hash {
        Hash::from_u128(u128::from(number).wrapping_mul(u128::MAX / 2999))
    }

    #[test]
    fn chunks_are_full_if_hashes_come_in_order() {
        let hashes: OrderedHashes = (0..10_000).map(|n| Hash::from_u128(n << 90)).collect();
        hashes.validate().unwrap();
        assert_eq!(hashes.len(), 10_000);
        assert!(hashes.memory_usage() < 17 * 10_000, "{}", hashes.memory_usage());
    }

    #[test]
    fn hash_takes_at_most_18_bytes_and_removal_frees_memory() {
        let odd = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
        let hash = |n: u128| Hash::from_u128(n.wrapping_mul(odd));
        let mut hashes: OrderedHashes = (0..50_000).map(hash).collect();
        hashes.validate().unwrap();
        assert!(hashes.memory_usage() < 18 * 50_000, "{}", hashes.memory_usage());
        for n in 0..49_000 {
            assert!(hashes.remove(hash(n)));
        }
        hashes.validate().unwrap();
        assert!(hashes.memory_usage() < 40 * 1000, "{}", hashes.memory_usage());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn operations_match_a_btree_set(
            inserted in prop::collection::vec(0u16..3000, 0..3000),
            removed in prop::collection::vec(0u16..3000, 0..4000),
            ranges in prop::collection::vec((0u16..3000, 0u16..3000), 20),
        ) {
            let (mut set, mut model) = (OrderedHashes::new(), BTreeSet::new());
            for &n in &inserted {
                prop_assert_eq!(set.insert(hash(n)), model.insert(hash(n)));
            }
            set.validate().unwrap();
            for step in [&removed[..removed.len() / 2], &removed[removed.len() / 2..]] {
                for &n in step {
                    prop_assert_eq!(set.remove(hash(n)), model.remove(&hash(n)));
                }
                set.validate().unwrap();
                prop_assert!(set.iter().eq(model.iter().copied()));
                for &(a, b) in &ranges {
                    let range = hash(a).min(hash(b))..=hash(a).max(hash(b));
                    prop_assert!(set.range(range.clone()).eq(model.range(range).copied()));
                    prop_assert_eq!(set.contains(hash(a)), model.contains(&hash(a)));
                }
            }
            prop_assert_eq!(set.len(), model.len());
        }
    }
}
