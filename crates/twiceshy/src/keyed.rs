//! Keys in front of a filter of hashes.

use crate::error::{AdaptError, BuildError, InsertError, MergeError, RemoveError};
use crate::{
    Adaptation, AdaptiveBloomFilter, AdaptiveFilter, AdaptiveQuotientFilter, Answer, Builder,
    Claim, Dynamic, Filter, Hash, Key, KeyedHasher, Member, Removable, Secret,
};
use core::borrow::Borrow;
use core::fmt;
use core::marker::PhantomData;

/// A filter for keys of one type, hashed with one secret.
///
/// The type is part of the filter, so that a `7i32` that was inserted can't be asked
/// for as a `7u64`, which has another hash:
///
/// ```compile_fail,E0308
/// # use twiceshy::AdaptiveQuotientFilter;
/// let mut filter = AdaptiveQuotientFilter::builder().capacity(100).build_keyed::<i32>().unwrap();
/// filter.insert(&7i32).unwrap();
/// filter.contains(&7u64);
/// ```
///
/// # Examples
/// ```
/// use twiceshy::{AdaptiveQuotientFilter, Answer, MemoryMap, ReverseMap};
/// let mut filter = AdaptiveQuotientFilter::builder()
///     .false_positive_rate(0.001)
///     .capacity(1_000_000)
///     .build_keyed::<str>()?;
/// let mut map = MemoryMap::new();
/// filter.insert("alice")?;
/// map.insert(filter.hash("alice"), "alice");
///
/// match filter.check("mallory") {
///     Answer::Absent => {}
///     Answer::Maybe(claim) => {
///         // The store has no "mallory", so this was a mistake.
///         let members = map.members(claim.suspects())?;
///         filter.adapt(&claim, &members)?;
///     }
/// }
/// assert!(!filter.contains("mallory") && filter.contains("alice"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Keyed<K: ?Sized, F> {
    filter: F,
    secret: Secret,
    hasher: KeyedHasher,
    key: PhantomData<fn(&K)>,
}

impl<K: ?Sized, F: Filter> Keyed<K, F> {
    /// Binds a filter to a key type and a secret. The filter must be empty, or its
    /// members must have been hashed from such keys with that secret.
    ///
    /// # Panics
    /// If the filter was made for hashes of another function.
    pub fn new(filter: F, secret: Secret) -> Self {
        let hasher = KeyedHasher::new(&secret);
        assert_eq!(filter.hash_scheme(), hasher.scheme(), "a filter of another hash function");
        Self { filter, secret, hasher, key: PhantomData }
    }

    /// The secret, to be kept where keys are stored by their hashes: without it they
    /// can't be found any more.
    pub const fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The filter of hashes underneath.
    pub const fn filter(&self) -> &F {
        &self.filter
    }

    /// The filter of hashes underneath.
    pub const fn filter_mut(&mut self) -> &mut F {
        &mut self.filter
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.filter.len()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.filter.is_empty()
    }
}

impl<K: Key + ?Sized, F: Filter> Keyed<K, F> {
    /// The hash of a key: where it belongs in a reverse map.
    #[inline]
    pub fn hash(&self, key: &K) -> Hash {
        self.hasher.hash(key)
    }

    /// Whether a key may be a member. "No" is certain.
    #[inline]
    pub fn contains(&self, key: &K) -> bool {
        self.filter.contains(self.hash(key))
    }
}

impl<K: Key + ?Sized, F: Dynamic> Keyed<K, F> {
    /// Inserts a member.
    ///
    /// # Errors
    /// If there is no room for it; nothing has changed then.
    #[inline]
    pub fn insert(&mut self, key: &K) -> Result<(), InsertError> {
        self.filter.insert(self.hasher.hash(key))
    }
}

impl<K: Key + ?Sized, F: AdaptiveFilter> Keyed<K, F> {
    /// As [`contains`](Self::contains), but "maybe" carries a claim, which can be used
    /// to repair the filter if it was a mistake.
    #[inline]
    pub fn check(&self, key: &K) -> Answer {
        self.filter.check(self.hash(key))
    }

