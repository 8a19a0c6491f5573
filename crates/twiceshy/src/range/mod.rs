//! Filters that are asked for ranges: "is there a key from a to b?"

mod account;
mod adapt;
mod boxes;
mod builder;
mod bulk;
mod change;
mod grow;
mod keepsake;
mod key;
mod lookup;
mod parts;
mod query;
mod shrink;
mod validate;

#[cfg(test)]
mod tests;

pub use adapt::{RangeAnswer, RangeClaim};
pub use builder::{RangeBuilder, RangePlan};
pub use key::RangeKey;
pub(crate) use parts::RangeShape;
pub use query::Partitions;

use crate::claim::Versions;
use crate::error::{InsertError, RemoveError};
use crate::{Fingerprint, Hash, Secret};
use boxes::{Boxes, Spot};
use core::fmt;
use core::ops::RangeBounds;
use keepsake::Keepsake;
use query::Span;

/// Of a range that has more partitions, it is said that there may be a member without looking:
/// that would take milliseconds.
const MOST_PARTITIONS: u128 = 1 << 16;

/// A range that has more partitions is not repaired: it is wrong in many of them.
const MOST_REPAIRED: u128 = 1 << 10;

/// A filter that says whether there may be a key in a range: the Memento filter.
///
/// It is built for ranges of up to some length R, and answers these within its rate of false
/// positives, however close they are to its members. Longer ones are answered right, too, with a
/// rate in proportion to their length; and with "maybe", if they are more than 2^16 times as long.
///
/// # How it works
/// The numbers of all keys are cut into *partitions* of R, rounded up to a power of two. The hash
/// of a partition is kept as a quotient filter keeps that of a key: a quotient says where, and a
/// remainder is stored there. Beside it stands what is left of the key, its *memento*; members
/// that share a fingerprint share a *box*, which has all their mementos. A range touches two
/// partitions at most, so two boxes are looked at, and only a member of another partition with the
/// same fingerprint can deceive.
///
/// # Complexity
/// A lookup, an insert and a removal each take time in proportion to the members of the key's
/// partition, because a box is read, and written, as a whole. Where a partition holds thousands of
/// members (a long R and dense keys), build the filter with
/// [`build_from`](RangeBuilder::build_from), or choose a shorter R.
///
/// # Papers
/// - Eslami and Dayan, *Memento Filter* (SIGMOD 2025), as the Aeris paper describes it: partitions
///   and keepsake boxes. Ours differs in the size, which can be any, in how a box is written, and
///   in that every partition of a longer range is looked at.
///
/// # Examples
/// ```
/// use twiceshy::RangeFilter;
/// let mut filter = RangeFilter::<u64>::builder().capacity(1000).longest_range(32).build()?;
/// filter.insert(1_000_000)?;
/// assert!(filter.contains_range(999_990..1_000_010));
/// assert!(!filter.contains_range(1_000_001..=1_000_030));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RangeFilter<K> {
    partitions: Partitions<K>,
    boxes: Boxes,
}

/// A filter for ranges that repairs its mistakes: the Aeris filter.
///
/// As a [`RangeFilter`]; but told that a range was empty, and which members are behind the answer,
/// it splits their boxes, with longer fingerprints, until the range's partitions have none of them.
///
/// # Guarantees
/// - No false negatives. An operation that can't be done returns an error and changes nothing.
/// - A repaired mistake stays repaired until a key is inserted whose partition collides with one of
///   the range's, or the filter is rebuilt without the mistake. (A range that is longer than the longest that was planned
///   for may become too long to be looked at when the filter gets fuller.)
///
/// # Papers
/// - Chesetti et al., *Aeris Filter* (SIGMOD 2026). Ours differs in the reverse map, which is any
///   index by partition hash, and in that an extension is always a whole slot.
///
/// # Examples
/// ```
/// use twiceshy::{AdaptiveRangeFilter, RangeAnswer};
/// let builder = AdaptiveRangeFilter::<u64>::builder().capacity(100).longest_range(16);
/// let mut filter = builder.remainder_bits(2).build_adaptive()?;
/// let members: Vec<u64> = (0..100).map(|n| n * 1000).collect();
/// members.iter().try_for_each(|&member| filter.insert(member))?;
///
/// // Somewhere between them is a mistake.
/// let starts = (0..100_000).filter(|start| start % 1000 > 0 && start % 1000 < 980);
/// let mistake = starts.map(|start| start..start + 16).find(|range| filter.contains_range(range.clone()));
/// let mistake = mistake.expect("remainders of 2 bits are poor");
/// let RangeAnswer::Maybe(claim) = filter.check_range(mistake.clone()) else { panic!() };
/// let suspects = members.iter().copied().filter(|&key| claim.is_suspect(filter.hash_of(key)));
/// filter.adapt(&claim, &suspects.collect::<Vec<_>>())?;
/// assert!(!filter.contains_range(mistake));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AdaptiveRangeFilter<K> {
    filter: RangeFilter<K>,
    versions: Versions,
    adaptations: u64,
}

