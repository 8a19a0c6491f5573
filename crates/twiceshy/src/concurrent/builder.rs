//! How large each shard should be.

use super::many::Groups;
use super::{Concurrent, Sharding};
use crate::error::BuildError;
use crate::quotient::PLANNED_LOAD;
use crate::{AdaptiveQuotientFilter, Builder, Hash, Key, Keyed};
use core::borrow::Borrow;
use std::thread::available_parallelism;

/// Shards for each thread that the machine runs at once, if nothing is said: one thread
/// seldom finds another in the shard that it needs.
const SHARDS_PER_THREAD: usize = 4;

/// By how much the largest of the shards that grow is larger than the smallest, so that one
/// after the other doubles while the filter grows by as much.
const STAGGER: f64 = 0.16;

/// By how many standard deviations a shard is planned for more than its share of the members:
/// chance seldom gives it more.
const DEVIATIONS: f64 = 4.0;

impl Builder {
    /// The shards of a concurrent filter, 1 to 4096, rounded up to a power of two; four for
    /// each thread that the machine runs at once if nothing is said. More of them wait less
    /// for each other, and double in smaller steps. For
    /// [`build_concurrent`](Self::build_concurrent) and
    /// [`build_keyed_concurrent`](Self::build_keyed_concurrent) only.
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// An empty filter for many threads.
    ///
    /// Capacity, memory or slots, and the room for repairs, are those of all shards together.
    /// Chance spreads members unevenly, so a capacity is planned with some slack. What
    /// doesn't fit in spite of it makes a shard [grow](Self::grow_at), at 95 % load if nothing
    /// is said; but bytes or slots that were asked for are kept to, unless growth is asked
    /// for, too. Shards that may grow differ in size by up to 16 %, so that they don't all
    /// double at once. Each has one slot or more.
    ///
    /// ```
    /// use twiceshy::AdaptiveQuotientFilter;
    /// let builder = AdaptiveQuotientFilter::builder().false_positive_rate(0.001);
    /// let filter = builder.capacity(1_000_000).shards(16).build_concurrent()?;
    /// assert_eq!(filter.parameters().len(), 16);
    /// # Ok::<(), twiceshy::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// As [`build`](Self::build), or if there can't be so many shards.
    pub fn build_concurrent(&self) -> Result<Concurrent<AdaptiveQuotientFilter>, BuildError> {
        let sharding = sharding(self.shards)?;
        let build = |builder: Self| builder.build().map_err(|error| self.in_all(error));
        let filters = self.split(sharding.shards()).map(build);
        Ok(Concurrent::of(filters.collect::<Result<_, _>>()?))
    }

    /// A filter for many threads of these members, each as often as it is listed, in which
    /// none of these mistakes is "maybe"; both lists in any order. Each shard is built at once,
    /// faster than by inserts.
    ///
    /// If no size was given, it is planned for the members, and for more it
    /// [grows](Self::build_concurrent).
    ///
    /// ```
    /// # use twiceshy::{AdaptiveQuotientFilter, Hash};
    /// let [first, second, mistake] = [1, 2, 3].map(|number| Hash::from_u128(number << 100));
    /// let builder = AdaptiveQuotientFilter::builder();
    /// let filter = builder.build_concurrent_from(&[second, first], &[mistake])?;
    /// assert!(filter.contains(first) && filter.contains(second) && !filter.contains(mistake));
    /// # Ok::<(), twiceshy::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// As [`build_concurrent`](Self::build_concurrent), if a hash is on both lists, or if they
    /// don't fit a size that was asked for in bytes or slots.
    pub fn build_concurrent_from(
        &self,
        members: &[Hash],
        mistakes: &[Hash],
    ) -> Result<Concurrent<AdaptiveQuotientFilter>, BuildError> {
        let sharding = sharding(self.shards)?;
        let filters = self.parts(sharding, members, mistakes).map(Part::build);
        Ok(Concurrent::of(filters.collect::<Result<_, _>>()?))
    }

    /// What each shard is built from.
    fn parts(
        &self,
        sharding: Sharding,
        members: &[Hash],
        mistakes: &[Hash],
    ) -> impl Iterator<Item = Part> {
        let mut all = self.clone();
        if self.memory.is_none() && self.slots.is_none() {
            all.capacity = Some(self.capacity.unwrap_or(0).max(members.len()));
        }
        let members = Groups::new(sharding, members);
        let mistakes = Groups::new(sharding, mistakes);
        let builders: Vec<Self> = all.split(sharding.shards()).collect();
        builders.into_iter().enumerate().map(move |(shard, builder)| Part {
            all: all.clone(),
            builder,
            sharding,
            shard,
            members: members.of(shard).to_vec(),
            mistakes: mistakes.of(shard).to_vec(),
        })
    }

