//! What can go wrong, one type per operation.

use crate::Hash;

/// The operating system gave no entropy for a [`Secret`](crate::Secret).
#[derive(Clone, Debug, thiserror::Error)]
#[error("the operating system gave no entropy for a secret; try again later")]
pub struct EntropyError(#[from] getrandom::Error);

/// A member could not be inserted; the filter is as it was.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InsertError {
    /// No slot is left for it.
    #[error("the filter is full at {:.1} % load; build a larger one from its members", load * 100.0)]
    Full {
        /// Used slots as a share of all.
        load: f64,
    },
    /// More than 2^40 members would have its fingerprint, or the filter more than 2^62.
    #[error(
        "more than 2^40 members would have its fingerprint, or the filter more than 2^62; they \
         can't be counted"
    )]
    Uncountable,
    /// The code of its block has no room, and members are needed to make some.
    #[error("the repairs near it leave no room; insert it with the members near it listed")]
    Crowded,
    /// The claim is stale or another one's, or the list is not that of the block's members.
    #[error(
        "the listed members are not those near it, or came or went since; claim and list again"
    )]
    Mismatch,
}

/// Some of many members could not be inserted; all others were.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[error(
    "{} members were not inserted, all others were; insert those that are refused into a larger \
     filter, built from the members", refused.len()
)]
pub struct InsertManyError {
    /// Where those that were not inserted are in the list, counted from 0, in order.
    pub refused: Vec<usize>,
    /// Why the first of them was refused.
    #[source]
    pub cause: InsertError,
}

/// A member was not removed; the filter is as it was.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoveError {
    /// The key is no member: no fingerprint covers it, or it isn't listed.
    #[error("the key is no member, so there is nothing to remove")]
    Absent,
    /// Members near the key came or went since the claim was made, or it is another
    /// filter's claim.
    #[error("the claim is stale: check the key again, and list the suspects again")]
    Stale,
    /// A listed member has a hash outside the suspects' interval.
    #[error("{member:?} is listed but is no suspect; list exactly the members in the interval")]
    Outside {
        /// The first such member.
        member: Hash,
    },
    /// The listing misses members.
    #[error("{members} members are stored but not listed; list them all, with their counts")]
    Unlisted {
        /// How many.
        members: u64,
    },
    /// The listing names members that the filter doesn't hold.
    #[error("{members} listed members are not in the filter; list current members only")]
    Surplus {
        /// How many.
        members: u64,
    },
    /// A listed mistake is a member.
    #[error("{hash:?} is both a member and a mistake; take it off one of the lists")]
    MistakeIsMember {
        /// The hash.
        hash: Hash,
    },
    /// Several entries may be the key's.
    #[error("several entries may be the key's; remove it with the members near it listed")]
    Ambiguous,
    /// Too many of the other members would have the same fingerprint.
    #[error(
        "more than 2^40 members would have the same fingerprint; remove without a list of mistakes"
    )]
    Uncountable,
    /// No slot is left for the tombstone, or for what the mistakes need.
    #[error("no room at {:.1} % load; remove without a tombstone, or build a larger filter", load * 100.0)]
    Full {
        /// Used slots as a share of all.
        load: f64,
    },
}

/// A key was not added to a yes/no list, which is as it was.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// It was to be added to the no list.
    #[error("{hash:?} is on the yes list; remove it there first")]
    OnYesList {
        /// The hash of the key.
        hash: Hash,
    },
    /// It was to be added to the yes list.
    #[error("{hash:?} is on the no list; remove it there first")]
    OnNoList {
        /// The hash of the key.
        hash: Hash,
    },
    /// The filter has to be larger, and can't be.
    #[error("the filter has to be larger, and can't be built")]
    Build(#[from] BuildError),
}

/// A value was not set; the filter is as it was.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// The key is no member.
    #[error("the key is no member, so it can have no value")]
    Absent,
    /// The filter wasn't built for such values.
    #[error("{value} is too large: the filter was built for values of {bits} bits")]
    TooLarge {
        /// The value.
        value: u64,
        /// Bits of the filter's values.
        bits: u32,
    },
    /// No slot is left for it.
    #[error("no room for a value at {:.1} % load; build a larger filter", load * 100.0)]
    Full {
        /// Used slots as a share of all.
        load: f64,
    },
}

