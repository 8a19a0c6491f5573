//! Hashes in order, in little memory.

use crate::Hash;
use crate::error::Invalid;
use core::ops::RangeInclusive;

/// A set of hashes in order: 16 bytes each, and about a tenth more.
///
/// A `BTreeSet` of hashes that came in any order takes nearly twice as much.
///
/// # Complexity
/// A lookup is two binary searches. An insert or a removal moves a few kilobytes; one in hundreds
/// moves the directory, too, 40 bytes for some 350 hashes.
///
/// # Examples
/// ```
/// use twiceshy::{Hash, OrderedHashes};
/// let mut hashes: OrderedHashes = [9, 5, 7].map(Hash::from_u128).into_iter().collect();
/// assert!(!hashes.insert(Hash::from_u128(5)) && hashes.remove(Hash::from_u128(9)));
/// let near = Hash::from_u128(6)..=Hash::from_u128(8);
/// assert_eq!(hashes.range(near).collect::<Vec<_>>(), [Hash::from_u128(7)]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct OrderedHashes {
    /// The least hash that belongs to each chunk; the first one's is the least of all.
    starts: Vec<Hash>,
    /// None is empty.
    chunks: Vec<Vec<Hash>>,
    len: usize,
}

/// The hashes of a chunk: so few that moving them takes no longer than finding them.
const MOST: usize = 512;

/// Two neighbours that have no more than this become one, and so does an empty one with another.
const FEW: usize = MOST / 2;

