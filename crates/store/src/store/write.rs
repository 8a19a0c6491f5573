//! Putting and deleting.

use super::{GuardedStore, Inner};
use crate::backend::{
    Backend, BackendError, Batch, Durability, Keyspace, MAX_KEY_BYTES, MAX_VALUE_BYTES,
};
use crate::chunk::{Chunk, WRITTEN};
use crate::error::{Result, StoreError};
use crate::layout;
use twiceshy::{Hash, Shard};

const SORTED: Chunk = Chunk { pairs: 1 << 18, bytes: 64 << 20 };

impl<B: Backend, F: Shard> GuardedStore<B, F> {
    /// Gives a key a value, whether or not it has one. If the filter says that it has none,
    /// nothing is read.
    ///
    /// # Errors
    /// If the key or the value is too long, if the filter is full and can't grow, or if the backend fails.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let inner = &self.inner;
        inner.put(&[(key, value)], &[inner.hash(key)], inner.durability)
    }

    /// Checks that a store can hold a pair, as [`put`](Self::put) does before anything else.
    ///
    /// # Errors
    /// If the key or the value is too long.
    ///
    /// ```
    /// # use twiceshy_store::{FjallBackend, GuardedStore};
    /// assert!(GuardedStore::<FjallBackend>::check_pair(b"key", b"value").is_ok());
    /// assert!(GuardedStore::<FjallBackend>::check_pair(&[0; 1 << 16], b"value").is_err());
    /// ```
    pub fn check_pair(key: &[u8], value: &[u8]) -> Result<()> {
        check_pair(key, value)
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
        let inner = &self.inner;
        let pairs = pairs.into_iter().map(|(key, value)| (inner.hash(key.as_ref()), key, value));
        WRITTEN.of(pairs, bytes, |chunk| inner.put_chunk(&chunk, inner.durability))
    }

    /// As [`put_many`](Self::put_many), for as many pairs as there may be, in any order: sorts
    /// them by hash, some at a time, so that what is near in filter and backend is written
    /// together, and syncs once, at the end. Returns how many there were.
    ///
    /// # Errors
    /// As [`put`](Self::put); some of the pairs before are written then.
    pub fn import<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        let inner = &self.inner;
        let mut count = 0;
        let pairs = pairs.into_iter().inspect(|_| count += 1);
        let pairs = pairs.map(|(key, value)| (inner.hash(key.as_ref()), key, value));
        SORTED.of(pairs, bytes, |mut sorted| {
            // Stable, so that of a key that comes twice the last value counts.
            sorted.sort_by_key(|&(hash, ..)| hash);
            WRITTEN.of(sorted, bytes, |chunk| inner.put_chunk(&chunk, Durability::Buffered))
        })?;
        self.sync()?;
        Ok(count)
    }

    /// Removes a key and its value; returns whether the key was there.
    ///
    /// After a write has failed, it may show only when the store is opened again. Until then, the
    /// removal is written even if the key isn't found.
    ///
    /// # Errors
    /// If the backend fails.
    pub fn delete(&self, key: &[u8]) -> Result<bool> {
        self.inner.delete(key)
    }
}

fn check_pair(key: &[u8], value: &[u8]) -> Result<()> {
    if layout::member_key_len(key) > MAX_KEY_BYTES {
        return Err(StoreError::KeyTooLong { bytes: key.len() });
    }
    if value.len() > MAX_VALUE_BYTES {
        return Err(BackendError::ValueTooLong { bytes: value.len() }.into());
    }
    Ok(())
}

/// How long a pair is.
fn bytes<K: AsRef<[u8]>, V: AsRef<[u8]>>((_, key, value): &(Hash, K, V)) -> usize {
    key.as_ref().len() + value.as_ref().len()
}

impl<B: Backend, F: Shard> Inner<B, F> {
    fn put_chunk<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        chunk: &[(Hash, K, V)],
        durability: Durability,
    ) -> Result<()> {
        let hashes: Vec<Hash> = chunk.iter().map(|&(hash, ..)| hash).collect();
        let pairs = chunk.iter().map(|(_, key, value)| (key.as_ref(), value.as_ref()));
        self.put(&pairs.collect::<Vec<_>>(), &hashes, durability)
    }

    fn put(&self, pairs: &[(&[u8], &[u8])], hashes: &[Hash], durability: Durability) -> Result<()> {
        // Before the filter has them, and before they are copied.
        pairs.iter().try_for_each(|(key, value)| check_pair(key, value))?;
        let is_there = |at: usize| self.is_there(hashes[at], pairs[at].0);
        self.front.write(
            self,
            hashes,
            is_there,
            |_| Ok(()),
            |admitted| {
                let in_doubt = self.saved.is_doubtful();
                let mut batch = self.layout.batch(pairs);
                for ((&(key, value), &hash), &is_new) in
                    pairs.iter().zip(hashes).zip(admitted.is_new())
                {
                    self.layout.insert(&mut batch, hash, key, value, is_new || in_doubt);
                    if admitted.is_mistake(hash) {
                        batch.remove(Keyspace::Mistakes, layout::mistake_key(hash));
                    }
                }
                self.write(&batch, durability)
            },
        )
    }

    pub(super) fn is_there(&self, hash: Hash, key: &[u8]) -> Result<bool> {
        Ok(self.layout.get(&self.backend, hash, key)?.is_some())
    }

    fn delete(&self, key: &[u8]) -> Result<bool> {
        let hash = self.hash(key);
        self.front.remove(
            self,
            hash,
            || self.is_there(hash, key),
            || self.is_listed(hash, key),
            || {
                let mut batch = Batch::new();
                self.layout.remove(&mut batch, hash, key);
                self.write(&batch, self.durability)
            },
        )
    }

    /// Writes to the backend, which has no saved filter then.
    pub(super) fn write(&self, batch: &Batch, durability: Durability) -> Result<()> {
        self.saved.write(&self.backend, batch, durability)
    }
}
