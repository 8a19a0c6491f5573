//! Quotient filters as shards, and what only they can do.

use super::builder::relative_size;
use super::{Concurrent, Shard, ShardSize, ShardState, Sharding};
use crate::error::{BuildError, InsertError, Invalid, RemoveError, ValueError};
use crate::quotient::{MOST_EXTENDED, PLANNED_LOAD};
use crate::{AdaptiveQuotientFilter, Claim, Entry, Hash, Member, Parameters, Statistics};

impl Shard for AdaptiveQuotientFilter {
    /// The parameters, and the load at which the filter grows.
    type Plan = (Parameters, Option<f64>);

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

    fn insert_each(&mut self, hashes: &[Hash]) -> Vec<(usize, InsertError)> {
        if self.insert_many(hashes).is_ok() {
            return Vec::new();
        }
        let refused = |(position, &hash)| Some((position, self.insert(hash).err()?));
        hashes.iter().enumerate().filter_map(refused).collect()
    }

    fn claim_to_insert(&self, hash: Hash) -> Claim {
        self.claim(hash)
    }

    /// A quotient filter never asks for members.
    fn insert_listed(&mut self, claim: &Claim, _: &[Member]) -> Result<(), InsertError> {
        self.insert(claim.query)
    }

    fn slots(&self) -> u64 {
        self.parameters().slots
    }

    fn load(&self) -> f64 {
        self.load()
    }

    fn validate(&self) -> Result<(), Invalid> {
        self.validate()
    }

    fn check_as_shard(&self, number: usize, shards: usize) -> Result<(), Invalid> {
        // A remainder alone is always short enough.
        if self.tally().extra_slots == 0 {
            return Ok(());
        }
        let sharding = Sharding::at_least(shards);
        let outer = |entry: Entry| sharding.outer_fingerprint(number, entry.fingerprint);
        match self.iter().find(|&entry| outer(entry).checked_hashes().is_none()) {
            Some(entry) => Err(Invalid(format!("no hash has {:?}", outer(entry)))),
            None => Ok(()),
        }
    }

    fn state(&self) -> ShardState {
        let (members, repairs) = self.state();
        ShardState { members, repairs }
    }

    fn plan(&self) -> Self::Plan {
        (self.parameters(), self.tally().growth)
    }

