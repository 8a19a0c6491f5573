//! Information about shards, and rebuilding a shard from its members.

use super::{Concurrent, PlainShard, ShardSize};
use crate::error::BuildError;
use crate::{Hash, Member};
use core::mem;
use core::ops::RangeInclusive;

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

    /// Replaces a shard by a new one that holds exactly these members and answers "absent" to these
    /// mistakes, as far as the filter can distinguish them. Both lists must be in hash order. Use
    /// this to grow with full-length remainders, to drop ghosts, and to fill a filter after a
    /// crash.
    ///
    /// The old shard answers lookups while the new one is built. The new shard then replaces it
    /// atomically. Claims made before that become stale. Repairs of mistakes that aren't listed are
    /// lost, and so are values and tombstones.
    ///
    /// `capacity` is the number of members that the new shard is planned for, with some room for
    /// repairs. If it is `None`, the new shard has as many slots as the old one. If these are too
    /// few, it gets more, even in a filter that doesn't grow by itself.
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
    /// lists, if there is not enough memory, or if members or repairs of the shard have changed
    /// meanwhile ([`Stale`](BuildError::Stale)). The shard is unchanged in that case.
    ///
    /// # Panics
    /// If the shard does not exist.
    pub fn rebuild_shard<L: Copy + Into<Member>>(
        &self,
        shard: usize,
        capacity: Option<usize>,
        members: &[L],
        mistakes: &[Hash],
    ) -> Result<(), BuildError> {
        let place = &self.shards[shard];
        let (state, plan) = {
            let filter = place.read();
            (filter.state(), filter.plan())
        };
        let members = members.iter().map(|&member| member.into());
        let hashes = members.clone().map(|member: Member| member.hash);
        let mut hashes = hashes.chain(mistakes.iter().copied());
        if let Some(hash) = hashes.find(|&hash| self.sharding.shard(hash) != shard) {
            return Err(BuildError::Outside { hash });
        }
        let size = ShardSize { capacity, position: shard as f64 / self.shards() as f64 };
        let inner = |hash| self.sharding.inner(hash);
        let members = members.map(|member| Member { hash: inner(member.hash), ..member });
        let mistakes = mistakes.iter().map(|&mistake| inner(mistake));
        let built = F::build(plan, size, members, mistakes);
        let mut built = built.map_err(|error| self.sharding.outer_build_error(shard, error))?;

        let mut filter = place.write();
        if filter.state() != state {
            return Err(BuildError::Stale);
        }
        built.succeed(&filter);
        let before = mem::replace(&mut *filter, built);
        // Release the lock before freeing the old shard's memory, so that other threads need not
        // wait.
        drop(filter);
        drop(before);
        Ok(())
    }
}
