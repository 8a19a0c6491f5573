//! The adaptive range filter for many threads.

#[cfg(doc)]
use super::RangeFilter;
use super::adapt::{Ghosts, Part, RangeAnswer, RangeClaim};
use super::boxes::{Piece, Spot};
use super::grow::Rejuvenate;
use super::query::{Partitions, Span};
use super::{AdaptiveRangeFilter, MOST_PARTITIONS, MOST_REPAIRED, RangeBuilder, RangeKey};
use crate::concurrent::{Shard, Sharding};
use crate::error::{AdaptError, BuildError, InsertError, Invalid, RejuvenateError, RemoveError};
use crate::{Adaptation, Fingerprint, Hash, Secret};
use core::fmt;
use core::ops::{Bound, RangeBounds, RangeInclusive};
use std::sync::{RwLockReadGuard, RwLockWriteGuard};
use std::thread::available_parallelism;

/// Shards for each thread that the machine runs at once, if nothing is said.
const SHARDS_PER_THREAD: usize = 4;

/// By how many standard deviations a shard is planned for more than its share of the members.
const DEVIATIONS: f64 = 4.0;

/// An [`AdaptiveRangeFilter`] that many threads use at once: every operation takes `&self`.
///
/// # Guarantees
/// - All that [`AdaptiveRangeFilter`] guarantees. From the moment an insert returns, nobody is
///   told that a range with that key is empty.
/// - Whoever changes the members behind a claim makes it stale, and a repair by it is refused.
///
/// It is cut into shards by the first bits of the hashes of partitions, each behind a lock of its
/// own. A range looks at a shard for each of its partitions, one after the other.
///
/// A store inserts a key into the filter first, and then into itself; it removes a key from itself
/// first, and then from the filter.
///
/// # Examples
/// ```
/// use twiceshy::AdaptiveRangeFilter;
/// let filter = AdaptiveRangeFilter::<u64>::builder().capacity(10_000).build_concurrent()?;
/// std::thread::scope(|scope| {
///     for thread in 0..4 {
///         let filter = &filter;
///         scope.spawn(move || (0..100).try_for_each(|n| filter.insert((n << 20) + thread)));
///     }
/// });
/// assert_eq!(filter.len(), 400);
/// assert!((0..100).all(|n| filter.contains_range(n << 20..=(n << 20) + 20)));
/// # Ok::<(), twiceshy::BuildError>(())
/// ```
pub struct ConcurrentAdaptiveRangeFilter<K> {
    partitions: Partitions<K>,
    sharding: Sharding,
    /// Filters of what hashes are in a shard: they are never asked for keys.
    shards: Box<[Shard<AdaptiveRangeFilter<K>>]>,
}

impl<K: RangeKey> RangeBuilder<K> {
    /// The shards of a concurrent filter, 1 to 4096, rounded up to a power of two; four for each
    /// thread that the machine runs at once if nothing is said.
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// Builds a filter for many threads. Slots or capacity are those of all shards together;
    /// chance spreads members unevenly, so a capacity is planned with some slack. Members of one
    /// partition are all in one shard: where many of them are close to each other, shards are less
    /// even, and it had better be [`expandable`](Self::expandable).
    ///
    /// # Errors
    /// If there can't be such a filter, or not so many shards.
    pub fn build_concurrent(mut self) -> Result<ConcurrentAdaptiveRangeFilter<K>, BuildError> {
        let threads = || available_parallelism().map_or(1, Into::into);
        let shards = self.shards.unwrap_or_else(|| SHARDS_PER_THREAD * threads());
        if !(1..=Sharding::MOST).contains(&shards) {
            return Err(BuildError::Shards(shards));
        }
        let sharding = Sharding::at_least(shards);
        let secret = self.secret.take().map_or_else(Secret::generate, Ok)?;
        let plan = self.plan()?;
        let share = plan.slots as f64 / sharding.shards() as f64;
        let slack = if self.has_capacity() { DEVIATIONS * share.sqrt() } else { 0.0 };
        let each = self.with_slots((share + slack).ceil() as u64).secret(secret.clone());
        let build = || Ok(Shard::new(each.clone().build_adaptive()?));
        let shards = (0..sharding.shards()).map(|_| build()).collect::<Result<_, BuildError>>()?;
        let partitions = Partitions::new(secret, plan.memento_bits);
        Ok(ConcurrentAdaptiveRangeFilter { partitions, sharding, shards })
    }
}