impl OrderedHashes {
    /// A set without hashes.
    pub const fn new() -> Self {
        Self { starts: Vec::new(), chunks: Vec::new(), len: 0 }
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory that the set takes.
    pub fn memory_usage(&self) -> u64 {
        let chunks: usize = self.chunks.iter().map(Vec::capacity).sum();
        let hashes = (chunks + self.starts.capacity()) * size_of::<Hash>();
        let directory = self.chunks.capacity() * size_of::<Vec<Hash>>();
        (size_of::<Self>() + hashes + directory) as u64
    }

    /// Whether a hash is in the set.
    pub fn contains(&self, hash: Hash) -> bool {
        let chunk = self.chunks.get(self.chunk_of(hash));
        chunk.is_some_and(|chunk| chunk.binary_search(&hash).is_ok())
    }

    /// The chunk that a hash belongs to.
    fn chunk_of(&self, hash: Hash) -> usize {
        self.starts.partition_point(|&start| start <= hash).saturating_sub(1)
    }

    /// Inserts a hash; whether it is new.
    pub fn insert(&mut self, hash: Hash) -> bool {
        if self.chunks.is_empty() {
            self.open_chunk(0, Hash::MIN, Vec::new());
        }
        let mut at = self.chunk_of(hash);
        let Err(mut position) = self.chunks[at].binary_search(&hash) else { return false };
        if self.chunks[at].len() == MOST {
            // What comes in order fills its chunks.
            let is_last = at + 1 == self.chunks.len() && position == MOST;
            let middle = if is_last { MOST } else { MOST / 2 };
            let behind = self.chunks[at].split_off(middle);
            self.chunks[at].shrink_to_fit();
            let start = behind.first().copied().unwrap_or(hash);
            self.open_chunk(at + 1, start, behind);
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

    fn open_chunk(&mut self, at: usize, start: Hash, hashes: Vec<Hash>) {
        self.starts.insert(at, start);
        self.chunks.insert(at, hashes);
    }

    /// Removes a hash; whether it was there.
    pub fn remove(&mut self, hash: Hash) -> bool {
        let at = self.chunk_of(hash);
        let Some(chunk) = self.chunks.get_mut(at) else { return false };
        let Ok(position) = chunk.binary_search(&hash) else { return false };
        chunk.remove(position);
        if chunk.capacity() > 2 * chunk.len() {
            chunk.shrink_to_fit();
        }
        self.len -= 1;
        for left in [at.checked_sub(1), Some(at)].into_iter().flatten() {
            self.join_if_few(left);
        }
        if self.is_empty() {
            *self = Self::new();
        }
        true
    }

    /// Replaces the hashes of an interval by others of it.
    pub(crate) fn replace(
        &mut self,
        interval: RangeInclusive<Hash>,
        hashes: impl Iterator<Item = Hash>,
    ) {
        let before: Vec<Hash> = self.range(interval).collect();
        for hash in before {
            self.remove(hash);
        }
        self.extend(hashes);
    }

    /// Makes two neighbours one, if they are small.
    fn join_if_few(&mut self, left: usize) {
        let Some([first, second]) = self.chunks.get_mut(left..left + 2) else { return };
        let is_empty = first.is_empty() || second.is_empty();
        if is_empty || first.len() + second.len() <= FEW {
            first.reserve_exact(second.len());
            first.append(second);
            self.chunks.remove(left + 1);
            self.starts.remove(left + 1);
        }
    }

    /// All hashes, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Hash> + Clone {
        self.chunks.iter().flatten().copied()
    }

    /// The hashes of an interval, in order.
    pub fn range(&self, hashes: RangeInclusive<Hash>) -> impl Iterator<Item = Hash> + Clone {
        let (first, last) = hashes.into_inner();
        let at = self.chunk_of(first);
        let chunk = self.chunks.get(at).map_or(&[][..], Vec::as_slice);
        let begun = &chunk[chunk.partition_point(|&hash| hash < first)..];
        let rest = self.chunks.iter().skip(at + 1).flatten();
        begun.iter().chain(rest).copied().take_while(move |&hash| hash <= last)
    }

    /// Checks every invariant; for tests and after suspicion.
    ///
    /// # Errors
    /// Says which invariant is broken.
    pub fn validate(&self) -> Result<(), Invalid> {
        let invalid = |what: String| Err(Invalid(what));
        if self.starts.len() != self.chunks.len() {
            return invalid(format!("{} of {} chunks", self.starts.len(), self.chunks.len()));
        }
        if self.starts.first().is_some_and(|&start| start != Hash::MIN) {
            return invalid("some hashes belong to no chunk".into());
        }
        if !self.iter().is_sorted_by(|a, b| a < b) {
            return invalid("hashes are out of order".into());
        }
        if self.iter().count() != self.len {
            return invalid(format!("there are not {} hashes", self.len));
        }
        for (at, chunk) in self.chunks.iter().enumerate() {
            let end = self.starts.get(at + 1);
            let is_within =
                |&hash: &Hash| self.starts[at] <= hash && end.is_none_or(|&end| hash < end);
            if chunk.is_empty() || chunk.len() > MOST || !chunk.iter().all(is_within) {
                return invalid(format!("chunk {at} is not as it should be"));
            }
        }
        Ok(())
    }
}

/// From hashes in any order; in hash order it is fastest, and takes least memory.
impl FromIterator<Hash> for OrderedHashes {
    fn from_iter<I: IntoIterator<Item = Hash>>(hashes: I) -> Self {
        let mut set = Self::new();
        set.extend(hashes);
        set
    }
}

impl Extend<Hash> for OrderedHashes {
    fn extend<I: IntoIterator<Item = Hash>>(&mut self, hashes: I) {
        for hash in hashes {
            self.insert(hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// So few different ones that many are there already, and chunks split and join.
    fn hash(number: u16) -> Hash {
        Hash::from_u128(u128::from(number).wrapping_mul(u128::MAX / 2999))
    }

    #[test]
    fn hashes_in_order_fill_their_chunks() {
        let hashes: OrderedHashes = (0..10_000).map(|n| Hash::from_u128(n << 90)).collect();
        hashes.validate().unwrap();
        assert_eq!(hashes.len(), 10_000);
        assert!(hashes.memory_usage() < 17 * 10_000, "{}", hashes.memory_usage());
    }

    #[test]
    fn a_hash_takes_18_bytes_and_gives_them_back() {
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
        fn as_a_set(
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
