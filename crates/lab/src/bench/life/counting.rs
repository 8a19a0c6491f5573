//! A backend that counts the members that are read from it, and how often each shard is listed.

use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use twiceshy_store::backend::{Bounds, Result, Scan};
use twiceshy_store::{Backend, Bytes, Keyspace, forward_backend};

/// A backend that counts the members that scans read. It counts two kinds of scans separately:
/// *listings* read a whole shard to rebuild it, and other scans read the *suspects* of a repair. A
/// scan is a listing if it covers at least half of the hashes of a shard.
pub(crate) struct Counting {
    inner: Arc<dyn Backend>,
    /// Number of shards of the store, or the largest possible number if it isn't known yet.
    shards: AtomicUsize,
    listed: AtomicU64,
    suspects: AtomicU64,
    /// Number of listings in progress.
    listings: AtomicUsize,
    /// Number of listings of each shard.
    of_shards: Box<[AtomicU64]>,
}

/// The number of members that were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MembersRead {
    /// Members that were read to rebuild shards.
    pub(super) listed: u64,
    /// Members that were read to repair mistakes, and to insert members near repaired mistakes.
    pub(super) suspects: u64,
}

impl MembersRead {
    pub(super) fn since(self, before: Self) -> Self {
        Self { listed: self.listed - before.listed, suspects: self.suspects - before.suspects }
    }
}

/// The maximum number of shards of a store.
const MOST_SHARDS: usize = 4096;

impl Counting {
    pub(crate) fn new(inner: Arc<dyn Backend>) -> Self {
        Self {
            inner,
            shards: AtomicUsize::new(MOST_SHARDS),
            listed: AtomicU64::new(0),
            suspects: AtomicU64::new(0),
            listings: AtomicUsize::new(0),
            of_shards: (0..MOST_SHARDS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Sets the number of shards. It determines how many hashes a listing covers.
    pub(crate) fn set_shards(&self, shards: usize) {
        self.shards.store(shards, Ordering::Relaxed);
    }

    pub(super) fn members_read(&self) -> MembersRead {
        MembersRead {
            listed: self.listed.load(Ordering::Relaxed),
            suspects: self.suspects.load(Ordering::Relaxed),
        }
    }

    /// Returns whether a shard is being listed.
    pub(super) fn is_listing(&self) -> bool {
        self.listings.load(Ordering::Acquire) > 0
    }

    /// Returns how often each shard was listed, since the number of shards was set.
    pub(crate) fn listings_of_shards(&self) -> Vec<u64> {
        let shards = &self.of_shards[..self.shards.load(Ordering::Relaxed)];
        shards.iter().map(|listings| listings.load(Ordering::Relaxed)).collect()
    }

    /// Returns the number of pairs in a keyspace.
    pub(super) fn pairs(&self, space: Keyspace) -> u64 {
        self.inner.range(space, (Unbounded, Unbounded)).count() as u64
    }

    /// Returns the size of the files. If there are no files, returns the size of all keys and
    /// values.
    pub(super) fn data_bytes(&self) -> u64 {
        match self.inner.bytes_on_disk().expect("a disk that can be read") {
            0 => Keyspace::ALL.into_iter().map(|space| self.pair_bytes(space)).sum(),
            bytes => bytes,
        }
    }

    fn pair_bytes(&self, space: Keyspace) -> u64 {
        let pairs = self.inner.range(space, (Unbounded, Unbounded));
        let pairs = pairs.map(|pair| pair.expect("a backend that can be read"));
        pairs.map(|(key, value)| (key.len() + value.len()) as u64).sum()
    }

    /// Returns the shard in which a scan begins, if the scan covers at least half a shard.
    fn listed_shard(&self, (first, end): Bounds<'_>) -> Option<usize> {
        const ALL: u64 = 1 << 32;
        let start = match first {
            Included(key) | Excluded(key) => place(key),
            Unbounded => 0,
        };
        let end = match end {
            Included(key) | Excluded(key) => place(key),
            Unbounded => ALL,
        };
        let shards = self.shards.load(Ordering::Relaxed) as u64;
        let is_listed = (end - start.min(end)) * 2 * shards >= ALL;
        is_listed.then_some((start * shards / ALL) as usize)
    }
}

/// Returns the first 4 bytes of a member's hash, with which its key in the backend begins.
fn place(key: &[u8]) -> u64 {
    key.first_chunk().map_or(0, |&prefix| u64::from(u32::from_be_bytes(prefix)))
}

/// A scan of members.
struct CountedScan<'a> {
    scan: Scan<'a>,
    backend: &'a Counting,
    is_listing: bool,
    /// Number of members read.
    read: u64,
}

impl Iterator for CountedScan<'_> {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.scan.next().inspect(|_| self.read += 1)
    }
}

impl DoubleEndedIterator for CountedScan<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.scan.next_back().inspect(|_| self.read += 1)
    }
}

impl Drop for CountedScan<'_> {
    fn drop(&mut self) {
        if self.is_listing {
            self.backend.listed.fetch_add(self.read, Ordering::Relaxed);
            self.backend.listings.fetch_sub(1, Ordering::Release);
        } else {
            self.backend.suspects.fetch_add(self.read, Ordering::Relaxed);
        }
    }
}

impl Backend for Counting {
    forward_backend!(inner: claim get write sync flush compact bytes_on_disk backup);

    fn range(&self, space: Keyspace, bounds: Bounds<'_>) -> Scan<'_> {
        if space != Keyspace::Members {
            return self.inner.range(space, bounds);
        }
        let listed = self.listed_shard(bounds);
        let is_listing = listed.is_some();
        self.listings.fetch_add(usize::from(is_listing), Ordering::AcqRel);
        if let Some(shard) = listed {
            self.of_shards[shard].fetch_add(1, Ordering::Relaxed);
        }
        let scan = self.inner.range(space, bounds);
        Box::new(CountedScan { scan, backend: self, is_listing, read: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twiceshy_store::{Batch, Durability, MemoryBackend};

    #[test]
    fn scans_of_whole_shards_are_counted_as_listings_and_others_as_suspects() {
        let backend = Counting::new(Arc::new(MemoryBackend::new()));
        backend.set_shards(4);
        let mut batch = Batch::new();
        for member in 0..8_u32 {
            batch.insert(Keyspace::Members, (member << 27).to_be_bytes(), b"1");
        }
        batch.insert(Keyspace::Mistakes, b"mistake", b"");
        backend.write(&batch, Durability::Buffered).unwrap();
        assert_eq!(backend.data_bytes(), 8 * 5 + 7);
        assert_eq!(backend.pairs(Keyspace::Mistakes), 1);

        let scan = |first: u32, end: Option<u32>| {
            let (first, end) = (first.to_be_bytes(), end.map(u32::to_be_bytes));
            let end = end.as_ref().map_or(Unbounded, |end| Excluded(&end[..]));
            let pairs = backend.range(Keyspace::Members, (Included(&first[..]), end));
            let is_listing = backend.is_listing();
            (pairs.count(), is_listing)
        };
        assert_eq!(scan(0, Some(1 << 30)), (8, true));
        assert_eq!(scan(3 << 30, None), (0, true));
        assert_eq!(scan(1 << 27, Some(3 << 27)), (2, false));
        assert_eq!(backend.members_read(), MembersRead { listed: 8, suspects: 2 });
        assert!(!backend.is_listing());
        assert_eq!(backend.listings_of_shards(), [1, 0, 0, 1]);
    }
}
