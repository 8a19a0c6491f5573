//! Telescoping, extension and plain quotient filters as shards, and the methods that only they
//! have.

use super::shard::{Fill, ShardParts, ShardPlan, ShardSize};
use super::{Concurrent, PlainShard, Shard};
use crate::builder::PLANNED_LOAD;
use crate::claim::Version;
use crate::error::{BuildError, InsertError};
use crate::telescoping::{self, CodedFilter, CodesBefore};
use crate::traits::forward;
use crate::{Claim, Hash, Member};

impl<S: telescoping::Scheme> PlainShard for CodedFilter<S> {}

impl<S: telescoping::Scheme> ShardParts for CodedFilter<S> {
    type Plan = telescoping::Parameters;
    type Undo = CodesBefore;

    fn fill(&self) -> Fill {
        let members = self.len() as u64;
        let telescoping::Parameters { slots, remainder_bits: slot_bits, remainders, .. } =
            self.parameters();
        let has_plain_remainders = remainders.is_plain();
        Fill { slots, used: members, members, slot_bits, bits_lost: 0, has_plain_remainders }
    }

    /// Returns the version of the members, and always 0 as the number of repairs. A repair that is
    /// made during a rebuild is therefore forgotten, which brings back a mistake but loses no
    /// member.
    fn state(&self) -> (Version, u64) {
        (self.versions.all(), 0)
    }

    fn plan(&self) -> telescoping::Parameters {
        self.parameters()
    }

    fn build(
        mut parameters: telescoping::Parameters,
        plan: ShardPlan,
        _position: f64,
        members: impl Iterator<Item = Member> + Clone,
        mistakes: impl Iterator<Item = Hash> + Clone,
    ) -> Result<Self, BuildError> {
        parameters.remainder_bits = plan.remainder_bits.unwrap_or(parameters.remainder_bits);
        parameters.remainders = plan.make_remainders(parameters.remainders)?;
        match plan.size {
            ShardSize::Same => {}
            ShardSize::Capacity(members) => {
                parameters.slots = (members as f64 / PLANNED_LOAD).ceil().max(1.0) as u64;
            }
            ShardSize::Slots(slots) => {
                parameters.slots = slots;
                return Self::from_sorted(parameters, members, mistakes);
            }
        }
        // If hashes are uneven, the end of a table may overflow before the table is full. Then try
        // again with more slots.
        let copies = members.clone().fold(0, |sum: u64, member| sum.saturating_add(member.count));
        let needed = (copies as f64 / PLANNED_LOAD).ceil() as u64;
        let most = parameters.slots.max(needed).saturating_mul(4);
        loop {
            let slots = parameters.slots;
            match Self::from_sorted(parameters, members.clone(), mistakes.clone()) {
                Err(BuildError::Full { .. }) if slots < most => {
                    parameters.slots = needed.max(slots + slots / 4 + 64);
                }
                built => return built,
            }
        }
    }

    forward! { Self:
        fn succeed(&mut self, before: &Self);
        fn insert_batch(&mut self, hashes: &[Hash]) -> Result<CodesBefore, InsertError>;
        fn undo_batch(&mut self, hashes: &[Hash], undo: CodesBefore);
    }
}

impl<S: telescoping::CodedScheme> Shard for CodedFilter<S> {
    forward! { Self:
        fn claim_near(&self, hash: Hash) -> Claim;
        fn may_confuse(&self, member: Hash, query: Hash) -> bool;
    }
}

impl<S: telescoping::CodedScheme> Concurrent<CodedFilter<S>> {
    /// Returns the number of repairs that were undone because a code was full.
    pub fn forgotten(&self) -> u64 {
        let counts = self.shards.iter().map(|shard| shard.read().tally.forgotten);
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
