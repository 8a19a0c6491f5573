//! Claims, and what is done with a list of members.

use super::ConcurrentAdaptiveQuotientFilter;
use crate::error::{AdaptError, RemoveError};
use crate::{Adaptation, AdaptiveQuotientFilter, Answer, Claim, Hash, Member};
use core::ops::RangeInclusive;

impl ConcurrentAdaptiveQuotientFilter {
    /// The hashes that a [claim](Claim::suspects) of this query would name; see
    /// [`AdaptiveQuotientFilter::suspects`]. Other threads may change them.
    pub fn suspects(&self, query: Hash) -> RangeInclusive<Hash> {
        let (filter, inner) = self.read(query);
        let cell = filter.claim(inner).cell;
        self.sharding.outer_fingerprint(self.sharding.shard(query), cell).hashes()
    }

    /// As [`contains`](Self::contains), but "maybe" carries a claim, which can be used to
    /// repair the filter if it was a mistake, by any thread.
    #[inline]
    pub fn check(&self, hash: Hash) -> Answer {
        let (filter, inner) = self.read(hash);
        match filter.check(inner) {
            Answer::Absent => Answer::Absent,
            Answer::Maybe(claim) => {
                let shard = self.sharding.shard(hash);
                let cell = self.sharding.outer_fingerprint(shard, claim.cell);
                Answer::Maybe(Claim { query: hash, cell, through: cell, ..claim })
            }
        }
    }

    /// Repairs a mistake: the claim's query is no member, and `members` are *all* members
    /// in [`claim.suspects()`](Claim::suspects); see [`AdaptiveQuotientFilter::adapt`].
    ///
    /// List them after the claim was made. If another thread changes members near the query
    /// before the repair, the claim is stale: check again, and list again.
    ///
    /// ```
    /// # use twiceshy::{AdaptiveQuotientFilter, Answer, Hash};
    /// let filter = AdaptiveQuotientFilter::builder().slots(1000).shards(8).build_concurrent()?;
    /// let [member, query] = [8, 9].map(|number| Hash::from_u128(number << 80));
    /// filter.insert(member)?;
    /// let Answer::Maybe(claim) = filter.check(query) else { panic!("they share 40 bits") };
    /// filter.adapt(&claim, &[member])?;
    /// assert!(filter.contains(member) && !filter.contains(query));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`AdaptiveQuotientFilter::adapt`].
    pub fn adapt<L>(&self, claim: &Claim, members: &[L]) -> Result<Adaptation, AdaptError>
    where
        L: Copy + Into<Member>,
    {
        self.obey(claim, members, AdaptiveQuotientFilter::adapt)?
    }

    /// As [`adapt`](Self::adapt), but drops ghosts: you say that `members` is **complete and
    /// current**; see [`AdaptiveQuotientFilter::adapt_dropping_ghosts`].
    ///
    /// A member that another thread has inserted here, but not yet where it is listed, would
    /// be taken for a ghost, and lost: keep writers away between the claim and this.
    ///
    /// # Errors
    /// As [`AdaptiveQuotientFilter::adapt_dropping_ghosts`].
    pub fn adapt_dropping_ghosts<L>(
        &self,
        claim: &Claim,
        members: &[L],
    ) -> Result<Adaptation, AdaptError>
    where
        L: Copy + Into<Member>,
    {
        self.obey(claim, members, AdaptiveQuotientFilter::adapt_dropping_ghosts)?
    }

