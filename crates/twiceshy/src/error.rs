//! Errors, one type per operation.
//!
//! Narrow errors convert to general ones with `?`. For example, a [`PlanError`] becomes a
//! [`BuildError`]. Errors that only one filter family returns are in the module of that family.

pub use crate::hash::EntropyError;
pub use crate::invalid::Invalid;

use crate::claim::Mismatch;
use crate::{Claim, Hash};

/// The reason why a member was not inserted. The filter is unchanged.
///
/// All filters share this type, because [`Dynamic`](crate::Dynamic) and
/// [`Adaptive`](crate::Adaptive) need one.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InsertError {
    /// The filter has no free slot for the member.
    #[error("the filter is full at {:.1} % load; build a larger one from its members", load * 100.0)]
    Full {
        /// Share of all slots that are in use.
        load: f64,
    },
    /// More than 2^40 members would share the fingerprint, or the filter would hold more than 2^62
    /// members.
    ///
    /// Only quotient filters return it.
    #[error("the filter can't count more than 2^40 members per fingerprint, or 2^62 in all")]
    Uncountable,
    /// Repairs leave no room for the member. To make room, the filter needs a list of the members
    /// in this claim's interval. List them, and call `insert_listed` with the claim.
    ///
    /// Only telescoping filters return it.
    #[error("repairs near the member leave no room for it; list the members near it to insert it")]
    NeedsMembers(Box<Claim>),
    /// The claim is stale or was made by a different filter, or the listing doesn't match the
    /// filter. Or a listed member lies outside the claim's interval.
    ///
    /// Only `insert_listed` returns it.
    #[error("the claim is stale, or the listing doesn't match the filter; insert and list again")]
    Mismatch,
}

/// The error when some members of a batch were not inserted. All other members were inserted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[error("{} members were refused, all others inserted; build a larger filter", refused.len())]
pub struct InsertManyError {
    /// Positions of the refused members in the caller's list, counted from 0, in ascending order.
    pub refused: Vec<usize>,
    /// The reason why the first of the refused members was not inserted.
    #[source]
    pub cause: InsertError,
}

/// The reason why a member was not removed. The filter is unchanged.
///
/// All filters share this type, because [`Dynamic`](crate::Dynamic) and
/// [`Adaptive`](crate::Adaptive) need one.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoveError {
    /// The key is not a member, because no fingerprint covers it, or because it isn't listed.
    #[error("the key is not a member, so there is nothing to remove")]
    Absent,
    /// Members near the key were inserted or removed since the claim was made, or the claim was
    /// made by a different filter.
    #[error("the claim is stale: check the key again, and list the suspects again")]
    Stale,
    /// A listed member's hash lies outside the suspects' interval.
    #[error("{member:?} is listed but is not in the claim's interval; list only members in it")]
    Outside {
        /// The first member outside the interval.
        member: Hash,
    },
    /// The listing lacks members that the filter holds.
    #[error("{members} members are stored but not listed; list them all, with their counts")]
    Unlisted {
        /// Number of missing members.
        members: u64,
    },
    /// The listing contains members that the filter doesn't hold.
    #[error("{members} listed members are not in the filter; list current members only")]
    Surplus {
        /// Number of surplus members.
        members: u64,
    },
    /// A listed mistake is a member.
    ///
    /// Quotient, Bloom and range filters return it, because their removals shorten fingerprints or
    /// clear cells as far as the mistakes allow.
    #[error("{hash:?} is both a member and a mistake; take it off one of the lists")]
    MistakeIsMember {
        /// The hash that is on both lists.
        hash: Hash,
    },
    /// The claim covers a range of several keys, so it doesn't name the key to remove.
    ///
    /// Only range filters return it.
    #[error("the claim is of several keys; check only the key to remove")]
    ManyKeys,
    /// Several entries may belong to the key.
    ///
    /// Only telescoping filters return it.
    #[error("several entries may belong to the key; list the members near it to remove it")]
    Ambiguous,
    /// Too many of the remaining members would have the same fingerprint.
    ///
    /// Only quotient filters return it.
    #[error("more than 2^40 members would share a fingerprint; remove without listing mistakes")]
    Uncountable,
    /// There is no free slot for the tombstone, or for the repairs that the listed mistakes need.
    #[error("no room at {:.1} % load; remove without a tombstone, or build a larger filter", load * 100.0)]
    Full {
        /// Share of all slots that are in use.
        load: f64,
    },
}

