//! Claims, and operations with a list of members.

use super::{Concurrent, Shard};
use crate::error::{AdaptError, InsertError, RemoveError};
use crate::{Adaptation, Answer, Claim, Hash, Member};
use core::ops::RangeInclusive;

impl<F: Shard> Concurrent<F> {
    /// Returns the hashes of all members that a claim of this query may name, and of all queries
    /// that an insert of it may turn into mistakes. Stores lock these before they list them.
    pub fn suspects(&self, query: Hash) -> RangeInclusive<Hash> {
        self.claim_to_insert(query).suspects()
    }

    /// Returns how far [suspects](Self::suspects) may be from a query of this shard, as it is now.
    /// Growth doesn't increase it.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn reach(&self, shard: usize) -> u128 {
        let first = self.suspects(*self.shard_hashes(shard).start());
        // They are equally many everywhere, except that rounding may add one hash.
        (first.end().as_u128() - first.start().as_u128()).saturating_add(1)
    }

    /// Looks a hash up as [`contains`](Self::contains) does, but "maybe" carries a claim.
    #[inline]
    pub fn check(&self, hash: Hash) -> Answer {
        let (filter, inner) = self.read(hash);
        match filter.check(inner) {
            Answer::Absent => Answer::Absent,
            Answer::Maybe(claim) => Answer::Maybe(self.outer_claim(hash, &claim)),
        }
    }

    /// Returns a claim that names all members that an insert of this hash may concern; see
    /// [`insert_listed`](Self::insert_listed).
    pub fn claim_to_insert(&self, hash: Hash) -> Claim {
        let (filter, inner) = self.read(hash);
        self.outer_claim(hash, &filter.claim_to_insert(inner))
    }

    /// Inserts a member with the [claim](Self::claim_to_insert) for it, after
    /// [`insert`](Self::insert) has returned [`InsertError::Crowded`]; `members` are all members
    /// that the claim names.
    ///
    /// # Errors
    /// If there is no room, or [`InsertError::Mismatch`] if `members` are not the members there, or
    /// no longer; nothing has changed then.
    pub fn insert_listed<L>(&self, claim: &Claim, members: &[L]) -> Result<(), InsertError>
    where
        L: Copy + Into<Member>,
    {
        let inserted = self.with_listed(claim, members, F::insert_listed);
        inserted.unwrap_or(Err(InsertError::Mismatch))
    }

    /// Repairs a mistake: the claim's query is not a member, and `members` are *all* members in
    /// [`claim.suspects()`](Claim::suspects), each as often as it was inserted. Afterwards the
    /// filter answers "absent" to the query.
    ///
    /// A claim is stale, and refused, if another thread has changed the members near it.
    ///
    /// # Errors
    /// An [`AdaptError`], and nothing has changed, if the claim is stale, if `members` are not those
    /// of the fingerprints, if the query is one of them, or if there is no room. A filter that grows
    /// by itself and has no room has grown, and returns [`AdaptError::Stale`]: check the query again.
    pub fn adapt<L>(&self, claim: &Claim, members: &[L]) -> Result<Adaptation, AdaptError>
    where
        L: Copy + Into<Member>,
    {
        let adapted = self.with_listed(claim, members, F::adapt);
        adapted.unwrap_or_else(|member| Err(AdaptError::Outside { member }))
    }

    /// Repairs a mistake as [`adapt`](Self::adapt) does, but drops fingerprints that no listed
    /// member explains: *ghosts*, left for example by a write that failed after the filter's
    /// insert.
    ///
    /// By calling this you say that `members` is **complete and current**. If it is not, a member's
    /// fingerprint is taken for a ghost, and the member is lost.
    ///
    /// # Errors
    /// As [`adapt`](Self::adapt), except for [`AdaptError::Unlisted`].
    pub fn adapt_dropping_ghosts<L>(
        &self,
        claim: &Claim,
        members: &[L],
    ) -> Result<Adaptation, AdaptError>
    where
        L: Copy + Into<Member>,
    {
        let adapted = self.with_listed(claim, members, F::adapt_dropping_ghosts);
        adapted.unwrap_or_else(|member| Err(AdaptError::Outside { member }))
    }

    /// Removes the claim's query, once, if it is one of `members`: all members in
    /// [`claim.suspects()`](Claim::suspects). If `mistakes` are given, all in that interval,
    /// fingerprints get shorter where nothing needs their length any more.
    ///
    /// # Errors
    /// A [`RemoveError`], and nothing has changed, if the query is not one of `members`, if the claim
    /// is stale, or if `members` are not those of the fingerprints.
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
        self.remove_with(claim, members, |filter, claim, members| {
            filter.remove_listed(claim, members, mistakes.as_deref())
        })
    }

    /// Changes the shard of a claim, with its listed members, and returns errors with the hashes of
    /// the whole.
    pub(super) fn remove_with<L: Copy + Into<Member>>(
        &self,
        claim: &Claim,
        members: &[L],
        remove: impl FnOnce(&mut F, &Claim, &[Member]) -> Result<(), RemoveError>,
    ) -> Result<(), RemoveError> {
        let removed = self.with_listed(claim, members, remove);
        let removed = removed.unwrap_or_else(|member| Err(RemoveError::Outside { member }));
        removed.map_err(|error| match error {
            RemoveError::MistakeIsMember { hash } => {
                let shard = self.sharding.shard(claim.query);
                RemoveError::MistakeIsMember { hash: self.sharding.outer(shard, hash) }
            }
            other => other,
        })
    }

    /// Returns the mistakes that a claim is about, as hashes of its shard.
    pub(super) fn near(&self, claim: &Claim, mistakes: &[Hash]) -> Vec<Hash> {
        let suspects = claim.suspects();
        let near = mistakes.iter().filter(|mistake| suspects.contains(mistake));
        near.map(|&mistake| self.sharding.inner(mistake)).collect()
    }

    /// Calls `act` with the shard of a claim, and claim and members as they are there. If the claim is
    /// stale, `act` must refuse it.
    ///
    /// # Errors
    /// The first member that the claim, if it isn't stale, doesn't name. In the shard, a hash from
    /// elsewhere would look like one of its own.
    fn with_listed<L: Copy + Into<Member>, T>(
        &self,
        claim: &Claim,
        members: &[L],
        act: impl FnOnce(&mut F, &Claim, &[Member]) -> T,
    ) -> Result<T, Hash> {
        let suspects = claim.suspects();
        let members: Vec<Member> = members.iter().map(|&member| member.into()).collect();
        let outside = members.iter().find(|member| !suspects.contains(&member.hash));
        let inner = |member: &Member| Member { hash: self.sharding.inner(member.hash), ..*member };
        let listed: Vec<Member> = members.iter().map(inner).collect();
        let (mut filter, query) = self.write(claim.query);
        match outside {
            Some(outside) if filter.claim_to_insert(query).version == claim.version => {
                Err(outside.hash)
            }
            _ => Ok(act(&mut filter, &self.inner_claim(claim), &listed)),
        }
    }

    fn outer_claim(&self, query: Hash, claim: &Claim) -> Claim {
        let shard = self.sharding.shard(query);
        let outer = |cell| self.sharding.outer_fingerprint(shard, cell);
        let (cell, through) = (outer(claim.cell), outer(claim.through));
        Claim { query, cell, through, version: claim.version }
    }

    fn inner_claim(&self, claim: &Claim) -> Claim {
        let shard = self.sharding.shard(claim.query);
        let inner = |cell| self.sharding.inner_fingerprint(shard, cell);
        let (cell, through) = (inner(claim.cell), inner(claim.through));
        Claim { query: self.sharding.inner(claim.query), cell, through, version: claim.version }
    }
}
