//! The two maps of the split layout, should they ever differ.
//!
//! They are written together. But if somebody damages the engine's journal, one of them may have
//! lost what the other has in its tables already; then keys would be missing from a filter that is
//! built from the reverse map. So a filter that had to be built is not believed before its members
//! are known to be the keys: by a census of both, or else, if it was disturbed by writes or finds
//! a difference, one by one.

use super::Inner;
use crate::backend::{Backend, Batch, Bytes, Keyspace, Unbounded};
use crate::census::Census;
use crate::counters::Count;
use crate::error::Result;
use crate::filter::SharedFilter;
use crate::layout;
use std::sync::atomic::Ordering;
use twiceshy::Hash;

impl<B: Backend, F: SharedFilter> Inner<B, F> {
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

    /// Sees to it that all keys are in the filter. If one isn't, or if there are more members than
    /// keys, all are looked for in the reverse map, too.
    pub(super) fn complete(&self) -> Result<()> {
        let writes = || self.front.counters.get(Count::Writes);
        let (members, before) = (self.front.filter.len(), writes());
        let (mut is_damaged, mut keys) = (false, 0);
        for key in self.keys(Keyspace::Keys) {
            if self.is_closing.load(Ordering::Relaxed) {
                return Ok(());
            }
            let key = key?;
            keys += 1;
            let hash = self.hash(&key);
            if !self.front.filter.contains(hash) && self.is_there(hash, &key)? {
                self.list(hash, &key)?;
                is_damaged = true;
            }
        }
        let is_still = writes() == before;
        if is_damaged || is_still && keys != members {
            self.reconcile()?;
        }
        self.front.set_complete(true);
        Ok(())
    }

    /// Looks for each key in the reverse map, and the other way round.
    pub(super) fn reconcile(&self) -> Result<()> {
        for key in self.keys(Keyspace::Keys) {
            let key = key?;
            let hash = self.hash(&key);
            if !self.is_listed(hash, &key)? {
                self.list(hash, &key)?;
            }
        }
        for member in self.keys(Keyspace::Members) {
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

    fn is_listed(&self, hash: Hash, key: &[u8]) -> Result<bool> {
        Ok(self.backend.get(Keyspace::Members, &layout::member_key(hash, key))?.is_some())
    }

    /// Puts a key into the reverse map, and into the filter.
    fn list(&self, hash: Hash, key: &[u8]) -> Result<()> {
        let is_listed = |_| self.is_listed(hash, key);
        self.front.write(self, &[hash], is_listed, |_| {
            // Nobody writes it now. If it is gone, the filter has a ghost.
            if !self.is_there(hash, key)? {
                return Ok(());
            }
            let mut batch = Batch::new();
            batch.insert(Keyspace::Members, layout::member_key(hash, key), b"");
            self.write(&batch, self.durability)
        })
    }

    /// Takes out of the reverse map, and out of the filter, what is no key.
    fn unlist(&self, hash: Hash, key: &[u8]) -> Result<()> {
        let is_orphan = || Ok(self.is_listed(hash, key)? && !self.is_there(hash, key)?);
        self.front.remove(self, hash, is_orphan, || {
            let mut batch = Batch::new();
            batch.remove(Keyspace::Members, layout::member_key(hash, key));
            self.write(&batch, self.durability)
        })?;
        Ok(())
    }
}
