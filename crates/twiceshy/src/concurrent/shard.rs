//! The trait of filters that can be shards.

use crate::builder::{Builder, FromMembers};
use crate::claim::Version;
use crate::error::{BuildError, InsertError, Invalid};
use crate::snapshot::ShardFormat;
use crate::{Adaptive, Claim, Dynamic, Hash, Member};

/// A filter that can be one shard of a [`Concurrent`](super::Concurrent) filter, with or without
/// repairs.
///
/// A shard knows nothing about the other shards. The concurrent filter scales the hashes of a shard
/// up, so that they cover the whole range of hashes.
///
/// The trait is sealed, because a shard's snapshot is part of the library's format.
#[expect(private_bounds, reason = "a sealed trait")]
pub trait PlainShard:
    Dynamic + FromMembers + Batch + ShardFormat + Send + Sync + Sized + 'static
{
    /// The parameters that a rebuilt shard takes over from its predecessor.
    type Plan: Send;

    /// Lets the shards of a filter grow, if they can and the builder's settings allow it. Returns
    /// whether they may grow.
    fn let_shards_grow(builder: &mut Builder<Self>) -> bool {
        let _ = builder;
        false
    }

    /// Returns the number of home slots.
    fn slots(&self) -> u64;

    /// Checks an invariant that [`validate`](crate::Filter::validate) cannot check: that every
    /// fingerprint still belongs to a hash when the filter is shard `number` of `shards`.
    ///
    /// # Errors
    /// Returns an error that names the broken invariant.
    fn check_as_shard(&self, number: usize, shards: usize) -> Result<(), Invalid> {
        let _ = (number, shards);
        Ok(())
    }

    /// Returns the state of the members and repairs. If two states are equal, neither has changed
    /// in between.
    fn state(&self) -> ShardState;

    /// Returns the parameters for building a replacement of this filter.
    fn plan(&self) -> Self::Plan;

    /// Builds a replacement filter from members and mistakes, both in hash order.
    ///
    /// # Errors
    /// If the filter can't be built.
    fn build(
        plan: Self::Plan,
        size: ShardSize,
        members: impl Iterator<Item = Member> + Clone,
        mistakes: impl Iterator<Item = Hash> + Clone,
    ) -> Result<Self, BuildError>;

    /// Continues the counters of the filter that this one replaces.
    fn succeed(&mut self, before: &Self);
}

/// A shard that repairs its mistakes.
pub trait Shard: PlainShard + Adaptive {
    /// Returns a claim that names all members that inserting or repairing this hash may affect.
    fn claim_near(&self, hash: Hash) -> Claim;

    /// Returns whether inserting a member may turn a query into a mistake. Both must have the same
    /// [suspects](crate::Claim::suspects).
    fn may_confuse(&self, member: Hash, query: Hash) -> bool;
}

/// A filter that can undo a batch of inserts.
pub(crate) trait Batch {
    /// The information that undoing the inserts needs.
    type Undo;

    /// Inserts many members, all or none.
    fn insert_batch(&mut self, hashes: &[Hash]) -> Result<Self::Undo, InsertError>;

    /// Removes a batch that was just inserted.
    fn undo_batch(&mut self, hashes: &[Hash], undo: Self::Undo);
}

/// The state of a shard's members and repairs; see [`PlainShard::state`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardState {
    pub(crate) members: Version,
    pub(crate) repairs: u64,
}

/// The size of a shard that is to be built; see [`PlainShard::build`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShardSize {
    /// Number of members to plan for. If `None`, the shard keeps its slots, unless they are too
    /// few.
    pub capacity: Option<usize>,
    /// Position among all shards, from 0 to 1. The size of a shard that grows by itself depends on
    /// its position, so that the shards don't all grow at once.
    pub position: f64,
}