    fn build(
        (mut parameters, growth): Self::Plan,
        size: ShardSize,
        members: impl Iterator<Item = Member> + Clone,
        mistakes: impl Iterator<Item = Hash> + Clone,
    ) -> Result<Self, BuildError> {
        // Remainders get all bits of a slot again.
        parameters.remainder_bits = parameters.slot_bits;
        let load = growth.unwrap_or(PLANNED_LOAD).min(PLANNED_LOAD);
        let relative = relative_size(size.position, growth.is_some());
        let slots_for = |used: u64| (used as f64 / load * relative).ceil().max(1.0) as u64;
        if let Some(capacity) = size.capacity.map(|capacity| capacity as u64) {
            parameters.slots = slots_for(capacity.saturating_add(capacity.div_ceil(20)));
        }
        let mut count = None;
        let mut extended = 0;
        loop {
            let slots = parameters.slots;
            match Self::from_sorted(parameters, members.clone(), mistakes.clone()) {
                Ok(filter) => {
                    let used = filter.tally().used;
                    if growth.is_none() || used as f64 <= slots as f64 * load {
                        return Ok(filter);
                    }
                    // The next insert would double it, and cost a bit.
                    parameters.slots = slots_for(used + used.div_ceil(20)).max(slots + 1);
                }
                Err(BuildError::Full { .. }) => {
                    let count = *count.get_or_insert_with(|| members.clone().count() as u64);
                    // Uneven hashes, counters or repairs take more room than members.
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

    fn succeed(&mut self, before: &Self) {
        self.succeed(before);
    }
}

impl Concurrent<AdaptiveQuotientFilter> {
    /// Inserts a member `times` times, at the price of one insert.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn insert_times(&self, hash: Hash, times: u64) -> Result<(), InsertError> {
        let (mut filter, hash) = self.write(hash);
        filter.insert_times(hash, times)
    }

    /// Removes a member as [`remove`](Self::remove) does, but leaves a tombstone; see
    /// [`AdaptiveQuotientFilter::bury`].
    ///
    /// # Errors
    /// As [`AdaptiveQuotientFilter::bury`].
    pub fn bury(&self, hash: Hash) -> Result<(), RemoveError> {
        let (mut filter, hash) = self.write(hash);
        filter.bury(hash)
    }

    /// Removes a listed member, but leaves a tombstone; see
    /// [`AdaptiveQuotientFilter::bury_listed`].
    ///
    /// # Errors
    /// As [`AdaptiveQuotientFilter::bury_listed`].
    pub fn bury_listed<L>(&self, claim: &Claim, members: &[L]) -> Result<(), RemoveError>
    where
        L: Copy + Into<Member>,
    {
        self.remove_with(claim, members, AdaptiveQuotientFilter::bury_listed)
    }

    /// Makes fingerprints near a claim as short as these mistakes allow; see
    /// [`AdaptiveQuotientFilter::shorten_listed`].
    ///
    /// # Errors
    /// As [`AdaptiveQuotientFilter::shorten_listed`].
    pub fn shorten_listed<L>(
        &self,
        claim: &Claim,
        members: &[L],
        mistakes: &[Hash],
    ) -> Result<(), RemoveError>
    where
        L: Copy + Into<Member>,
    {
        let mistakes = self.near(claim, mistakes);
        self.remove_with(claim, members, |filter, claim, members| {
            filter.shorten_listed(claim, members, &mistakes)
        })
    }

    /// Returns whether a fingerprint near a query is longer than a remainder; see
    /// [`AdaptiveQuotientFilter::is_lengthened`].
    pub fn is_lengthened(&self, query: Hash) -> bool {
        let (filter, inner) = self.read(query);
        filter.is_lengthened(inner)
    }

    /// Returns the number of members that share the fingerprint of a hash; see
    /// [`AdaptiveQuotientFilter::count`].
    pub fn count(&self, hash: Hash) -> u64 {
        let (filter, hash) = self.read(hash);
        filter.count(hash)
    }

    /// Returns the value of a member's fingerprint; see [`AdaptiveQuotientFilter::value`].
    pub fn value(&self, hash: Hash) -> Option<u64> {
        let (filter, hash) = self.read(hash);
        filter.value(hash)
    }

    /// Sets the value of a member's fingerprint, and returns the one before; see
    /// [`AdaptiveQuotientFilter::set_value`].
    ///
    /// # Errors
    /// As [`AdaptiveQuotientFilter::set_value`].
    pub fn set_value(&self, hash: Hash, value: u64) -> Result<u64, ValueError> {
        let (mut filter, hash) = self.write(hash);
        filter.set_value(hash, value)
    }

    /// Returns the parameters of a shard.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn shard_parameters(&self, shard: usize) -> Parameters {
        self.with_shard(shard, AdaptiveQuotientFilter::parameters)
    }

    /// Returns the parameters of each shard, in hash order. A shard that has doubled has more
    /// slots, and fewer remainder bits.
    pub fn parameters(&self) -> Vec<Parameters> {
        self.shards.iter().map(|shard| shard.read().parameters()).collect()
    }

    /// Returns what the filter holds, and what adapting has cost, over all shards.
    pub fn statistics(&self) -> Statistics {
        let (mut slots, mut rates) = (0, 0.0);
        let mut sum = Statistics {
            members: 0,
            adaptations: 0,
            fingerprints: 0,
            extension_slots: 0,
            load: 0.0,
            bytes: Self::overhead(self.shards.len()),
            expected_rate: 0.0,
        };
        for shard in &self.shards {
            let filter = shard.read();
            let of_shard = filter.statistics();
            slots += filter.parameters().slots;
            rates += of_shard.expected_rate;
            sum.members = sum.members.saturating_add(of_shard.members);
            sum.adaptations = sum.adaptations.saturating_add(of_shard.adaptations);
            sum.fingerprints += of_shard.fingerprints;
            sum.extension_slots += of_shard.extension_slots;
            sum.bytes += of_shard.bytes;
        }
        sum.load = (sum.fingerprints + sum.extension_slots) as f64 / slots as f64;
        // A random query is as likely to go to one shard as to another.
        sum.expected_rate = rates / self.shards.len() as f64;
        sum
    }

    /// Calls `visit` with every entry, in hash order. Writers of a shard wait while its entries are
    /// visited.
    ///
    /// Fingerprints of different shards can have quotients of different numbers of slots: compare
    /// their [`hashes`](crate::Fingerprint::hashes).
    ///
    /// `visit` must not use this filter: it would wait for itself.
    ///
    /// ```
    /// # use twiceshy::{AdaptiveQuotientFilter, Hash};
    /// let filter = AdaptiveQuotientFilter::builder().slots(100).shards(4).build_concurrent()?;
    /// let hashes = [1, 2, 3].map(|number| Hash::from_u128(number << 126));
    /// filter.insert_each(&hashes)?;
    /// let mut entries = Vec::new();
    /// filter.for_each(|entry| entries.push(entry));
    /// assert!(entries[2].fingerprint.hashes().contains(&hashes[2]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn for_each(&self, mut visit: impl FnMut(Entry)) {
        for (number, shard) in self.shards.iter().enumerate() {
            for entry in shard.read().iter() {
                let fingerprint = self.sharding.outer_fingerprint(number, entry.fingerprint);
                visit(Entry { fingerprint, ..entry });
            }
        }
    }
}
