//! Asking.

use super::{GuardedStore, Inner};
use crate::backend::{Backend, Bytes};
use crate::counters::Count;
use crate::error::Result;
use crate::filter::SharedFilter;
use twiceshy::Hash;

impl<B: Backend, F: SharedFilter> GuardedStore<B, F> {
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
        // In this order: a shard that is ready stays so.
        let ready: Vec<bool> = hashes.iter().map(|&hash| inner.is_ready(hash)).collect();
        let mut maybe = Vec::with_capacity(keys.len());
        inner.filter.contains_many(&hashes, &mut maybe);
        let each = keys.iter().zip(&hashes).zip(ready.into_iter().zip(maybe));
        each.map(|((key, &hash), (is_ready, maybe))| {
            if maybe || !is_ready {
                return inner.get(hash, key.as_ref());
            }
            inner.counters.add(Count::Lookups, 1);
            inner.counters.add(Count::AnsweredFromMemory, 1);
            Ok(None)
        })
        .collect()
    }
}

impl<B: Backend, F: SharedFilter> Inner<B, F> {
    fn get(&self, hash: Hash, key: &[u8]) -> Result<Option<Bytes>> {
        self.counters.add(Count::Lookups, 1);
        // In this order: a shard that is ready stays so.
        let is_ready = self.is_ready(hash);
        if is_ready && !self.filter.contains(hash) {
            self.counters.add(Count::AnsweredFromMemory, 1);
            return Ok(None);
        }
        let value = self.value(hash, key)?;
        if value.is_some() {
            self.counters.add(Count::TruePositives, 1);
        } else if is_ready {
            self.repair(hash);
        } else {
            self.counters.add(Count::Unfiltered, 1);
        }
        Ok(value)
    }

    /// Asks the backend.
    pub(super) fn value(&self, hash: Hash, key: &[u8]) -> Result<Option<Bytes>> {
        self.counters.add(Count::BackendGets, 1);
        self.layout.get(&self.backend, hash, key)
    }
}
