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
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use twiceshy::{Hash, MemberSource, QuotientFilter, Secret, Snapshot, hash::KeyedHasher};

pub use entries::{Entries, ListExport};

/// A yes list and a no list on a disk, which can be changed at any time, and a filter in memory that
/// answers for both: "yes" for every key of the yes list, "no" for every key of the no list, and
/// "yes" for any other key with a small probability.
///
/// # Guarantees
/// - Answers for listed keys are exact: also while other threads change the lists, and after growth,
///   closing or crashes.
/// - [`contains`](Self::contains) never asks the backend.
/// - An unlisted key is answered "yes" with at most the
///   [probability](crate::OpenOptions::false_positive_rate) in the options, however many keys are listed.
/// - Acknowledged changes survive, as far as the [durability](crate::OpenOptions::durability) reaches.
/// - A key is on at most one list. Adding it to the other list is an error. A batch is added whole or not
///   at all.
/// - All operations take `&self`. Operations on one key happen one after the other.
///
/// Keys with the same 128-bit hash are taken for the same key.
///
/// # How it works
/// The store works as a [`Store`](crate::Store) does. The members of the filter are the yes keys. The no
/// keys are mistakes, and all of them are kept. Both lists are on the disk in hash order, so that a short
/// scan finds the few yes keys that the filter confuses with a no key. The hashes of the no list are also
/// in memory, at about 18 bytes each. When a yes key is added, no keys that collide with it are repaired
/// before a lookup can see the mistake. When a no key is added, it is repaired before the call returns.
/// When a no key is removed, the filter gets back the space that its repair took.
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

impl_upkeep!([B: Backend] ListStore<B>, storage);

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
    /// Returns whether a key is on the yes list. The answer is exact for keys on either list, and "no" is
    /// certain for any key.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.maintained.answer(self.hash(key))
    }

    /// Answers many lookups as [`contains`](Self::contains) does: clears `answers`, and then pushes one
    /// answer per key. This is several times as fast if the filter is larger than the cache.
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

    /// Returns the number of keys on a list. After a change has failed, the number may be wrong by the
    /// keys of that change until the store is opened again.
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

    /// Returns what the lists hold, what the store has done since it was opened, and the state of its
    /// filter.
    pub fn stats(&self) -> Stats {
        Stats {
            members: self.len(List::Yes),
            list_bytes: self.maintained.mistake_bytes(),
            ..self.maintained.stats()
        }
    }

    /// Returns an upper bound for the probability that an unlisted key is answered "yes" now.
    pub fn expected_rate(&self) -> f64 {
        self.maintained.filter.stats().expected_rate
    }

    fn finish(&mut self) -> Result<()> {
        let maintained = &self.maintained;
        self.storage.close(maintained.is_exact(), |file| maintained.filter.save(file))
    }

    /// Returns the secret that keys are hashed with. A program that has the hashes of the lists needs the
    /// secret to look keys up. An attacker who knows it can find keys that are answered "yes" by mistake.
    pub const fn secret(&self) -> &Secret {
        &self.secret
    }

    fn hash(&self, key: &[u8]) -> Hash {
        self.hasher.hash_bytes(key)
    }

    /// Returns whether a key is on a list on the disk.
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
    /// Keeps nothing: only the user lists mistakes.
    fn keep_mistake(&self, _: Hash, _: Option<Hash>) -> Result<()> {
        Ok(())
    }

    fn doubt(&self, _: Hash) -> Doubt {
        self.storage.doubt()
    }
}

impl<B: Backend> Drop for ListStore<B> {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}
