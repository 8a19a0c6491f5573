//! The traits of filters that can be shards.

use super::Sharding;
#[cfg(doc)]
use crate::QuotientFilter;
use crate::builder::{Builder, FromMembers, HasSlots};
use crate::claim::Version;
use crate::error::{BuildError, InsertError, Invalid, RemoveError};
use crate::hash::Remainders;
use crate::snapshot::Describe;
use crate::{Adaptive, Claim, Dynamic, Hash, Listing, Member};

/// A filter that can be one shard of a [`Concurrent`](super::Concurrent) filter, with or without
/// repairs.
///
/// A shard knows nothing about the other shards. The concurrent filter scales the hashes of a shard
/// up, so that they cover the whole range of hashes.
///
/// The trait is sealed, because a shard's snapshot is part of the library's format.
#[expect(private_bounds, reason = "a sealed trait")]
pub trait PlainShard:
    Dynamic
    + FromMembers<Error = BuildError>
    + HasSlots
    + ShardParts
    + Describe
    + Send
    + Sync
    + Sized
    + 'static
{
}

/// A shard that repairs its mistakes.
///
/// [`QuotientFilter`] has methods with the same names, and documents them. The default methods are
/// for filters that can do less.
#[expect(clippy::missing_errors_doc, reason = "documented at `QuotientFilter`")]
pub trait Shard: PlainShard + Adaptive {
    /// Returns a claim that names all members that an insert or a repair of this hash may affect.
    fn claim_near(&self, hash: Hash) -> Claim;

    /// Returns whether inserting a member may turn a query into a mistake. Both must have the same
    /// [suspects](crate::Claim::suspects).
    fn may_confuse(&self, member: Hash, query: Hash) -> bool;

    /// Inserts a member without bringing these mistakes back, if the filter can do that; see
    /// [`QuotientFilter::insert_apart`].
    fn insert_apart(&mut self, hash: Hash, _mistakes: &[Hash]) -> Result<(), InsertError> {
        self.insert(hash)
    }

    /// Returns whether inserting a hash may bring back a repaired mistake; see
    /// [`QuotientFilter::has_repairs_near`]. A filter that can't tell returns `true`.
    fn has_repairs_near(&self, _hash: Hash) -> bool {
        true
    }

    /// Removes a listed member, and keeps its repairs if the filter can; see
    /// [`QuotientFilter::remove_keeping_repairs`].
    fn remove_keeping_repairs(
        &mut self,
        claim: &Claim,
        listing: Listing<'_>,
    ) -> Result<(), RemoveError> {
        self.remove(claim, listing)
    }

    /// Removes a key that the caller *knows* to be a member, and keeps its repairs if the filter
    /// can; see [`QuotientFilter::remove_trusting_keeping_repairs`].
    fn remove_trusting_keeping_repairs(&mut self, hash: Hash) -> Result<(), RemoveError> {
        self.remove_trusting(hash)
    }
}

/// The numbers of slots, members and remainder bits of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fill {
    /// Number of home slots.
    pub slots: u64,
    /// Number of slots in use: by members, repairs and tombstones.
    pub used: u64,
    /// Number of members, each counted as often as it was inserted.
    pub members: u64,
    /// Number of bits per slot.
    pub slot_bits: u32,
    /// Number of bits by which remainders are shorter than a slot, because the shard was doubled.
    pub bits_lost: u32,
    /// Whether remainders are [plain](Remainders::PLAIN).
    pub has_plain_remainders: bool,
}

/// The size and the remainders of a shard that replaces another one, for
/// [`Concurrent::build_shard`](super::Concurrent::build_shard) and
/// [`rebuild_shard`](super::Concurrent::rebuild_shard).
///
/// By default, the new shard has as many slots as the old one, or more if these are too few.
///
/// ```
/// use twiceshy::concurrent::ShardPlan;
/// use twiceshy::{Hash, QuotientFilter};
///
/// let filter = QuotientFilter::builder().slots(1000).shards(4).build_concurrent()?;
/// let member = Hash::from_u128(7 << 100);
/// let plan = ShardPlan::slots(300).remainder_bits(12).fresh();
/// filter.rebuild_shard(0, plan, &[member], &[])?;
/// assert!(filter.contains(member));
/// let parameters = filter.shard_parameters(0);
/// assert_eq!((parameters.slots, parameters.remainder_bits), (300, 12));
/// assert!(!parameters.remainders.is_plain());
/// # Ok::<(), twiceshy::concurrent::RebuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct ShardPlan {
    pub(super) size: ShardSize,
    pub(super) remainder_bits: Option<u32>,
    remainders: NewRemainders,
}

