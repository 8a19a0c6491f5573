//! A filter for keys, built on a filter for hashes.

use crate::builder::{Buildable, Builder, FromMembers};
use crate::claim::Adaptation;
use crate::error::{AdaptError, BuildError, InsertError, RemoveError};
use crate::traits::filter_traits;
use crate::{
    Adaptive, Answer, Checked, Claim, Dynamic, Filter, Hash, Key, Listing, Secret, Stats,
    hash::KeyedHasher,
};
use core::borrow::Borrow;
use core::fmt;
use core::marker::PhantomData;
use core::ops::RangeInclusive;

/// A filter for keys of one type, hashed with one secret.
///
/// Each of its methods hashes the keys, calls the method of the filter with the same name, and
/// returns the same errors. For methods that take no keys, use [`filter`](Self::filter).
///
/// The key type is part of the filter's type. If you insert a `7i32`, you cannot look it up as a
/// `7u64`, which has a different hash:
///
/// ```compile_fail,E0308
/// # use twiceshy::QuotientFilter;
/// let mut filter = QuotientFilter::builder().capacity(100).build_keyed::<i32>().unwrap();
/// filter.insert(&7i32).unwrap();
/// filter.contains(&7u64);
/// ```
///
/// [`KeyedSnapshot`](crate::KeyedSnapshot) saves a keyed filter, and records the secret
/// or a mark of it. Code that would record neither doesn't compile:
///
/// ```compile_fail,E0599
/// use twiceshy::{QuotientFilter, Snapshot};
/// let filter = QuotientFilter::builder().capacity(100).build_keyed::<str>().unwrap();
/// filter.write_to(Vec::new());
/// ```
///
/// The [start page](crate#how-a-repair-works) has an example.
pub struct Keyed<K: Key + ?Sized, F> {
    filter: F,
    secret: Secret,
    hasher: KeyedHasher,
    key: PhantomData<fn(&K)>,
}

impl<K: Key + ?Sized, F: Filter> Keyed<K, F> {
    /// Binds a filter to a key type and a secret. The filter must be empty, or all its members must
    /// be hashes of keys of this type, made with this secret.
    pub fn new(filter: F, secret: Secret) -> Self {
        let hasher = KeyedHasher::new(&secret);
        Self { filter, secret, hasher, key: PhantomData }
    }

    /// Returns the secret. Save it together with any keys that are stored by their hashes, because
    /// they can't be found again without the secret.
    pub const fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Returns the underlying filter of hashes.
    pub const fn filter(&self) -> &F {
        &self.filter
    }

    /// Returns the underlying filter of hashes, mutably.
    pub const fn filter_mut(&mut self) -> &mut F {
        &mut self.filter
    }

    /// Returns the hash of a key. A source of members, such as
    /// [`MemoryMap`](crate::members::MemoryMap), stores the key at this hash.
    #[inline]
    pub fn hash(&self, key: &K) -> Hash {
        self.hasher.hash(key)
    }

    /// Hashes all keys. Call this before you read or change the filter, because hashing runs the
    /// caller's code, which may panic.
    pub(crate) fn hashes<Q: Borrow<K>>(&self, keys: &[Q]) -> Vec<Hash> {
        keys.iter().map(|key| self.hash(key.borrow())).collect()
    }

    /// Returns whether a key may be a member. "No" is certain.
    #[inline]
    pub fn contains(&self, key: &K) -> bool {
        self.filter.contains(self.hash(key))
    }

    /// Looks up many keys; see [`Filter::contains_many`].
    ///
    /// ```
    /// # use twiceshy::QuotientFilter;
    /// let mut filter = QuotientFilter::builder().capacity(100).build_keyed::<str>()?;
    /// filter.insert_many(&["one", "two"])?;
    /// let mut answers = Vec::new();
    /// filter.contains_many(&["one", "two", "three"], &mut answers);
    /// assert!(answers[0] && answers[1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn contains_many<Q: Borrow<K>>(&self, keys: &[Q], answers: &mut Vec<bool>) {
        // If hashing a key panics, `answers` is empty, rather than full of old answers.
        answers.clear();
        self.filter.contains_many(&self.hashes(keys), answers);
    }

    /// Returns the number of members, each counted as often as it was inserted.
    pub fn len(&self) -> usize {
        self.filter.len()
    }

    filter_traits!(@is_empty);

    /// Returns a filter that was made from this one, with the same secret. All its members must be
    /// hashes of keys of this type, made with this secret.
    ///
    /// ```
    /// # use twiceshy::QuotientFilter;
    /// let mut filter = QuotientFilter::builder().capacity(100).build_keyed::<str>()?;
    /// filter.insert("alice")?;
    /// let larger = filter.try_map(QuotientFilter::doubled)?;
    /// assert!(larger.contains("alice"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the error of `make`.
    pub fn try_map<G: Filter, E>(
        &self,
        make: impl FnOnce(&F) -> Result<G, E>,
    ) -> Result<Keyed<K, G>, E> {
        Ok(Keyed::new(make(&self.filter)?, self.secret.clone()))
    }

    /// Returns the filter's number of members, memory use, load and expected false-positive rate.
    pub fn stats(&self) -> Stats {
        self.filter.stats()
    }
}

