//! Writing to a store.

use super::{Inner, Store};
use crate::backend::{Backend, BackendError, Batch, Durability, MAX_VALUE_BYTES};
use crate::chunk::BATCH;
use crate::error::{Result, StoreError};
use crate::kind::MAX_USER_KEY_BYTES;
use twiceshy::{Hash, concurrent::Shard};

impl<B: Backend, F: Shard> Store<B, F> {
    /// Sets the value of a key. If the filter says that the key is new, nothing is read.
    ///
    /// # Errors
    /// If the key or the value is too long, or if the backend fails.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let inner = &self.inner;
        inner.put(&[(key, value)], &[inner.hash(key)], |batch| inner.storage.write(batch))
    }

    /// Checks whether a store can hold a pair. [`put`](Self::put) makes the same check.
    ///
    /// # Errors
    /// If the key or the value is too long.
    ///
    /// ```
    /// # use twiceshy_store::{FjallBackend, Store};
    /// assert!(Store::<FjallBackend>::check_pair(b"key", b"value").is_ok());
    /// assert!(Store::<FjallBackend>::check_pair(&[0; 1 << 16], b"value").is_err());
    /// ```
    pub fn check_pair(key: &[u8], value: &[u8]) -> Result<()> {
        check_pair(key, value)
    }

    /// Sets the values of many keys, in batches. Each batch is written completely or not at all. If a key
    /// occurs twice, its last value wins.
    ///
    /// # Errors
    /// Returns the same errors as [`put`](Self::put). Earlier batches stay written.
    pub fn put_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<()> {
        let inner = &self.inner;
        let pairs = pairs.into_iter().map(|(key, value)| (inner.hash(key.as_ref()), key, value));
        BATCH.for_each(pairs, bytes, |chunk| {
            inner.put_chunk(&chunk, |batch| inner.storage.write(batch))
        })
    }

    /// Sets the values of very many keys, faster than [`put_many`](Self::put_many). Sorts large chunks of the
    /// input by hash, so that neighbours in the filter and in the backend are written together. Syncs only
    /// once, at the end. Returns the number of pairs.
    ///
    /// The filter grows once, at the beginning, if the iterator [knows](Iterator::size_hint) how many pairs
    /// are coming. Otherwise, it grows with each chunk.
    ///
    /// # Errors
    /// Returns the same errors as [`put`](Self::put). Some earlier pairs stay written.
    pub fn import<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        let inner = &self.inner;
        let mut count = 0;
        let pairs = pairs.into_iter();
        // Shards get room for pairs that may be there already, or may not come because of an error. Let those
        // shards shrink again.
        let review = scopeguard::guard((), |()| inner.maintained.review_all());
        inner.maintained.expect_evenly(&**inner, pairs.size_hint().0 as u64);
        let pairs = pairs.inspect(|_| count += 1);
        let pairs = pairs.map(|(key, value)| (inner.hash(key.as_ref()), key, value));
        inner.sorted_at_once.for_each(pairs, bytes, |mut sorted| {
            // The sort is stable, so if a key occurs twice, its last value wins.
            sorted.sort_by_key(|&(hash, ..)| hash);
            let hashes = sorted.iter().map(|&(hash, ..)| hash);
            inner.maintained.expect_members(&**inner, hashes);
            BATCH.for_each(sorted, bytes, |chunk| {
                let write = |batch: &Batch| inner.storage.write_as(batch, Durability::Buffered);
                inner.put_chunk(&chunk, write)
            })
        })?;
        drop(review);
        self.sync()?;
        Ok(count)
    }

    /// Removes a key and its value. Returns whether the key was there.
    ///
    /// A failed write may take effect when the store is opened again, so after a failed write, a removal is
    /// written even if the key isn't found.
    ///
    /// # Errors
    /// If the backend fails.
    pub fn delete(&self, key: &[u8]) -> Result<bool> {
        self.inner.delete(key)
    }
}

fn check_pair(key: &[u8], value: &[u8]) -> Result<()> {
    if key.len() > MAX_USER_KEY_BYTES {
        return Err(StoreError::KeyTooLong { bytes: key.len() });
    }
    if value.len() > MAX_VALUE_BYTES {
        return Err(BackendError::ValueTooLong { bytes: value.len() }.into());
    }
    Ok(())
}

/// Returns the length of a pair.
fn bytes<K: AsRef<[u8]>, V: AsRef<[u8]>>((_, key, value): &(Hash, K, V)) -> usize {
    key.as_ref().len() + value.as_ref().len()
}

impl<B: Backend, F: Shard> Inner<B, F> {
    fn put_chunk<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        chunk: &[(Hash, K, V)],
        write: impl FnOnce(&Batch) -> Result<()>,
    ) -> Result<()> {
        let hashes: Vec<Hash> = chunk.iter().map(|&(hash, ..)| hash).collect();
        let pairs = chunk.iter().map(|(_, key, value)| (key.as_ref(), value.as_ref()));
        self.put(&pairs.collect::<Vec<_>>(), &hashes, write)
    }

    fn put(
        &self,
        pairs: &[(&[u8], &[u8])],
        hashes: &[Hash],
        write: impl FnOnce(&Batch) -> Result<()>,
    ) -> Result<()> {
        // Check all pairs before the filter gets any of them.
        pairs.iter().try_for_each(|(key, value)| check_pair(key, value))?;
        let is_there = |at: usize| self.is_there(hashes[at], pairs[at].0);
        self.maintained.write(
            self,
            hashes,
            is_there,
            |_| Ok(()),
            |admitted| {
                let mut batch = self.layout.batch(pairs);
                for ((&(key, value), &hash), may_be_unlisted) in
                    pairs.iter().zip(hashes).zip(admitted.may_be_unlisted())
                {
                    self.layout.insert(&mut batch, hash, key, value, may_be_unlisted);
                }
                write(&batch)
            },
        )
    }

    pub(super) fn is_there(&self, hash: Hash, key: &[u8]) -> Result<bool> {
        Ok(self.look_up(hash, key)?.is_some())
    }

    fn delete(&self, key: &[u8]) -> Result<bool> {
        let hash = self.hash(key);
        self.maintained.remove(
            self,
            hash,
            || self.is_there(hash, key),
            || self.is_listed(hash, key),
            || {
                let mut batch = Batch::new();
                self.layout.remove(&mut batch, hash, key);
                self.storage.write(&batch)
            },
        )
    }
}