/// A box: what a filter keeps of the members whose partitions share a fingerprint.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RangeEntry {
    /// The first bits of the hashes of their partitions.
    pub fingerprint: Fingerprint,
    /// Their places in their partitions, in order.
    pub mementos: Vec<u64>,
}

impl<K: RangeKey> RangeFilter<K> {
    /// A builder: say how good and how large the filter should be.
    pub fn builder() -> RangeBuilder<K> {
        RangeBuilder::new()
    }

    fn new(secret: Secret, boxes: Boxes) -> Self {
        Self { partitions: Partitions::new(secret, boxes.spelling.memento_bits), boxes }
    }

    /// Inserts a member.
    ///
    /// # Errors
    /// If there is no room for it.
    pub fn insert(&mut self, key: K) -> Result<(), InsertError> {
        self.grow_in_time();
        self.boxes.insert(self.partitions.spot(key))
    }

    /// Removes a key that is *known* to be a member: once, if it was inserted more than once. If
    /// it is none, but can't be told from one, that one is lost.
    ///
    /// # Errors
    /// [`RemoveError::Absent`], if it is certainly no member.
    pub fn remove(&mut self, key: K) -> Result<(), RemoveError> {
        self.boxes.remove(self.partitions.spot(key))
    }

    /// Whether a key may be a member. "No" is certain.
    pub fn contains(&self, key: K) -> bool {
        self.contains_range((core::ops::Bound::Included(key), core::ops::Bound::Included(key)))
    }

    /// Whether a member may be in a range. "No" is certain, and is the answer to a range that
    /// has no keys at all.
    pub fn contains_range(&self, range: impl RangeBounds<K>) -> bool {
        self.contains_short_range(&range)
    }

    /// The numbers of a range; `None` if it is certainly empty.
    fn span(&self, range: &impl RangeBounds<K>) -> Option<Span> {
        Span::of(range).filter(|_| !self.is_empty())
    }

    /// All boxes, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = RangeEntry> {
        self.boxes
            .iter()
            .map(|Keepsake { fingerprint, mementos, .. }| RangeEntry { fingerprint, mementos })
    }

    /// How many members there are, each counted as often as it was inserted.
    pub fn len(&self) -> usize {
        self.boxes.len as usize
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.boxes.len == 0
    }

    /// Slots in use, as a share of all.
    pub fn load(&self) -> f64 {
        self.boxes.load()
    }

    /// How many members fill 95 % of the slots, if each is alone in its partition.
    pub fn capacity(&self) -> usize {
        (self.boxes.table.slots() as f64 * builder::PLANNED_LOAD) as usize
    }

    /// Bytes of memory that the filter takes.
    pub fn memory_usage(&self) -> u64 {
        size_of::<Self>() as u64 + self.boxes.table.bytes()
    }

    /// The length of the longest range that the rate of false positives holds for.
    pub fn longest_range(&self) -> u64 {
        self.partitions.longest_range()
    }

    /// Bits of a fingerprint's remainder.
    pub fn remainder_bits(&self) -> u32 {
        self.boxes.spelling.digits.remainder
    }

    /// The hash of a key's partition, by which members are listed.
    pub fn hash_of(&self, key: K) -> Hash {
        self.partitions.hash_of(key)
    }

    /// How keys are cut into partitions, and these are hashed.
    pub fn partitions(&self) -> &Partitions<K> {
        &self.partitions
    }

    /// The secret that partitions are hashed with; to be kept where the filter is, or where
    /// members are listed by their hashes.
    pub fn secret(&self) -> &Secret {
        self.partitions.secret()
    }
}