/// Defines the methods of a keyed filter that change the filter or return claims. In a concurrent
/// filter they take `&self`, in others `&mut self`.
macro_rules! keyed_methods {
    ($filter:ty, $dynamic:ident, $adaptive:ident, $access:ident $(, $mut:tt)?) => {
        #[expect(clippy::missing_errors_doc, reason = "documented at `Keyed`")]
        impl<K: Key + ?Sized, F: $dynamic> Keyed<K, $filter> {
            /// Inserts a member.
            #[inline]
            pub fn insert(&$($mut)? self, key: &K) -> Result<(), InsertError> {
                let hash = self.hash(key);
                self.$access().insert(hash)
            }

            /// Inserts many members, all or none.
            pub fn insert_many<Q: Borrow<K>>(
                &$($mut)? self,
                keys: &[Q],
            ) -> Result<(), InsertError> {
                let hashes = self.hashes(keys);
                self.$access().insert_many(&hashes)
            }

            /// Removes a key that the caller *knows* to be a member; see
            /// [`Dynamic::remove_trusting`](crate::Dynamic::remove_trusting).
            pub fn remove_trusting(&$($mut)? self, key: &K) -> Result<(), RemoveError> {
                let hash = self.hash(key);
                self.$access().remove_trusting(hash)
            }
        }

        #[expect(clippy::missing_errors_doc, reason = "documented at `Keyed`")]
        impl<K: Key + ?Sized, F: $adaptive> Keyed<K, $filter> {
            /// Looks up a key like [`contains`](Self::contains). The answer "maybe" carries a
            /// claim, which lets the filter repair itself if the answer was a mistake.
            #[inline]
            pub fn check(&self, key: &K) -> Answer {
                self.filter().check(self.hash(key))
            }

            /// Checks a key, and repairs the filter if "maybe" was a mistake; see
            /// [`Adaptive::check_or_repair`](crate::Adaptive::check_or_repair). The [start
            /// page](crate#how-a-repair-works) has an example.
            pub fn check_or_repair<'l, E, L: Into<Listing<'l>>>(
                &$($mut)? self,
                key: &K,
                is_member: impl FnMut() -> Result<bool, E>,
                members: impl FnMut(RangeInclusive<Hash>) -> Result<L, E>,
            ) -> Result<Checked, E> {
                let hash = self.hash(key);
                self.$access().check_or_repair(hash, is_member, members)
            }

            /// Repairs a mistake.
            pub fn adapt<'l>(
                &$($mut)? self,
                claim: &Claim,
                listing: impl Into<Listing<'l>>,
            ) -> Result<Adaptation, AdaptError> {
                let listing: Listing<'_> = listing.into();
                self.$access().adapt(claim, listing)
            }

            /// Inserts the member that [`insert`](Self::insert) refused with
            /// [`InsertError::NeedsMembers`].
            pub fn insert_listed<'l>(
                &$($mut)? self,
                claim: &Claim,
                listing: impl Into<Listing<'l>>,
            ) -> Result<(), InsertError> {
                let listing: Listing<'_> = listing.into();
                self.$access().insert_listed(claim, listing)
            }

            /// Removes one copy of the claim's query, if the query is one of the listed members.
            pub fn remove<'l>(
                &$($mut)? self,
                claim: &Claim,
                listing: impl Into<Listing<'l>>,
            ) -> Result<(), RemoveError> {
                let listing: Listing<'_> = listing.into();
                self.$access().remove(claim, listing)
            }
        }
    };
}

pub(crate) use keyed_methods;

keyed_methods!(F, Dynamic, Adaptive, filter_mut, mut);

impl<F: Buildable + Filter> Builder<F> {
    /// Builds an empty filter for keys of type `K`.
    ///
    /// # Errors
    /// Returns the same errors as [`build`](Self::build), or an error if the operating system
    /// provides no entropy for a fresh secret.
    pub fn build_keyed<K: Key + ?Sized>(&self) -> Result<Keyed<K, F>, BuildError> {
        Ok(Keyed::new(self.build()?, self.secret_or_fresh()?))
    }
}

impl<F: FromMembers + Filter> Builder<F> {
    /// Builds a filter whose members are these keys and that answers "absent" to these mistakes;
    /// see [`build_from`](Self::build_from). A key that is listed twice is inserted only once.
    ///
    /// ```
    /// use twiceshy::QuotientFilter;
    ///
    /// # fn main() -> Result<(), twiceshy::error::BuildError> {
    /// let blocked = ["evil.example", "worse.example"];
    /// let popular = ["fine.example", "good.example"];
    /// let list = QuotientFilter::builder()
    ///     .false_positive_rate(0.01)
    ///     .build_keyed_from::<str>(blocked, popular)?;
    /// assert!(list.contains("evil.example") && !list.contains("fine.example"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`build_from`](Self::build_from), or an error if the operating
    /// system provides no entropy for a fresh secret.
    pub fn build_keyed_from<K: Key + ?Sized>(
        &self,
        members: impl IntoIterator<Item: Borrow<K>>,
        mistakes: impl IntoIterator<Item: Borrow<K>, IntoIter: Clone>,
    ) -> Result<Keyed<K, F>, F::Error> {
        let secret = self.secret_or_fresh().map_err(BuildError::from)?;
        let hasher = KeyedHasher::new(&secret);
        let mistakes = mistakes.into_iter().map(|key| hasher.hash(key.borrow()));
        let members = members.into_iter().map(|key| hasher.hash(key.borrow()));
        let built = F::from_keys(self, members.collect(), mistakes.clone().collect());
        let filter = built.map_err(|error| {
            F::with_position(error, |hash| mistakes.clone().position(|mistake| mistake == hash))
        })?;
        Ok(Keyed::new(filter, secret))
    }
}

impl<K: Key + ?Sized, F: Clone> Clone for Keyed<K, F> {
    fn clone(&self) -> Self {
        Self {
            filter: self.filter.clone(),
            secret: self.secret.clone(),
            hasher: self.hasher.clone(),
            key: PhantomData,
        }
    }
}

impl<K: Key + ?Sized, F: fmt::Debug> fmt::Debug for Keyed<K, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed").field("filter", &self.filter).finish_non_exhaustive()
    }
}
