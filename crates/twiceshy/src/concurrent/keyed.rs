//! Keys in front of a concurrent filter, by `&self`.

use super::{Concurrent, Shard};
use crate::error::{AdaptError, InsertError, InsertManyError, RemoveError};
use crate::{Adaptation, Answer, Claim, Hash, Key, Keyed, Member};
use core::borrow::Borrow;

/// A filter for keys that many threads use at once, by `&self`.
///
/// ```
/// use twiceshy::AdaptiveQuotientFilter;
/// let filter = AdaptiveQuotientFilter::builder()
///     .false_positive_rate(0.001)
///     .capacity(1_000_000)
///     .build_keyed_concurrent::<str>()?;
/// std::thread::scope(|scope| {
///     for name in ["alice", "bob"] {
///         let filter = &filter;
///         scope.spawn(move || filter.insert(name).expect("it grows"));
///     }
/// });
/// assert!(filter.contains("alice") && filter.contains("bob"));
/// # Ok::<(), twiceshy::BuildError>(())
/// ```
impl<K: Key + ?Sized, F: Shard> Keyed<K, Concurrent<F>> {
    /// Inserts a member.
    ///
    /// # Errors
    /// If there is no room for it; nothing has changed then.
    #[inline]
    pub fn insert(&self, key: &K) -> Result<(), InsertError> {
        self.filter().insert(self.hash(key))
    }

    /// As [`contains`](Self::contains), but "maybe" carries a claim, which can be used
    /// to repair the filter if it was a mistake.
    #[inline]
    pub fn check(&self, key: &K) -> Answer {
        self.filter().check(self.hash(key))
    }

    /// Repairs a mistake; see [`Concurrent::adapt`].
    ///
    /// # Errors
    /// As [`Concurrent::adapt`].
    pub fn adapt(&self, claim: &Claim, members: &[Member]) -> Result<Adaptation, AdaptError> {
        self.filter().adapt(claim, members)
    }

    /// Repairs a mistake and drops ghosts; see
    /// [`Concurrent::adapt_dropping_ghosts`].
    ///
    /// # Errors
    /// As [`Concurrent::adapt_dropping_ghosts`].
    pub fn adapt_dropping_ghosts(
        &self,
        claim: &Claim,
        members: &[Member],
    ) -> Result<Adaptation, AdaptError> {
        self.filter().adapt_dropping_ghosts(claim, members)
    }

    /// Removes a key that is *known* to be a member; see
    /// [`Concurrent::remove`].
    ///
    /// # Errors
    /// As [`Concurrent::remove`].
    pub fn remove(&self, key: &K) -> Result<(), RemoveError> {
        self.filter().remove(self.hash(key))
    }

    /// Removes the claim's query, if it is a member; see
    /// [`Concurrent::remove_listed`].
    ///
    /// # Errors
    /// As [`Concurrent::remove_listed`].
    pub fn remove_listed(
        &self,
        claim: &Claim,
        members: &[Member],
        mistakes: Option<&[Hash]>,
    ) -> Result<(), RemoveError> {
        self.filter().remove_listed(claim, members, mistakes)
    }

    /// Inserts many members, all that there is room for; see
    /// [`insert_each`](Concurrent::insert_each).
    ///
    /// # Errors
    /// An [`InsertManyError`] that tells which members were refused; all others are inserted.
    pub fn insert_each<Q: Borrow<K>>(&self, keys: &[Q]) -> Result<(), InsertManyError> {
        self.filter().insert_each(&self.hashes(keys))
    }

    /// Answers many lookups: `maybe` is cleared and then has one answer per key, as of
    /// [`contains`](Self::contains).
    pub fn contains_many<Q: Borrow<K>>(&self, keys: &[Q], maybe: &mut Vec<bool>) {
        self.filter().contains_many(&self.hashes(keys), maybe);
    }

    /// Keys are hashed before any lock is taken: their code is the caller's.
    fn hashes<Q: Borrow<K>>(&self, keys: &[Q]) -> Vec<Hash> {
        keys.iter().map(|key| self.hash(key.borrow())).collect()
    }
}
