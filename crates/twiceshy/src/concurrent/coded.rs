//! Telescoping and extension filters for many threads.

use super::many::Groups;
use super::{Shard, Sharding};
use crate::error::{AdaptError, BuildError, InsertError, Invalid, RemoveError};
use crate::{
    Adaptation, Answer, Claim, CodedBuilder, CodedFilter, CodedParameters, CodedScheme, Hash,
    Member,
};
use core::fmt;
use core::ops::RangeInclusive;

/// A [`CodedFilter`] that many threads use at once: every operation takes `&self`.
///
/// It is cut into shards by hash interval, as
/// [`ConcurrentAdaptiveQuotientFilter`](crate::ConcurrentAdaptiveQuotientFilter) is, each behind
/// a lock of its own, and guarantees what that and [`CodedFilter`] do. It doesn't grow by itself,
/// because that needs members: [`rebuild_shard`](Self::rebuild_shard).
///
/// ```
/// use twiceshy::{Hash, TelescopingFilter};
/// let filter = TelescopingFilter::builder().capacity(10_000).build_concurrent(8)?;
/// let key = |number: u128| Hash::from_u128(number.wrapping_mul(u128::MAX / 997));
/// std::thread::scope(|scope| {
///     for thread in 0..4 {
///         let filter = &filter;
///         scope.spawn(move || {
///             for number in 0..100 {
///                 filter.insert(key(thread * 100 + number)).expect("there is room");
///             }
///         });
///     }
/// });
/// assert!((0..400).all(|number| filter.contains(key(number))));
/// # Ok::<(), twiceshy::BuildError>(())
/// ```
pub struct ConcurrentCodedFilter<S: CodedScheme> {
    sharding: Sharding,
    shards: Box<[Shard<CodedFilter<S>>]>,
}

impl<S: CodedScheme> CodedBuilder<S> {
    /// Builds an empty filter for many threads, in so many shards, rounded up to a power of two.
    /// Capacity or slots are those of all shards together; each gets a little more than its
    /// share, because members are not evenly spread.
    ///
    /// # Errors
    /// As [`build`](Self::build), or if there can't be so many shards.
    pub fn build_concurrent(self, shards: usize) -> Result<ConcurrentCodedFilter<S>, BuildError> {
        if !(1..=Sharding::MOST).contains(&shards) {
            return Err(BuildError::Shards(shards));
        }
        let sharding = Sharding::at_least(shards);
        let all = self.parameters()?;
        let share = all.slots as f64 / sharding.shards() as f64;
        let slots = if sharding.shards() == 1 { all.slots } else { with_chance(share) };
        let parameters = CodedParameters { slots, ..all };
        let filters: Result<Vec<_>, _> =
            (0..sharding.shards()).map(|_| CodedFilter::empty(parameters)).collect();
        Ok(ConcurrentCodedFilter::of(filters?))
    }
}

/// A share, and what chance may add to it: four standard deviations.
fn with_chance(share: f64) -> u64 {
    (share + 4.0 * share.sqrt()).ceil() as u64
}

impl<S: CodedScheme> ConcurrentCodedFilter<S> {
    /// The filter of these shards: a power of two.
    pub(crate) fn of(filters: Vec<CodedFilter<S>>) -> Self {
        let sharding = Sharding::at_least(filters.len());
        Self { sharding, shards: filters.into_iter().map(Shard::new).collect() }
    }

    /// What `look` sees of a shard. It must not use this filter: it would wait for itself.
    pub(crate) fn with_shard<T>(&self, shard: usize, look: impl FnOnce(&CodedFilter<S>) -> T) -> T {
        look(&self.shards[shard].read())
    }

    fn shard(&self, hash: Hash) -> &Shard<CodedFilter<S>> {
        &self.shards[self.sharding.shard(hash)]
    }

    /// Whether a key of this hash may be a member. "No" is certain.
    #[inline]
    pub fn contains(&self, hash: Hash) -> bool {
        self.shard(hash).read().contains(self.sharding.inner(hash))
    }

    /// As [`contains`](Self::contains), of many; see [`CodedFilter::contains_many`].
    pub fn contains_many(&self, hashes: &[Hash], maybe: &mut Vec<bool>) {
        maybe.clear();
        maybe.resize(hashes.len(), false);
        let groups = Groups::new(self.sharding, hashes);
        let mut answers = Vec::new();
        for group in groups.to_vec() {
            self.shards[group.shard].read().contains_many(group.hashes, &mut answers);
            group.scatter(&answers, maybe);
        }
    }

    /// As [`contains`](Self::contains), but "maybe" carries a claim.
    pub fn check(&self, hash: Hash) -> Answer {
        match self.shard(hash).read().check(self.sharding.inner(hash)) {
            Answer::Absent => Answer::Absent,
            Answer::Maybe(claim) => Answer::Maybe(self.outer(hash, &claim)),
        }
    }

    /// The hashes that a claim of this query would name; see [`CodedFilter::suspects`]. Other
    /// threads may change them.
    pub fn suspects(&self, query: Hash) -> RangeInclusive<Hash> {
        let claim = self.shard(query).read().claim(self.sharding.inner(query));
        self.outer(query, &claim).suspects()
    }

