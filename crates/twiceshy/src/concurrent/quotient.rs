//! Quotient filters as shards, and the methods that only they have.

use super::builder::relative_size;
use super::shard::{Fill, ShardParts, ShardPlan, ShardSize};
use super::{Concurrent, PlainShard, Shard, Sharding};
use crate::builder::{Builder, PLANNED_LOAD};
use crate::claim::Version;
use crate::error::{BuildError, InsertError, Invalid, RemoveError};
use crate::quotient::{Entry, MOST_EXTENDED, Parameters, Revived, ValueError};
use crate::traits::forward;
use crate::{Claim, Hash, Listing, Member, QuotientFilter};

impl PlainShard for QuotientFilter {}

impl ShardParts for QuotientFilter {
    /// The parameters, and the load at which the filter grows.
    type Plan = (Parameters, Option<f64>);
    type Undo = Revived;

    /// Lets shards grow if the caller set a load to grow at, or a capacity. A planned capacity
    /// needs growth, because chance may give a shard more members than its share.
    fn let_shards_grow(builder: &mut Builder<Self>) -> bool {
        let by_default = builder.capacity.map(|_| builder.load());
        builder.options.growth = builder.options.growth.or(by_default);
        builder.options.growth.is_some()
    }

    fn stop_growing(&mut self) {
        self.set_growth(None);
    }

    fn fill(&self) -> Fill {
        let Parameters { slots, slot_bits, remainder_bits, remainders, .. } = self.parameters();
        let (used, members) = (self.used(), self.tally.len);
        let (bits_lost, has_plain_remainders) = (slot_bits - remainder_bits, remainders.is_plain());
        Fill { slots, used, members, slot_bits, bits_lost, has_plain_remainders }
    }

    fn check_as_shard(&self, number: usize, sharding: Sharding) -> Result<(), Invalid> {
        // Only extensions need this check. Without one, a fingerprint is so short that some hash
        // has it.
        if self.tally.extra_slots == 0 {
            return Ok(());
        }
        let outer = |entry: Entry| sharding.outer_fingerprint(number, entry.fingerprint);
        match self.iter().find(|&entry| !outer(entry).has_some_hash()) {
            Some(entry) => Err(Invalid(format!("no hash has {:?}", outer(entry)))),
            None => Ok(()),
        }
    }

    fn plan(&self) -> Self::Plan {
        (self.parameters(), self.tally.growth)
    }

    fn build(
        (mut parameters, growth): Self::Plan,
        plan: ShardPlan,
        position: f64,
        members: impl Iterator<Item = Member> + Clone,
        mistakes: impl Iterator<Item = Hash> + Clone,
    ) -> Result<Self, BuildError> {
        parameters.slot_bits = plan.remainder_bits.unwrap_or(parameters.slot_bits);
        // Let remainders use all bits of a slot again.
        parameters.remainder_bits = parameters.slot_bits;
        parameters.remainders = plan.make_remainders(parameters.remainders)?;
        let load = growth.unwrap_or(PLANNED_LOAD).min(PLANNED_LOAD);
        let relative = relative_size(position, growth.is_some());
        let slots_for = |used: u64| (used as f64 / load * relative).ceil().max(1.0) as u64;
        match plan.size {
            ShardSize::Same => {}
            ShardSize::Capacity(members) => {
                let capacity = members as u64;
                parameters.slots = slots_for(capacity.saturating_add(capacity.div_ceil(20)));
            }
            ShardSize::Slots(slots) => {
                return Self::from_sorted(Parameters { slots, ..parameters }, members, mistakes);
            }
        }
        let mut count = None;
        let mut extended = 0;
        loop {
            let slots = parameters.slots;
            match Self::from_sorted(parameters, members.clone(), mistakes.clone()) {
                Ok(filter) => {
                    let used = filter.used();
                    if growth.is_none() || used as f64 <= slots as f64 * load {
                        return Ok(filter);
                    }
                    // The next insert would double the shard and shorten its remainders, so use
                    // more slots.
                    parameters.slots = slots_for(used + used.div_ceil(20)).max(slots + 1);
                }
                Err(BuildError::Full { .. }) => {
                    let count = *count.get_or_insert_with(|| members.clone().count() as u64);
                    // Uneven hashes, counters and repairs take more room than the members alone, so
                    // add slots.
                    while slots_for(count + count.div_ceil(20) + extended) <= slots {
                        if extended > MOST_EXTENDED * (count + 1) {
                            return Err(BuildError::Full { slots });
                        }
                        extended += extended / 2 + count / 8 + 64;
                    }
                    parameters.slots = slots_for(count + count.div_ceil(20) + extended);
                }
                Err(error) => return Err(error),
            }
        }
    }

