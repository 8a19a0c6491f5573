//! Writing to a list store.

use super::ListStore;
use crate::backend::{Backend, Batch};
use crate::chunk::BATCH;
use crate::error::{Result, StoreError};
use crate::kind::{List, MAX_USER_KEY_BYTES};
use crate::layout;
use crate::sync::atomic::Ordering;
use std::cell::Cell;
use twiceshy::Hash;

impl<B: Backend> ListStore<B> {
    /// Adds a key to the yes list. Returns `true` if the key was not on that list before.
    ///
    /// # Errors
    /// If the key is on the no list or too long, if there is no memory for a larger filter, or if the
    /// backend fails.
    pub fn add_yes(&self, key: &[u8]) -> Result<bool> {
        Ok(self.add_chunk(List::Yes, &[key])? == 1)
    }

    /// Adds a key to the no list. Returns `true` if the key was not on that list before.
    ///
    /// # Errors
    /// If the key is on the yes list; otherwise the same errors as [`add_yes`](Self::add_yes).
    pub fn add_no(&self, key: &[u8]) -> Result<bool> {
        Ok(self.add_chunk(List::No, &[key])? == 1)
    }

    /// Adds many keys to a list, in batches. Each batch is added completely or not at all. Returns
    /// how many keys were not on that list before.
    ///
    /// # Errors
    /// Returns the same errors as [`add_yes`](Self::add_yes), for any of the keys. Earlier batches stay
    /// added.
    pub fn add_many<K: AsRef<[u8]>>(
        &self,
        list: List,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<u64> {
        let mut added = 0;
        BATCH.for_each(
            keys,
            |key| key.as_ref().len(),
            |chunk| {
                let keys: Vec<&[u8]> = chunk.iter().map(AsRef::as_ref).collect();
                added += self.add_chunk(list, &keys)?;
                Ok(())
            },
        )?;
        Ok(added)
    }

    fn add_chunk(&self, list: List, keys: &[&[u8]]) -> Result<u64> {
        // Check all keys before inserting any key into the filter.
        let is_long = |key: &&&[u8]| key.len() > MAX_USER_KEY_BYTES;
        if let Some(key) = keys.iter().find(is_long) {
            return Err(StoreError::KeyTooLong { bytes: key.len() });
        }
        let hashes: Vec<Hash> = keys.iter().map(|key| self.hash(key)).collect();
        match list {
            List::Yes => self.add_all_yes(keys, &hashes),
            List::No => self.add_all_no(keys, &hashes),
        }
    }

    fn add_all_yes(&self, keys: &[&[u8]], hashes: &[Hash]) -> Result<u64> {
        let is_there = |at: usize| self.is_on(List::Yes, hashes[at], keys[at]);
        let on_no = |at: usize| Err(on_other(List::No, keys[at]));
        self.maintained.write(self, hashes, is_there, on_no, |admitted| {
            let is_new: Vec<bool> = admitted.is_new().collect();
            let new = is_new.iter().filter(|&&is_new| is_new).count() as u64;
            self.write_all(List::Yes, keys, hashes, &is_new)?;
            self.yes.fetch_add(new, Ordering::Relaxed);
            Ok(new)
        })
    }

    fn add_all_no(&self, keys: &[&[u8]], hashes: &[Hash]) -> Result<u64> {
        let on_yes = |at: usize| {
            let is_yes = self.is_on(List::Yes, hashes[at], keys[at])?;
            if is_yes { Err(on_other(List::Yes, keys[at])) } else { Ok(()) }
        };
        let write = |is_new: &[bool]| self.write_all(List::No, keys, hashes, is_new);
        self.maintained.list_mistakes(self, hashes, on_yes, write)
    }

    /// Writes the keys that are new. After a failed write, only reopening shows what is on disk. So from
    /// then on, this writes all keys, and removes them from the other list.
    fn write_all(
        &self,
        list: List,
        keys: &[&[u8]],
        hashes: &[Hash],
        is_new: &[bool],
    ) -> Result<()> {
        let is_doubtful = self.storage.is_doubtful();
        let mut batch = Batch::new();
        for ((key, &hash), &is_new) in keys.iter().zip(hashes).zip(is_new) {
            let key = layout::member_key(hash, key);
            if is_doubtful {
                batch.remove(list.other().space(), &key);
            }
            if is_doubtful || is_new {
                batch.insert(list.space(), key, b"");
            }
        }
        if batch.is_empty() { Ok(()) } else { self.storage.write(&batch) }
    }

    /// Removes a key from the yes list. Returns whether the key was there.
    ///
    /// A failed write may take effect when the store is opened again, so after a failed write, a removal is
    /// written even if the key isn't found.
    ///
    /// # Errors
    /// If the backend fails.
    pub fn remove_yes(&self, key: &[u8]) -> Result<bool> {
        let hash = self.hash(key);
        let write = || self.write_removal(List::Yes, hash, key);
        let is_there = || self.is_on(List::Yes, hash, key);
        let removed = self.maintained.remove(self, hash, is_there, || Ok(true), write)?;
        // A failed write may have added the key without counting it, so the count must stop at
        // zero.
        let less = |yes: u64| Some(yes.saturating_sub(u64::from(removed)));
        let _ = self.yes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        Ok(removed)
    }

    /// Removes a key from the no list. Returns whether the key was there. See
    /// [`remove_yes`](Self::remove_yes) for removals after a failed write.
    ///
    /// # Errors
    /// If the backend fails.
    pub fn remove_no(&self, key: &[u8]) -> Result<bool> {
        let hash = self.hash(key);
        // After a failed write, the backend may have a key that the list in memory lacks, or may
        // get it later. Ask the backend, and write the removal in any case.
        let is_there = Cell::new(true);
        let in_doubt = || {
            if !self.storage.is_doubtful() {
                return Ok(false);
            }
            is_there.set(self.is_on(List::No, hash, key)?);
            Ok(true)
        };
        let write = || self.write_removal(List::No, hash, key);
        Ok(self.maintained.unlist_mistake(self, hash, in_doubt, write)? && is_there.get())
    }

    fn write_removal(&self, list: List, hash: Hash, key: &[u8]) -> Result<()> {
        let mut batch = Batch::new();
        batch.remove(list.space(), layout::member_key(hash, key));
        self.storage.write(&batch)
    }
}

fn on_other(list: List, key: &[u8]) -> StoreError {
    StoreError::OnOtherList { list, key: key.to_vec() }
}
