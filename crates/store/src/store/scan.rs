//! Iterating over pairs, and saving the filter.

use super::Store;
use crate::backend::{Backend, Bounds, Bytes, Keyspace, Unbounded};
use crate::error::{Result, StoreError};
use crate::kind::Layout;
use crate::layout;
use std::path::Path;
use twiceshy::{Snapshot, concurrent::Shard};

/// An iterator over pairs, from either end.
pub type Pairs<'a> = Box<dyn DoubleEndedIterator<Item = Result<(Bytes, Bytes)>> + Send + 'a>;

impl<B: Backend, F: Shard> Store<B, F> {
    /// Returns all pairs: in key order if the layout is split, and otherwise in hash order.
    pub fn iter(&self) -> Pairs<'_> {
        let backend = &self.inner.storage.backend;
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

    /// Returns the pairs whose keys are within bounds, in order.
    ///
    /// # Errors
    /// [`StoreError::Unordered`] unless the layout is split.
    pub fn range(&self, bounds: Bounds<'_>) -> Result<Pairs<'_>> {
        self.check_order()?;
        let pairs = self.inner.storage.backend.range(Keyspace::Keys, bounds);
        Ok(Box::new(pairs.map(|pair| Ok(pair?))))
    }

    /// Returns the pairs whose keys begin with these bytes, in order.
    ///
    /// # Errors
    /// [`StoreError::Unordered`] unless the layout is split.
    pub fn prefix(&self, prefix: &[u8]) -> Result<Pairs<'_>> {
        self.check_order()?;
        let pairs = self.inner.storage.backend.prefix(Keyspace::Keys, prefix);
        Ok(Box::new(pairs.map(|pair| Ok(pair?))))
    }

    fn check_order(&self) -> Result<()> {
        match self.inner.layout {
            Layout::Split => Ok(()),
            Layout::Merged => Err(StoreError::Unordered),
        }
    }

    /// Returns how keys and values are laid out.
    pub fn layout(&self) -> Layout {
        self.inner.layout
    }

    /// Saves the filter to a file, for [tests](crate::testing::save_filter).
    pub(crate) fn save_filter(&self, path: &Path) -> Result<()> {
        if !self.inner.maintained.is_all_ready() {
            return Err(StoreError::Unready);
        }
        Ok(self.inner.maintained.filter.save(path)?)
    }
}

impl<'a, B: Backend, F: Shard> IntoIterator for &'a Store<B, F> {
    type Item = Result<(Bytes, Bytes)>;
    type IntoIter = Pairs<'a>;

    fn into_iter(self) -> Pairs<'a> {
        self.iter()
    }
}