impl<K: RangeKey> ConcurrentAdaptiveRangeFilter<K> {
    /// Inserts a member.
    ///
    /// # Errors
    /// If there is no room for it in its shard.
    pub fn insert(&self, key: K) -> Result<(), InsertError> {
        let (mut shard, spot) = self.shard_of(key);
        shard.insert_spot(spot)
    }

    /// Removes a key that is *known* to be a member; see [`RangeFilter::remove`].
    ///
    /// # Errors
    /// [`RemoveError::Absent`], if it is certainly no member.
    pub fn remove(&self, key: K) -> Result<(), RemoveError> {
        let (mut shard, spot) = self.shard_of(key);
        shard.remove_spot(spot)
    }

    /// Whether a key may be a member. "No" is certain.
    pub fn contains(&self, key: K) -> bool {
        self.contains_range((Bound::Included(key), Bound::Included(key)))
    }

    /// Whether a member may be in a range; see [`RangeFilter::contains_range`].
    pub fn contains_range(&self, range: impl RangeBounds<K>) -> bool {
        let Some(span) = Span::of(&range) else { return false };
        self.may_have(span)
    }

    fn may_have(&self, span: Span) -> bool {
        if self.partitions.borders(span) >= MOST_PARTITIONS {
            return !self.is_empty();
        }
        self.partitions.pieces(span).any(|piece| {
            let (shard, piece) = self.read(piece);
            shard.filter.boxes.may_have(piece)
        })
    }

    /// As [`contains_range`](Self::contains_range), but "maybe" carries a claim, which can be
    /// used to repair the filter if it was a mistake, by any thread.
    pub fn check_range(&self, range: impl RangeBounds<K>) -> RangeAnswer {
        let Some(span) = Span::of(&range) else { return RangeAnswer::Empty };
        if self.partitions.borders(span) >= MOST_REPAIRED {
            let is_maybe = self.may_have(span);
            return if is_maybe { RangeAnswer::hopeless() } else { RangeAnswer::Empty };
        }
        let parts = self.partitions.pieces(span).filter_map(|outer| {
            let number = self.sharding.shard(outer.partition);
            let (shard, piece) = self.read(outer);
            let mut part = shard.part(piece)?;
            part.shard = number;
            part.suspects = self.sharding.outer_fingerprint(number, part.suspects);
            Some(part)
        });
        RangeAnswer::of(parts.collect())
    }

    /// Repairs a mistake; see [`AdaptiveRangeFilter::adapt`]. List members after the claim was
    /// made. If another thread changes members near the range before the repair, the claim is
    /// stale: check again, and list again.
    ///
    /// # Errors
    /// As [`AdaptiveRangeFilter::adapt`], but what was repaired in one shard stays so, if another
    /// refuses.
    pub fn adapt(&self, claim: &RangeClaim, members: &[K]) -> Result<Adaptation, AdaptError> {
        self.adapt_with(claim, members, Ghosts::Refuse)
    }

    /// As [`adapt`](Self::adapt), but drops ghosts: you say that `members` is **complete and
    /// current**; see [`AdaptiveRangeFilter::adapt_dropping_ghosts`].
    ///
    /// # Errors
    /// As [`adapt`](Self::adapt).
    pub fn adapt_dropping_ghosts(
        &self,
        claim: &RangeClaim,
        members: &[K],
    ) -> Result<Adaptation, AdaptError> {
        self.adapt_with(claim, members, Ghosts::Drop)
    }

