//! Telescoping, extension and plain quotient filters as shards, and the methods that only they have.

use super::shard::Batch;
use super::{Concurrent, PlainShard, Shard, ShardSize, ShardState};
use crate::builder::PLANNED_LOAD;
use crate::error::{BuildError, InsertError};
use crate::telescoping::CodesBefore;
use crate::{
    Claim, Hash, Member,
    telescoping::{self, CodedFilter},
};

impl<S: telescoping::Scheme> Batch for CodedFilter<S> {
    type Undo = CodesBefore;

    fn insert_batch(&mut self, hashes: &[Hash]) -> Result<CodesBefore, InsertError> {
        self.insert_batch(hashes)
    }

    fn undo_batch(&mut self, hashes: &[Hash], undo: CodesBefore) {
        self.undo_batch(hashes, undo);
    }
}

impl<S: telescoping::Scheme> PlainShard for CodedFilter<S> {
    type Plan = telescoping::Parameters;

    fn slots(&self) -> u64 {
        self.slots()
    }

    /// Leaves out repairs: a repair that happens during a rebuild is forgotten, which brings back a
    /// mistake but loses no member.
    fn state(&self) -> ShardState {
        ShardState { members: self.version(), repairs: 0 }
    }

    fn plan(&self) -> telescoping::Parameters {
        self.parameters()
    }

    fn build(
        mut parameters: telescoping::Parameters,
        size: ShardSize,
        members: impl Iterator<Item = Member> + Clone,
        mistakes: impl Iterator<Item = Hash> + Clone,
    ) -> Result<Self, BuildError> {
        if let Some(capacity) = size.capacity {
            parameters.slots = (capacity as f64 / PLANNED_LOAD).ceil().max(1.0) as u64;
        }
        // If hashes are uneven, the end of a table may overflow before the table is full.
        let most = parameters.slots.saturating_mul(4);
        loop {
            let slots = parameters.slots;
            match Self::from_sorted(parameters, members.clone(), mistakes.clone()) {
                Err(BuildError::Full { .. }) if slots < most => {
                    parameters.slots += slots / 4 + 64;
                }
                built => return built,
            }
        }
    }

    fn succeed(&mut self, before: &Self) {
        self.succeed(before);
    }
}

impl<S: telescoping::CodedScheme> Shard for CodedFilter<S> {
    fn claim_near(&self, hash: Hash) -> Claim {
        self.claim_near(hash)
    }

    fn may_confuse(&self, member: Hash, query: Hash) -> bool {
        self.may_confuse(member, query)
    }
}

impl<S: telescoping::CodedScheme> Concurrent<CodedFilter<S>> {
    /// Returns the number of repairs that were undone because a code was full.
    pub fn forgotten(&self) -> u64 {
        let counts = self.shards.iter().map(|shard| shard.read().tally().forgotten);
        counts.fold(0, u64::saturating_add)
    }

    /// Returns the parameters of a shard.
    ///
    /// # Panics
    /// If the shard does not exist.
    pub fn shard_parameters(&self, shard: usize) -> telescoping::Parameters {
        self.with_shard(shard, CodedFilter::parameters)
    }
}
