//! What survives: the saved filter, or else what it is built from.

use super::{GuardedStore, Inner, Progress};
use crate::backend::{Backend, Batch, Bytes, Keyspace, Unbounded};
use crate::census::Census;
use crate::error::{Result, StoreError};
use crate::layout::{self, Layout};
use std::cell::Cell;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Builder, JoinHandle};
use twiceshy::{Shard, Snapshot};

/// The name of a thread that builds the filter again.
const THREAD: &str = "twiceshy-rebuild";

thread_local! {
    /// The address of the store whose filter this thread builds.
    static REBUILDS: Cell<usize> = const { Cell::new(0) };
}

/// How many of them there are: a store has something else to do, too.
fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(4)
}

type OnProgress = Option<Arc<dyn Fn(Progress) + Send + Sync>>;

impl<B: Backend, F: Shard> GuardedStore<B, F> {
    /// Waits until all of the filter answers.
    ///
    /// # Errors
    /// If it couldn't be built; the store can be used all the same, without it. Within the callback
    /// that is told of the [progress](super::Options::on_progress), which can't wait for itself, this is
    /// always [`Unready`](StoreError::Unready).
    ///
    /// # Panics
    /// If what was to be told of the [progress](super::Options::on_progress) did.
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
            None if self.inner.is_ready() => Ok(()),
            None => Err(StoreError::Unready),
        }
    }

    /// Builds the filter again from what is in the backend, shard by shard, while the store is
    /// used: clears ghosts, and gives remainders the bits back that growing took. In the split
    /// layout it looks for each key in the reverse map, and the other way round, which takes
    /// longest.
    ///
    /// # Errors
    /// If the backend fails, or if there is no memory; nothing is lost then.
    pub fn scrub(&self) -> Result<()> {
        // Otherwise the filter that was saved would be back after closing.
        self.inner.saved.dirty(&self.inner.backend)?;
        if self.inner.layout == Layout::Split {
            self.inner.reconcile()?;
        }
        let front = &self.inner.front;
        for shard in 0..front.filter.shards() {
            front.rebuild(&*self.inner, shard, 0)?;
        }
        front.set_complete(true);
        Ok(())
    }

    /// Closes the store: syncs the backend, and saves the filter, so that the next open is quick.
    /// If the filter is still being built, `close` waits for that; dropping the store doesn't, and
    /// saves the filter only if it is complete.
    ///
    /// # Errors
    /// [`StoreError::FilterNotSaved`] if all data is safe and only the filter could not be saved.
    /// If the backend can't be synced, its error.
    pub fn close(mut self) -> Result<()> {
        self.finish()
    }

    fn finish(&mut self) -> Result<()> {
        if let Some(rebuilding) = self.rebuilding.take() {
            // The one who is told of the progress may be the last who has the store, and would
            // wait for himself.
            if !self.inner.is_rebuilt_here() {
                // If it panicked, shards aren't ready, and nothing is saved.
                let _ = rebuilding.join();
            }
        }
        self.inner.close()
    }
}

impl<B: Backend, F: Shard> Inner<B, F> {
    pub(super) fn load_mistakes(&self) -> Result<()> {
        let keys = self.backend.range(Keyspace::Mistakes, (Unbounded, Unbounded));
        // What no store has written is no mistake.
        let mistake =
            |pair: Result<_, _>| pair.map(|(key, _): (Bytes, _)| layout::mistake(&key)).transpose();
        let forgotten = self.front.load_mistakes(keys.filter_map(mistake))?;
        let mut batch = Batch::new();
        for mistake in forgotten {
            batch.remove(Keyspace::Mistakes, layout::mistake_key(mistake));
        }
        // The saved filter, if any, has them repaired, and is as good as before.
        if batch.is_empty() { Ok(()) } else { Ok(self.backend.write(&batch, self.durability)?) }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Returns whether the current thread is one of those that build the filter.
    fn is_rebuilt_here(&self) -> bool {
        REBUILDS.get() == self.address()
    }

    /// Builds all shards, in other threads.
    pub(super) fn rebuild_behind(self: &Arc<Self>, progress: OnProgress) -> Result<JoinHandle<()>> {
        let inner = Arc::clone(self);
        let spawned = Builder::new().name(THREAD.into()).spawn(move || {
            if let Err(error) = inner.rebuild_all(progress.as_deref()) {
                let mut slot = inner.rebuild_error.lock().unwrap_or_else(PoisonError::into_inner);
                *slot = Some(error);
            }
        });
        spawned.map_err(StoreError::Thread)
    }

    /// By several threads, because reading takes longest, and each shard is read by itself. One of
    /// them takes the census of the keys first, if the shards are to have the same.
    fn rebuild_all(&self, progress: Option<&(dyn Fn(Progress) + Send + Sync)>) -> Result<()> {
        let shards = self.front.filter.shards();
        let next = AtomicUsize::new(0);
        let ready = Mutex::new((0, Census::default()));
        let is_closing = || self.is_closing.load(Ordering::Relaxed);
        let build = || -> Result<()> {
            REBUILDS.set(self.address());
            while !is_closing() {
                let shard = next.fetch_add(1, Ordering::Relaxed);
                if shard >= shards {
                    break;
                }
                let members = self.front.rebuild(self, shard, 0)?;
                let mut ready = ready.lock().unwrap_or_else(PoisonError::into_inner);
                *ready = (ready.0 + 1, ready.1 + members);
                if let Some(progress) = progress {
                    progress(Progress { ready: ready.0, shards, members: ready.1.members });
                }
            }
            Ok(())
        };
        let is_complete = self.front.is_complete();
        let keys = thread::scope(|scope| -> Result<Option<Census>> {
            // Where there can't be more threads, this one does it all.
            let spawn = |_| Builder::new().name(THREAD.into()).spawn_scoped(scope, build).ok();
            let others: Vec<_> = (1..threads()).filter_map(spawn).collect();
            let keys = if is_complete { Ok(None) } else { self.count_keys().map(Some) };
            let mut rebuilt = build();
            for other in others {
                rebuilt = rebuilt.and(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
            rebuilt.and(keys)
        })?;
        let (_, members) = ready.into_inner().unwrap_or_else(PoisonError::into_inner);
        if is_complete || is_closing() {
            Ok(())
        } else if keys == Some(members) {
            self.front.set_complete(true);
            Ok(())
        } else {
            self.reconcile()?;
            // What was only in the reverse map is in the filter, too.
            for shard in (0..shards).filter(|&shard| self.front.has_ghosts(shard)) {
                self.front.rebuild(self, shard, 0)?;
            }
            self.front.set_complete(!is_closing());
            Ok(())
        }
    }

    /// Whether all of the filter answers.
    pub(super) fn is_ready(&self) -> bool {
        self.front.is_all_ready() && self.front.is_complete()
    }

    fn close(&self) -> Result<()> {
        let save = |file: &Path| self.front.filter.save(file);
        self.saved.close(&self.backend, self.front.is_exact(), save)
    }
}

impl<B: Backend, F: Shard> Drop for GuardedStore<B, F> {
    /// Closes the store as [`close`](Self::close) does, but ignores errors. If the filter is being
    /// built, `drop` waits for the current shard only, and saves nothing.
    fn drop(&mut self) {
        self.inner.is_closing.store(true, Ordering::Relaxed);
        let _ = self.finish();
    }
}
