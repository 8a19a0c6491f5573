//! Range filters: "is there a key from a to b?"

mod account;
mod adapt;
mod boxes;
mod builder;
mod bulk;
mod change;
mod error;
mod grow;
mod key;
mod layout;
mod listing;
mod lookup;
mod parts;
mod query;
mod shrink;
mod validate;

#[cfg(test)]
mod tests;

pub use adapt::{Answer, Claim};
#[doc(hidden)]
pub use builder::Options;
pub use builder::{OfRanges, PlanDetails};
pub use error::RejuvenateError;
pub use key::RangeKey;
pub use listing::Listing;
pub(crate) use parts::RangeShape;
pub use query::Partitions;

use crate::builder::{Builder, PLANNED_LOAD};
use crate::claim::Versions;
use crate::error::{InsertError, RemoveError};
use crate::{Hash, Secret, Stats, fingerprint::Fingerprint};
use boxes::{Boxes, Spot};
use core::fmt;
use core::ops::RangeBounds;
use layout::RangeBox;
use query::Span;

/// For a range with more partitions, the answer is "maybe" without a lookup, which would take
/// milliseconds.
const MOST_PARTITIONS: u128 = 1 << 16;

/// A range with more partitions is not repaired, because many of them would need a repair.
const MOST_REPAIRED: u128 = 1 << 10;

/// A filter that answers whether a range may contain a key: the Memento filter.
///
/// It is built for ranges of up to some length R. For these it keeps its false-positive rate,
/// however close they are to members. For longer ranges the rate grows in proportion to their
/// length. For a range of more than 2^16 partitions the answer is always "maybe".
///
/// # How it works
/// The space of keys is split into *partitions* of length R, rounded up to a power of two. The
/// filter stores the hash of a partition as a quotient filter stores that of a key: the quotient
/// is a position, and the remainder is stored there. Next to it is the rest of the key, its
/// *memento*. Members with the same fingerprint share a *box*, which contains all their mementos.
/// A range of length R touches at most two partitions, so a lookup reads at most two boxes. Only a
/// member of a different partition with the same fingerprint can cause a false positive.
///
/// # Complexity
/// A lookup, an insert and a removal each take time in proportion to the members of the key's
/// partition, because they read or write a whole box. If a partition has thousands of members (a
/// long R and dense keys), build the filter with [`build_from`](Builder::build_from), or choose a
/// shorter R.
///
/// # Papers
/// - Eslami and Dayan, *Memento Filter* (SIGMOD 2025), as the Aeris paper describes it: partitions
///   and "keepsake boxes". Our filter can have any size, encodes boxes differently, and looks up
///   every partition of a longer range.
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

/// A range filter that repairs its mistakes: the Aeris filter.
///
/// It is a [`RangeFilter`] that learns from mistakes. Told that a range was empty, and which members
/// caused the answer, it splits their boxes and gives them longer fingerprints, until none of them
/// covers the range's partitions.
///
/// # Guarantees
/// - No false negatives. An operation that fails returns an error and changes nothing.
/// - A repaired mistake stays repaired, unless a key is inserted whose partition collides with one
///   of the range's, or the filter is rebuilt without the mistake. (A range longer than the planned
///   longest range may become too long for a lookup when the filter gets fuller.)
///
/// # Papers
/// - Chesetti et al., *Aeris Filter* (SIGMOD 2026). Our reverse map can be any index by partition
///   hash, and an extension is always a whole slot.
///
/// # Examples
/// ```
/// use twiceshy::{AdaptiveRangeFilter, range::Answer};
/// let builder = AdaptiveRangeFilter::<u64>::builder().capacity(100).longest_range(16);
/// let mut filter = builder.remainder_bits(2).build()?;
/// let members: Vec<u64> = (0..100).map(|n| n * 1000).collect();
/// members.iter().try_for_each(|&member| filter.insert(member))?;
///
/// // Find a false positive between the members.
/// let starts = (0..100_000).filter(|start| start % 1000 > 0 && start % 1000 < 980);
/// let mistake = starts.map(|start| start..start + 16).find(|range| filter.contains_range(range.clone()));
/// let mistake = mistake.expect("remainders of 2 bits are poor");
/// let Answer::Maybe(claim) = filter.check_range(mistake.clone()) else { panic!() };
/// let suspects = members.iter().copied().filter(|&key| claim.is_suspect(filter.hash_of(key)));
/// filter.adapt(&claim, suspects.collect::<Vec<_>>())?;
/// assert!(!filter.contains_range(mistake));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AdaptiveRangeFilter<K> {
    filter: RangeFilter<K>,
    versions: Versions,
    adaptations: u64,
}

