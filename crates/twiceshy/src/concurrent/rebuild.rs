//! Shards one by one: which hashes are theirs, and building one anew from its members.

use super::builder::relative_size;
use super::{ConcurrentAdaptiveQuotientFilter, Sharding};
use crate::error::BuildError;
use crate::quotient::{MOST_EXTENDED, PLANNED_LOAD};
use crate::{AdaptiveQuotientFilter, Hash, Member, Parameters};
use core::cell::RefCell;
use core::ops::RangeInclusive;

impl ConcurrentAdaptiveQuotientFilter {
    /// How many shards there are: a power of two.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// What a shard is made of.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn shard_parameters(&self, shard: usize) -> Parameters {
        self.shards[shard].read().parameters()
    }

    /// The shard of a hash, counted from 0, in hash order.
    #[inline]
    pub fn shard_of(&self, hash: Hash) -> usize {
        self.sharding.shard(hash)
    }

    /// The hashes of a shard.
    ///
    /// ```
    /// # use twiceshy::{AdaptiveQuotientFilter, Hash};
    /// let filter = AdaptiveQuotientFilter::builder().slots(100).shards(4).build_concurrent()?;
    /// let hashes = filter.shard_hashes(3);
    /// assert_eq!(*hashes.start(), Hash::from_u128(3 << 126));
    /// assert_eq!(*hashes.end(), Hash::MAX);
    /// assert_eq!(filter.shard_of(*hashes.start()), 3);
    /// # Ok::<(), twiceshy::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn shard_hashes(&self, shard: usize) -> RangeInclusive<Hash> {
        assert!(shard < self.shards(), "there is no shard {shard} of {}", self.shards());
        self.sharding.outer(shard, Hash::MIN)..=self.sharding.outer(shard, Hash::MAX)
    }

    /// Replaces a shard by one in which exactly these are the members, and none of these
    /// mistakes is "maybe"; both are streams of the [shard's hashes](Self::shard_hashes), in
    /// hash order, which can be begun again. For growing with all bits of the remainders, for
    /// dropping ghosts, and for filling a filter after a crash.
    ///
    /// It is written in one pass, beside the old one, which answers meanwhile; then it takes its
    /// place, at one instant for all threads. Claims that were made before are stale then.
    /// Repairs of mistakes that aren't listed are lost, and so are values and tombstones.
    ///
    /// `capacity` is how many members it is planned for, with some room for repairs, whatever it
    /// had room for before. If it is `None`, the shard keeps as many slots as it has. If they
    /// turn out to be too few, it is enlarged, and written again, also in a filter that doesn't
    /// grow by itself. Remainders have all bits of a slot again; the load at which it grows
    /// stays.
    ///
    /// **Keep those who change members away from this shard, from before they are listed until
    /// this returns.** A member that is in the filter, but not yet where it is listed, would be
    /// lost. What another thread changes while the streams are read is noticed, but what it was
    /// about to list is not. No lock is held while they are read.
    ///
    /// [`try_rebuild_shard`](Self::try_rebuild_shard) is for streams that can fail.
    ///
    /// ```
    /// # use twiceshy::{AdaptiveQuotientFilter, Hash};
    /// let filter = AdaptiveQuotientFilter::builder().slots(100).shards(4).build_concurrent()?;
    /// let members = [5u128, 6, 7].map(|number| Hash::from_u128(1 << 126 | number << 100));
    /// let mistake = Hash::from_u128(1 << 126 | 8 << 100);
    /// filter.rebuild_shard(1, Some(members.len()), || members, || [mistake])?;
    /// assert!(members.iter().all(|&member| filter.contains(member)));
    /// assert!(!filter.contains(mistake));
    ///
    /// // They are no hashes of shard 2.
    /// assert!(filter.rebuild_shard(2, None, || members, || []).is_err());
    /// # Ok::<(), twiceshy::BuildError>(())
    /// ```
    ///
    /// # Complexity
    /// Linear in the members and mistakes; memory for the old and the new shard, and for no
    /// list.
    ///
    /// # Errors
    /// If a hash is another shard's, if a list is out of order, if a hash is on both, if there
    /// is no memory, or if members or repairs of the shard have changed meanwhile
    /// ([`Stale`](BuildError::Stale)). The shard is as it was then.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn rebuild_shard<I, J>(
        &self,
        shard: usize,
        capacity: Option<usize>,
        members: impl Fn() -> I,
        mistakes: impl Fn() -> J,
    ) -> Result<(), BuildError>
    where
        I: IntoIterator<Item: Into<Member>>,
        J: IntoIterator<Item = Hash>,
    {
        self.try_rebuild_shard(
            shard,
            capacity,
            || members().into_iter().map(Ok::<_, BuildError>),
            || mistakes().into_iter().map(Ok),
        )
    }

    /// As [`rebuild_shard`](Self::rebuild_shard), from streams that can fail: the first error
    /// that one of them gives is returned, and nothing has changed.
    ///
    /// ```
    /// # use twiceshy::{AdaptiveQuotientFilter, BuildError, Hash};
    /// #[derive(Debug, thiserror::Error)]
    /// #[error("the disk is gone, or {0}")]
    /// struct Broken(#[from] BuildError);
    ///
    /// let filter = AdaptiveQuotientFilter::builder().slots(100).shards(4).build_concurrent()?;
    /// filter.insert(Hash::MIN)?;
    /// # let broken = || Broken(BuildError::Size);
    /// let members = || [Ok(Hash::from_u128(7)), Err(broken())];
    /// let rebuilt = filter.try_rebuild_shard(0, None, members, || []);
    /// assert!(rebuilt.is_err() && filter.contains(Hash::MIN));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`rebuild_shard`](Self::rebuild_shard), and those of the streams.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn try_rebuild_shard<I, J, M, E>(
        &self,
        shard: usize,
        capacity: Option<usize>,
        members: impl Fn() -> I,
        mistakes: impl Fn() -> J,
    ) -> Result<(), E>
    where
        I: IntoIterator<Item = Result<M, E>>,
        J: IntoIterator<Item = Result<Hash, E>>,
        M: Into<Member>,
        E: From<BuildError>,
    {
        let place = &self.shards[shard];
        let (state, parameters, growth) = {
            let filter = place.read();
            (filter.state(), filter.parameters(), filter.tally().growth)
        };
        let size = Size {
            load: growth.unwrap_or(PLANNED_LOAD).min(PLANNED_LOAD),
            relative: relative_size(shard, self.shards(), growth.is_some()),
            may_grow: growth.is_some(),
        };
        let inside = Inside { sharding: self.sharding, shard, failed: RefCell::new(None) };
        let mut built = size.build(
            Parameters { remainder_bits: parameters.slot_bits, ..parameters },
            capacity,
            &inside,
            || inside.of(members(), |member: M| member.into()),
            || inside.of(mistakes(), Member::from).map(|mistake| mistake.hash),
        )?;

        let mut filter = place.write();
        if filter.state() != state {
            return Err(BuildError::Stale.into());
        }
        built.succeed(&filter);
        let before = core::mem::replace(&mut *filter, built);
        // Others needn't wait until its memory is given back.
        drop(filter);
        drop(before);
        Ok(())
    }
}

