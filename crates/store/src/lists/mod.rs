//! Yes/no lists, crash-safe.

mod entries;
mod open;
mod upkeep;
mod write;

use crate::backend::{Backend, BackendClaim, Durability, Keyspace};
use crate::error::{Result, StoreError};
use crate::front::{Behind, Doubt, Front};
use crate::layout;
use crate::saved::Saved;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use twiceshy::{AdaptiveQuotientFilter, Hash, KeyedHasher, Secret};

pub use entries::{Entries, ListExport};
pub use open::ListOptions;
pub use upkeep::ListStatistics;

/// A yes list and a no list on a disk that can be changed at any time, and a filter in memory that
/// answers for both: "yes" for every key of the yes list, "no" for every key of the no list, and
/// "yes" for any other with a small probability.
///
/// # What holds
/// - No listed key is ever answered wrongly: not while others change the lists, nor after growth,
///   closing or crashes.
/// - [`contains`](Self::contains) never asks the backend, whether a key is listed or not.
/// - An unlisted key is answered "yes" with no more than the probability that was asked for, however
///   many keys are listed.
/// - What was acknowledged survives, as far as the durability that was asked for reaches.
/// - A key is on one list at most. Adding it to the other one is an error that says so. What comes
///   in one batch is added whole or not at all.
/// - All operations take `&self`. Those on one key happen one after the other.
///
/// Keys that have the same 128-bit hash are taken for the same.
///
/// # How it works
/// As a [`GuardedStore`](crate::GuardedStore): the members of the filter are the yes keys, and the
/// no keys are mistakes that are all kept, whether the filter would make them or not. Both are on
/// the disk in hash order, so that the few yes keys behind a no key are found by a short scan; the
/// hashes of the no list are in memory, too, about 18 bytes each. Who adds a yes key looks for no
/// keys in its interval, and takes the extension that it needs before anybody can see a mistake; who
/// adds a no key repairs it before it is acknowledged; who removes one lets the extensions go that it
/// needed.
///
/// The filter is saved when the lists are closed, and loaded when they are opened, if nothing was
/// written since; otherwise opening builds it from the lists, in one pass.
///
/// # Examples
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("blocked");
/// use twiceshy_store::{List, ListOptions, StoreError};
/// let blocked = ListOptions::new().false_positive_rate(0.001).open(&path)?;
/// blocked.add_many(List::Yes, ["evil.example", "worse.example"])?;
/// blocked.add_no(b"fine.example")?;
/// assert!(blocked.contains(b"worse.example") && !blocked.contains(b"fine.example"));
///
/// let error = blocked.add_no(b"evil.example").unwrap_err();
/// assert_eq!(error.to_string(), "evil.example is on the yes list; remove it there first");
/// assert!(blocked.remove_yes(b"evil.example")? && blocked.add_no(b"evil.example")?);
/// blocked.close()?;
///
/// let blocked = ListOptions::new().open(&path)?;
/// assert!(!blocked.contains(b"evil.example"));
/// # Ok(())
/// # }
/// ```
pub struct ListStore<B: Backend> {
    backend: B,
    _claim: BackendClaim,
    front: Front<AdaptiveQuotientFilter>,
    hasher: KeyedHasher,
    secret: Secret,
    durability: Durability,
    saved: Saved,
    /// Keys of the yes list.
    yes: AtomicU64,
    /// Where a backup has the backend, in its directory.
    data: &'static str,
}

/// One of the two lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum List {
    /// Its keys are answered "yes".
    Yes,
    /// Its keys are answered "no".
    No,
}

impl List {
    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Yes => Self::No,
            Self::No => Self::Yes,
        }
    }

    /// Where it is in a backend.
    const fn space(self) -> Keyspace {
        match self {
            Self::Yes => Keyspace::Members,
            Self::No => Keyspace::Mistakes,
        }
    }
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Yes => "yes",
            Self::No => "no",
        })
    }
}

impl<B: Backend> ListStore<B> {
    /// Whether a key is on the yes list: exactly, if it is on either list; "no" is certain for any
    /// other key, too.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.front.answer(self.hash(key))
    }

    /// As [`contains`](Self::contains), of many keys; `answers` is cleared and then has one for each.
    /// Several times as fast where the filter is larger than the cache.
    pub fn contains_many(&self, keys: &[impl AsRef<[u8]>], answers: &mut Vec<bool>) {
        let hashes: Vec<Hash> = keys.iter().map(|key| self.hash(key.as_ref())).collect();
        self.front.answer_many(&hashes, answers);
    }

    /// The list that a key is on. To tell a yes key from others, the backend is asked.
    ///
    /// # Errors
    /// If the backend fails.
    pub fn list_of(&self, key: &[u8]) -> Result<Option<List>> {
        let hash = self.hash(key);
        if self.front.is_denied(hash) {
            return Ok(Some(List::No));
        }
        let is_yes = self.front.answer(hash) && self.is_on(List::Yes, hash, key)?;
        Ok(is_yes.then_some(List::Yes))
    }

    /// Returns how many keys are on a list. After a change has failed, the count may be wrong by the
    /// keys of that change, until the lists are opened again.
    pub fn len(&self, list: List) -> u64 {
        match list {
            List::Yes => self.yes.load(Ordering::Relaxed),
            List::No => self.front.denied() as u64,
        }
    }

    /// Whether there are none on either list.
    pub fn is_empty(&self) -> bool {
        self.len(List::Yes) + self.len(List::No) == 0
    }

    /// What keys are hashed with. Who has the hashes of the lists needs it to ask for keys; who
    /// knows it can make the filter slow.
    pub const fn secret(&self) -> &Secret {
        &self.secret
    }

    fn hash(&self, key: &[u8]) -> Hash {
        self.hasher.hash_bytes(key)
    }

    /// Whether a key is on a list on the disk.
    fn is_on(&self, list: List, hash: Hash, key: &[u8]) -> Result<bool> {
        Ok(self.backend.get(list.space(), &layout::member_key(hash, key))?.is_some())
    }
}

impl<B: Backend> Behind for ListStore<B> {
    type Error = StoreError;

    fn members(&self, hashes: &RangeInclusive<Hash>) -> Result<Vec<Hash>> {
        layout::members(&self.backend, &self.hasher, hashes)
    }

    /// What is found out isn't kept: it isn't listed.
    fn keep_mistake(&self, _: Hash, _: Option<Hash>) -> Result<()> {
        Ok(())
    }

    fn doubt(&self, _: Hash) -> Doubt {
        self.saved.doubt()
    }
}
