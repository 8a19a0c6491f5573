//! Methods that describe shards, and one that rebuilds a shard from its members.

use super::locked::Locked;
use super::{Concurrent, Fill, PlainShard, ShardPlan};
use crate::error::BuildError;
use crate::{Hash, Member};
use core::mem;
use core::ops::RangeInclusive;

/// The reason why a shard was not rebuilt. The shard is unchanged.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RebuildError {
    /// A hash belongs to a different shard.
    #[error("{hash:?} is not in that shard; list exactly the shard's members and mistakes")]
    Outside {
        /// The first hash that belongs to a different shard.
        hash: Hash,
    },
    /// Members were inserted or removed, or a mistake was repaired, while the shard was being
    /// rebuilt.
    #[error("the shard changed while it was rebuilt; keep writers out, and list its members again")]
    Stale,
    /// The new shard was not built.
    #[error(transparent)]
    Build(#[from] BuildError),
}

impl<F: PlainShard> Concurrent<F> {
    /// Returns the number of shards, which is a power of two.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Returns the number of the shard that a hash belongs to.
    #[inline]
    pub fn shard_of(&self, hash: Hash) -> usize {
        self.sharding.shard(hash)
    }

    /// Returns the interval of hashes that belong to a shard.
    ///
    /// # Panics
    /// If the shard does not exist.
    pub fn shard_hashes(&self, shard: usize) -> RangeInclusive<Hash> {
        assert!(shard < self.shards(), "there is no shard {shard} of {}", self.shards());
        self.sharding.outer(shard, Hash::MIN)..=self.sharding.outer(shard, Hash::MAX)
    }

    /// Makes every shard keep its size from now on. Inserts into a full shard are refused then. Use
    /// this if you [rebuild](Self::rebuild_shard) shards before they are full.
    pub fn stop_growing(&self) {
        for shard in &self.shards {
            shard.write().stop_growing();
        }
    }

    /// Returns how full a shard is.
    ///
    /// # Panics
    /// If the shard does not exist.
    pub fn shard_fill(&self, shard: usize) -> Fill {
        self.with_shard(shard, F::fill)
    }

    /// Replaces a shard by a new one, built from these members and mistakes. The new shard holds
    /// exactly these members. It answers "absent" to every mistake that it can distinguish from
    /// them. Both lists must be in hash order. Use this to grow with full-length remainders, to
    /// drop *ghosts* (members that only the filter still holds), and to fill a filter after a
    /// crash.
    ///
    /// The old shard answers lookups while the new one is built. The new shard then replaces it
    /// atomically. Claims made before that become stale. Repairs of mistakes that aren't listed are
    /// lost, and so are values and tombstones.
    ///
    /// `plan` says how large the new shard is, and whether it gets fresh remainders. Except with
    /// [`ShardPlan::slots`], a shard whose slots are too few gets more, even in a filter that
    /// doesn't grow by itself.
    ///
    /// **Keep other writers away from this shard, from before you list its members until this
    /// returns.** Otherwise a member that is in the filter, but not yet in the store that lists
    /// members, would be lost. This method detects a change made while it builds the shard, but not
    /// one that began before.
    ///
    /// Takes time in proportion to the members and mistakes, and memory for both the old and the
    /// new shard.
    ///
    /// # Errors
    /// If a hash belongs to a different shard, if a list is out of order, if a hash is on both
    /// lists, if the plan is impossible or its slots are too few, if there is not enough memory or
    /// entropy, or, with [`Stale`](RebuildError::Stale), if members or repairs of the shard have
    /// changed meanwhile. The shard is unchanged in that case.
    ///
    /// # Panics
    /// If the shard does not exist.
    pub fn rebuild_shard<L: Copy + Into<Member>>(
        &self,
        shard: usize,
        plan: ShardPlan,
        members: &[L],
        mistakes: &[Hash],
    ) -> Result<(), RebuildError> {
        let state = self.with_shard(shard, F::state);
        let built = self.build_shard(shard, plan, members, mistakes)?;
        let mut filter = self.shards[shard].write();
        if filter.state() != state {
            return Err(RebuildError::Stale);
        }
        let before = built.swap_in(&mut filter);
        // Freeing a large table takes a while, so let other threads go on first.
        drop(filter);
        drop(before);
        Ok(())
    }

    /// Builds a filter that can [replace](Self::replace_shard) a shard. Lists and `plan` work as
    /// for [`rebuild_shard`](Self::rebuild_shard). This filter stays as it is.
    ///
    /// # Errors
    /// The same as for [`rebuild_shard`](Self::rebuild_shard), except `Stale`.
    ///
    /// # Panics
    /// If the shard does not exist.
    pub fn build_shard<L: Copy + Into<Member>>(
        &self,
        shard: usize,
        plan: ShardPlan,
        members: &[L],
        mistakes: &[Hash],
    ) -> Result<Replacement<F>, RebuildError> {
        let before = self.with_shard(shard, F::plan);
        let members = members.iter().map(|&member| member.into());
        let hashes = members.clone().map(|member: Member| member.hash);
        let mut hashes = hashes.chain(mistakes.iter().copied());
        if let Some(hash) = hashes.find(|&hash| self.sharding.shard(hash) != shard) {
            return Err(RebuildError::Outside { hash });
        }
        let position = shard as f64 / self.shards() as f64;
        let inner = |hash| self.sharding.inner(hash);
        let members = members.map(|member| Member { hash: inner(member.hash), ..member });
        let mistakes = mistakes.iter().map(|&mistake| inner(mistake));
        let built = F::build(before, plan, position, members, mistakes);
        let built = built.map_err(|error| self.sharding.outer_build_error(shard, error))?;
        let sharding = self.sharding.only(shard);
        let filter = Self { sharding, shards: [Locked::new(built)].into() };
        Ok(Replacement { filter, shard })
    }

    /// Replaces a shard by a filter that was built for it, even if the shard has changed since
    /// then. Claims that were made before become stale. The old shard's number of repairs carries
    /// over; those of the replacement aren't counted. Returns the old shard's filter.
    ///
    /// # Panics
    /// If the replacement was built for a filter with a different number of shards.
    pub fn replace_shard(&self, replacement: Replacement<F>) -> F {
        let expected = self.sharding.only(replacement.shard);
        let is_of_this = replacement.filter.sharding == expected;
        assert!(is_of_this, "the replacement was built for a different number of shards");
        let mut filter = self.shards[replacement.shard].write();
        replacement.swap_in(&mut filter)
    }
}

/// A filter that was built to [replace](Concurrent::replace_shard) a shard. Until then, it can be
/// changed.
pub struct Replacement<F> {
    /// A filter with only this shard.
    filter: Concurrent<F>,
    shard: usize,
}

impl<F> Replacement<F> {
    /// Returns the new shard, as a concurrent filter that has only this shard, with the number 0.
    ///
    /// Its methods panic if a hash belongs to a different shard. It can't be saved, unless it is the
    /// only shard.
    pub const fn filter(&self) -> &Concurrent<F> {
        &self.filter
    }
}

impl<F: PlainShard> Replacement<F> {
    /// Puts the new filter in the place of a shard's filter, and returns the old one.
    fn swap_in(self, filter: &mut F) -> F {
        let mut built = self.filter.shards.into_iter().next().expect("one shard").into_inner();
        built.succeed(filter);
        mem::replace(filter, built)
    }
}