/// The reason why a mistake was not repaired. The filter is unchanged.
///
/// All filters share this type, because [`Adaptive`](crate::Adaptive) needs one.
///
/// [`TooLong`](Self::TooLong), [`Crowded`](Self::Crowded), [`Inseparable`](Self::Inseparable) and
/// [`Full`](Self::Full) mean that the repair is impossible. All other errors protect members: the
/// repair would cause a false negative.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AdaptError {
    /// Members near the query were inserted or removed since the claim was made, or the claim was
    /// made by a different filter.
    #[error("the claim is stale: check the query again, and list the suspects again")]
    Stale,
    /// A listed member's hash lies outside the suspects' interval.
    #[error("{member:?} is listed but is not in the claim's interval; list only members in it")]
    Outside {
        /// The first member outside the interval.
        member: Hash,
    },
    /// The listing lacks members that the filter holds.
    #[error(
        "{members} members are stored but not listed; list them all, or, if the listing is \
         complete and current, let the repair drop these ghosts"
    )]
    Unlisted {
        /// Number of missing members.
        members: u64,
    },
    /// The listing contains members that the filter doesn't hold.
    #[error("{members} listed members are not in the filter; list current members only")]
    Surplus {
        /// Number of surplus members.
        members: u64,
    },
    /// A listed member has the same hash as the claimed mistake.
    #[error("the claimed mistake is a member, so \"maybe\" was right")]
    IsMember,
    /// The range is so long that the filter can't repair it as a whole.
    ///
    /// Only range filters return it.
    #[error(
        "the range is too long to repair; query parts of it, or build a filter for longer ranges"
    )]
    TooLong,
    /// The code of the block has no room for the repair, even if all other repairs of the listed
    /// members are forgotten.
    ///
    /// Only telescoping and extension filters return it.
    #[error("the repair has no room; check the query again, and list the suspects again")]
    Crowded,
    /// The hashes have no bits left that distinguish a member from the mistake.
    ///
    /// Only telescoping and extension filters return it.
    #[error("no bits are left that distinguish the query from a member; rebuild the filter")]
    Inseparable,
    /// There are no free slots for the longer fingerprints.
    #[error("no room for a repair at {:.1} % load; build a larger filter", load * 100.0)]
    Full {
        /// Share of all slots that are in use.
        load: f64,
    },
}

/// The requested filter is impossible.
///
/// All filters share these errors, because they share one [`Builder`](crate::builder::Builder).
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// No size was given, or more than one of capacity, memory and slots.
    #[error("give exactly one of capacity, memory and slots")]
    Size,
    /// A rate and remainder bits were both given.
    #[error("give a false-positive rate or remainder bits, not both")]
    RateAndRemainderBits,
    /// The filter can't have that false-positive rate.
    // The message prints a limit that is 10 % too high, so that rounding never suggests an
    // impossible rate.
    #[error(
        "a false-positive rate of {rate:e} is impossible; choose one from {:.1e} to below 1",
        least * 1.1
    )]
    Rate {
        /// The requested rate.
        rate: f64,
        /// The lowest rate that the filter can have.
        least: f64,
    },
    /// The filter can't have remainders of the given number of bits.
    #[error("remainders of {bits} bits are impossible; choose 1 to {most}")]
    RemainderBits {
        /// Bits per remainder.
        bits: u32,
        /// Maximum number of bits per remainder.
        most: u32,
    },
    /// The filter can't have the given number of members.
    #[error("a capacity of {0} is impossible at that rate; choose less, or build several filters")]
    Capacity(usize),
    /// The memory budget is too small for any filter.
    #[error("no filter of that rate fits in {0} bytes; allow more memory or more false positives")]
    Budget(u64),
    /// The filter can't have the given number of slots.
    #[error("{0} slots are impossible; choose 1 to 2^48")]
    Slots(u64),
    /// The capacity, the slots or the bytes leave no room for the given number of repairs.
    #[error("there is no room for {0} adaptations; allow fewer of them, or more slots or memory")]
    Adaptations(usize),
    /// The filter can't be planned for that load.
    #[error("a load of {0} is impossible; choose 0.5 to 0.99, or set none if the filter expands")]
    Load(f64),
    /// A quotient filter can't grow at that load.
    #[error("a filter can't grow at a load of {0}; choose one from 0.1 to 1")]
    Growth(f64),
    /// A quotient filter can't have values of that many bits.
    #[error("values of {0} bits are impossible; choose 0 to 16")]
    ValueBits(u32),
    /// A telescoping or extension filter can't have codes of that many bits.
    #[error("codes of {0} bits are impossible; choose 8 to 120")]
    CodeBits(u32),
    /// In a telescoping or extension filter, the slots and remainders use all bits of the hashes
    /// and leave none for repairs.
    #[error(
        "remainders of {remainder_bits} bits in {slots} slots leave no bits of the hash for \
         repairs; choose at most {} bits, or a higher false-positive rate",
        (slots - 1).leading_zeros().midpoint(64)
    )]
    NoRepairs {
        /// Number of slots in the table.
        slots: u64,
        /// Bits per remainder.
        remainder_bits: u32,
    },
    /// A range filter can't be planned for ranges of that many keys.
    #[error("ranges of {0} keys are impossible; choose 1 to 2^20")]
    LongestRange(u64),
    /// A concurrent filter can't have that many shards.
    #[error("{0} shards are impossible; choose 1 to 4096")]
    Shards(usize),
}

