//! Builders of concurrent filters, and the sizes of their shards.

use super::many::Groups;
use super::{Concurrent, PlainShard, Sharding};
use crate::builder::Builder;
use crate::error::{BuildError, PlanError};
use crate::{Hash, Key, Keyed};
use std::thread::available_parallelism;

/// Default number of shards per hardware thread. It is large enough that two threads rarely need
/// the same shard at the same time.
const SHARDS_PER_THREAD: usize = 4;

/// By how much the largest growing shard exceeds the smallest, relative to the smallest. It spreads
/// the doublings: shards double one after another while the filter grows by the same factor.
const STAGGER: f64 = 0.16;

/// Slack of a shard's planned capacity above its average share of the members, in standard
/// deviations. Chance rarely gives a shard more members than that.
const DEVIATIONS: f64 = 4.0;

impl<F: PlainShard> Builder<F> {
    /// Sets the number of shards of a [concurrent](Self::build_concurrent) filter, 1 to 4096,
    /// rounded up to a power of two. The default is four per hardware thread.
    ///
    /// With more shards, threads wait less for each other, and a filter that grows does so in
    /// smaller steps.
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// Builds an empty filter for use by many threads.
    ///
    /// The capacity, memory or slots, and the room for repairs, are totals over all shards. Chance
    /// spreads members unevenly, so a capacity is planned with some slack.
    ///
    /// A full shard of a quotient filter [grows](Self::grow_at), by default at the planned load.
    /// However, if the size is given in bytes or slots, shards grow only if you also ask for
    /// growth. Shards that may grow differ in size by up to 16 %, so that they don't all double at
    /// once. Each shard has at least one slot.
    ///
    /// # Errors
    /// Returns the same errors as [`build`](Self::build), or an error if the number of shards is
    /// impossible.
    pub fn build_concurrent(&self) -> Result<Concurrent<F>, BuildError> {
        let sharding = sharding(self.shards)?;
        let build = |builder: Self| builder.build().map_err(|error| self.in_all(error));
        let filters = self.split(sharding.shards()).map(build);
        Ok(Concurrent::of(filters.collect::<Result<_, _>>()?))
    }

    /// Builds a filter for use by many threads that holds these members and answers "absent" to
    /// these mistakes; see [`build_from`](Self::build_from). Each shard is built in one step, which
    /// is faster than single inserts.
    ///
    /// # Errors
    /// Returns the same errors as [`build_concurrent`](Self::build_concurrent), or an error if a
    /// hash is on both lists, or if the lists don't fit in a size that was given in bytes or slots.
    pub fn build_concurrent_from(
        &self,
        members: &[Hash],
        mistakes: &[Hash],
    ) -> Result<Concurrent<F>, BuildError> {
        let sharding = sharding(self.shards)?;
        let mut all = self.clone();
        if self.memory.is_none() && self.slots.is_none() {
            all.capacity = Some(self.capacity.unwrap_or(0).max(members.len()));
        }
        let members = Groups::new(sharding, members);
        let mistakes = Groups::new(sharding, mistakes);
        let filters = all.split(sharding.shards()).enumerate().map(|(shard, builder)| {
            let built = builder.build_from(members.of(shard).to_vec(), mistakes.of(shard).to_vec());
            built.map_err(|error| all.in_all(sharding.outer_build_error(shard, error)))
        });
        Ok(Concurrent::of(filters.collect::<Result<_, _>>()?))
    }

    /// Builds an empty filter for keys of type `K`, for use by many threads.
    ///
    /// ```
    /// use twiceshy::QuotientFilter;
    /// let filter = QuotientFilter::builder().capacity(1000).build_concurrent_keyed::<str>()?;
    /// std::thread::scope(|scope| {
    ///     for name in ["alice", "bob"] {
    ///         let filter = &filter;
    ///         scope.spawn(move || filter.insert(name).expect("it grows"));
    ///     }
    /// });
    /// assert!(filter.contains("alice") && filter.contains("bob"));
    /// # Ok::<(), twiceshy::error::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`build_concurrent`](Self::build_concurrent), or an error if the
    /// operating system provides no entropy for a fresh secret.
    pub fn build_concurrent_keyed<K: Key + ?Sized>(
        &self,
    ) -> Result<Keyed<K, Concurrent<F>>, BuildError> {
        Ok(Keyed::new(self.build_concurrent()?, self.secret_or_fresh()?))
    }