/// Passes streams on as the hashes of a shard, until one of them fails.
struct Inside<E> {
    sharding: Sharding,
    shard: usize,
    /// Why a stream has ended before its end.
    failed: RefCell<Option<E>>,
}

impl<E: From<BuildError>> Inside<E> {
    fn of<T>(
        &self,
        stream: impl IntoIterator<Item = Result<T, E>>,
        member: impl Fn(T) -> Member,
    ) -> impl Iterator<Item = Member> {
        let inner = move |item: Result<T, E>| match item.map(&member) {
            Ok(Member { hash, count }) if self.sharding.shard(hash) == self.shard => {
                Some(Member { hash: self.sharding.inner(hash), count })
            }
            Ok(Member { hash, .. }) => self.fail(BuildError::Outside { hash }.into()),
            Err(error) => self.fail(error),
        };
        stream.into_iter().map_while(inner).fuse()
    }

    fn fail(&self, error: E) -> Option<Member> {
        self.failed.borrow_mut().get_or_insert(error);
        None
    }

    /// What was made of the streams, if they have not failed; with the hashes of the whole.
    fn checked<T>(&self, result: Result<T, BuildError>) -> Result<Result<T, BuildError>, E> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => Ok(result.map_err(|error| match error {
                BuildError::MistakeIsMember { hash, position } => {
                    let hash = self.sharding.outer(self.shard, hash);
                    BuildError::MistakeIsMember { hash, position }
                }
                other => other,
            })),
        }
    }
}

/// How large a shard should be.
#[derive(Clone, Copy)]
struct Size {
    /// The share of slots that it is planned to use.
    load: f64,
    /// How large it is beside the others.
    relative: f64,
    may_grow: bool,
}

impl Size {
    /// Slots for so many used ones.
    fn slots(self, used: u64) -> u64 {
        (used as f64 / self.load * self.relative).ceil().max(1.0) as u64
    }

    /// A filter of streams, of parameters but for the slots.
    fn build<I, J, E>(
        self,
        mut parameters: Parameters,
        capacity: Option<usize>,
        inside: &Inside<E>,
        members: impl Fn() -> I,
        mistakes: impl Fn() -> J,
    ) -> Result<AdaptiveQuotientFilter, E>
    where
        I: Iterator<Item = Member>,
        J: Iterator<Item = Hash>,
        E: From<BuildError>,
    {
        if let Some(capacity) = capacity.map(|capacity| capacity as u64) {
            parameters.slots = self.slots(capacity.saturating_add(capacity.div_ceil(20)));
        }
        let mut counted = None;
        let mut extended = 0;
        loop {
            let built = AdaptiveQuotientFilter::from_sorted(parameters, members(), mistakes());
            let slots = parameters.slots;
            match inside.checked(built)? {
                Ok(filter) => {
                    let used = filter.tally().used;
                    if !self.may_grow || used as f64 <= slots as f64 * self.load {
                        return Ok(filter);
                    }
                    // The next insert would double it, and cost a bit.
                    parameters.slots = self.slots(used + used.div_ceil(20)).max(slots + 1);
                }
                Err(BuildError::Full { .. }) => {
                    let count = match counted {
                        Some(count) => count,
                        None => inside.checked(Ok(members().count() as u64))??,
                    };
                    counted = Some(count);
                    // Hashes that lie unevenly, counters, or repairs.
                    while self.slots(count + count.div_ceil(20) + extended) <= slots {
                        if extended > MOST_EXTENDED * (count + 1) {
                            return Err(BuildError::Full { slots }.into());
                        }
                        extended += extended / 2 + count / 8 + 64;
                    }
                    parameters.slots = self.slots(count + count.div_ceil(20) + extended);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}
