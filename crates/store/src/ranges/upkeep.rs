//! What a store tells of itself, and the upkeep of the backend.

use super::{RangeStore, StoredKey};
use crate::backend::Backend;
use crate::error::Result;
use crate::store::Statistics;
use std::path::Path;
use std::sync::atomic::Ordering;
use twiceshy::{KeyedSnapshot, SecretMode};

impl<K: StoredKey, B: Backend> RangeStore<K, B> {
    /// What the store has done since it was opened, and what its filter is like. Whoever asks for a
    /// range looks up one thing, as does who asks for a key.
    pub fn stats(&self) -> Statistics {
        let (members, filter_bytes, load) = {
            let filter = &self.filter().filter;
            (filter.len() as u64, filter.memory_usage(), filter.load())
        };
        let mistakes = self.mistakes.load(Ordering::Relaxed) as u64;
        Statistics { mistakes, members, filter_bytes, load, ..self.counters.statistics() }
    }

    /// The length of the longest range that the rate of false positives holds for.
    pub fn longest_range(&self) -> u64 {
        self.partitions.longest_range()
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

    /// Copies all pairs and mistakes, as they are at one moment, into a new directory, which can be
    /// opened like this one: that is tried, and all of it compared. Reads and writes go on
    /// meanwhile.
    ///
    /// # Errors
    /// If the backend fails; there is no copy then.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<()> {
        Ok(self.backend.backup(&to.as_ref().join(self.data))?)
    }

    /// Checks every invariant of the filter; for tests and after suspicion. Takes time in
    /// proportion to the filter's size.
    ///
    /// # Errors
    /// Says which invariant is broken.
    pub fn validate(&self) -> Result<(), twiceshy::Invalid> {
        self.filter().filter.validate()
    }

    /// Closes the store: syncs the backend, and saves the filter, so that the next open is quick.
    /// Dropping the store does the same, but ignores errors.
    ///
    /// # Errors
    /// [`FilterNotSaved`](crate::StoreError::FilterNotSaved) if all data is safe and only the filter
    /// could not be saved. If the backend can't be synced, its error.
    pub fn close(self) -> Result<()> {
        self.finish()
    }

    fn finish(&self) -> Result<()> {
        // A panic may have left the filter half changed.
        let is_exact = self.is_ready && !self.stripes.is_poisoned();
        self.saved.close(&self.backend, is_exact, |file| {
            self.filter().filter.save(file, SecretMode::Omit)
        })
    }
}

impl<K: StoredKey, B: Backend> Drop for RangeStore<K, B> {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}