    /// Removes the claim's query, once, if it is one of `members`, which are *all* members in
    /// [`claim.suspects()`](Claim::suspects); see [`AdaptiveQuotientFilter::remove_listed`].
    ///
    /// What other threads have removed from the store, but not yet from the filter, is
    /// [unlisted](RemoveError::Unlisted). Don't try again until that changes: two threads that
    /// both do so wait for each other, for ever. If the store knew the key, it is a member, and
    /// a plain [`remove`](Self::remove) is right, whatever others do. But do try again if the
    /// claim is [stale](RemoveError::Stale): then another thread is done.
    ///
    /// # Errors
    /// As [`AdaptiveQuotientFilter::remove_listed`].
    pub fn remove_listed<L>(
        &self,
        claim: &Claim,
        members: &[L],
        mistakes: Option<&[Hash]>,
    ) -> Result<(), RemoveError>
    where
        L: Copy + Into<Member>,
    {
        let mistakes = mistakes.map(|mistakes| self.near(claim, mistakes));
        let removed = self.obey(claim, members, |filter, claim, members| {
            filter.remove_listed(claim, members, mistakes.as_deref())
        })?;
        removed.map_err(|error| self.outside(claim, error))
    }

    /// Makes fingerprints near the claim's query as short as `mistakes` allow; see
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
        let shortened = self.obey(claim, members, |filter, claim, members| {
            filter.shorten_listed(claim, members, &mistakes)
        })?;
        shortened.map_err(|error| self.outside(claim, error))
    }

    /// Whether any fingerprint that could be behind a query is longer than a remainder.
    pub fn is_lengthened(&self, query: Hash) -> bool {
        let (filter, inner) = self.read(query);
        filter.is_lengthened(inner)
    }

    /// Mistakes as the claim's shard has them. Those elsewhere don't matter, but would be others
    /// there.
    fn near(&self, claim: &Claim, mistakes: &[Hash]) -> Vec<Hash> {
        let near = mistakes.iter().filter(|&&mistake| claim.cell.covers(mistake));
        near.map(|&mistake| self.sharding.inner(mistake)).collect()
    }

    /// The error of a claim's shard, with the hash that the caller gave.
    fn outside(&self, claim: &Claim, error: RemoveError) -> RemoveError {
        match error {
            RemoveError::MistakeIsMember { hash } => {
                let shard = self.sharding.shard(claim.query);
                RemoveError::MistakeIsMember { hash: self.sharding.outer(shard, hash) }
            }
            other => other,
        }
    }

    /// As [`remove_listed`](Self::remove_listed) without mistakes, but leaves a tombstone as
    /// [`bury`](Self::bury) does.
    ///
    /// # Errors
    /// As both.
    pub fn bury_listed<L>(&self, claim: &Claim, members: &[L]) -> Result<(), RemoveError>
    where
        L: Copy + Into<Member>,
    {
        self.obey(claim, members, AdaptiveQuotientFilter::bury_listed)?
    }

    /// Does something with a claim and its list in the claim's shard, and in its hashes.
    fn obey<L, T>(
        &self,
        claim: &Claim,
        members: &[L],
        act: impl FnOnce(&mut AdaptiveQuotientFilter, &Claim, &[Member]) -> T,
    ) -> Result<T, Refused>
    where
        L: Copy + Into<Member>,
    {
        let members: Vec<Member> = members.iter().map(|&member| member.into()).collect();
        // In the shard, a hash from elsewhere couldn't be told from one of its own.
        let outside = members.iter().find(|member| !claim.cell.covers(member.hash));
        let inner = |member: &Member| Member { hash: self.sharding.inner(member.hash), ..*member };
        let listed: Vec<Member> = members.iter().map(inner).collect();

        let (mut filter, query) = self.write(claim.query);
        // If the version still holds, this is the claim that was made.
        let current = filter.claim(query);
        if current.version != claim.version {
            return Err(Refused::Stale);
        }
        match outside {
            Some(member) => Err(Refused::Outside { member: member.hash }),
            None => Ok(act(&mut filter, &current, &listed)),
        }
    }
}

/// Why a list doesn't get as far as its shard.
enum Refused {
    Stale,
    Outside { member: Hash },
}

impl From<Refused> for AdaptError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Stale => Self::Stale,
            Refused::Outside { member } => Self::Outside { member },
        }
    }
}

impl From<Refused> for RemoveError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Stale => Self::Stale,
            Refused::Outside { member } => Self::Outside { member },
        }
    }
}