    forward! { Self:
        fn state(&self) -> (Version, u64);
        fn succeed(&mut self, before: &Self);
        fn insert_batch(&mut self, hashes: &[Hash]) -> Result<Revived, InsertError>;
        fn undo_batch(&mut self, hashes: &[Hash], undo: Revived);
    }
}

impl Shard for QuotientFilter {
    forward! { Self:
        fn claim_near(&self, hash: Hash) -> Claim;
        fn may_confuse(&self, member: Hash, query: Hash) -> bool;
        fn insert_apart(&mut self, hash: Hash, mistakes: &[Hash]) -> Result<(), InsertError>;
        fn has_repairs_near(&self, hash: Hash) -> bool;
        fn remove_keeping_repairs(
            &mut self,
            claim: &Claim,
            listing: Listing<'_>
        ) -> Result<(), RemoveError>;
        fn remove_trusting_keeping_repairs(&mut self, hash: Hash) -> Result<(), RemoveError>;
    }
}

/// Methods that only quotient filters have. Each does the same as the method of [`QuotientFilter`]
/// with the same name, and returns the same errors, except for those that take or visit shards.
#[expect(clippy::missing_errors_doc, reason = "said once, above")]
impl Concurrent<QuotientFilter> {
    /// Inserts a member `times` times, at the cost of one insert.
    pub fn insert_times(&self, hash: Hash, times: u64) -> Result<(), InsertError> {
        let (mut filter, hash) = self.write(hash);
        filter.insert_times(hash, times)
    }

    /// Makes fingerprints near a claim's query as short as the listed mistakes allow.
    pub fn shorten<'l>(
        &self,
        claim: &Claim,
        listing: impl Into<Listing<'l>>,
    ) -> Result<(), RemoveError> {
        self.remove_with(claim, &listing.into(), QuotientFilter::shorten)
    }

    /// Returns whether a fingerprint near a query has been lengthened.
    pub fn is_lengthened(&self, query: Hash) -> bool {
        let (filter, inner) = self.read(query);
        filter.is_lengthened(inner)
    }

    /// Returns the number of members that share the fingerprint of a hash.
    pub fn count(&self, hash: Hash) -> u64 {
        let (filter, hash) = self.read(hash);
        filter.count(hash)
    }

    /// Returns the value of a member's fingerprint.
    pub fn value(&self, hash: Hash) -> Option<u64> {
        let (filter, hash) = self.read(hash);
        filter.value(hash)
    }

    /// Sets the value of a member's fingerprint, and returns the previous value.
    pub fn set_value(&self, hash: Hash, value: u64) -> Result<u64, ValueError> {
        let (mut filter, hash) = self.write(hash);
        filter.set_value(hash, value)
    }

    /// Returns the parameters of a shard. Each doubling gives a shard more slots and one remainder
    /// bit less.
    ///
    /// # Panics
    /// If the shard does not exist.
    pub fn shard_parameters(&self, shard: usize) -> Parameters {
        self.with_shard(shard, QuotientFilter::parameters)
    }

    /// Returns the parameters of each shard, in hash order.
    pub fn parameters(&self) -> Vec<Parameters> {
        (0..self.shards()).map(|shard| self.shard_parameters(shard)).collect()
    }

    /// Calls `visit` with the shard number and each entry, shard by shard. Threads that write to a
    /// shard wait while its entries are visited.
    ///
    /// Fingerprints are those of a whole filter in which all shards have the size of the visited
    /// shard.
    ///
    /// `visit` must not use this filter, or it would deadlock.
    pub fn for_each(&self, mut visit: impl FnMut(usize, Entry)) {
        for (number, shard) in self.shards.iter().enumerate() {
            for entry in shard.read().iter() {
                let fingerprint = self.sharding.outer_fingerprint(number, entry.fingerprint);
                visit(number, Entry { fingerprint, ..entry });
            }
        }
    }
}
