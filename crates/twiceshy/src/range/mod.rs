//! Range filters: "is there a key from a to b?"

mod account;
mod adapt;
mod boxes;
mod builder;
mod bulk;
mod change;
mod grow;
mod key;
mod layout;
mod lookup;
mod parts;
mod query;
mod validate;

#[cfg(test)]
mod tests;

pub use adapt::{Claim, Listing};
#[doc(hidden)]
pub use builder::Options;
pub use builder::PlanDetails;
pub use grow::DoublingError;
pub use key::RangeKey;
pub use layout::RangeBox;
pub(crate) use parts::RangeShape;
pub use query::Partitions;

use crate::builder::{Builder, PLANNED_LOAD};
use crate::claim::Versions;
use crate::traits::filter_traits;
use crate::{Hash, Secret, Stats};
use boxes::{Boxes, Shared, Spot};
use core::fmt;

/// Maximum number of partitions in a lookup. For a longer range, only the number of members
/// decides, because a lookup would take milliseconds.
const MOST_PARTITIONS: u128 = 1 << 16;

/// Maximum number of partitions in a repaired range. A longer range is not repaired, because many
/// of its partitions would need a repair.
const MOST_REPAIRED: u128 = 1 << 10;

/// A filter that answers whether a range may contain a key: the Memento filter.
///
/// It is built for ranges of up to some length R. For these it keeps its false-positive rate,
/// however close they are to members. For longer ranges the rate grows in proportion to their
/// length. For a range of more than 2^16 partitions the answer is "maybe", unless the filter is
/// empty.
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
pub type RangeFilter<K> = MementoFilter<K, false>;

/// A range filter that repairs its mistakes: the Aeris filter.
///
/// It is a [`RangeFilter`] that learns from mistakes. When it is told that a range was empty, and
/// which members caused the answer, it splits their boxes and gives them longer fingerprints, until
/// none of them covers the range's partitions.
///
/// # Guarantees
/// - No false negatives. An operation that fails returns an error and changes nothing.
/// - A repaired mistake stays repaired, unless a key is inserted whose partition collides with one
///   of the range's, or the filter is rebuilt without the mistake.
///
/// # Papers
/// - Chesetti et al., *Aeris Filter* (SIGMOD 2026). Our reverse map can be any index by partition
///   hash, and an extension is always a whole slot.
///
/// # Examples
/// ```
/// use twiceshy::{AdaptiveRangeFilter, Answer};
/// let builder = AdaptiveRangeFilter::<u64>::builder().capacity(100).longest_range(16);
/// let mut filter = builder.remainder_bits(2).build()?;
/// let members: Vec<u64> = (0..100).map(|n| n * 1000).collect();
/// filter.insert_many(&members)?;
///
/// // Find a false positive between the members.
/// let starts = (0..100_000).filter(|start| start % 1000 > 0 && start % 1000 < 980);
/// let mistake = starts.map(|start| start..start + 16).find(|range| filter.contains_range(range.clone()));
/// let mistake = mistake.expect("remainders of 2 bits are poor");
/// let Answer::Maybe(claim) = filter.check_range(mistake.clone()) else { panic!() };
/// let suspects = members.iter().copied().filter(|&key| claim.is_suspect(filter.hash_of(key)));
/// let suspects: Vec<u64> = suspects.collect();
/// filter.adapt(&claim, &suspects)?;
/// assert!(!filter.contains_range(mistake));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type AdaptiveRangeFilter<K> = MementoFilter<K, true>;

/// A [`RangeFilter`], or an [`AdaptiveRangeFilter`] if `ADAPTIVE` is true.
pub struct MementoFilter<K, const ADAPTIVE: bool> {
    partitions: Partitions<K>,
    boxes: Boxes,
    versions: Versions,
    adaptations: u64,
}

/// The figures that only range filters have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Details {
    /// Length of the longest range for which the false-positive rate holds.
    pub longest_range: u64,
    /// Bits per remainder.
    pub remainder_bits: u32,
    /// Number of members that fill 95 % of the slots if each is alone in its partition.
    pub capacity: usize,
}

impl<K: RangeKey, const ADAPTIVE: bool> MementoFilter<K, ADAPTIVE> {
    /// Returns a builder that sets the filter's false-positive rate and size.
    pub fn builder() -> Builder<Self> {
        Builder::default()
    }

    fn new(partitions: Partitions<K>, boxes: Boxes, adaptations: u64) -> Self {
        let versions = Versions::new(Self::versioned_slots(boxes.table.slots()));
        Self { partitions, boxes, versions, adaptations }
    }

    /// Returns the number of slots whose changes are counted. A plain filter makes no claims, so
    /// one is enough.
    fn versioned_slots(slots: u64) -> u64 {
        if ADAPTIVE { slots } else { 1 }
    }

    /// Returns the memory of a filter with `slots` slots, excluding its table.
    fn bytes_beside_table(slots: u64) -> u64 {
        size_of::<Self>() as u64 + Versions::bytes_for(Self::versioned_slots(slots))
    }

    /// Makes claims near a member stale.
    #[inline]
    fn bump(&mut self, spot: Spot) {
        if ADAPTIVE {
            self.versions.bump(self.boxes.scale(spot.partition).quotient);
        }
    }

    /// Iterates over all boxes, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = RangeBox> {
        self.boxes.table.stored().map(|stored| self.boxes.read(stored.quotient, stored.slots))
    }

    /// Returns the number of members, each counted as often as it was inserted.
    pub fn len(&self) -> usize {
        self.boxes.len as usize
    }

    filter_traits!(@is_empty);

    /// Returns the share of the slots in use.
    fn load(&self) -> f64 {
        self.boxes.load()
    }

    /// Returns the filter's number of members, memory use, load and expected false-positive rate.
    /// The rate is that of a range of the [longest length](Details::longest_range) that touches two
    /// partitions.
    pub fn stats(&self) -> Stats {
        let Shared { table, spelling, .. } = &self.boxes.shared;
        let load = self.load();
        Stats {
            members: self.len(),
            memory: Self::bytes_beside_table(table.slots()) + table.bytes(),
            load,
            repairs: self.adaptations,
            expected_rate: builder::expected_rate(
                spelling.digits.remainder,
                spelling.has_ages,
                load,
            ),
        }
    }

    /// Returns the figures that only range filters have.
    pub fn details(&self) -> Details {
        Details {
            longest_range: self.partitions.longest_range(),
            remainder_bits: self.boxes.spelling.digits.remainder,
            capacity: (self.boxes.table.slots() as f64 * PLANNED_LOAD) as usize,
        }
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
        &self.partitions.secret
    }
}

impl<K: RangeKey, const ADAPTIVE: bool> fmt::Debug for MementoFilter<K, ADAPTIVE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(if ADAPTIVE { "AdaptiveRangeFilter" } else { "RangeFilter" })
            .field("details", &self.details())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