/// A box: all members whose partitions share a fingerprint.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The first bits of the hashes of the members' partitions.
    pub fingerprint: Fingerprint,
    /// The members' positions in their partitions, in order.
    pub mementos: Vec<u64>,
}

impl<K: RangeKey> RangeFilter<K> {
    /// Returns a builder: say how good and how large the filter should be.
    pub fn builder() -> Builder<Self> {
        Builder::default()
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

    /// Inserts many members, all or none.
    ///
    /// # Errors
    /// As [`insert`](Self::insert). No member was inserted then, but a filter that grows may have
    /// grown.
    pub fn insert_many(&mut self, keys: &[K]) -> Result<(), InsertError> {
        insert_all(self, keys, Self::insert, Self::remove_trusting)
    }

    /// Removes a key that the caller *knows* to be a member: once, if it was inserted more than once.
    /// If it is not a member, a different member that can't be told from it may be lost.
    ///
    /// # Errors
    /// [`RemoveError::Absent`] if it is certainly not a member.
    pub fn remove_trusting(&mut self, key: K) -> Result<(), RemoveError> {
        self.boxes.remove(self.partitions.spot(key))
    }

    /// Returns whether a key may be a member. "No" is certain.
    pub fn contains(&self, key: K) -> bool {
        self.contains_range((core::ops::Bound::Included(key), core::ops::Bound::Included(key)))
    }

    /// Returns whether a range may contain a member. "No" is certain. For an empty range the answer
    /// is "no".
    pub fn contains_range(&self, range: impl RangeBounds<K>) -> bool {
        self.contains_short_range(&range)
    }

    /// Returns the numbers in a range, or `None` if it can't contain a member.
    fn span(&self, range: &impl RangeBounds<K>) -> Option<Span> {
        Span::of(range).filter(|_| !self.is_empty())
    }

    /// Iterates over all boxes, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = Entry> {
        self.boxes
            .iter()
            .map(|RangeBox { fingerprint, mementos, .. }| Entry { fingerprint, mementos })
    }

    /// Returns the number of members. Each counts as often as it was inserted.
    pub fn len(&self) -> usize {
        self.boxes.len as usize
    }

    /// Returns whether the filter has no members.
    pub fn is_empty(&self) -> bool {
        self.boxes.len == 0
    }

    /// Returns the share of the slots in use.
    pub fn load(&self) -> f64 {
        self.boxes.load()
    }

    /// Returns the number of members that fill 95 % of the slots, if each is alone in its partition.
    pub fn capacity(&self) -> usize {
        (self.boxes.table.slots() as f64 * PLANNED_LOAD) as usize
    }

    /// Returns what the filter holds, and what it takes. The expected rate is that of a range of the
    /// [longest length](Self::longest_range) that touches two partitions.
    pub fn stats(&self) -> Stats {
        let (load, has_ages) = (self.load(), self.boxes.spelling.has_ages);
        Stats {
            members: self.len(),
            memory: size_of::<Self>() as u64 + self.boxes.table.bytes(),
            load,
            repairs: 0,
            expected_rate: builder::expected_rate(self.remainder_bits(), has_ages, load),
        }
    }

