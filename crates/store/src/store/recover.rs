//! Rebuilding, validating and closing.

use super::{Inner, Store};
use crate::backend::{Backend, Batch, Keyspace};
use crate::census::Census;
use crate::error::{Result, StoreError};
use crate::kind::Layout;
use crate::layout;
use crate::maintained::REBUILD_THREAD;
use crate::options::{OnProgress, Progress};
use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use twiceshy::{Hash, Snapshot, concurrent::Shard};

thread_local! {
    /// The address of the store whose filter this thread rebuilds.
    static REBUILDS: Cell<usize> = const { Cell::new(0) };
}

impl<B: Backend, F: Shard> Store<B, F> {
    /// Waits until the whole filter answers.
    ///
    /// # Errors
    /// If the filter couldn't be rebuilt. The store works without it all the same. Within the
    /// [progress](crate::OpenOptions::on_progress) callback, which can't wait for itself, this always
    /// returns [`Unready`](StoreError::Unready).
    ///
    /// # Panics
    /// If the [progress](crate::OpenOptions::on_progress) callback panicked.
    pub fn wait_until_ready(&mut self) -> Result<()> {
        if self.inner.is_rebuilt_here() {
            return Err(StoreError::Unready);
        }
        if let Some(Err(panic)) = self.rebuilding.take().map(JoinHandle::join) {
            resume_unwind(panic);
        }
        let error = self.inner.rebuild_error.lock().unwrap_or_else(PoisonError::into_inner).take();
        match error {
            Some(error) => Err(error),
            None if self.inner.maintained.is_all_ready() => Ok(()),
            None => Err(StoreError::Unready),
        }
    }

    /// Rebuilds the filter from the data in the backend, shard by shard, while the store is in use. This
    /// clears ghosts, and gives remainders back the bits that growth took. In the split layout, it first
    /// makes the two maps equal if they differ, which takes longest.
    ///
    /// # Errors
    /// If the backend fails, or if there is no memory; nothing is lost then.
    pub fn rebuild(&self) -> Result<()> {
        let inner = &*self.inner;
        // Without this, the next open would load the old filter.
        inner.storage.invalidate_saved()?;
        if inner.layout == Layout::Split {
            inner.reconcile()?;
        }
        inner.maintained.rebuild_all(inner, || Ok(()), || true, |_| ())?;
        inner.maintained.set_complete(true);
        Ok(())
    }

    /// Checks every invariant of the filter, and that the filter holds every key in the backend. In the
    /// split layout, it also compares the two maps. Lookups go on in the meantime. For tests, and for
    /// diagnosing suspected damage.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] says what is wrong. [`StoreError::Unready`] if the filter isn't
    /// [ready](Self::wait_until_ready). If the backend fails, its error.
    pub fn validate(&self) -> Result<()> {
        let inner = &*self.inner;
        if !inner.maintained.is_all_ready() {
            return Err(StoreError::Unready);
        }
        let mut fault = inner.maintained.find_fault(inner)?;
        if fault.is_none() && inner.layout == Layout::Split {
            fault = inner.find_difference()?.map(Into::into);
        }
        fault.map_or(Ok(()), |fault| Err(StoreError::Invalid(fault)))
    }

    pub(super) fn finish(&mut self) -> Result<()> {
        if let Some(rebuilding) = self.rebuilding.take() {
            // The progress callback may own the store, and would wait for itself.
            if !self.inner.is_rebuilt_here() {
                // If the thread panicked, some shards aren't ready, and nothing is saved.
                let _ = rebuilding.join();
            }
        }
        let maintained = &self.inner.maintained;
        self.inner.storage.close(maintained.is_exact(), |file| maintained.filter.save(file))
    }
}

impl<B: Backend, F: Shard> Inner<B, F> {
    pub(super) fn load_mistakes(&self) -> Result<()> {
        let kept = layout::mistakes(&self.storage.backend, &(Hash::MIN..=Hash::MAX));
        let forgotten = self.maintained.load_mistakes(kept)?;
        let mut batch = Batch::new();
        for mistake in forgotten {
            batch.remove(Keyspace::Mistakes, layout::mistake_key(mistake));
        }
        self.storage.forget_mistakes(&batch)
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Returns whether the current thread is one of those that rebuild the filter.
    fn is_rebuilt_here(&self) -> bool {
        REBUILDS.get() == self.address()
    }

    /// Starts to rebuild all shards in other threads.
    pub(super) fn start_rebuild(
        self: &Arc<Self>,
        progress: Option<OnProgress>,
    ) -> Result<JoinHandle<()>> {
        let inner = Arc::clone(self);
        let spawned = Builder::new().name(REBUILD_THREAD.into()).spawn(move || {
            if let Err(error) = inner.rebuild_at_open(progress.as_deref()) {
                let mut slot = inner.rebuild_error.lock().unwrap_or_else(PoisonError::into_inner);
                *slot = Some(error);
            }
        });
        spawned.map_err(StoreError::Thread)
    }

    /// Rebuilds all shards. Unless the listing of members is known to be complete, compares it with the
    /// census of the keys, and if they differ, makes the two maps equal.
    fn rebuild_at_open(&self, progress: Option<&(dyn Fn(Progress) + Send + Sync)>) -> Result<()> {
        // Mark this thread as a rebuilder even if it rebuilds nothing: dropping the callback may drop the
        // store.
        REBUILDS.set(self.address());
        let shards = self.maintained.filter.shards();
        let ready = Mutex::new((0, Census::default()));
        let on_shard = |members: Census| {
            REBUILDS.set(self.address());
            let mut ready = ready.lock().unwrap_or_else(PoisonError::into_inner);
            *ready = (ready.0 + 1, ready.1 + members);
            if let Some(progress) = progress {
                progress(Progress::new(ready.0, shards, ready.1.members));
            }
        };
        let is_complete = self.maintained.is_complete();
        let count = || if is_complete { Ok(None) } else { self.count_keys().map(Some) };
        let keys = self.maintained.rebuild_all(self, count, || !self.is_closing(), on_shard)?;
        let (_, members) = ready.into_inner().unwrap_or_else(PoisonError::into_inner);
        if is_complete || self.is_closing() {
            return Ok(());
        }
        if keys != Some(members) {
            self.reconcile()?;
            // The filter also holds members that were only in the reverse map.
            for shard in (0..shards).filter(|&shard| self.maintained.has_ghosts(shard)) {
                self.maintained.rebuild_shard(self, shard, 0)?;
            }
        }
        self.maintained.set_complete(!self.is_closing());
        Ok(())
    }
}

impl<B: Backend, F: Shard> Drop for Store<B, F> {
    /// Closes the store as [`close`](Self::close) does, but ignores errors. If the filter is being
    /// rebuilt, `drop` waits only for the current shards, and saves nothing.
    fn drop(&mut self) {
        self.inner.is_closing.store(true, Ordering::Relaxed);
        let _ = self.finish();
    }
}
