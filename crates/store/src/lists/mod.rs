//! The store of a yes list and a no list.

mod entries;
mod open;
mod validate;
mod write;

use crate::backend::{Backend, Keyspace};
use crate::error::{Result, StoreError};
use crate::kind::List;
use crate::layout;
use crate::maintained::{Doubt, MaintainedFilter, Source};
use crate::stats::Stats;
use crate::storage::{Storage, impl_upkeep};
use crate::sync::atomic::{AtomicU64, Ordering};
use std::ops::RangeInclusive;
use twiceshy::{Hash, MemberSource, QuotientFilter, Secret, Snapshot, hash::KeyedHasher};

pub use entries::{Entries, ListExport};

/// A yes list and a no list on disk, with a filter in memory that answers for both. The lists can be
/// changed at any time. The filter answers "yes" for every key of the yes list, "no" for every key of the no
/// list, and "yes" for any other key with a small probability.
///
/// # Guarantees
/// - Answers for listed keys are exact, even while other threads change the lists, and after growth, closing
///   and crashes.
/// - [`contains`](Self::contains) never asks the backend.
/// - The probability of "yes" for an unlisted key is at most the
///   [rate](crate::OpenOptions::false_positive_rate) in the options, however many keys are listed.
/// - Acknowledged changes survive the failures that the [durability](crate::OpenOptions::durability) covers.
/// - A key is on at most one list. Adding it to the other list is an error. A batch is added completely or
///   not at all.
/// - All operations take `&self`. Operations on one key happen one after the other.
///
/// Keys with the same 128-bit hash are taken for the same key.
///
/// # How it works
/// The members of the filter are the keys of the yes list. The keys of the no list are mistakes that always
/// stay repaired. Both lists are on disk in hash order, so that a short scan finds the few yes-list keys that
/// the filter confuses with a no-list key. The hashes of the no list are also in memory, at about 18 bytes
/// each. When a yes-list key is added, the store repairs the no-list keys that collide with it before a lookup
/// can see the mistake. When a no-list key is added, it is repaired before the call returns. When a no-list
/// key is removed, the filter gets back the space that its repair took.
///
/// The filter is saved when the store is closed, and loaded when the store is opened, if nothing was
/// written since. Otherwise opening rebuilds it from the lists, in one pass.
///
/// # Examples
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("blocked");
/// use twiceshy_store::{List, OpenOptions};
/// let blocked = OpenOptions::new().false_positive_rate(0.001).open_lists(&path)?;
/// blocked.add_many(List::Yes, ["evil.example", "worse.example"])?;
/// blocked.add_no(b"fine.example")?;
/// assert!(blocked.contains(b"worse.example") && !blocked.contains(b"fine.example"));
///
/// let error = blocked.add_no(b"evil.example").unwrap_err();
/// assert_eq!(error.to_string(), "evil.example is on the yes list; remove it there first");
/// assert!(blocked.remove_yes(b"evil.example")? && blocked.add_no(b"evil.example")?);
/// blocked.close()?;
///
/// let blocked = OpenOptions::new().open_lists(&path)?;
/// assert!(!blocked.contains(b"evil.example"));
/// # Ok(())
/// # }
/// ```
pub struct ListStore<B: Backend> {
    storage: Storage<B>,
    maintained: MaintainedFilter<QuotientFilter>,
    hasher: KeyedHasher,
    secret: Secret,
    /// The number of keys on the yes list.
    yes: AtomicU64,
}

impl_upkeep!([B: Backend] ListStore<B>, storage, |_| ());

impl List {
    /// Returns the keyspace of the list.
    const fn space(self) -> Keyspace {
        match self {
            Self::Yes => Keyspace::Members,
            Self::No => Keyspace::Mistakes,
        }
    }
}

impl<B: Backend> ListStore<B> {
    /// Returns whether a key is on the yes list. The answer is exact for keys on either list. "No" is always
    /// right; "yes" may be wrong for a key that is on neither list.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.maintained.answer(self.hash(key))
    }

    /// Looks up many keys: clears `answers`, and then pushes the answer of [`contains`](Self::contains) for
    /// each key. If the filter is larger than the cache, this is faster than single lookups.
    pub fn contains_many(&self, keys: &[impl AsRef<[u8]>], answers: &mut Vec<bool>) {
        let hashes: Vec<Hash> = keys.iter().map(|key| self.hash(key.as_ref())).collect();
        self.maintained.answer_many(&hashes, answers);
    }

    /// Returns the list that a key is on. To tell a yes key from an unlisted key, this asks the backend.
    ///
    /// # Errors
    /// If the backend fails.
    pub fn list_of(&self, key: &[u8]) -> Result<Option<List>> {
        let hash = self.hash(key);
        if self.maintained.is_mistake(hash) {
            return Ok(Some(List::No));
        }
        let is_yes = self.maintained.answer(hash) && self.is_on(List::Yes, hash, key)?;
        Ok(is_yes.then_some(List::Yes))
    }

    /// Returns the number of keys on a list. After a failed change, the number may be off by the keys of that
    /// change until the store is opened again.
    pub fn len(&self, list: List) -> u64 {
        match list {
            List::Yes => self.yes.load(Ordering::Relaxed),
            List::No => self.maintained.mistakes() as u64,
        }
    }

    /// Returns whether both lists are empty.
    pub fn is_empty(&self) -> bool {
        self.len(List::Yes) + self.len(List::No) == 0
    }

    /// Returns the sizes of the lists, counters of the store's operations since it was opened, and the state
    /// of its filter. The [expected rate](Stats::expected_rate) is an upper bound for the probability that an
    /// unlisted key is answered "yes" now.
    pub fn stats(&self) -> Stats {
        Stats { members: self.len(List::Yes), ..self.maintained.stats() }
    }

    /// Rebuilds the shards of the filter that have become too full or too empty. Returns their number.
    ///
    /// A list store has no background thread. Adding keys rebuilds shards that are full. If many keys were
    /// removed, this gives their memory back.
    ///
    /// # Errors
    /// If the backend fails, or if there is no memory; nothing is lost then.
    pub fn tend(&self) -> Result<usize> {
        self.maintained.tend(self)
    }

    fn finish(&mut self) -> Result<()> {
        let maintained = &self.maintained;
        let (is_exact, is_changed) = (maintained.is_exact(), maintained.is_changed());
        self.storage.close(is_exact, is_changed, |file| maintained.filter.save(file))
    }

    /// Returns the secret that keys are hashed with. A program that has the hashes of the lists needs the
    /// secret to look keys up. An attacker who knows it can find keys that are answered "yes" by mistake.
    pub const fn secret(&self) -> &Secret {
        &self.secret
    }

    fn hash(&self, key: &[u8]) -> Hash {
        self.hasher.hash_bytes(key)
    }

    /// Returns whether a list on disk has a key.
    fn is_on(&self, list: List, hash: Hash, key: &[u8]) -> Result<bool> {
        Ok(self.storage.backend.get(list.space(), &layout::member_key(hash, key))?.is_some())
    }
}

/// Lists the keys of the yes list.
impl<B: Backend> MemberSource for ListStore<B> {
    type Member = Hash;
    type Error = StoreError;

    fn members(&self, hashes: RangeInclusive<Hash>) -> Result<Vec<Hash>> {
        layout::members(&self.storage.backend, &self.hasher, &hashes)
    }
}

impl<B: Backend> Source for ListStore<B> {
    fn doubt(&self, _: Hash) -> Doubt {
        self.storage.doubt()
    }
}

impl<B: Backend> Drop for ListStore<B> {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}