    /// Returns the length of the longest range for which the false-positive rate holds.
    pub fn longest_range(&self) -> u64 {
        self.partitions.longest_range()
    }

    /// Returns the number of bits per remainder.
    pub fn remainder_bits(&self) -> u32 {
        self.boxes.spelling.digits.remainder
    }

    /// Returns the hash of a key's partition. Members are listed by this hash.
    pub fn hash_of(&self, key: K) -> Hash {
        self.partitions.hash_of(key)
    }

    /// Returns the mapping from keys to partitions and their hashes.
    pub fn partitions(&self) -> &Partitions<K> {
        &self.partitions
    }

    /// Returns the secret that partitions are hashed with. Store it with the filter, or with the
    /// list of members by hash.
    pub fn secret(&self) -> &Secret {
        self.partitions.secret()
    }
}

impl<K: RangeKey> AdaptiveRangeFilter<K> {
    /// Returns a builder: say how good and how large the filter should be.
    pub fn builder() -> Builder<Self> {
        Builder::default()
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

    /// Inserts many members, all or none; see [`RangeFilter::insert_many`].
    ///
    /// # Errors
    /// As there.
    pub fn insert_many(&mut self, keys: &[K]) -> Result<(), InsertError> {
        insert_all(self, keys, Self::insert, Self::remove_trusting)
    }

    /// Removes a key that the caller *knows* to be a member; see [`RangeFilter::remove_trusting`].
    ///
    /// # Errors
    /// [`RemoveError::Absent`] if it is certainly not a member.
    pub fn remove_trusting(&mut self, key: K) -> Result<(), RemoveError> {
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

    /// Returns whether a key may be a member. "No" is certain.
    pub fn contains(&self, key: K) -> bool {
        self.filter.contains(key)
    }

    /// Returns whether a range may contain a member; see [`RangeFilter::contains_range`].
    pub fn contains_range(&self, range: impl RangeBounds<K>) -> bool {
        self.filter.contains_range(range)
    }

    /// Iterates over all boxes, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = Entry> {
        self.filter.iter()
    }

    /// Returns the number of members. Each counts as often as it was inserted.
    pub fn len(&self) -> usize {
        self.filter.len()
    }

    /// Returns whether the filter has no members.
    pub fn is_empty(&self) -> bool {
        self.filter.is_empty()
    }

    /// Returns the share of the slots in use.
    pub fn load(&self) -> f64 {
        self.filter.load()
    }

    /// Returns the number of members that fill 95 % of the slots; see [`RangeFilter::capacity`].
    pub fn capacity(&self) -> usize {
        self.filter.capacity()
    }

    /// Returns what the filter holds, and what it takes; see [`RangeFilter::stats`].
    pub fn stats(&self) -> Stats {
        let of_filter = self.filter.stats();
        let apart = size_of::<Self>() - size_of::<RangeFilter<K>>();
        let memory = of_filter.memory + apart as u64 + self.versions.bytes();
        Stats { memory, repairs: self.adaptations, ..of_filter }
    }

    /// Returns the length of the longest range for which the false-positive rate holds.
    pub fn longest_range(&self) -> u64 {
        self.filter.longest_range()
    }

    /// Returns the number of bits per remainder.
    pub fn remainder_bits(&self) -> u32 {
        self.filter.remainder_bits()
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

/// Inserts keys one by one; if one is refused, removes those before it.
fn insert_all<F, K: Copy>(
    filter: &mut F,
    keys: &[K],
    insert: impl Fn(&mut F, K) -> Result<(), InsertError>,
    remove: impl Fn(&mut F, K) -> Result<(), RemoveError>,
) -> Result<(), InsertError> {
    for (inserted, &key) in keys.iter().enumerate() {
        if let Err(error) = insert(filter, key) {
            for &key in keys[..inserted].iter().rev() {
                remove(filter, key).expect("it was inserted");
            }
            return Err(error);
        }
    }
    Ok(())
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
