//! Asking.

use super::{GuardedStore, Inner};
use crate::backend::{Backend, Bytes};
use crate::error::Result;
use twiceshy::{Hash, Shard};

impl<B: Backend, F: Shard> GuardedStore<B, F> {
    /// The value of a key, if it is there.
    ///
    /// # Errors
    /// If the backend fails. A repair that fails doesn't fail the read: it is
    /// [counted](super::Statistics).
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        self.inner.get(self.inner.hash(key), key)
    }

    /// Whether a key is there.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// The values of many keys; the filter is asked of all at once.
    ///
    /// # Errors
    /// As [`get`](Self::get), of the first that fails.
    pub fn get_many(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Bytes>>> {
        let inner = &*self.inner;
        let hashes: Vec<Hash> = keys.iter().map(|key| inner.hash(key.as_ref())).collect();
        let mut maybe = Vec::with_capacity(keys.len());
        inner.front.contains_many(&hashes, &mut maybe);
        let each = keys.iter().zip(&hashes).zip(maybe);
        each.map(
            |((key, &hash), maybe)| {
                if maybe { inner.get(hash, key.as_ref()) } else { Ok(None) }
            },
        )
        .collect()
    }
}

impl<B: Backend, F: Shard> Inner<B, F> {
    fn get(&self, hash: Hash, key: &[u8]) -> Result<Option<Bytes>> {
        self.front.get(self, hash, || self.layout.get(&self.backend, hash, key))
    }
}
