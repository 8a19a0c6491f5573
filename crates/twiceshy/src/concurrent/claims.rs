//! Claims, and the operations that take a listing of members.

use super::{Concurrent, PlainShard, Shard};
use crate::Checked;
use crate::claim::Adaptation;
use crate::error::{AdaptError, InsertError, RemoveError};
use crate::{Adaptive, Answer, Claim, Hash, Listing};
use core::ops::RangeInclusive;

/// The methods of [`Adaptive`], with `&self`, and methods about the members near a hash. The
/// methods of [`Adaptive`] return the same errors as in that trait.
#[expect(clippy::missing_errors_doc, reason = "said once, above")]
impl<F: Shard> Concurrent<F> {
    /// Returns the interval of hashes to lock before listing members for this query. It contains
    /// the suspects of every claim for the query, and every hash that may become a mistake if the
    /// query is inserted.
    pub fn suspects(&self, query: Hash) -> RangeInclusive<Hash> {
        self.claim_near(query).suspects()
    }

    /// Returns whether inserting a member may turn a query into a mistake. Growth never changes the
    /// answer from "no" to "yes". Rebuilding the shard with another size or other remainders may.
    pub fn may_confuse(&self, member: Hash, query: Hash) -> bool {
        let (filter, inner) = self.read(member);
        self.shard_of(member) == self.shard_of(query)
            && filter.may_confuse(inner, self.sharding.inner(query))
    }

    /// Looks up a hash like [`contains`](Self::contains). The answer "maybe" carries a claim.
    #[inline]
    pub fn check(&self, hash: Hash) -> Answer {
        let (filter, inner) = self.read(hash);
        match filter.check(inner) {
            Answer::Absent => Answer::Absent,
            Answer::Maybe(claim) => Answer::Maybe(self.outer_claim(hash, &claim)),
        }
    }

    /// Returns a claim that names all members that an insert or a repair of this hash may affect.
    /// The claim doesn't depend on the filter's answer to the hash.
    pub fn claim_near(&self, hash: Hash) -> Claim {
        let (filter, inner) = self.read(hash);
        self.outer_claim(hash, &filter.claim_near(inner))
    }

    /// Inserts a member without bringing these mistakes back, if the filter can do that; see
    /// [`Shard::insert_apart`].
    ///
    /// # Errors
    /// Returns the same errors as [`Shard::insert_apart`].
    pub fn insert_apart(&self, hash: Hash, mistakes: &[Hash]) -> Result<(), InsertError> {
        let shard = self.sharding.shard(hash);
        let near = mistakes.iter().filter(|&&mistake| self.sharding.shard(mistake) == shard);
        let near: Vec<Hash> = near.map(|&mistake| self.sharding.inner(mistake)).collect();
        let (mut filter, inner) = self.write(hash);
        filter.insert_apart(inner, &near).map_err(|error| self.outer_error(shard, error))
    }