/// A mistake was not repaired; the filter is as it was.
///
/// But for [`Full`](Self::Full), all of these protect members: obeying would end in a
/// false negative.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AdaptError {
    /// Members near the query came or went since the claim was made, or it is another
    /// filter's claim.
    #[error("the claim is stale: check the query again, and list the suspects again")]
    Stale,
    /// A listed member has a hash outside the suspects' interval.
    #[error("{member:?} is listed but is no suspect; list exactly the members in the interval")]
    Outside {
        /// The first such member.
        member: Hash,
    },
    /// The listing misses members: fingerprints stand for more than it has.
    #[error(
        "{members} members are stored but not listed; list them all, or, if the listing is \
         complete and current, repair with the ghosts dropped"
    )]
    Unlisted {
        /// How many.
        members: u64,
    },
    /// The listing names members that the filter doesn't hold.
    #[error(
        "{members} listed members are not in the filter; list current members only, and insert \
         a member into the filter before its store"
    )]
    Surplus {
        /// How many.
        members: u64,
    },
    /// A listed member has the same hash as the claimed mistake.
    #[error("the claimed mistake is a member, so \"maybe\" was right")]
    IsMember,
    /// The range is so long that the filter says "maybe" without looking.
    #[error("the range is too long for the filter; ask for parts of it, or build a better one")]
    TooLong,
    /// The code of the block has no room for the repair, whatever is forgotten of what was
    /// listed.
    #[error("the repair has no room; check the query again, and list the suspects again")]
    Crowded,
    /// No bits of the hashes are left to tell a member from the mistake.
    #[error("no bits are left that tell the query from a member; build the filter anew")]
    Inseparable,
    /// No slots are left for the longer fingerprints.
    #[error(
        "no room to repair a mistake at {:.1} % load; build a larger filter from members and \
         mistakes", load * 100.0
    )]
    Full {
        /// Used slots as a share of all.
        load: f64,
    },
}

/// A filter could not be built.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The false-positive rate is not between 2^-56 and 1.
    #[error("a false-positive rate of {0:e} is impossible; choose one between 2^-56 and 1")]
    Rate(f64),
    /// No remainder can be that wide.
    #[error("remainders of {0} bits are impossible; choose 1 to 56")]
    RemainderBits(u32),
    /// The hashes have no bits left for the repairs of a telescoping filter.
    #[error(
        "remainders of {remainder_bits} bits in {slots} slots leave no bits of the hash for repairs; \
         choose at most {} bits, or a higher false-positive rate",
        (slots - 1).leading_zeros().midpoint(64)
    )]
    NoRepairs {
        /// Slots of the table.
        slots: u64,
        /// Bits of a remainder.
        remainder_bits: u32,
    },
    /// No code can be that long.
    #[error("codes of {0} bits are impossible; choose 8 to 120")]
    CodeBits(u32),
    /// A filter can't grow at that load.
    #[error("a filter can't grow at a load of {0}; choose one from 0.1 to 1")]
    Growth(f64),
    /// No value can be that wide.
    #[error("values of {0} bits are impossible; choose 0 to 16")]
    ValueBits(u32),
    /// A value of a filter that is to be replaced doesn't fit.
    #[error("the value {value} doesn't fit {bits} bits; allow as many as the filters had before")]
    ValueTooLarge {
        /// The value.
        value: u64,
        /// Bits of the new filter's values.
        bits: u32,
    },
    /// More than 2^40 members have the same fingerprint, or there are more than 2^62.
    #[error("more than 2^40 members have the same fingerprint, or there are more than 2^62")]
    Uncountable,
    /// Ranges can't be that long.
    #[error("ranges of {0} keys are impossible; choose 1 to 2^20")]
    Range(u64),
    /// No filter for ranges can be planned for that load, or it is one that grows.
    #[error("a load of {0} is impossible; choose 0.5 to 0.99, and none for a filter that grows")]
    Load(f64),
    /// How large a filter for ranges should be was not said, or twice.
    #[error("give one of capacity and slots")]
    RangeSize,
    /// There can't be that many slots.
    #[error("{0} slots are impossible; choose 1 to 2^48")]
    Slots(u64),
    /// A filter can't have that many shards.
    #[error("{0} shards are impossible; choose 1 to 4096")]
    Shards(usize),
    /// The slots or bytes that were asked for have no room for so many repairs.
    #[error("there is no room for {0} adaptations; allow more slots or memory, or fewer of them")]
    Adaptations(usize),
    /// A rate and remainder bits were both given.
    #[error("give a false-positive rate or remainder bits, not both")]
    RateAndRemainderBits,
    /// Not exactly one of capacity, memory and slots was given.
    #[error("give one of capacity, memory budget and slots")]
    Size,
    /// The memory budget is too small for any filter.
    #[error("{0} bytes hold no filter of that rate; allow more memory or more false positives")]
    Budget(u64),
    /// There is no such amount of memory.
    #[error("there is no memory for {slots} slots of {remainder_bits} bits")]
    Memory {
        /// Slots of the table.
        slots: u64,
        /// Bits of a remainder.
        remainder_bits: u32,
    },
    /// There is no such amount of memory.
    #[error("there is no memory for {0} bits")]
    Bits(u64),
    /// How large a Bloom filter should be was not said, or twice.
    #[error("give one of capacity and memory budget")]
    BloomSize,
    /// A filter of this kind can't have that many members.
    #[error("a capacity of {0} is impossible at that rate; choose less, or build several filters")]
    Capacity(usize),
    /// There are more members than a filter has room for.
    #[error("there are more than {capacity} members; build a filter of a larger capacity")]
    Members {
        /// Members that the filter has room for.
        capacity: u64,
    },
    /// Members or mistakes are not in hash order.
    #[error("{0} come out of hash order; sort them by hash")]
    Unsorted(&'static str),
    /// A hash is both a member's and a mistake's.
    #[error("{hash:?} is both a member and a mistake{}; take it off one of the lists",
        position.map(|position| format!(" (number {} of the mistakes)", position + 1))
            .unwrap_or_default())]
    MistakeIsMember {
        /// The hash.
        hash: Hash,
        /// Where it is in the list of mistakes, counted from 0, if a list of keys was
        /// given.
        position: Option<usize>,
    },
    /// A key is on the yes list and on the no list.
    #[error(
        "number {} of the yes list is number {} of the no list; take it off one of them",
        yes + 1, no + 1
    )]
    OnBothLists {
        /// Its hash.
        hash: Hash,
        /// Where it is in the yes list, counted from 0.
        yes: usize,
        /// Where it is in the no list, counted from 0.
        no: usize,
    },
    /// There can't be that much room in a filter of lists.
    #[error("room for {0} times as many keys more is impossible; choose 0 to 10")]
    Room(f64),
    /// No filter can be that large.
    #[error("{yes} yes-keys at that rate are more than a filter can have; build several")]
    Lists {
        /// Yes-keys.
        yes: u64,
    },
    /// Hashes aren't random.
    #[error("the hashes are so uneven that they can't be random; hash the keys")]
    Uneven,
    /// A hash belongs to another shard than the one that is rebuilt.
    #[error("{hash:?} is no hash of that shard; list exactly the members and mistakes of it")]
    Outside {
        /// The hash.
        hash: Hash,
    },
    /// Members came or went, or a mistake was repaired, while a shard was rebuilt.
    #[error(
        "the shard was changed while it was rebuilt; keep others from changing it, and list its \
         members and mistakes again"
    )]
    Stale,
    /// Members and repairs don't fit the slots that were asked for.
    #[error("the members and repairs need more than {slots} slots; allow more slots or memory")]
    Full {
        /// Slots of the table.
        slots: u64,
    },
    /// There is no entropy for the secret.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
}

