//! Reading.

use super::{Inner, Store};
use crate::backend::{Backend, Bytes};
use crate::error::Result;
use twiceshy::{Hash, concurrent::Shard};

impl<B: Backend, F: Shard> Store<B, F> {
    /// Returns the value of a key, if it is there.
    ///
    /// # Errors
    /// If the backend fails. A repair that fails doesn't fail the read; it is
    /// [counted](crate::Stats::repairs_failed).
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        self.inner.get(self.inner.hash(key), key)
    }

    /// Returns whether a key is there.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// Returns the values of many keys. The filter is asked about all of them at once.
    ///
    /// # Errors
    /// The first error that [`get`](Self::get) returns.
    pub fn get_many(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Bytes>>> {
        let inner = &*self.inner;
        let hashes: Vec<Hash> = keys.iter().map(|key| inner.hash(key.as_ref())).collect();
        let mut maybe = Vec::with_capacity(keys.len());
        inner.maintained.contains_many(&hashes, &mut maybe);
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
        let look_up = || self.layout.get(&self.storage.backend, hash, key);
        self.maintained.get(self, hash, look_up)
    }
}
