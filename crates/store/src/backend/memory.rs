//! A backend in memory.

use crate::sync::RwLock;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::path::Path;
use std::sync::PoisonError;

use super::bounds::is_empty;
use super::{
    Backend, BackendClaim, BackendError, Batch, Bounds, Bytes, Claims, Durability, Excluded,
    Keyspace, Result, Scan, Unbounded,
};

/// A backend in memory, whose data is lost when it is dropped.
#[derive(Debug, Default)]
pub struct MemoryBackend {
    spaces: RwLock<[BTreeMap<Bytes, Bytes>; Keyspace::ALL.len()]>,
    claims: Claims,
}

impl MemoryBackend {
    /// Returns an empty backend.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Backend for MemoryBackend {
    fn claim(&self) -> Result<BackendClaim> {
        self.claims.claim()
    }

    fn get(&self, space: Keyspace, key: &[u8]) -> Result<Option<Bytes>> {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        Ok(spaces[space as usize].get(key).cloned())
    }

    fn range(&self, space: Keyspace, bounds: Bounds<'_>) -> Scan<'_> {
        let owned = |bound: Bound<&[u8]>| bound.map(Bytes::from);
        Box::new(MemoryScan {
            backend: self,
            space,
            unread: (owned(bounds.0), owned(bounds.1)),
            front: VecDeque::new(),
            back: VecDeque::new(),
            chunk: FIRST_CHUNK,
            all_read: false,
        })
    }

    fn write(&self, batch: &Batch, _: Durability) -> Result<()> {
        batch.check()?;
        let mut spaces = self.spaces.write().unwrap_or_else(PoisonError::into_inner);
        for change in batch.iter() {
            let space = &mut spaces[change.space as usize];
            match change.value {
                Some(value) => space.insert(change.key.into(), value.into()),
                None => space.remove(change.key),
            };
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        Ok(())
    }

    fn bytes_on_disk(&self) -> Result<u64> {
        Ok(0)
    }

    /// Always fails, because there are no files.
    fn backup(&self, _: &Path) -> Result<()> {
        Err(BackendError::Unsupported { operation: "back up data that is only in memory" })
    }
}

/// The number of pairs in a scan's first chunk. Later chunks are larger, so that long scans take the lock
/// less often. No chunk takes longer than a few tens of microseconds, because a write waits for it, and
/// reads wait for the write.
const FIRST_CHUNK: usize = 16;
const LARGEST_CHUNK: usize = 128;

/// A scan that reads chunks from both ends, so that it doesn't hold the lock between two steps.
struct MemoryScan<'a> {
    backend: &'a MemoryBackend,
    space: Keyspace,
    unread: (Bound<Bytes>, Bound<Bytes>),
    /// Pairs that were read but not yet returned, before and after the unread pairs.
    front: VecDeque<(Bytes, Bytes)>,
    back: VecDeque<(Bytes, Bytes)>,
    chunk: usize,
    /// Whether all pairs have been read. From then on, each end of the scan also returns the pairs that the
    /// other end has read. Pairs added to the backend later are ignored, because they would be out of order.
    all_read: bool,
}

impl MemoryScan<'_> {
    fn read(&mut self, from_back: bool) {
        let bounds = (as_slice(&self.unread.0), as_slice(&self.unread.1));
        self.all_read |= is_empty(bounds);
        if self.all_read {
            return;
        }
        let spaces = self.backend.spaces.read().unwrap_or_else(PoisonError::into_inner);
        let range = spaces[self.space as usize].range::<[u8], _>(bounds);
        let copy = |(key, value): (&Bytes, &Bytes)| (key.clone(), value.clone());
        // One end is read only after all its pairs were returned.
        if from_back {
            for pair in range.rev().take(self.chunk).map(copy) {
                self.back.push_front(pair);
            }
            self.all_read = self.back.len() < self.chunk;
            if let Some((key, _)) = self.back.front() {
                self.unread.1 = Excluded(key.clone());
            }
        } else {
            self.front.extend(range.take(self.chunk).map(copy));
            self.all_read = self.front.len() < self.chunk;
            if let Some((key, _)) = self.front.back() {
                self.unread.0 = Excluded(key.clone());
            }
        }
        self.chunk = (self.chunk * 2).min(LARGEST_CHUNK);
    }
}

impl Iterator for MemoryScan<'_> {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.front.is_empty() {
            self.read(false);
        }
        self.front.pop_front().or_else(|| self.back.pop_front()).map(Ok)
    }
}

impl DoubleEndedIterator for MemoryScan<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.back.is_empty() {
            self.read(true);
        }
        self.back.pop_back().or_else(|| self.front.pop_back()).map(Ok)
    }
}

fn as_slice(bound: &Bound<Bytes>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(key) => Bound::Included(key),
        Excluded(key) => Excluded(key),
        Unbounded => Unbounded,
    }
}