    fn adapt_with(
        &self,
        claim: &RangeClaim,
        members: &[K],
        ghosts: Ghosts,
    ) -> Result<Adaptation, AdaptError> {
        claim.is_repairable()?;
        if let Some(outside) = members.iter().find(|&&key| !claim.is_suspect(self.hash_of(key))) {
            return Err(AdaptError::Outside { member: self.hash_of(*outside) });
        }
        let spots: Vec<Spot> = members.iter().map(|&key| self.partitions.spot(key)).collect();
        let mut all = Adaptation { lengthened: 0, ghosts: 0 };
        let mut shards: Vec<usize> = claim.parts.iter().map(|part| part.shard).collect();
        shards.sort_unstable();
        shards.dedup();
        for number in shards {
            let parts = claim.parts.iter().filter(|part| part.shard == number);
            let parts: Vec<Part> = parts.cloned().collect();
            let theirs = spots.iter().filter(|spot| self.sharding.shard(spot.partition) == number);
            let theirs = theirs.map(|&spot| self.inner(spot)).collect();
            let shard = self.shards.get(number).ok_or(AdaptError::Stale)?;
            let repaired = shard.write().adapt_parts(&parts, theirs, ghosts)?;
            all.lengthened += repaired.lengthened;
            all.ghosts += repaired.ghosts;
        }
        Ok(all)
    }

    /// Doubles each shard that is 95 % full; see [`RangeFilter::doubled_listing`]. Those who need
    /// such a shard wait for it, and for `list`, which must not use this filter.
    ///
    /// # Errors
    /// As [`RangeFilter::doubled_listing`]; shards that have grown already stay so.
    pub fn grow_listing<E>(
        &self,
        mut list: impl FnMut(RangeInclusive<Hash>) -> Result<Vec<K>, E>,
    ) -> Result<(), RejuvenateError<E>> {
        for (number, shard) in self.shards.iter().enumerate() {
            let mut shard = shard.write();
            if !shard.filter.boxes.is_full() {
                continue;
            }
            let list = |cell: Fingerprint| {
                let members = list(self.sharding.outer_fingerprint(number, cell).hashes())?;
                let spots = members.into_iter().map(|key| self.inner(self.partitions.spot(key)));
                Ok(spots.collect())
            };
            let boxes = shard.filter.boxes.doubled(Rejuvenate::Exhausted, list)?;
            *shard = shard.succeeded_by(shard.filter.with(boxes));
        }
        Ok(())
    }

    /// How many members there are, each counted as often as it was inserted.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().len()).sum()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.read().is_empty())
    }

    /// The load of the fullest shard.
    pub fn load(&self) -> f64 {
        self.shards.iter().map(|shard| shard.read().load()).fold(0.0, f64::max)
    }

    /// Bytes of memory that the filter takes.
    pub fn memory_usage(&self) -> u64 {
        let overhead = Shard::<AdaptiveRangeFilter<K>>::OVERHEAD;
        let shards = self.shards.iter().map(|shard| shard.read().memory_usage() + overhead);
        size_of::<Self>() as u64 + shards.sum::<u64>()
    }

    /// Mistakes repaired since the filter was built; one may be in two shards.
    pub fn adaptations(&self) -> u64 {
        self.shards.iter().map(|shard| shard.read().adaptations()).fold(0, u64::saturating_add)
    }

    /// The hash of a key's partition, by which members are listed.
    pub fn hash_of(&self, key: K) -> Hash {
        self.partitions.spot(key).partition
    }

    /// Checks every invariant; see [`RangeFilter::validate`].
    ///
    /// # Errors
    /// Says which invariant is broken.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.shards.iter().try_for_each(|shard| shard.read().validate())
    }

    fn shard_of(&self, key: K) -> (RwLockWriteGuard<'_, AdaptiveRangeFilter<K>>, Spot) {
        let spot = self.partitions.spot(key);
        (self.shards[self.sharding.shard(spot.partition)].write(), self.inner(spot))
    }

    #[inline]
    fn read(&self, outer: Piece) -> (RwLockReadGuard<'_, AdaptiveRangeFilter<K>>, Piece) {
        let partition = self.sharding.inner(outer.partition);
        let shard = &self.shards[self.sharding.shard(outer.partition)];
        (shard.read(), Piece { partition, ..outer })
    }

    fn inner(&self, spot: Spot) -> Spot {
        Spot { partition: self.sharding.inner(spot.partition), ..spot }
    }
}

impl<K: RangeKey> fmt::Debug for ConcurrentAdaptiveRangeFilter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConcurrentAdaptiveRangeFilter")
            .field("len", &self.len())
            .field("load", &self.load())
            .field("shards", &self.shards.len())
            .finish_non_exhaustive()
    }
}