    /// Repairs a mistake; see [`AdaptiveFilter::adapt`].
    ///
    /// # Errors
    /// As [`AdaptiveFilter::adapt`].
    pub fn adapt(&mut self, claim: &Claim, members: &[Member]) -> Result<Adaptation, AdaptError> {
        self.filter.adapt(claim, members)
    }

    /// Repairs a mistake and drops ghosts; see [`AdaptiveFilter::adapt_dropping_ghosts`].
    ///
    /// # Errors
    /// As [`AdaptiveFilter::adapt_dropping_ghosts`].
    pub fn adapt_dropping_ghosts(
        &mut self,
        claim: &Claim,
        members: &[Member],
    ) -> Result<Adaptation, AdaptError> {
        self.filter.adapt_dropping_ghosts(claim, members)
    }
}

impl<K: Key + ?Sized, F: Removable> Keyed<K, F> {
    /// Removes a key that is known to be a member; see [`Removable::remove`].
    ///
    /// # Errors
    /// As [`Removable::remove`].
    pub fn remove(&mut self, key: &K) -> Result<(), RemoveError> {
        self.filter.remove(self.hasher.hash(key))
    }

    /// Removes the claim's query, if it is a member; see [`Removable::remove_listed`].
    ///
    /// # Errors
    /// As [`Removable::remove_listed`].
    pub fn remove_listed(
        &mut self,
        claim: &Claim,
        members: &[Member],
        mistakes: Option<&[Hash]>,
    ) -> Result<(), RemoveError> {
        self.filter.remove_listed(claim, members, mistakes)
    }
}

impl<K: Key + ?Sized> Keyed<K, AdaptiveQuotientFilter> {
    /// Answers many lookups: `maybe` is cleared and then has one answer per key, as of
    /// [`contains`](Self::contains). Several times as fast where the filter is larger
    /// than the cache.
    ///
    /// ```
    /// # use twiceshy::AdaptiveQuotientFilter;
    /// let mut filter = AdaptiveQuotientFilter::builder().capacity(100).build_keyed::<u64>()?;
    /// filter.insert(&7)?;
    /// let mut maybe = Vec::new();
    /// filter.contains_many(&[7, 8, 9], &mut maybe);
    /// assert!(maybe[0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn contains_many<Q: Borrow<K>>(&self, keys: &[Q], maybe: &mut Vec<bool>) {
        self.filter.contains_each(keys, |key| self.hasher.hash(key.borrow()), maybe);
    }

    /// Inserts many members, all or none; see
    /// [`insert_many`](AdaptiveQuotientFilter::insert_many).
    ///
    /// ```
    /// # use twiceshy::AdaptiveQuotientFilter;
    /// let mut filter = AdaptiveQuotientFilter::builder().capacity(100).build_keyed::<str>()?;
    /// filter.insert_many(&["one", "two", "three"])?;
    /// assert!(filter.contains("two"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`insert_many`](AdaptiveQuotientFilter::insert_many); nothing has changed then.
    pub fn insert_many<Q: Borrow<K>>(&mut self, keys: &[Q]) -> Result<(), InsertError> {
        // Keys are hashed before anything is changed: their code is the caller's, and may panic.
        let hashes: Vec<Hash> = keys.iter().map(|key| self.hash(key.borrow())).collect();
        self.filter.insert_many(&hashes)
    }
}

impl<K: Key + ?Sized> Keyed<K, AdaptiveBloomFilter> {
    /// Answers many lookups; see
    /// [`contains_many`](AdaptiveBloomFilter::contains_many).
    ///
    /// ```
    /// # use twiceshy::AdaptiveBloomFilter;
    /// let mut filter = AdaptiveBloomFilter::builder().capacity(100).build_keyed::<u64>()?;
    /// filter.insert(&7)?;
    /// let mut maybe = Vec::new();
    /// filter.contains_many(&[7, 8, 9], &mut maybe);
    /// assert!(maybe[0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn contains_many<Q: Borrow<K>>(&self, keys: &[Q], maybe: &mut Vec<bool>) {
        self.filter.contains_each(keys, |key| self.hasher.hash(key.borrow()), maybe);
    }
}