    /// An empty filter for many threads and keys of type `K`.
    ///
    /// # Errors
    /// As [`build_concurrent`](Self::build_concurrent), or if there is no entropy for a fresh
    /// secret.
    pub fn build_keyed_concurrent<K: ?Sized>(
        &self,
    ) -> Result<Keyed<K, Concurrent<AdaptiveQuotientFilter>>, BuildError> {
        Ok(Keyed::new(self.build_concurrent()?, self.secret_or_fresh()?))
    }

    /// A filter for many threads of these keys, in which none of these mistakes is "maybe". A
    /// key that is listed twice is a member once.
    ///
    /// ```
    /// # use twiceshy::AdaptiveQuotientFilter;
    /// let (blocked, popular) = (["evil.example", "worse.example"], ["fine.example"]);
    /// let list = AdaptiveQuotientFilter::builder()
    ///     .build_keyed_concurrent_from::<str>(blocked, popular)?;
    /// assert!(list.contains("evil.example") && !list.contains("fine.example"));
    /// # Ok::<(), twiceshy::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// As [`build_concurrent_from`](Self::build_concurrent_from), or if there is no entropy for
    /// a fresh secret.
    pub fn build_keyed_concurrent_from<K: Key + ?Sized>(
        &self,
        members: impl IntoIterator<Item: Borrow<K>>,
        mistakes: impl IntoIterator<Item: Borrow<K>, IntoIter: Clone>,
    ) -> Result<Keyed<K, Concurrent<AdaptiveQuotientFilter>>, BuildError> {
        self.keyed_from(members, mistakes, |members, mistakes| {
            self.build_concurrent_from(&members, &mistakes)
        })
    }

    /// The builders of the shards.
    fn split(&self, shards: usize) -> impl Iterator<Item = Self> {
        let growth = self.growth.or(self.capacity.map(|_| PLANNED_LOAD));
        let relative_size =
            move |shard| relative_size(shard as f64 / shards as f64, growth.is_some());
        let sizes: f64 = (0..shards).map(relative_size).sum();
        let overhead = Concurrent::<AdaptiveQuotientFilter>::overhead(shards);
        let mut slots = self.slots.map(|slots| Parts::new(slots, sizes));
        let mut memory = self.memory.map(|bytes| Parts::new(bytes.saturating_sub(overhead), sizes));
        (0..shards).map(move |shard| {
            let size = relative_size(shard);
            let share = |count: usize| (share(count, shards) * size).ceil() as usize;
            let mut builder = self.clone();
            builder.capacity = self.capacity.map(share);
            builder.slots = slots.as_mut().map(|slots| slots.next(size).max(1));
            builder.memory = memory.as_mut().map(|memory| memory.next(size));
            builder.adaptations = self.adaptations.map(share);
            builder.growth = growth;
            builder
        })
    }

    /// A shard's error, with the numbers that the caller gave.
    fn in_all(&self, error: BuildError) -> BuildError {
        match error {
            BuildError::Budget(of_shard) => BuildError::Budget(self.memory.unwrap_or(of_shard)),
            BuildError::Adaptations(of_shard) => {
                BuildError::Adaptations(self.adaptations.unwrap_or(of_shard))
            }
            other => other,
        }
    }
}

/// What a shard is built from.
struct Part {
    /// The builder of all shards.
    all: Builder,
    builder: Builder,
    sharding: Sharding,
    shard: usize,
    /// As they are in the shard.
    members: Vec<Hash>,
    mistakes: Vec<Hash>,
}

impl Part {
    fn build(self) -> Result<AdaptiveQuotientFilter, BuildError> {
        let Self { all, builder, sharding, shard, members, mistakes } = self;
        builder.build_from(members, mistakes).map_err(|error| match error {
            BuildError::MistakeIsMember { hash, position } => {
                BuildError::MistakeIsMember { hash: sharding.outer(shard, hash), position }
            }
            other => all.in_all(other),
        })
    }
}

/// Cuts the hashes into as many shards as were asked for.
pub(super) fn sharding(shards: Option<usize>) -> Result<Sharding, BuildError> {
    let by_default = || {
        let threads = available_parallelism().map_or(1, Into::into);
        (threads * SHARDS_PER_THREAD).min(Sharding::MOST)
    };
    let shards = shards.unwrap_or_else(by_default);
    if !(1..=Sharding::MOST).contains(&shards) {
        return Err(BuildError::Shards(shards));
    }
    Ok(Sharding::at_least(shards))
}

/// Returns the size of a shard, relative to the first one, by its position among all (from 0 to 1).
/// Shards that may grow are not equally large.
pub(super) fn relative_size(position: f64, may_grow: bool) -> f64 {
    if may_grow { 1.0 + STAGGER * position } else { 1.0 }
}

/// How many of `count` a shard can expect, and some more for chance.
fn share(count: usize, shards: usize) -> f64 {
    let mean = count as f64 / shards as f64;
    let variance = mean * (1.0 - (shards as f64).recip());
    mean + DEVIATIONS * variance.sqrt()
}

/// A number cut into parts in proportion to sizes, nothing lost.
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