impl<K: RangeKey> AdaptiveRangeFilter<K> {
    /// A builder: say how good and how large the filter should be.
    pub fn builder() -> RangeBuilder<K> {
        RangeBuilder::new()
    }

    fn new(filter: RangeFilter<K>) -> Self {
        let versions = Versions::new(filter.boxes.table.slots());
        Self { filter, versions, adaptations: 0 }
    }

    /// Inserts a member.
    ///
    /// # Errors
    /// If there is no room for it.
    pub fn insert(&mut self, key: K) -> Result<(), InsertError> {
        self.insert_spot(self.filter.partitions.spot(key))
    }

    /// Removes a key that is *known* to be a member; see [`RangeFilter::remove`].
    ///
    /// # Errors
    /// [`RemoveError::Absent`], if it is certainly no member.
    pub fn remove(&mut self, key: K) -> Result<(), RemoveError> {
        self.remove_spot(self.filter.partitions.spot(key))
    }

    fn insert_spot(&mut self, spot: Spot) -> Result<(), InsertError> {
        self.grow_in_time();
        self.filter.boxes.insert(spot)?;
        self.bump(spot);
        Ok(())
    }

    fn remove_spot(&mut self, spot: Spot) -> Result<(), RemoveError> {
        self.filter.boxes.remove(spot)?;
        self.bump(spot);
        Ok(())
    }

    fn bump(&mut self, spot: Spot) {
        self.versions.bump(self.filter.boxes.scale(spot.partition).quotient);
    }

    /// Whether a key may be a member. "No" is certain.
    pub fn contains(&self, key: K) -> bool {
        self.filter.contains(key)
    }

    /// Whether a member may be in a range; see [`RangeFilter::contains_range`].
    pub fn contains_range(&self, range: impl RangeBounds<K>) -> bool {
        self.filter.contains_range(range)
    }

    /// All boxes, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = RangeEntry> {
        self.filter.iter()
    }

    /// How many members there are, each counted as often as it was inserted.
    pub fn len(&self) -> usize {
        self.filter.len()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.filter.is_empty()
    }

    /// Slots in use, as a share of all.
    pub fn load(&self) -> f64 {
        self.filter.load()
    }

    /// How many members fill 95 % of the slots, if each is alone in its partition.
    pub fn capacity(&self) -> usize {
        self.filter.capacity()
    }

    /// Bytes of memory that the filter takes.
    pub fn memory_usage(&self) -> u64 {
        self.filter.memory_usage() + self.versions.bytes()
    }

    /// The length of the longest range that the rate of false positives holds for.
    pub fn longest_range(&self) -> u64 {
        self.filter.longest_range()
    }

    /// Bits of a fingerprint's remainder.
    pub fn remainder_bits(&self) -> u32 {
        self.filter.remainder_bits()
    }

    /// Mistakes repaired since the filter was built.
    pub fn adaptations(&self) -> u64 {
        self.adaptations
    }

    /// The hash of a key's partition, by which members are listed.
    pub fn hash_of(&self, key: K) -> Hash {
        self.filter.hash_of(key)
    }

    /// How keys are cut into partitions, and these are hashed.
    pub fn partitions(&self) -> &Partitions<K> {
        self.filter.partitions()
    }

    /// The secret that partitions are hashed with; see [`RangeFilter::secret`].
    pub fn secret(&self) -> &Secret {
        self.filter.secret()
    }
}

impl<K: RangeKey> fmt::Debug for RangeFilter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RangeFilter")
            .field("len", &self.len())
            .field("load", &self.load())
            .field("longest_range", &self.longest_range())
            .field("remainder_bits", &self.remainder_bits())
            .finish_non_exhaustive()
    }
}

impl<K: RangeKey> fmt::Debug for AdaptiveRangeFilter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdaptiveRangeFilter")
            .field("filter", &self.filter)
            .field("adaptations", &self.adaptations)
            .finish_non_exhaustive()
    }
}
