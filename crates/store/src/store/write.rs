//! Putting and deleting.

use super::{GuardedStore, Inner};
use crate::backend::{Backend, BackendError, Batch, Keyspace, MAX_KEY_BYTES};
use crate::error::Result;
use crate::filter::SharedFilter;
use crate::layout;
use smallvec::SmallVec;
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

impl<B: Backend, F: SharedFilter> Inner<B, F> {
    fn put(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        let longest = pairs.iter().map(|(key, _)| layout::member_key_len(key)).max();
        if let Some(bytes) = longest.filter(|&bytes| bytes > MAX_KEY_BYTES) {
            return Err(BackendError::KeyTooLong { bytes }.into());
        }
        let hashes: SmallVec<[Hash; 1]> = pairs.iter().map(|(key, _)| self.hash(key)).collect();
        let is_there = |at: usize| self.is_there(hashes[at], pairs[at].0);
        self.front.write(self, &hashes, is_there, |admitted| {
            let mut batch = self.layout.batch(pairs);
            for ((&(key, value), &hash), &is_new) in
                pairs.iter().zip(&hashes).zip(admitted.is_new())
            {
                self.layout.insert(&mut batch, hash, key, value, is_new);
                if admitted.is_mistake(hash) {
                    batch.remove(Keyspace::Mistakes, layout::mistake_key(hash));
                }
            }
            self.write(&batch)
        })
    }

    fn is_there(&self, hash: Hash, key: &[u8]) -> Result<bool> {
        Ok(self.layout.get(&self.backend, hash, key)?.is_some())
    }

    fn delete(&self, key: &[u8]) -> Result<bool> {
        let hash = self.hash(key);
        self.front.remove(
            self,
            hash,
            || self.is_there(hash, key),
            || {
                let mut batch = Batch::new();
                self.layout.remove(&mut batch, hash, key);
                self.write(&batch)
            },
        )
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
