//! Methods that take keys and `&self`, for concurrent filters.

use super::{Concurrent, Shard};
use crate::claim::Adaptation;
use crate::error::{AdaptError, InsertError, InsertManyError, RemoveError};
use crate::{Answer, Checked, Claim, Hash, Key, Keyed, Listing};
use core::borrow::Borrow;
use core::ops::RangeInclusive;

/// A filter for keys that many threads use at once. Every operation takes `&self`.
///
/// ```
/// use twiceshy::QuotientFilter;
/// let filter = QuotientFilter::builder()
///     .false_positive_rate(0.001)
///     .capacity(1_000_000)
///     .build_concurrent_keyed::<str>()?;
/// std::thread::scope(|scope| {
///     for name in ["alice", "bob"] {
///         let filter = &filter;
///         scope.spawn(move || filter.insert(name).expect("it grows"));
///     }
/// });
/// assert!(filter.contains("alice") && filter.contains("bob"));
/// # Ok::<(), twiceshy::error::BuildError>(())
/// ```
impl<K: Key + ?Sized, F: Shard> Keyed<K, Concurrent<F>> {
    /// Inserts a member.
    ///
    /// # Errors
    /// If there is no room for the member; the filter is unchanged in that case.
    #[inline]
    pub fn insert(&self, key: &K) -> Result<(), InsertError> {
        self.filter().insert(self.hash(key))
    }

    /// Looks up a key like [`contains`](Self::contains), but returns "maybe" together with a claim,
    /// which lets the filter repair itself if the answer was a mistake.
    #[inline]
    pub fn check(&self, key: &K) -> Answer {
        self.filter().check(self.hash(key))
    }

    /// Checks a key, and repairs the filter if "maybe" was a mistake; see
    /// [`Adaptive::check_or_repair`](crate::Adaptive::check_or_repair). No lock is held while the
    /// closures run.
    ///
    /// # Errors
    /// Returns the errors of the closures.
    pub fn check_or_repair<'l, E, L: Into<Listing<'l>>>(
        &self,
        key: &K,
        is_member: impl FnMut() -> Result<bool, E>,
        members: impl FnMut(RangeInclusive<Hash>) -> Result<L, E>,
    ) -> Result<Checked, E> {
        self.filter().check_or_repair(self.hash(key), is_member, members)
    }

    /// Repairs a mistake; see [`Concurrent::adapt`].
    ///
    /// # Errors
    /// Returns the same errors as [`Concurrent::adapt`].
    pub fn adapt<'l>(
        &self,
        claim: &Claim,
        listing: impl Into<Listing<'l>>,
    ) -> Result<Adaptation, AdaptError> {
        self.filter().adapt(claim, listing)
    }

    /// Inserts the claim's query, given a list of the members near it; see
    /// [`Concurrent::insert_listed`].
    ///
    /// # Errors
    /// Returns the same errors as [`Concurrent::insert_listed`].
    pub fn insert_listed<'l>(
        &self,
        claim: &Claim,
        listing: impl Into<Listing<'l>>,
    ) -> Result<(), InsertError> {
        self.filter().insert_listed(claim, listing)
    }

    /// Removes the claim's query, if it is a member; see [`Concurrent::remove`].
    ///
    /// # Errors
    /// Returns the same errors as [`Concurrent::remove`].
    pub fn remove<'l>(
        &self,
        claim: &Claim,
        listing: impl Into<Listing<'l>>,
    ) -> Result<(), RemoveError> {
        self.filter().remove(claim, listing)
    }

    /// Removes a key that the caller *knows* to be a member; see [`Concurrent::remove_trusting`].
    ///
    /// # Errors
    /// Returns the same errors as [`Concurrent::remove_trusting`].
    pub fn remove_trusting(&self, key: &K) -> Result<(), RemoveError> {
        self.filter().remove_trusting(self.hash(key))
    }

    /// Inserts many members, all or none; see [`Concurrent::insert_many`].
    ///
    /// # Errors
    /// Returns the same errors as [`Concurrent::insert_many`].
    pub fn insert_many<Q: Borrow<K>>(&self, keys: &[Q]) -> Result<(), InsertError> {
        self.filter().insert_many(&self.hashes(keys))
    }

    /// Inserts as many of these members as there is room for; see
    /// [`insert_each`](Concurrent::insert_each).
    ///
    /// # Errors
    /// Returns an [`InsertManyError`] that says which members were refused; all others were
    /// inserted.
    pub fn insert_each<Q: Borrow<K>>(&self, keys: &[Q]) -> Result<(), InsertManyError> {
        self.filter().insert_each(&self.hashes(keys))
    }
}