impl<K: ?Sized> Keyed<K, AdaptiveQuotientFilter> {
    /// A filter of the members of all `filters`; see
    /// [`merged`](AdaptiveQuotientFilter::merged).
    ///
    /// # Errors
    /// As [`merged`](AdaptiveQuotientFilter::merged), or if their secrets differ.
    pub fn merged(filters: &[&Self]) -> Result<Self, MergeError> {
        let first = filters.first().ok_or(MergeError::Nothing)?;
        if filters.iter().any(|filter| filter.secret.expose() != first.secret.expose()) {
            return Err(MergeError::Secrets);
        }
        let merged: Vec<_> = filters.iter().map(|filter| &filter.filter).collect();
        Ok(Self::new(AdaptiveQuotientFilter::merged(&merged)?, first.secret.clone()))
    }
}

impl Builder {
    pub(crate) fn secret_or_fresh(&self) -> Result<Secret, BuildError> {
        Ok(self.secret.clone().map_or_else(Secret::generate, Ok)?)
    }

    /// An empty filter for keys of type `K`.
    ///
    /// # Errors
    /// As [`build`](Self::build), or if there is no entropy for a fresh secret.
    pub fn build_keyed<K: ?Sized>(&self) -> Result<Keyed<K, AdaptiveQuotientFilter>, BuildError> {
        Ok(Keyed::new(self.build()?, self.secret_or_fresh()?))
    }

    /// A filter of these keys, in which none of these mistakes is "maybe". A key that is
    /// listed twice is a member once.
    ///
    /// ```
    /// use twiceshy::AdaptiveQuotientFilter;
    /// let blocked = ["evil.example", "worse.example"];
    /// let popular = ["fine.example", "good.example"];
    /// let list = AdaptiveQuotientFilter::builder()
    ///     .false_positive_rate(0.01)
    ///     .build_keyed_from::<str>(blocked, popular)?;
    /// assert!(list.contains("evil.example") && !list.contains("fine.example"));
    /// # Ok::<(), twiceshy::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// As [`build_sorted`](Self::build_sorted), or if there is no entropy for a fresh
    /// secret.
    pub fn build_keyed_from<K: Key + ?Sized>(
        &self,
        members: impl IntoIterator<Item: Borrow<K>>,
        mistakes: impl IntoIterator<Item: Borrow<K>, IntoIter: Clone>,
    ) -> Result<Keyed<K, AdaptiveQuotientFilter>, BuildError> {
        self.keyed_from(members, mistakes, |members, mistakes| self.build_from(members, mistakes))
    }

    /// What is built from the hashes of these keys, sorted and each once, and of these mistakes.
    pub(crate) fn keyed_from<K: Key + ?Sized, F: Filter>(
        &self,
        members: impl IntoIterator<Item: Borrow<K>>,
        mistakes: impl IntoIterator<Item: Borrow<K>, IntoIter: Clone>,
        build: impl FnOnce(Vec<Hash>, Vec<Hash>) -> Result<F, BuildError>,
    ) -> Result<Keyed<K, F>, BuildError> {
        let secret = self.secret_or_fresh()?;
        let hasher = KeyedHasher::new(&secret);
        let mistakes = mistakes.into_iter().map(|key| hasher.hash(key.borrow()));
        let members = members.into_iter().map(|key| hasher.hash(key.borrow()));
        let mut members: Vec<Hash> = members.collect();
        members.sort_unstable();
        members.dedup();
        let built = build(members, mistakes.clone().collect());
        let filter = built.map_err(|error| match error {
            BuildError::MistakeIsMember { hash, .. } => BuildError::MistakeIsMember {
                hash,
                position: mistakes.clone().position(|mistake| mistake == hash),
            },
            other => other,
        })?;
        Ok(Keyed::new(filter, secret))
    }
}

impl<K: ?Sized, F: Clone> Clone for Keyed<K, F> {
    fn clone(&self) -> Self {
        Self {
            filter: self.filter.clone(),
            secret: self.secret.clone(),
            hasher: self.hasher.clone(),
            key: PhantomData,
        }
    }
}

impl<K: ?Sized, F: fmt::Debug> fmt::Debug for Keyed<K, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed").field("filter", &self.filter).finish_non_exhaustive()
    }
}
