//! Rebuilding, validating and closing.

use super::{Inner, Store};
use crate::backend::Backend;
use crate::census::Census;
use crate::error::{Result, StoreError};
use crate::kind::Layout;
use crate::maintained::{REBUILD_THREAD, UPKEEP_THREAD};
use crate::options::{OnProgress, Progress};
use crate::sync::Mutex;
use crate::sync::atomic::Ordering;
use crate::sync::thread::{Builder, JoinHandle};
use scopeguard::ScopeGuard;
use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::{Arc, PoisonError};
use std::thread::panicking;
use twiceshy::{Snapshot, concurrent::Shard};

crate::sync::thread_local! {
    /// The address of the store whose filter this thread rebuilds.
    static REBUILDS: Cell<usize> = const { Cell::new(0) };
}

impl<B: Backend, F: Shard> Store<B, F> {
    /// Waits until all shards of the filter are ready, and the records of mistakes are counted.
    ///
    /// # Errors
    /// If the filter couldn't be rebuilt. The store still works without it. Within the
    /// [progress](crate::OpenOptions::on_progress) callback, which can't wait for itself, this always returns
    /// [`Unready`](StoreError::Unready).
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
            None if self.inner.maintained.is_all_ready() => {
                self.inner.count_records();
                Ok(())
            }
            None => Err(StoreError::Unready),
        }
    }

    /// Rebuilds the filter from the data in the backend, shard by shard, while the store is in use: reads and
    /// writes don't wait. This clears ghosts. In the split layout, this first makes the two maps equal if they
    /// differ, which is the slowest step.
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

    /// Does the work of the background thread on the current thread: rebuilds all shards that have become
    /// too full or too empty. Returns their number. Call this now and then if the store has no
    /// [background thread](crate::OpenOptions::background_share).
    ///
    /// # Errors
    /// If the backend fails, or if there is no memory; nothing is lost then.
    ///
    /// ```
    /// # use twiceshy_store::{MemoryBackend, OpenOptions, Store};
    /// let options = OpenOptions::new().background_share(0.0);
    /// let store: Store<_> = options.open_with(MemoryBackend::new(), None)?;
    /// store.put_many((0..50_000_u32).map(|n| (n.to_be_bytes(), b"")))?;
    /// for n in 0..50_000_u32 {
    ///     store.delete(&n.to_be_bytes())?;
    /// }
    /// let before = store.stats().filter_bytes;
    /// store.tend()?;
    /// assert!(store.stats().filter_bytes < before / 2);
    /// # Ok::<(), twiceshy_store::StoreError>(())
    /// ```
    pub fn tend(&self) -> Result<usize> {
        self.inner.maintained.tend(&*self.inner)
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
            // If the progress callback owns the store, this is the rebuilding thread, which must
            // not wait for itself.
            if !self.inner.is_rebuilt_here() {
                // If the thread panicked, some shards aren't ready, and nothing is saved.
                let _ = rebuilding.join();
            }
        }
        let maintained = &self.inner.maintained;
        if let Some(tending) = self.tending.take() {
            // The thread finishes the shard that it is rebuilding. Other due shards are due again
            // at the next open.
            maintained.stop();
            // The thread catches panics, so joining it doesn't fail.
            let _ = tending.join();
        }
        // If this thread is panicking, the backend may be the cause, so don't rebuild from it.
        if self.inner.storage.may_save_filter() && !panicking() {
            // If a shard can't be rebuilt, nothing is saved.
            let _ = maintained.rebuild_without_ghosts(&*self.inner);
        }
        // Save the filter only if the records of its repairs are written.
        let has_records = maintained.flush_records(&*self.inner).is_ok();
        let is_exact = maintained.is_exact() && has_records;
        let is_changed = maintained.is_changed();
        self.inner.storage.close(is_exact, is_changed, |file| maintained.filter.save(file))
    }
}

impl<B: Backend, F: Shard> Inner<B, F> {
    /// Starts the background thread. If no thread can be started, callers do its work.
    pub(super) fn start_upkeep(self: &Arc<Self>, share: f64) -> Option<JoinHandle<()>> {
        let inner = Arc::clone(self);
        self.maintained.announce_thread();
        let tend = move || inner.maintained.tend_in_background(&*inner, share.min(1.0));
        let spawned = Builder::new().name(UPKEEP_THREAD.into()).spawn(tend);
        if spawned.is_err() {
            self.maintained.renounce_thread();
            self.count_records();
        }
        spawned.ok()
    }

    /// Counts the records of mistakes. If that fails, the limit on their number isn't enforced.
    pub(super) fn count_records(&self) {
        let _ = self.maintained.count_records(self);
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Returns whether the current thread is one of those that rebuild the filter.
    fn is_rebuilt_here(&self) -> bool {
        REBUILDS.with(Cell::get) == self.address()
    }

    /// Starts to rebuild all shards in other threads.
    pub(super) fn start_rebuild(
        self: &Arc<Self>,
        progress: Option<OnProgress>,
    ) -> Result<JoinHandle<()>> {
        let inner = Arc::clone(self);
        let spawned = Builder::new().name(REBUILD_THREAD.into()).spawn(move || {
            // If the rebuild fails, or if the backend or the callback panics, the rest is done
            // later.
            let unfinished = scopeguard::guard((), |()| inner.maintained.recover_later());
            let rebuilt = inner.rebuild_at_open(progress.as_deref());
            if let Err(error) = rebuilt {
                let mut slot = inner.rebuild_error.lock().unwrap_or_else(PoisonError::into_inner);
                *slot = Some(error);
            } else {
                ScopeGuard::into_inner(unfinished);
            }
        });
        spawned.map_err(StoreError::Thread)
    }

    /// Rebuilds all shards. Unless the listing of members is known to be complete, compares it with the
    /// census of the keys, and if they differ, makes the two maps equal.
    fn rebuild_at_open(&self, progress: Option<&(dyn Fn(Progress) + Send + Sync)>) -> Result<()> {
        // Mark this thread as a rebuilder even if it rebuilds nothing, because dropping the callback may drop
        // the store.
        REBUILDS.with(|store| store.set(self.address()));
        let shards = self.maintained.filter.shards();
        let ready = Mutex::new((0, Census::default()));
        let on_shard = |members: Census| {
            REBUILDS.with(|store| store.set(self.address()));
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
            // The filter also holds members that were only in the reverse map. Rebuild the shards that hold
            // them.
            for shard in (0..shards).filter(|&shard| self.maintained.has_ghosts(shard)) {
                self.maintained.rebuild_shard(self, shard, 0)?;
            }
        }
        self.maintained.set_complete(!self.is_closing());
        Ok(())
    }
}

impl<B: Backend, F: Shard> Drop for Store<B, F> {
    /// [Closes](Self::close) the store, but ignores errors. If the filter is being rebuilt, `drop` waits only
    /// for the current shards, and saves nothing.
    fn drop(&mut self) {
        self.inner.is_closing.store(true, Ordering::Relaxed);
        let _ = self.finish();
    }
}