/// The reason why a filter was not built.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The requested filter is impossible.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The operating system provided no entropy for a secret.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// There is not enough memory.
    #[error("there is not enough memory for {bytes} bytes; build a smaller filter")]
    Memory {
        /// Number of bytes that the filter needs.
        bytes: u64,
    },
    /// Members or mistakes are not in hash order.
    #[error("{0} are not in hash order; sort them by hash")]
    Unsorted(&'static str),
    /// A hash is both in the list of members and in the list of mistakes.
    #[error("{hash:?} is both a member and a mistake{}; take it off one of the lists",
        position.map(|position| format!(" (number {} of the mistakes)", position + 1))
            .unwrap_or_default())]
    MistakeIsMember {
        /// The hash that is on both lists.
        hash: Hash,
        /// The position in the list of mistakes, counted from 0, if a list of keys was given.
        position: Option<usize>,
    },
    /// The members and repairs don't fit in the requested slots.
    #[error("the members and repairs need more than {slots} slots; allow more slots or memory")]
    Full {
        /// Number of slots in the table.
        slots: u64,
    },
    /// There are more members than the filter is planned for.
    ///
    /// Bloom filters return it, and a [`YesNoFilter`](crate::YesNoFilter) with a memory limit.
    #[error("there are more than {capacity} members; build a filter of a larger capacity")]
    Members {
        /// Number of members that the filter is planned for.
        capacity: u64,
    },
    /// More than 2^40 members have the same fingerprint, or there are more than 2^62 members.
    ///
    /// Only quotient filters return it.
    #[error("more than 2^40 members share a fingerprint, or 2^62 in all; insert fewer copies")]
    Uncountable,
    /// A value from a quotient filter that is being replaced doesn't fit in the new filter.
    #[error("the value {value} doesn't fit in {bits} bits; allow as many bits per value as before")]
    ValueTooLarge {
        /// The value that doesn't fit.
        value: u64,
        /// Bits per value in the new filter.
        bits: u32,
    },
}

impl BuildError {
    /// Adds the position of the mistake to a [`MistakeIsMember`](Self::MistakeIsMember).
    pub(crate) fn with_position(self, position: impl FnOnce(Hash) -> Option<usize>) -> Self {
        match self {
            Self::MistakeIsMember { hash, .. } => {
                Self::MistakeIsMember { hash, position: position(hash) }
            }
            other => other,
        }
    }
}

/// The reason why a filter was not doubled.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrowError {
    /// The filter wasn't built to grow.
    #[error("the filter has a fixed size; build an expandable one, or one with more slots")]
    Fixed,
    /// Remainders have only one bit left.
    #[error("no bit would be left for remainders; rebuild the filter from its members")]
    NoRemainder,
    /// Remainders aren't plain, so their bits can't become bits of the quotient.
    #[error("a filter with fresh remainders can't be doubled; rebuild it from its members")]
    FreshRemainders,
    /// The larger filter could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
}

impl From<PlanError> for GrowError {
    fn from(error: PlanError) -> Self {
        Self::Build(error.into())
    }
}

/// Converts a [`Mismatch`] to the errors of the operations that take a listing.
macro_rules! refuse_listings {
    ($($error:ident),+) => {$(
        impl From<Mismatch> for $error {
            fn from(mismatch: Mismatch) -> Self {
                match mismatch {
                    Mismatch::Stale => Self::Stale,
                    Mismatch::Outside { member } => Self::Outside { member },
                    Mismatch::Surplus { members } => Self::Surplus { members },
                }
            }
        }
    )+};
}

refuse_listings!(AdaptError, RemoveError);

impl From<Mismatch> for InsertError {
    fn from(_: Mismatch) -> Self {
        Self::Mismatch
    }
}
