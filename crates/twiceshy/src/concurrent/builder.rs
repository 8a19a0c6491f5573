//! Builders of concurrent filters, and the sizes of their shards.

use super::{Concurrent, PlainShard, Sharding};
use crate::builder::Builder;
use crate::error::{BuildError, PlanError};
use crate::{Key, Keyed};
use std::thread::available_parallelism;

/// Default number of shards per hardware thread. It is large enough that two threads rarely need
/// the same shard at the same time.
const SHARDS_PER_THREAD: usize = 4;

/// Difference in size between the largest and the smallest shard that may grow, as a fraction of
/// the smallest. Because of it, the shards double one after another, not all at the same time.
const STAGGER: f64 = 0.16;

/// Number of standard deviations by which a shard's planned capacity exceeds its average share of
/// the members. Chance rarely gives a shard more members than that.
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

    /// Returns one builder per shard.
    fn split(&self, shards: usize) -> impl Iterator<Item = Self> {
        let mut of_shard = self.clone();
        let may_grow = F::let_shards_grow(&mut of_shard);
        let memory = self.memory.map(|all| all.saturating_sub(Concurrent::<F>::overhead(shards)));
        (0..shards).map(move |shard| {
            let size = relative_size(shard as f64 / shards as f64, may_grow);
            let share = |count: usize| (share(count, shards) * size).ceil() as usize;
            let part = |all| part(all, shard, shards, may_grow);
            let mut builder = of_shard.clone();
            builder.capacity = self.capacity.map(share);
            builder.slots = self.slots.map(|slots| part(slots).max(1));
            builder.memory = memory.map(part);
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

/// Returns a shard's part of `all`, in proportion to the shard's relative size. The parts of all
/// shards add up to `all`.
fn part(all: u64, shard: usize, shards: usize, may_grow: bool) -> u64 {
    // Relative sizes grow linearly, so the average over the first shards is the size of the middle
    // one.
    let middle = |shards_before: f64| ((shards_before - 1.0) / 2.0).max(0.0) / shards as f64;
    let sizes_before = |shard: f64| shard * relative_size(middle(shard), may_grow);
    let share_before = |shard| sizes_before(shard as f64) / sizes_before(shards as f64);
    let end = |shard: usize| ((all as f64 * share_before(shard)).round() as u64).min(all);
    end(shard + 1) - end(shard)
}