    /// Inserts the member that [`insert`](Self::insert) refused with [`InsertError::NeedsMembers`].
    pub fn insert_listed<'l>(
        &self,
        claim: &Claim,
        listing: impl Into<Listing<'l>>,
    ) -> Result<(), InsertError> {
        let inserted = self.with_listed(claim, &listing.into(), F::insert_listed);
        let inserted = inserted.unwrap_or(Err(InsertError::Mismatch));
        inserted.map_err(|error| self.outer_error(self.sharding.shard(claim.query), error))
    }

    /// Repairs a mistake; see [`Adaptive::adapt`].
    pub fn adapt<'l>(
        &self,
        claim: &Claim,
        listing: impl Into<Listing<'l>>,
    ) -> Result<Adaptation, AdaptError> {
        let adapted = self.with_listed(claim, &listing.into(), F::adapt);
        adapted.unwrap_or_else(|member| Err(AdaptError::Outside { member }))
    }

    /// Checks a hash, and repairs the filter if "maybe" was a mistake; see
    /// [`Adaptive::check_or_repair`]. No lock is held while the closures run.
    pub fn check_or_repair<'l, E, L: Into<Listing<'l>>>(
        &self,
        hash: Hash,
        is_member: impl FnMut() -> Result<bool, E>,
        members: impl FnMut(RangeInclusive<Hash>) -> Result<L, E>,
    ) -> Result<Checked, E> {
        Adaptive::check_or_repair(&mut { self }, hash, is_member, members)
    }

    /// Removes one copy of the claim's query, if the query is one of the listed members.
    pub fn remove<'l>(
        &self,
        claim: &Claim,
        listing: impl Into<Listing<'l>>,
    ) -> Result<(), RemoveError> {
        self.remove_with(claim, &listing.into(), F::remove)
    }

    /// Removes a listed member; see [`Shard::remove_keeping_repairs`].
    pub fn remove_keeping_repairs<'l>(
        &self,
        claim: &Claim,
        listing: impl Into<Listing<'l>>,
    ) -> Result<(), RemoveError> {
        self.remove_with(claim, &listing.into(), F::remove_keeping_repairs)
    }

    /// Removes a key that the caller *knows* to be a member; see
    /// [`Shard::remove_trusting_keeping_repairs`].
    pub fn remove_trusting_keeping_repairs(&self, hash: Hash) -> Result<(), RemoveError> {
        let (mut filter, hash) = self.write(hash);
        filter.remove_trusting_keeping_repairs(hash)
    }

    /// Returns whether inserting a hash may bring a repaired mistake back; see
    /// [`Shard::has_repairs_near`].
    pub fn has_repairs_near(&self, hash: Hash) -> bool {
        let (filter, hash) = self.read(hash);
        filter.has_repairs_near(hash)
    }

    /// Calls `remove` with the claim's shard, and converts hashes in its error to those of the
    /// whole filter.
    pub(super) fn remove_with(
        &self,
        claim: &Claim,
        listing: &Listing<'_>,
        remove: impl FnOnce(&mut F, &Claim, Listing<'static>) -> Result<(), RemoveError>,
    ) -> Result<(), RemoveError> {
        let removed = self.with_listed(claim, listing, remove);
        let removed = removed.unwrap_or_else(|member| Err(RemoveError::Outside { member }));
        removed.map_err(|error| match error {
            RemoveError::MistakeIsMember { hash } => {
                let shard = self.sharding.shard(claim.query);
                RemoveError::MistakeIsMember { hash: self.sharding.outer(shard, hash) }
            }
            other => other,
        })
    }

    /// Calls `act` with the claim's shard, and with the claim and the listing converted to hashes
    /// of that shard. If the claim is stale, `act` must refuse it.
    ///
    /// # Errors
    /// Returns the first listed member outside the claim's interval, unless the claim is stale. The
    /// shard can't detect such a member itself, because a converted hash from a different shard
    /// looks like one of its own.
    fn with_listed<T>(
        &self,
        claim: &Claim,
        listing: &Listing<'_>,
        act: impl FnOnce(&mut F, &Claim, Listing<'static>) -> T,
    ) -> Result<T, Hash> {
        let suspects = claim.suspects();
        let outside = listing.members.iter().find(|member| !suspects.contains(&member.hash));
        let is_near = |mistake| suspects.contains(&mistake);
        let inner = listing.mapped(|hash| self.sharding.inner(hash), is_near);
        let (mut filter, query) = self.write(claim.query);
        match outside {
            Some(outside) if filter.claim_near(query).version == claim.version => Err(outside.hash),
            _ => Ok(act(&mut filter, &self.inner_claim(claim), inner)),
        }
    }

    fn inner_claim(&self, claim: &Claim) -> Claim {
        let cells = self.sharding.inner_cells(self.sharding.shard(claim.query), claim.cells);
        Claim { query: self.sharding.inner(claim.query), cells, version: claim.version }
    }
}

impl<F: PlainShard> Concurrent<F> {
    /// Converts a claim in a shard's error to a claim of the whole filter.
    pub(super) fn outer_error(&self, shard: usize, error: InsertError) -> InsertError {
        match error {
            InsertError::NeedsMembers(claim) => {
                let hash = self.sharding.outer(shard, claim.query);
                InsertError::NeedsMembers(Box::new(self.outer_claim(hash, &claim)))
            }
            other => other,
        }
    }

    fn outer_claim(&self, query: Hash, claim: &Claim) -> Claim {
        let cells = self.sharding.outer_cells(self.sharding.shard(query), claim.cells);
        Claim { query, cells, version: claim.version }
    }
}
