//! What a filter must do to be a shard.

use super::Concurrent;
use crate::claim::Version;
use crate::error::{BuildError, InsertError, Invalid};
use crate::snapshot::ShardFormat;
use crate::{Claim, Dynamic, Hash, Member, Removable};

/// A filter that can be one shard of a [`Concurrent`] filter.
///
/// A shard knows nothing of the others: its hashes cover the whole range of hashes, because the
/// concurrent filter has scaled them up.
///
/// The trait is sealed, because a shard's snapshot is part of the library's format.
#[expect(private_bounds, reason = "a sealed trait")]
pub trait Shard: Dynamic + Removable + ShardFormat + Send + Sync + Sized + 'static {
    /// The parameters that a rebuilt shard takes over from the one before.
    type Plan: Send;

    /// Builds an empty concurrent filter for a capacity, at a false-positive rate.
    ///
    /// # Errors
    /// If there can be no such filter, or no memory for it.
    fn build_concurrent(
        capacity: usize,
        false_positive_rate: f64,
        shards: usize,
    ) -> Result<Concurrent<Self>, BuildError>;

    /// Answers many lookups: clears `maybe`, and then pushes one answer per hash.
    fn contains_many(&self, hashes: &[Hash], maybe: &mut Vec<bool>);

    /// Inserts each of these members that there is room for; returns the positions of the others,
    /// in order, and why each was refused.
    fn insert_each(&mut self, hashes: &[Hash]) -> Vec<(usize, InsertError)> {
        let refused = |(position, &hash)| Some((position, self.insert(hash).err()?));
        hashes.iter().enumerate().filter_map(refused).collect()
    }

    /// Returns a claim that names all members that an insert or a repair of this hash may concern.
    fn claim_to_insert(&self, hash: Hash) -> Claim;

    /// Inserts the query of a [claim](Self::claim_to_insert), after
    /// [`insert`](Dynamic::insert) has returned [`InsertError::Crowded`]; `members` are all members
    /// in its interval.
    ///
    /// # Errors
    /// If there is no room, or [`InsertError::Mismatch`] if `members` are not the members there, or
    /// no longer; nothing has changed then.
    fn insert_listed(&mut self, claim: &Claim, members: &[Member]) -> Result<(), InsertError>;

    /// Returns the number of home slots.
    fn slots(&self) -> u64;

    /// Returns the share of slots in use.
    fn load(&self) -> f64;

    /// Checks every invariant.
    ///
    /// # Errors
    /// Says which invariant is broken.
    fn validate(&self) -> Result<(), Invalid>;

    /// Checks what [`validate`](Self::validate) cannot know: that every fingerprint still belongs
    /// to a hash when the filter is shard `number` of `shards`.
    ///
    /// # Errors
    /// Says which invariant is broken.
    fn check_as_shard(&self, number: usize, shards: usize) -> Result<(), Invalid> {
        let _ = (number, shards);
        Ok(())
    }

    /// Returns the state of members and repairs. While it stays the same, so do they.
    fn state(&self) -> ShardState;

    /// Returns what a filter that replaces this one is built with.
    fn plan(&self) -> Self::Plan;

    /// Builds a filter of members and mistakes, both in hash order, that replaces another.
    ///
    /// # Errors
    /// If it can't be built.
    fn build(
        plan: Self::Plan,
        size: ShardSize,
        members: impl Iterator<Item = Member> + Clone,
        mistakes: impl Iterator<Item = Hash> + Clone,
    ) -> Result<Self, BuildError>;

    /// Continues the counters of the filter that this one replaces.
    fn succeed(&mut self, before: &Self);
}

/// The state of a shard's members and repairs; see [`Shard::state`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardState {
    pub(crate) members: Version,
    pub(crate) repairs: u64,
}

/// How large to build a shard; see [`Shard::build`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShardSize {
    /// Members to plan for. With `None` the shard keeps its slots, unless they are too few.
    pub capacity: Option<usize>,
    /// The position among all shards, from 0 to 1: shards that grow by themselves differ in size by
    /// it, so that they don't all grow at once.
    pub position: f64,
}
