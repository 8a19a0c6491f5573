//! Telescoping and extension filters as shards, and what only they can do.

use super::builder::sharding;
use super::{Concurrent, Shard, ShardSize, ShardState};
use crate::coded::PLANNED_LOAD;
use crate::error::{BuildError, InsertError, Invalid};
use crate::{Claim, CodedBuilder, CodedFilter, CodedParameters, CodedScheme, Hash, Member};

impl<S: CodedScheme> CodedBuilder<S> {
    /// Builds an empty filter for many threads. Capacity or slots are those of all shards together;
    /// each gets some more, because hashes fall into them by chance.
    ///
    /// ```
    /// use twiceshy::{Hash, TelescopingFilter};
    /// let filter = TelescopingFilter::builder().capacity(10_000).shards(8).build_concurrent()?;
    /// filter.insert(Hash::MAX)?;
    /// assert!(filter.contains(Hash::MAX) && filter.shards() == 8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`build`](Self::build), or if there can't be as many shards.
    pub fn build_concurrent(self) -> Result<Concurrent<CodedFilter<S>>, BuildError> {
        let shards = sharding(self.shards)?.shards();
        let all = self.parameters()?;
        let share = all.slots as f64 / shards as f64;
        let slots = if shards == 1 { all.slots } else { with_slack(share) };
        let parameters = CodedParameters { slots, ..all };
        let filters = (0..shards).map(|_| CodedFilter::empty(parameters));
        Ok(Concurrent::of(filters.collect::<Result<_, _>>()?))
    }
}

/// Returns how many slots a shard needs that expects to use this many: four standard deviations
/// more.
fn with_slack(share: f64) -> u64 {
    (share + 4.0 * share.sqrt()).ceil() as u64
}

impl<S: CodedScheme> Shard for CodedFilter<S> {
    type Plan = CodedParameters;

    fn build_concurrent(
        capacity: usize,
        false_positive_rate: f64,
        shards: usize,
    ) -> Result<Concurrent<Self>, BuildError> {
        let builder = Self::builder().capacity(capacity).false_positive_rate(false_positive_rate);
        builder.shards(shards).build_concurrent()
    }

    fn contains_many(&self, hashes: &[Hash], maybe: &mut Vec<bool>) {
        self.contains_many(hashes, maybe);
    }

    fn claim_to_insert(&self, hash: Hash) -> Claim {
        self.claim_to_insert(hash)
    }

    fn insert_listed(&mut self, claim: &Claim, members: &[Member]) -> Result<(), InsertError> {
        self.insert_listed(claim, members)
    }

    fn slots(&self) -> u64 {
        self.slots()
    }

    fn load(&self) -> f64 {
        self.len() as f64 / self.slots() as f64
    }

    fn validate(&self) -> Result<(), Invalid> {
        self.validate()
    }

    /// Repairs that a rebuild misses are forgotten, which costs a mistake, but no member.
    fn state(&self) -> ShardState {
        ShardState { members: self.version(), repairs: 0 }
    }

    fn plan(&self) -> CodedParameters {
        self.parameters()
    }

    fn build(
        mut parameters: CodedParameters,
        size: ShardSize,
        members: impl Iterator<Item = Member> + Clone,
        mistakes: impl Iterator<Item = Hash> + Clone,
    ) -> Result<Self, BuildError> {
        if let Some(capacity) = size.capacity {
            parameters.slots = (capacity as f64 / PLANNED_LOAD).ceil().max(1.0) as u64;
        }
        // Uneven hashes may find no room at the end of a table that isn't full.
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

impl<S: CodedScheme> Concurrent<CodedFilter<S>> {
    /// Returns the number of repairs that were undone because a code was full.
    pub fn forgotten(&self) -> u64 {
        let counts = self.shards.iter().map(|shard| shard.read().tally().forgotten);
        counts.fold(0, u64::saturating_add)
    }

    /// Returns the number of mistakes that shards were built with and that are "maybe" all the same,
    /// because a code had no room.
    pub fn unrepaired(&self) -> u64 {
        let counts = self.shards.iter().map(|shard| shard.read().tally().unrepaired);
        counts.fold(0, u64::saturating_add)
    }

    /// Returns the parameters of a shard.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn shard_parameters(&self, shard: usize) -> CodedParameters {
        self.with_shard(shard, CodedFilter::parameters)
    }
}