    /// Inserts a member; see [`CodedFilter::insert`].
    ///
    /// # Errors
    /// As there.
    pub fn insert(&self, hash: Hash) -> Result<(), InsertError> {
        self.shard(hash).write().insert(self.sharding.inner(hash))
    }

    /// What is needed to [insert](Self::insert_listed) a hash where a code is full: the members
    /// of its block.
    pub fn claim_to_insert(&self, hash: Hash) -> Claim {
        let claim = self.shard(hash).read().claim_to_insert(self.sharding.inner(hash));
        self.outer(hash, &claim)
    }

    /// Inserts the claim's hash with the help of members; see [`CodedFilter::insert_listed`].
    ///
    /// # Errors
    /// As there.
    pub fn insert_listed<L: Copy + Into<Member>>(
        &self,
        claim: &Claim,
        members: &[L],
    ) -> Result<(), InsertError> {
        let inserted = self.obey(claim, members, CodedFilter::insert_listed);
        inserted.unwrap_or(Err(InsertError::Mismatch))
    }

    /// Removes a key that is known to be a member, once; see [`CodedFilter::remove`].
    ///
    /// # Errors
    /// As there.
    pub fn remove(&self, hash: Hash) -> Result<(), RemoveError> {
        self.shard(hash).write().remove(self.sharding.inner(hash))
    }

    /// Removes the claim's query, once, with the help of members; see
    /// [`CodedFilter::remove_listed`].
    ///
    /// # Errors
    /// As there.
    pub fn remove_listed<L: Copy + Into<Member>>(
        &self,
        claim: &Claim,
        members: &[L],
    ) -> Result<(), RemoveError> {
        let removed = self.obey(claim, members, CodedFilter::remove_listed);
        removed.unwrap_or_else(|member| Err(RemoveError::Outside { member }))
    }

    /// Repairs a mistake; see [`CodedFilter::adapt`].
    ///
    /// # Errors
    /// As there.
    pub fn adapt<L: Copy + Into<Member>>(
        &self,
        claim: &Claim,
        members: &[L],
    ) -> Result<Adaptation, AdaptError> {
        let adapted = self.obey(claim, members, CodedFilter::adapt);
        adapted.unwrap_or_else(|member| Err(AdaptError::Outside { member }))
    }

    /// As [`adapt`](Self::adapt), but drops ghosts: you say that `members` is **complete and
    /// current**. A member that another thread has inserted here, but not yet where it is listed,
    /// would be lost: keep writers away between the claim and this.
    ///
    /// # Errors
    /// As [`CodedFilter::adapt_dropping_ghosts`].
    pub fn adapt_dropping_ghosts<L: Copy + Into<Member>>(
        &self,
        claim: &Claim,
        members: &[L],
    ) -> Result<Adaptation, AdaptError> {
        let adapted = self.obey(claim, members, CodedFilter::adapt_dropping_ghosts);
        adapted.unwrap_or_else(|member| Err(AdaptError::Outside { member }))
    }

    /// Does something with a claim and its list in the claim's shard, and in its hashes; or says
    /// which of the list is no suspect: in the shard, it couldn't be told from one of its own.
    fn obey<L: Copy + Into<Member>, T>(
        &self,
        claim: &Claim,
        members: &[L],
        act: impl FnOnce(&mut CodedFilter<S>, &Claim, &[Member]) -> T,
    ) -> Result<T, Hash> {
        let suspects = claim.suspects();
        let inner = |&member: &L| {
            let Member { hash, count } = member.into();
            let is_suspect = suspects.contains(&hash);
            if is_suspect {
                Ok(Member { hash: self.sharding.inner(hash), count })
            } else {
                Err(hash)
            }
        };
        let listed: Result<Vec<Member>, Hash> = members.iter().map(inner).collect();
        let mut filter = self.shard(claim.query).write();
        Ok(act(&mut filter, &self.inner(claim), &listed?))
    }

    /// What a shard's claim is in the whole.
    fn outer(&self, query: Hash, claim: &Claim) -> Claim {
        let shard = self.sharding.shard(query);
        let outer = |cell| self.sharding.outer_fingerprint(shard, cell);
        Claim {
            query,
            cell: outer(claim.cell),
            through: outer(claim.through),
            version: claim.version,
        }
    }

    /// What a claim is in its shard. If the shard has another size by now, it is stale.
    fn inner(&self, claim: &Claim) -> Claim {
        let shard = self.sharding.shard(claim.query);
        let inner = |cell| self.sharding.inner_fingerprint(shard, cell);
        Claim {
            query: self.sharding.inner(claim.query),
            cell: inner(claim.cell),
            through: inner(claim.through),
            version: claim.version,
        }
    }

    /// How many members there are, each as often as it was inserted.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Slots in use, as a share of all.
    pub fn load(&self) -> f64 {
        let slots: u64 = self.shards.iter().map(|shard| shard.read().slots()).sum();
        self.len() as f64 / slots as f64
    }

