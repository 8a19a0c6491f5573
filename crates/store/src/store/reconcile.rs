//! Making the two maps of the split layout equal, if they differ.
//!
//! The maps are written together. But if the engine's journal is damaged, one map may have lost what the
//! other has in its tables already. Then keys would be missing from a filter that is built from the
//! reverse map. So a filter that was rebuilt is not trusted before its members are known to be the keys:
//! by a census of both maps, or, if the census was disturbed by writes or finds a difference, one by one.
//! Until then, a key that isn't listed isn't removed from the filter.

use super::Inner;
use crate::backend::{Backend, Batch, Bytes, Keyspace, Unbounded};
use crate::census::Census;
use crate::error::Result;
use crate::layout;
use std::sync::atomic::Ordering;
use twiceshy::{Hash, concurrent::Shard};

impl<B: Backend, F: Shard> Inner<B, F> {
    /// Returns the census of the keys, or of some of them if the store is being closed.
    pub(super) fn count_keys(&self) -> Result<Census> {
        let mut census = Census::default();
        for key in self.keys(Keyspace::Keys) {
            if self.is_closing.load(Ordering::Relaxed) {
                break;
            }
            census = census + self.hash(&key?).into();
        }
        Ok(census)
    }

    /// Looks each key up in the reverse map, and each member in the map of keys, and repairs differences.
    /// Stops if the store is being closed.
    pub(super) fn reconcile(&self) -> Result<()> {
        let is_closing = || self.is_closing.load(Ordering::Relaxed);
        for key in self.keys(Keyspace::Keys).take_while(|_| !is_closing()) {
            let key = key?;
            let hash = self.hash(&key);
            if !self.is_listed(hash, &key)? {
                self.list(hash, &key)?;
            }
        }
        for member in self.keys(Keyspace::Members).take_while(|_| !is_closing()) {
            let member = member?;
            let Some(key) = layout::user_key(&member) else { continue };
            let hash = self.hash(key);
            if !self.is_there(hash, key)? {
                self.unlist(hash, key)?;
            }
        }
        Ok(())
    }

    /// Returns what is wrong with the two maps, if they differ.
    pub(super) fn find_difference(&self) -> Result<Option<&'static str>> {
        for key in self.keys(Keyspace::Keys) {
            let key = key?;
            let hash = self.hash(&key);
            // Most keys are listed. Others may be about to be written or removed.
            if !self.is_listed(hash, &key)?
                && self.maintained.while_locked(hash, || self.is_unlisted(hash, &key))?
            {
                return Ok(Some("a key is missing from the reverse map; rebuild the filter"));
            }
        }
        for member in self.keys(Keyspace::Members) {
            let member = member?;
            let Some(key) = layout::user_key(&member) else { continue };
            let hash = self.hash(key);
            if !self.is_there(hash, key)?
                && self.maintained.while_locked(hash, || self.is_orphan(hash, key))?
            {
                return Ok(Some("the reverse map lists an absent key; rebuild the filter"));
            }
        }
        Ok(None)
    }

    fn keys(&self, space: Keyspace) -> impl Iterator<Item = Result<Bytes>> {
        self.storage.backend.range(space, (Unbounded, Unbounded)).map(|pair| Ok(pair?.0))
    }

    pub(super) fn is_listed(&self, hash: Hash, key: &[u8]) -> Result<bool> {
        Ok(self.storage.backend.get(Keyspace::Members, &layout::member_key(hash, key))?.is_some())
    }

    /// Returns whether a key is missing from the reverse map.
    fn is_unlisted(&self, hash: Hash, key: &[u8]) -> Result<bool> {
        Ok(self.is_there(hash, key)? && !self.is_listed(hash, key)?)
    }

    /// Returns whether the reverse map lists a key that is absent.
    fn is_orphan(&self, hash: Hash, key: &[u8]) -> Result<bool> {
        Ok(self.is_listed(hash, key)? && !self.is_there(hash, key)?)
    }

    /// Adds a key to the reverse map and to the filter, unless it is gone by now, or listed.
    fn list(&self, hash: Hash, key: &[u8]) -> Result<()> {
        self.maintained.write_if(
            self,
            hash,
            || self.is_unlisted(hash, key),
            || {
                let mut batch = Batch::new();
                batch.insert(Keyspace::Members, layout::member_key(hash, key), b"");
                self.storage.write(&batch)
            },
        )
    }

    /// Removes a member from the reverse map that isn't a key. The filter may keep it as a ghost. (The
    /// filter need not hold a wrongly listed member; then the matching fingerprint is another member's,
    /// and must stay.)
    fn unlist(&self, hash: Hash, key: &[u8]) -> Result<()> {
        self.maintained.leaving_ghost(hash, || {
            let is_orphan = self.is_orphan(hash, key)?;
            if is_orphan {
                let mut batch = Batch::new();
                batch.remove(Keyspace::Members, layout::member_key(hash, key));
                self.storage.write(&batch)?;
            }
            Ok(is_orphan)
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Fault, FaultyBackend};
    use crate::{Layout, MemoryBackend, OpenOptions, Store};

    /// Another thread may have put the key again since the scan.
    #[test]
    fn unlist_keeps_key_that_is_there_while_a_write_is_in_doubt() {
        let options = OpenOptions::new().capacity(100).layout(Layout::Split);
        let backend = FaultyBackend::new(MemoryBackend::new());
        let store: Store<_> = options.open_with(backend, None).unwrap();
        store.inner.storage.backend.fail_from(0, Fault::Before);
        store.put(b"bee", b"1").unwrap_err();
        store.inner.storage.backend.heal();
        store.put(b"ant", b"1").unwrap();
        store.inner.unlist(store.inner.hash(b"ant"), b"ant").unwrap();
        store.rebuild().unwrap();
        assert!(store.contains(b"ant").unwrap());
    }
}
