//! What lists tell of themselves, and their upkeep.

use super::{List, ListStore};
use crate::backend::Backend;
use crate::error::{Result, StoreError};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use twiceshy::{Hash, Snapshot};

/// What lists hold, what was done since they were opened, and what the filter is like.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ListStatistics {
    /// Keys of the yes list.
    pub yes: u64,
    /// Keys of the no list.
    pub no: u64,
    /// Keys asked for, all answered from memory.
    pub lookups: u64,
    /// No keys that were repaired when they were added, or when a yes key was.
    pub repairs: u64,
    /// Ghosts that failed writes may have left in the filter: unlisted keys, answered "yes".
    pub ghosts_left: u64,
    /// Ghosts that repairs have cleared.
    pub ghosts_cleared: u64,
    /// Point reads of the backend, to add and to remove.
    pub backend_gets: u64,
    /// Range scans of the backend.
    pub backend_scans: u64,
    /// Bytes of memory of the filter.
    pub filter_bytes: u64,
    /// Bytes of memory of the no list; the yes list is on the disk alone.
    pub list_bytes: u64,
    /// Slots of the filter in use, as a share of all.
    pub load: f64,
    /// The probability that an unlisted key is answered "yes", at most.
    pub expected_rate: f64,
}

impl<B: Backend> ListStore<B> {
    /// What the lists hold, and what was done since they were opened.
    pub fn stats(&self) -> ListStatistics {
        let counted = self.front.statistics();
        ListStatistics {
            yes: self.len(List::Yes),
            no: self.len(List::No),
            lookups: counted.answered_from_memory,
            repairs: counted.repairs,
            ghosts_left: counted.ghosts_left,
            ghosts_cleared: counted.ghosts_cleared,
            backend_gets: counted.backend_gets,
            backend_scans: counted.backend_scans,
            filter_bytes: counted.filter_bytes,
            list_bytes: self.front.mistake_bytes(),
            load: counted.load,
            expected_rate: self.front.filter.statistics().expected_rate,
        }
    }

    /// Checks all of it: that the filter keeps its invariants, that it is right about each key on the
    /// disk, and that no key is on both lists. Nothing is added or removed meanwhile; lookups go on.
    /// What a write has added that failed is not listed before it is opened again.
    ///
    /// # Errors
    /// [`StoreError::Wrong`] says what is wrong; or if the backend fails.
    pub fn verify(&self) -> Result<()> {
        let wrong = |what: String| Err(StoreError::Wrong(what));
        let locked = self.front.lock_all();
        let filter = &self.front.filter;
        if let Err(invalid) = filter.validate() {
            return wrong(invalid.to_string());
        }
        for entry in self.entries(List::Yes) {
            let (hash, key) = entry?;
            if !filter.contains(hash) {
                return wrong(format!(
                    "{} is on the yes list, and answered no",
                    key.escape_ascii()
                ));
            }
            if locked.has_mistake(hash) {
                return wrong(format!("{} is on both lists", key.escape_ascii()));
            }
        }
        let is_doubtful = self.saved.is_doubtful();
        let mut no = 0;
        for entry in self.entries(List::No) {
            let (hash, key) = entry?;
            no += 1;
            if filter.contains(hash) && (locked.has_mistake(hash) || !is_doubtful) {
                return wrong(format!(
                    "{} is on the no list, and answered yes",
                    key.escape_ascii()
                ));
            }
            if !locked.has_mistake(hash) && !is_doubtful {
                return wrong(format!("{} of the no list is forgotten", key.escape_ascii()));
            }
        }
        let kept = locked.mistakes(&(Hash::MIN..=Hash::MAX)).len();
        if kept != no && !is_doubtful {
            return wrong(format!("{kept} no keys are remembered, and {no} are on the disk"));
        }
        Ok(())
    }

    /// Builds the filter again from the lists, shard by shard, while it is used: clears ghosts.
    ///
    /// # Errors
    /// If the backend fails, or if there is no memory; nothing is lost then.
    pub fn scrub(&self) -> Result<()> {
        // Otherwise the filter that was saved would be back after closing.
        self.saved.dirty(&self.backend)?;
        self.build()
    }

    /// Builds all shards, by several threads, because reading takes longest.
    pub(super) fn build(&self) -> Result<()> {
        let next = AtomicUsize::new(0);
        let shards = self.front.filter.shards();
        let work = || -> Result<()> {
            loop {
                let shard = next.fetch_add(1, Ordering::Relaxed);
                if shard >= shards {
                    return Ok(());
                }
                self.front.rebuild(self, shard, 0)?;
            }
        };
        let threads = thread::available_parallelism().map_or(1, usize::from).min(4);
        thread::scope(|scope| {
            // Where there can't be more threads, this one does it all.
            let spawn = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
            let others: Vec<_> = (1..threads).filter_map(spawn).collect();
            let mut built = work();
            for other in others {
                let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                built = built.and(other);
            }
            built
        })
    }

    /// How much of the disk the backend's files take.
    ///
    /// # Errors
    /// If the backend fails.
    pub fn bytes_on_disk(&self) -> Result<u64> {
        Ok(self.backend.bytes_on_disk()?)
    }

    /// Makes all that was written survive a power cut.
    ///
    /// # Errors
    /// If the backend fails.
    pub fn sync(&self) -> Result<()> {
        Ok(self.backend.sync()?)
    }

    /// Puts what is still in memory and in journals where it belongs.
    ///
    /// # Errors
    /// If the backend fails.
    pub fn flush(&self) -> Result<()> {
        Ok(self.backend.flush()?)
    }

    /// Rewrites the files so that they are as small, and reads as fast, as may be.
    ///
    /// # Errors
    /// If the backend fails.
    pub fn compact(&self) -> Result<()> {
        Ok(self.backend.compact()?)
    }

    /// Copies both lists, as they are at one moment, into a new directory, which can be opened like
    /// this one: that is tried, and all of it compared. Reads and writes go on meanwhile.
    ///
    /// # Errors
    /// If the backend fails; there is no copy then.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<()> {
        Ok(self.backend.backup(&to.as_ref().join(self.data))?)
    }

    /// Closes the lists: syncs the backend, and saves the filter, so that the next open is quick.
    /// Dropping the lists does the same, but ignores errors.
    ///
    /// # Errors
    /// [`StoreError::FilterNotSaved`] if both lists are safe and only the filter could not be saved.
    /// If the backend can't be synced, its error.
    pub fn close(self) -> Result<()> {
        self.finish()
    }

    fn finish(&self) -> Result<()> {
        let filter = &self.front.filter;
        self.saved.close(&self.backend, self.front.is_exact(), |file| filter.save(file))
    }
}

impl<B: Backend> Drop for ListStore<B> {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}
