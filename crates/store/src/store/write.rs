//! Putting and deleting.

use super::{GuardedStore, Inner};
use crate::backend::{Backend, BackendError, Batch, Keyspace, MAX_KEY_BYTES};
use crate::counters::Count;
use crate::error::{Result, StoreError};
use crate::filter::SharedFilter;
use crate::layout;
use crate::stripes::Locked;
use std::collections::{BTreeMap, HashSet};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use twiceshy::Hash;

/// Pairs that are written at once.
const CHUNK: usize = 1024;

impl<B: Backend, F: SharedFilter> GuardedStore<B, F> {
    /// Gives a key a value, whether or not it has one. If the filter says that it has none,
    /// nothing is read.
    ///
    /// # Errors
    /// If the key is too long, if the filter is full and can't grow, or if the backend fails.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.inner.put(&[(key, value)])
    }

    /// Gives many keys values, in batches; each of these is written whole or not at all. Of a
    /// key that comes twice, the last value counts.
    ///
    /// # Errors
    /// As [`put`](Self::put); the batches before are written then.
    pub fn put_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<()> {
        let mut pairs = pairs.into_iter().peekable();
        while pairs.peek().is_some() {
            let chunk: Vec<(K, V)> = pairs.by_ref().take(CHUNK).collect();
            let chunk: Vec<(&[u8], &[u8])> =
                chunk.iter().map(|(key, value)| (key.as_ref(), value.as_ref())).collect();
            self.inner.put(&chunk)?;
        }
        Ok(())
    }

    /// Removes a key and its value; whether it was there.
    ///
    /// # Errors
    /// If the backend fails.
    pub fn delete(&self, key: &[u8]) -> Result<bool> {
        self.inner.delete(key)
    }
}

/// Whether there was room for something in the filter; if not, it was not done.
pub(super) enum Room {
    Enough,
    Needed { hash: Hash, error: StoreError },
}

impl<B: Backend, F: SharedFilter> Inner<B, F> {
    fn put(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        let longest = pairs.iter().map(|(key, _)| layout::member_key_len(key)).max();
        if let Some(bytes) = longest.filter(|&bytes| bytes > MAX_KEY_BYTES) {
            return Err(BackendError::KeyTooLong { bytes }.into());
        }
        let hashes: Vec<Hash> = pairs.iter().map(|(key, _)| self.hash(key)).collect();
        self.making_room(|| self.try_put(pairs, &hashes))
    }

    /// Puts all pairs, or none if there is no room in the filter.
    fn try_put(&self, pairs: &[(&[u8], &[u8])], hashes: &[Hash]) -> Result<Room> {
        let mut locked = self.lock_all(hashes);
        let mut batch = Batch::new();
        let (mut new, mut seen) = (Vec::new(), HashSet::new());
        for (&(key, value), &hash) in pairs.iter().zip(hashes) {
            let is_new = seen.insert(key) && self.is_new(hash, key)?;
            if is_new && self.is_ready(hash) {
                new.push(hash);
            }
            self.layout.insert(&mut batch, hash, key, value, is_new);
            if locked.has_mistake(hash) {
                batch.remove(Keyspace::Mistakes, layout::mistake_key(hash));
            }
        }
        if let Err((hash, error)) = self.admit(&locked, &new) {
            return Ok(Room::Needed { hash, error });
        }
        if let Err(error) = self.write(&batch) {
            // Whether they are in the backend is not known; in the filter they do no harm.
            self.counters.add(Count::GhostsLeft, new.len() as u64);
            return Err(error);
        }
        for &hash in hashes {
            if locked.remove_mistake(hash) {
                self.mistakes.fetch_sub(1, Ordering::Relaxed);
            }
        }
        Ok(Room::Enough)
    }

    /// Whether a key may not be a member yet. Of a shard that isn't ready, nobody needs to
    /// know: it will be built from what is in the backend.
    fn is_new(&self, hash: Hash, key: &[u8]) -> Result<bool> {
        if !self.is_ready(hash) || !self.filter.contains(hash) {
            return Ok(true);
        }
        Ok(self.value(hash, key)?.is_none())
    }

    /// Inserts new members into the filter, all or none, and repairs the mistakes that they
    /// bring back; says for which one there is no room.
    fn admit(&self, locked: &Locked<'_>, new: &[Hash]) -> Result<(), (Hash, StoreError)> {
        let mut inserted = 0;
        let mut insert = |&hash: &Hash| {
            self.filter.insert(hash).map_err(|error| (hash, error.into()))?;
            inserted += 1;
            Ok(())
        };
        let admitted = new.iter().try_for_each(&mut insert);
        let admitted = admitted.and_then(|()| self.defend(locked, new));
        if admitted.is_err() {
            for &hash in &new[..inserted] {
                // It is there: nobody else may remove it meanwhile.
                let _ = self.filter.remove(hash);
            }
        }
        admitted
    }

    /// Does something; if there is no room in a shard of the filter, builds the shard again, a
    /// quarter larger each time, and tries again.
    pub(super) fn making_room(&self, work: impl Fn() -> Result<Room>) -> Result<()> {
        const TRIES: u32 = 4;
        let mut tried = BTreeMap::new();
        loop {
            let (hash, error) = match work()? {
                Room::Enough => return Ok(()),
                Room::Needed { hash, error } => (hash, error),
            };
            let shard = self.filter.shard_of(hash);
            let tries = tried.entry(shard).or_insert(0);
            if *tries == TRIES {
                return Err(error);
            }
            let more = (self.filter.len() / self.filter.shards() / 4).max(64) << *tries;
            self.rebuild(shard, more)?;
            *tries += 1;
        }
    }

    fn delete(&self, key: &[u8]) -> Result<bool> {
        let hash = self.hash(key);
        let locked = self.lock(hash);
        let is_ready = self.is_ready(hash);
        if is_ready && !self.filter.contains(hash) {
            return Ok(false);
        }
        if self.value(hash, key)?.is_none() {
            drop(locked);
            if is_ready {
                self.repair(hash);
            }
            return Ok(false);
        }
        let mut batch = Batch::new();
        self.layout.remove(&mut batch, hash, key);
        if let Err(error) = self.write(&batch) {
            // Whether it is in the backend is not known; in the filter it does no harm.
            self.counters.add(Count::GhostsLeft, u64::from(is_ready));
            return Err(error);
        }
        if is_ready && self.filter.remove(hash).is_err() {
            self.counters.add(Count::GhostsLeft, 1);
        }
        Ok(true)
    }

    /// Writes to the backend; before the first time, that the saved filter is not to be
    /// trusted any more.
    pub(super) fn write(&self, batch: &Batch) -> Result<()> {
        if !self.is_dirty.load(Ordering::Acquire) {
            let _one = self.dirtying.lock().unwrap_or_else(PoisonError::into_inner);
            if !self.is_dirty.load(Ordering::Acquire) {
                super::recover::unname(&self.backend)?;
                self.is_dirty.store(true, Ordering::Release);
            }
        }
        Ok(self.backend.write(batch, self.durability)?)
    }
}
