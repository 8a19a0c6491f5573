//! Adding and removing.

use super::{List, ListStore};
use crate::backend::{Backend, Batch, MAX_KEY_BYTES};
use crate::chunk::WRITTEN;
use crate::error::{Result, StoreError};
use crate::layout;
use std::cell::Cell;
use std::sync::atomic::Ordering;
use twiceshy::Hash;

impl<B: Backend> ListStore<B> {
    /// Adds a key to the yes list; whether it is new there.
    ///
    /// # Errors
    /// If it is on the no list, if it is too long, if there is no memory for a larger filter, or if
    /// the backend fails.
    pub fn add_yes(&self, key: &[u8]) -> Result<bool> {
        Ok(self.add_chunk(List::Yes, &[key])? == 1)
    }

    /// Adds a key to the no list; whether it is new there.
    ///
    /// # Errors
    /// As [`add_yes`](Self::add_yes), if it is on the yes list.
    pub fn add_no(&self, key: &[u8]) -> Result<bool> {
        Ok(self.add_chunk(List::No, &[key])? == 1)
    }

    /// Adds many keys to a list, in batches; each of these is added whole or not at all. Returns how
    /// many were new there.
    ///
    /// # Errors
    /// As [`add_yes`](Self::add_yes), of any of them; the batches before are added then.
    pub fn add_many<K: AsRef<[u8]>>(
        &self,
        list: List,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<u64> {
        let mut added = 0;
        WRITTEN.of(
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
        // Before the filter has them, and before they are copied.
        let is_long = |key: &&&[u8]| layout::member_key_len(key) > MAX_KEY_BYTES;
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
        self.front.renew(self, hashes)?;
        let is_there = |at: usize| self.is_on(List::Yes, hashes[at], keys[at]);
        let on_no = |at: usize| Err(on_other(List::No, keys[at]));
        let added = self.front.write(self, hashes, is_there, on_no, |admitted| {
            let new = admitted.is_new().iter().filter(|&&is_new| is_new).count() as u64;
            self.write_all(List::Yes, keys, hashes, admitted.is_new())?;
            self.yes.fetch_add(new, Ordering::Relaxed);
            Ok(new)
        })?;
        // They are added; if this fails, it is tried again before others are.
        let _ = self.front.renew(self, hashes);
        Ok(added)
    }

    fn add_all_no(&self, keys: &[&[u8]], hashes: &[Hash]) -> Result<u64> {
        let on_yes = |at: usize| {
            let is_yes = self.is_on(List::Yes, hashes[at], keys[at])?;
            if is_yes { Err(on_other(List::Yes, keys[at])) } else { Ok(()) }
        };
        self.front
            .deny(self, hashes, on_yes, |is_new| self.write_all(List::No, keys, hashes, is_new))
    }

    /// Writes the keys that are new. After a write that failed only reopening tells what is on the disk:
    /// then all are written, and taken off the other list.
    fn write_all(
        &self,
        list: List,
        keys: &[&[u8]],
        hashes: &[Hash],
        is_new: &[bool],
    ) -> Result<()> {
        let is_doubtful = self.saved.is_doubtful();
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
        if batch.is_empty() { Ok(()) } else { self.write(&batch) }
    }

    /// Removes a key from the yes list; returns whether it was there.
    ///
    /// After a change has failed, it may show only when the lists are opened again. Until then, the
    /// removal is written even if the key isn't found.
    ///
    /// # Errors
    /// If the backend fails.
    pub fn remove_yes(&self, key: &[u8]) -> Result<bool> {
        let hash = self.hash(key);
        let write = || self.write_removal(List::Yes, hash, key);
        let is_there = || self.is_on(List::Yes, hash, key);
        let removed = self.front.remove(self, hash, is_there, || Ok(true), write)?;
        // What a write has added that failed was not counted.
        let less = |yes: u64| Some(yes.saturating_sub(u64::from(removed)));
        let _ = self.yes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        Ok(removed)
    }

    /// Removes a key from the no list; returns whether it was there. See
    /// [`remove_yes`](Self::remove_yes).
    ///
    /// # Errors
    /// If the backend fails.
    pub fn remove_no(&self, key: &[u8]) -> Result<bool> {
        let hash = self.hash(key);
        // A write that failed may have listed it on the disk alone, or may do so later.
        let is_there = Cell::new(true);
        let in_doubt = || {
            if !self.saved.is_doubtful() {
                return Ok(false);
            }
            is_there.set(self.is_on(List::No, hash, key)?);
            Ok(true)
        };
        let write = || self.write_removal(List::No, hash, key);
        Ok(self.front.allow(self, hash, in_doubt, write)? && is_there.get())
    }

    fn write_removal(&self, list: List, hash: Hash, key: &[u8]) -> Result<()> {
        let mut batch = Batch::new();
        batch.remove(list.space(), layout::member_key(hash, key));
        self.write(&batch)
    }

    /// Writes to the backend, which has no saved filter then.
    fn write(&self, batch: &Batch) -> Result<()> {
        self.saved.write(&self.backend, batch, self.durability)
    }
}

fn on_other(list: List, key: &[u8]) -> StoreError {
    StoreError::OnOtherList { list, key: key.to_vec() }
}