    /// Returns the builders of the shards.
    fn split(&self, shards: usize) -> impl Iterator<Item = Self> {
        let mut of_shard = self.clone();
        let may_grow = F::let_shards_grow(&mut of_shard);
        let relative_size = move |shard| relative_size(shard as f64 / shards as f64, may_grow);
        let sizes: f64 = (0..shards).map(relative_size).sum();
        let overhead = Concurrent::<F>::overhead(shards);
        let mut slots = self.slots.map(|slots| Parts::new(slots, sizes));
        let mut memory = self.memory.map(|bytes| Parts::new(bytes.saturating_sub(overhead), sizes));
        (0..shards).map(move |shard| {
            let size = relative_size(shard);
            let share = |count: usize| (share(count, shards) * size).ceil() as usize;
            let mut builder = of_shard.clone();
            builder.capacity = self.capacity.map(share);
            builder.slots = slots.as_mut().map(|slots| slots.next(size).max(1));
            builder.memory = memory.as_mut().map(|memory| memory.next(size));
            builder.adaptations = self.adaptations.map(share);
            builder
        })
    }

    /// Converts a shard's error to one with the numbers that the caller gave for the whole filter.
    fn in_all(&self, error: BuildError) -> BuildError {
        let BuildError::Plan(error) = error else { return error };
        BuildError::Plan(match (error, self.capacity, self.memory, self.adaptations) {
            (PlanError::Capacity(_), Some(capacity), ..) => PlanError::Capacity(capacity),
            (PlanError::Budget(_), _, Some(bytes), _) => PlanError::Budget(bytes),
            (PlanError::Adaptations(_), .., Some(count)) => PlanError::Adaptations(count),
            (other, ..) => other,
        })
    }
}

/// Returns a sharding with the requested number of shards, or with the default number.
fn sharding(shards: Option<usize>) -> Result<Sharding, PlanError> {
    let by_default = || {
        let threads = available_parallelism().map_or(1, Into::into);
        (threads * SHARDS_PER_THREAD).min(Sharding::MOST)
    };
    let shards = shards.unwrap_or_else(by_default);
    if !(1..=Sharding::MOST).contains(&shards) {
        return Err(PlanError::Shards(shards));
    }
    Ok(Sharding::at_least(shards))
}

/// Returns the size of a shard relative to the first one. `position` is its position among all
/// shards, from 0 to 1. Shards that may grow differ in size.
pub(super) fn relative_size(position: f64, may_grow: bool) -> f64 {
    if may_grow { 1.0 + STAGGER * position } else { 1.0 }
}

/// Returns how many of `count` members a shard is planned for: its average share, plus slack.
fn share(count: usize, shards: usize) -> f64 {
    let mean = count as f64 / shards as f64;
    let variance = mean * (1.0 - (shards as f64).recip());
    mean + DEVIATIONS * variance.sqrt()
}

/// Splits a number into parts in proportion to given sizes. The parts add up to the number.
struct Parts {
    total: u64,
    sizes: f64,
    size_before: f64,
    before: u64,
}

impl Parts {
    fn new(total: u64, sizes: f64) -> Self {
        Self { total, sizes, size_before: 0.0, before: 0 }
    }

    fn next(&mut self, size: f64) -> u64 {
        self.size_before += size;
        let end = (self.total as f64 * (self.size_before / self.sizes)).round() as u64;
        end.min(self.total) - core::mem::replace(&mut self.before, end.min(self.total))
    }
}