/// Filters could not be merged.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// There are none.
    #[error("there is nothing to merge")]
    Nothing,
    /// Their hashes were made by different functions.
    #[error("filters of different hash functions can't be merged")]
    Hashes,
    /// Their secrets are different.
    #[error("filters of different secrets can't be merged; insert the keys of one into the other")]
    Secrets,
    /// Their slots are not equally wide.
    #[error("slots of {0} and {1} bits can't be merged; rebuild the filters from their members")]
    SlotBits(u32, u32),
    /// Their sizes don't differ by a power of two.
    #[error(
        "{0} and {1} slots don't differ by a power of two; rebuild the filters from their members"
    )]
    Sizes(u64, u64),
    /// No bit of the remainders would be left.
    #[error("no bit would be left for remainders; rebuild the filters from their members")]
    NoRemainder,
    /// Fingerprints that were lengthened would have to be cut.
    #[error(
        "repaired fingerprints would have to be cut, because unrepaired ones are not equally \
         long; rebuild the filters from their members"
    )]
    Lengthened,
    /// The merged filter could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// A filter could not be doubled.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrowError {
    /// The filter wasn't built to grow.
    #[error("the filter has a fixed size; build it as an expandable one, or anew with its members")]
    Fixed,
    /// Remainders have one bit only.
    #[error("no bit would be left for remainders; resize the filter with its members")]
    NoRemainder,
    /// The larger filter could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// Why a filter could not grow with members that were listed. Nothing has changed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RejuvenateError<E> {
    /// Members could not be listed.
    #[error("the members of a fingerprint could not be listed")]
    List(#[source] E),
    /// What was listed is not what the filter has.
    #[error("what was listed is not what the filter has")]
    Members(#[source] AdaptError),
    /// The larger filter could not be built.
    #[error(transparent)]
    Grow(#[from] GrowError),
}

/// A structure breaks one of its own invariants: a bug, or corrupted memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("broken invariant: {0}")]
pub struct Invalid(pub(crate) String);
