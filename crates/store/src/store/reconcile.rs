//! The two maps of the split layout, should they ever differ.
//!
//! They are written together. But if somebody damages the engine's journal, one of them may have
//! lost what the other has in its tables already; then keys would be missing from a filter that is
//! built from the reverse map. So a filter that had to be built is not believed before its members
//! are known to be the keys: by a census of both, or else, if it was disturbed by writes or finds
//! a difference, one by one. Meanwhile a key that isn't listed isn't taken out of the filter.

use super::Inner;
use crate::backend::{Backend, Batch, Bytes, Keyspace, Unbounded};
use crate::census::Census;
use crate::error::Result;
use crate::layout;
use std::sync::atomic::Ordering;
use twiceshy::{Hash, Shard};

impl<B: Backend, F: Shard> Inner<B, F> {
    /// The census of the keys; of some of them, if the store is being closed.
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

    /// Looks for each key in the reverse map, and the other way round, unless the store is being
    /// closed.
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

    fn keys(&self, space: Keyspace) -> impl Iterator<Item = Result<Bytes>> {
        self.backend.range(space, (Unbounded, Unbounded)).map(|pair| Ok(pair?.0))
    }

    pub(super) fn is_listed(&self, hash: Hash, key: &[u8]) -> Result<bool> {
        Ok(self.backend.get(Keyspace::Members, &layout::member_key(hash, key))?.is_some())
    }

    /// Puts a key into the reverse map, and into the filter, unless it is gone by now, or listed.
    fn list(&self, hash: Hash, key: &[u8]) -> Result<()> {
        let is_unlisted = || Ok(self.is_there(hash, key)? && !self.is_listed(hash, key)?);
        self.front.write_if(self, hash, is_unlisted, || {
            let mut batch = Batch::new();
            batch.insert(Keyspace::Members, layout::member_key(hash, key), b"");
            self.write(&batch, self.durability)
        })
    }

    /// Takes out of the reverse map what isn't a key. The filter may keep it as a ghost: it need not
    /// hold what the reverse map wrongly lists, and then the fingerprint that looks like it is a
    /// member's.
    fn unlist(&self, hash: Hash, key: &[u8]) -> Result<()> {
        self.front.leaving_ghost(hash, || {
            let is_orphan = self.is_listed(hash, key)? && !self.is_there(hash, key)?;
            if is_orphan {
                let mut batch = Batch::new();
                batch.remove(Keyspace::Members, layout::member_key(hash, key));
                self.write(&batch, self.durability)?;
            }
            Ok(is_orphan)
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Fault, FaultyBackend};
    use crate::{GuardedStore, Layout, MemoryBackend, Options};

    /// Another thread may have put the key again since the scan saw it.
    #[test]
    fn a_key_that_is_there_stays_listed_while_a_write_is_in_doubt() {
        let options = Options::new().capacity(100).layout(Layout::Split);
        let backend = FaultyBackend::new(MemoryBackend::new());
        let store: GuardedStore<_> = options.open_with(backend, None).unwrap();
        store.inner.backend.fail_from(0, Fault::Before);
        store.put(b"bee", b"1").unwrap_err();
        store.inner.backend.heal();
        store.put(b"ant", b"1").unwrap();
        store.inner.unlist(store.inner.hash(b"ant"), b"ant").unwrap();
        store.scrub().unwrap();
        assert!(store.contains(b"ant").unwrap());
    }
}
