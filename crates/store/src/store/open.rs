//! Opening a store.

use super::{Inner, Store};
use crate::backend::Backend;
use crate::error::Result;
use crate::kind::{Kind, Layout};
use crate::maintained::MaintainedFilter;
use crate::options::{OpenOptions, Place};
use crate::sizing::Sizing;
use crate::storage::{Opened, Opening};
use crate::sync::Mutex;
use crate::sync::atomic::AtomicBool;
use std::path::Path;
use std::sync::Arc;
use twiceshy::{Concurrent, Snapshot, concurrent::Shard, hash::KeyedHasher};

#[cfg(feature = "fjall")]
impl Store<crate::FjallBackend> {
    /// Opens the store in a directory with the default options, or creates it.
    ///
    /// # Errors
    /// Returns the same errors as [`OpenOptions::open`].
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("data");
    /// use twiceshy_store::Store;
    /// let store = Store::open(&path)?;
    /// store.put(b"alice", b"1")?;
    /// assert_eq!(store.get(b"mallory")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(directory: impl AsRef<Path>) -> Result<Self> {
        OpenOptions::new().open(directory)
    }
}

impl OpenOptions {
    /// Opens the [`Store`] in a directory, or creates it, with the default backend. A new store needs a
    /// new or empty directory.
    ///
    /// # Errors
    /// If the store is open already, is of a different kind, or can't be read or written; or
    /// [`StoreError::Foreign`](crate::StoreError::Foreign) if the directory holds other files.
    #[cfg(feature = "fjall")]
    pub fn open(&self, directory: impl AsRef<Path>) -> Result<Store<crate::FjallBackend>> {
        let check =
            |sizing: &Sizing| Ok(sizing.build_empty::<twiceshy::QuotientFilter>().map(drop)?);
        self.open_at(self.default_place(directory.as_ref(), check)?)
    }

    /// Opens the [`Store`] in a backend, or creates it. The filter is saved in `directory`, which no other
    /// store may use. Without a directory, each open rebuilds the filter.
    ///
    /// # Errors
    /// If the backend fails, has another store open, or holds a store of a different kind.
    pub fn open_with<B: Backend, F: Shard>(
        &self,
        backend: B,
        directory: Option<&Path>,
    ) -> Result<Store<B, F>> {
        self.open_at(Place::new(backend, directory))
    }

    fn open_at<B: Backend, F: Shard>(&self, place: Place<'_, B>) -> Result<Store<B, F>> {
        let opening = Opening::begin(self, place)?;
        let empty = opening.check(Sizing::build_empty::<F>)?;
        let identity = opening.identify(Kind::Points(self.layout.unwrap_or_default()))?;
        let layout = identity.layout(self.layout)?;
        let restore = |file: &Path| Concurrent::<F>::open(file);
        // If the saved filter exceeds the memory limit, build a new one.
        let memory = opening.sizing.memory.unwrap_or(u64::MAX);
        let is_wanted = |filter: &Concurrent<F>| filter.stats().memory <= memory;
        let Opened { storage, filter, is_restored, sizing } =
            opening.finish(empty, Sizing::build_empty, restore, is_wanted)?;
        // A new store has no members, so its empty filter is ready.
        let is_ready = is_restored || identity.is_new;
        let sizes = sizing.shard_sizes::<F>(filter.shards(), sizing.remainder_bits::<F>()?);
        let maintained =
            MaintainedFilter::new(filter, is_ready, sizes, self.found_mistakes(self.mistakes_kept));
        // In the merged layout, the listing of members is always complete. In the split layout, it
        // is known to be complete only if the filter was saved or the store is new.
        maintained.set_complete(is_ready || layout == Layout::Merged);
        let inner = Inner {
            storage,
            maintained,
            hasher: KeyedHasher::new(&identity.secret),
            layout,
            sorted_at_once: self.sorted_at_once(),
            is_closing: AtomicBool::new(false),
            rebuild_error: Mutex::new(None),
        };
        let inner = Arc::new(inner);
        if is_ready {
            // A shard may have been due for a rebuild when the filter was saved.
            inner.maintained.review_all();
        }
        let has_thread = self.background_share > 0.0;
        if !has_thread {
            // Count before another thread can own the store. Counting reads the backend, which may
            // panic. Then the other thread would keep the backend claimed.
            inner.count_records();
        }
        let rebuilding = (!is_ready).then(|| inner.start_rebuild(self.progress.clone()));
        let mut store = Store { inner, rebuilding: rebuilding.transpose()?, tending: None };
        if has_thread {
            store.tending = store.inner.start_upkeep(self.background_share);
        }
        Ok(store)
    }
}
