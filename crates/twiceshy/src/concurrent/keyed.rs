//! Methods that take keys and `&self`, for concurrent filters.

use super::{Concurrent, PlainShard, Shard};
use crate::claim::Adaptation;
use crate::error::{AdaptError, InsertError, InsertManyError, RemoveError};
use crate::{Answer, Checked, Claim, Hash, Key, Keyed, Listing};
use core::borrow::Borrow;
use core::ops::RangeInclusive;

/// The methods of a keyed filter, with `&self`: each is the method of [`Concurrent`] with the same
/// name, and returns the same errors.
#[expect(clippy::missing_errors_doc, reason = "said once, above")]
impl<K: Key + ?Sized, F: PlainShard> Keyed<K, Concurrent<F>> {
    /// Inserts a member.
    #[inline]
    pub fn insert(&self, key: &K) -> Result<(), InsertError> {
        self.filter().insert(self.hash(key))
    }

    /// Inserts many members, all or none.
    pub fn insert_many<Q: Borrow<K>>(&self, keys: &[Q]) -> Result<(), InsertError> {
        self.filter().insert_many(&self.hashes(keys))
    }

    /// Inserts as many of these members as there is room for.
    pub fn insert_each<Q: Borrow<K>>(&self, keys: &[Q]) -> Result<(), InsertManyError> {
        self.filter().insert_each(&self.hashes(keys))
    }

    /// Removes a key that the caller *knows* to be a member.
    pub fn remove_trusting(&self, key: &K) -> Result<(), RemoveError> {
        self.filter().remove_trusting(self.hash(key))
    }
}

#[expect(clippy::missing_errors_doc, reason = "said once, above")]
impl<K: Key + ?Sized, F: Shard> Keyed<K, Concurrent<F>> {
    /// Looks up a key, and returns "maybe" together with a claim.
    #[inline]
    pub fn check(&self, key: &K) -> Answer {
        self.filter().check(self.hash(key))
    }

    /// Checks a key, and repairs the filter if "maybe" was a mistake.
    pub fn check_or_repair<'l, E, L: Into<Listing<'l>>>(
        &self,
        key: &K,
        is_member: impl FnMut() -> Result<bool, E>,
        members: impl FnMut(RangeInclusive<Hash>) -> Result<L, E>,
    ) -> Result<Checked, E> {
        self.filter().check_or_repair(self.hash(key), is_member, members)
    }

    /// Repairs a mistake.
    pub fn adapt<'l>(
        &self,
        claim: &Claim,
        listing: impl Into<Listing<'l>>,
    ) -> Result<Adaptation, AdaptError> {
        self.filter().adapt(claim, listing)
    }

    /// Inserts a member after [`insert`](Self::insert) asked for a list of members.
    pub fn insert_listed<'l>(
        &self,
        claim: &Claim,
        listing: impl Into<Listing<'l>>,
    ) -> Result<(), InsertError> {
        self.filter().insert_listed(claim, listing)
    }

    /// Removes one copy of the claim's query, if the query is one of the listed members.
    pub fn remove<'l>(
        &self,
        claim: &Claim,
        listing: impl Into<Listing<'l>>,
    ) -> Result<(), RemoveError> {
        self.filter().remove(claim, listing)
    }
}
