//! Reading from a store.

use super::{Inner, Store};
use crate::backend::{Backend, Bytes};
use crate::error::Result;
use twiceshy::{Hash, concurrent::Shard};

impl<B: Backend, F: Shard> Store<B, F> {
    /// Returns the value of a key, or `None` if the key is absent.
    ///
    /// # Errors
    /// If the backend fails. A repair that fails doesn't fail the read; it is
    /// [counted](crate::Stats::repairs_failed).
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let (inner, hash) = (&*self.inner, self.inner.hash(key));
        inner.maintained.get(inner, hash, || inner.look_up(hash, key))
    }

    /// Returns whether the store has a key.
    ///
    /// # Errors
    /// Returns the same errors as [`get`](Self::get).
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// Returns the values of many keys. The filter is asked about all of them in one batch.
    ///
    /// # Errors
    /// The first error that [`get`](Self::get) returns.
    pub fn get_many(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Bytes>>> {
        let inner = &*self.inner;
        let hashes: Vec<Hash> = keys.iter().map(|key| inner.hash(key.as_ref())).collect();
        let look_up = |at: usize| inner.look_up(hashes[at], keys[at].as_ref());
        inner.maintained.get_many(inner, &hashes, look_up)
    }
}

impl<B: Backend, F: Shard> Inner<B, F> {
    pub(super) fn look_up(&self, hash: Hash, key: &[u8]) -> Result<Option<Bytes>> {
        self.layout.get(&self.storage.backend, hash, key)
    }
}