/// The number of slots of a new shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ShardSize {
    /// As many slots as the old shard has, or more if those are too few.
    #[default]
    Same,
    /// Enough slots for a number of members and some repairs, or more if those are too few.
    Capacity(usize),
    /// An exact number of slots.
    Slots(u64),
}

/// The remainders of a new shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum NewRemainders {
    /// The remainders of the old shard.
    #[default]
    Same,
    Fresh,
    These(Remainders),
}

impl ShardPlan {
    /// Plans a shard for `members` members, with some room for repairs. If members and repairs need
    /// more slots than that, the shard gets more.
    pub fn capacity(members: usize) -> Self {
        Self { size: ShardSize::Capacity(members), ..Self::default() }
    }

    /// Plans a shard with exactly `slots` slots. If members and repairs need more, building it
    /// fails with [`BuildError::Full`].
    pub fn slots(slots: u64) -> Self {
        Self { size: ShardSize::Slots(slots), ..Self::default() }
    }

    /// Sets the number of bits per remainder and per slot. By default, remainders are as wide as
    /// the slots of the old shard.
    pub fn remainder_bits(self, bits: u32) -> Self {
        Self { remainder_bits: Some(bits), ..self }
    }

    /// Gives the shard fresh [remainders](crate::quotient::Remainders). By default, it keeps those
    /// of the old shard.
    ///
    /// A shard with fresh remainders never doubles by itself: when all its slots are used, it is
    /// full until it is rebuilt.
    pub fn fresh(self) -> Self {
        Self { remainders: NewRemainders::Fresh, ..self }
    }

    /// Sets the [remainders](crate::quotient::Remainders), for example to plain ones, so that the
    /// shard can double again.
    pub fn remainders(self, remainders: Remainders) -> Self {
        Self { remainders: NewRemainders::These(remainders), ..self }
    }

    /// Returns the remainders of the new shard. `before` are the old shard's remainders.
    pub(super) fn make_remainders(self, before: Remainders) -> Result<Remainders, BuildError> {
        Ok(match self.remainders {
            NewRemainders::Same => before,
            NewRemainders::Fresh => Remainders::fresh()?,
            NewRemainders::These(remainders) => remainders,
        })
    }
}

/// The operations that a concurrent filter needs of its shards.
pub(crate) trait ShardParts: Sized {
    /// The parameters that a rebuilt shard takes over from its predecessor.
    type Plan;

    /// The information that undoing a batch of inserts needs.
    type Undo;

    /// Lets the shards of a filter grow, if they can and the builder's settings allow it. Returns
    /// whether they may grow.
    fn let_shards_grow(_builder: &mut Builder<Self>) -> bool
    where
        Self: FromMembers<Error = BuildError>,
    {
        false
    }

    /// Makes the filter keep its size from now on.
    fn stop_growing(&mut self) {}

    /// Returns how full the filter is.
    fn fill(&self) -> Fill;

    /// Checks an invariant that [`validate`](crate::Filter::validate) cannot check: that every
    /// fingerprint still belongs to a hash when the filter is shard `number`.
    fn check_as_shard(&self, _number: usize, _sharding: Sharding) -> Result<(), Invalid> {
        Ok(())
    }

    /// Returns the version of all members, and the number of repairs. If two states are equal,
    /// neither members nor repairs have changed in between.
    fn state(&self) -> (Version, u64);

    /// Returns the parameters for building a replacement of this filter.
    fn plan(&self) -> Self::Plan;

    /// Builds a replacement filter from members and mistakes, both in hash order.
    ///
    /// `before` is the plan of the filter that is replaced. `position` is the shard's position
    /// among all shards, from 0 to 1. The size of a shard that grows by itself depends on its
    /// position, so that the shards don't all grow at the same time.
    fn build(
        before: Self::Plan,
        plan: ShardPlan,
        position: f64,
        members: impl Iterator<Item = Member> + Clone,
        mistakes: impl Iterator<Item = Hash> + Clone,
    ) -> Result<Self, BuildError>;

    /// Takes over the counters of the filter that this one replaces.
    fn succeed(&mut self, before: &Self);

    /// Inserts many members, all or none.
    fn insert_batch(&mut self, hashes: &[Hash]) -> Result<Self::Undo, InsertError>;

    /// Removes a batch that was just inserted.
    fn undo_batch(&mut self, hashes: &[Hash], undo: Self::Undo);
}