    /// Bytes of memory.
    pub fn memory_usage(&self) -> u64 {
        let filters: u64 = self.shards.iter().map(|shard| shard.read().memory_usage()).sum();
        let overhead = self.shards.len() as u64 * Shard::<CodedFilter<S>>::OVERHEAD;
        size_of::<Self>() as u64 + filters + overhead
    }

    /// Repairs that were forgotten because a code was full, in all shards.
    pub fn forgotten(&self) -> u64 {
        let counts = self.shards.iter().map(|shard| shard.read().tally().forgotten);
        counts.fold(0, u64::saturating_add)
    }

    /// Mistakes that shards were built with, and had no room for, in all shards.
    pub fn unrepaired(&self) -> u64 {
        let counts = self.shards.iter().map(|shard| shard.read().tally().unrepaired);
        counts.fold(0, u64::saturating_add)
    }

    /// How many shards there are: a power of two.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// The shard of a hash, counted from 0, in hash order.
    #[inline]
    pub fn shard_of(&self, hash: Hash) -> usize {
        self.sharding.shard(hash)
    }

    /// The hashes of a shard.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn shard_hashes(&self, shard: usize) -> RangeInclusive<Hash> {
        assert!(shard < self.shards(), "there is no shard {shard} of {}", self.shards());
        self.sharding.outer(shard, Hash::MIN)..=self.sharding.outer(shard, Hash::MAX)
    }

    /// What a shard is made of.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn parameters(&self, shard: usize) -> CodedParameters {
        self.with_shard(shard, CodedFilter::parameters)
    }

    /// Replaces a shard by one of so many slots in which exactly these are the members, and as
    /// many of these mistakes are "absent" as there is room for; both are lists of the
    /// [shard's hashes](Self::shard_hashes), in hash order. See [`CodedFilter::resized`].
    ///
    /// It is written beside the old one, which answers meanwhile. **Keep those who change members
    /// away from this shard, from before they are listed until this returns.** A member that is
    /// in the filter, but not yet where it is listed, would be lost. Repairs of mistakes that aren't
    /// listed are lost, also those that are made meanwhile; what has no room is
    /// [counted](Self::unrepaired).
    ///
    /// ```
    /// # use twiceshy::{ExtensionFilter, Hash};
    /// let filter = ExtensionFilter::builder().slots(100).build_concurrent(4)?;
    /// let members = [5u128, 6, 7].map(|number| Hash::from_u128(1 << 126 | number << 100));
    /// filter.rebuild_shard(1, 200, members, [])?;
    /// assert!(members.iter().all(|&member| filter.contains(member)));
    /// // They are no hashes of shard 2.
    /// assert!(filter.rebuild_shard(2, 200, members, []).is_err());
    /// # Ok::<(), twiceshy::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// As [`CodedFilter::resized`], if a hash is another shard's, or if members of the shard came
    /// or went meanwhile ([`Stale`](BuildError::Stale)). The shard is as it was then.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn rebuild_shard(
        &self,
        shard: usize,
        slots: u64,
        members: impl IntoIterator<Item: Into<Member>>,
        mistakes: impl IntoIterator<Item = Hash>,
    ) -> Result<(), BuildError> {
        let place = &self.shards[shard];
        let (version, parameters) = {
            let filter = place.read();
            (filter.version(), filter.parameters())
        };
        let inner = |member: Member| {
            if self.sharding.shard(member.hash) != shard {
                return Err(BuildError::Outside { hash: member.hash });
            }
            Ok(Member { hash: self.sharding.inner(member.hash), ..member })
        };
        let members: Result<Vec<_>, _> =
            members.into_iter().map(|member| inner(member.into())).collect();
        let mistakes: Result<Vec<_>, _> =
            mistakes.into_iter().map(|hash| inner(hash.into()).map(|member| member.hash)).collect();
        let parameters = CodedParameters { slots, ..parameters };
        let built = CodedFilter::from_sorted(parameters, members?, mistakes?);
        let mut built = built.map_err(|error| match error {
            BuildError::MistakeIsMember { hash, position } => {
                BuildError::MistakeIsMember { hash: self.sharding.outer(shard, hash), position }
            }
            other => other,
        })?;
        let mut filter = place.write();
        if filter.version() != version {
            return Err(BuildError::Stale);
        }
        built.succeed(&filter);
        let before = core::mem::replace(&mut *filter, built);
        // Others needn't wait until its memory is given back.
        drop(filter);
        drop(before);
        Ok(())
    }

    /// Checks every invariant of every shard; see [`CodedFilter::validate`].
    ///
    /// # Errors
    /// Says which invariant is broken.
    pub fn validate(&self) -> Result<(), Invalid> {
        for (number, shard) in self.shards.iter().enumerate() {
            let valid = shard.read().validate();
            valid.map_err(|Invalid(what)| Invalid(format!("{what}, in shard {number}")))?;
        }
        Ok(())
    }
}

impl<S: CodedScheme> fmt::Debug for ConcurrentCodedFilter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConcurrentCodedFilter")
            .field("shards", &self.shards.len())
            .field("len", &self.len())
            .field("load", &self.load())
            .finish_non_exhaustive()
    }
}
