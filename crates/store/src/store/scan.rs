//! All pairs, ranges of them, and the upkeep of the backend.

use super::GuardedStore;
use crate::backend::{Backend, Bounds, Bytes, Keyspace, Unbounded};
use crate::error::{Result, StoreError};
use crate::layout::{self, Layout};
use std::path::Path;
use twiceshy::{Shard, Snapshot};

/// Pairs, in order from either end.
pub type Pairs<'a> = Box<dyn DoubleEndedIterator<Item = Result<(Bytes, Bytes)>> + Send + 'a>;

impl<B: Backend, F: Shard> GuardedStore<B, F> {
    /// All pairs: in key order, if the layout is split, and otherwise in none.
    pub fn iter(&self) -> Pairs<'_> {
        let backend = &self.inner.backend;
        match self.inner.layout {
            Layout::Split => {
                let pairs = backend.range(Keyspace::Keys, (Unbounded, Unbounded));
                Box::new(pairs.map(|pair| Ok(pair?)))
            }
            Layout::Merged => {
                let pairs = backend.range(Keyspace::Members, (Unbounded, Unbounded));
                Box::new(pairs.map(|pair| {
                    let (member, value) = pair?;
                    let key = layout::user_key(&member);
                    let key = key.ok_or_else(|| StoreError::Format("a key is too short".into()))?;
                    Ok((Bytes::from(key), value))
                }))
            }
        }
    }

    /// The pairs whose keys are within bounds, in order.
    ///
    /// # Errors
    /// [`StoreError::Unordered`], unless the layout is split.
    pub fn range(&self, bounds: Bounds<'_>) -> Result<Pairs<'_>> {
        self.in_order()?;
        let pairs = self.inner.backend.range(Keyspace::Keys, bounds);
        Ok(Box::new(pairs.map(|pair| Ok(pair?))))
    }

    /// The pairs whose keys begin with these bytes, in order.
    ///
    /// # Errors
    /// [`StoreError::Unordered`], unless the layout is split.
    pub fn prefix(&self, prefix: &[u8]) -> Result<Pairs<'_>> {
        self.in_order()?;
        let pairs = self.inner.backend.prefix(Keyspace::Keys, prefix);
        Ok(Box::new(pairs.map(|pair| Ok(pair?))))
    }

    fn in_order(&self) -> Result<()> {
        match self.inner.layout {
            Layout::Split => Ok(()),
            Layout::Merged => Err(StoreError::Unordered),
        }
    }

    /// How keys and values are laid out.
    pub fn layout(&self) -> Layout {
        self.inner.layout
    }

    /// How much of the disk the backend's files take.
    ///
    /// # Errors
    /// If the backend fails.
    pub fn bytes_on_disk(&self) -> Result<u64> {
        Ok(self.inner.backend.bytes_on_disk()?)
    }

    /// Makes all that was written survive a power cut.
    ///
    /// # Errors
    /// If the backend fails.
    pub fn sync(&self) -> Result<()> {
        Ok(self.inner.backend.sync()?)
    }

    /// Puts what is still in memory and in journals where it belongs.
    ///
    /// # Errors
    /// If the backend fails.
    pub fn flush(&self) -> Result<()> {
        Ok(self.inner.backend.flush()?)
    }

    /// Rewrites the files so that they are as small, and reads as fast, as may be.
    ///
    /// # Errors
    /// If the backend fails.
    pub fn compact(&self) -> Result<()> {
        Ok(self.inner.backend.compact()?)
    }

    /// Copies all pairs and mistakes, as they are at one moment, into a new directory, which
    /// can be opened like this one: that is tried, and all of it compared. Reads and writes go
    /// on meanwhile. The filter of the copy is built when that is opened.
    ///
    /// # Errors
    /// If the backend fails; there is no copy then.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<()> {
        Ok(self.inner.backend.backup(&to.as_ref().join(self.inner.data))?)
    }

    /// Saves the filter to a file, from which
    /// [others](twiceshy::Concurrent) can read it.
    ///
    /// # Errors
    /// [`StoreError::Unready`] until all shards of the filter are built, as
    /// [`wait_until_ready`](Self::wait_until_ready) tells; or if the file can't be written.
    pub fn save_filter(&self, path: impl AsRef<Path>) -> Result<()> {
        if !self.inner.is_ready() {
            return Err(StoreError::Unready);
        }
        Ok(self.inner.front.filter.save(path.as_ref())?)
    }
}

impl<'a, B: Backend, F: Shard> IntoIterator for &'a GuardedStore<B, F> {
    type Item = Result<(Bytes, Bytes)>;
    type IntoIter = Pairs<'a>;

    fn into_iter(self) -> Pairs<'a> {
        self.iter()
    }
}
