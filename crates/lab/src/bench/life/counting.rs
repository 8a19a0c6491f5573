//! A backend that counts the members that are read from it, and how often each shard is listed.

use std::ops::Bound::{Excluded, Included, Unbounded};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use twiceshy_store::backend::{Bounds, Result, Scan};
use twiceshy_store::{Backend, Bytes, Keyspace, forward_backend};

/// A backend that counts the members that scans read. It counts two kinds of scans separately:
/// *listings* read a shard to rebuild it, and other scans read the *suspects* of a repair.
///
/// A rebuild lists a large shard in parts of thousands of members, and a repair reads only a few
/// members. So a scan belongs to a listing if it covers at least half a shard or reads at least
/// [`LISTED`] members.
pub(crate) struct Counting {
    inner: Arc<dyn Backend>,
    /// Number of shards of the store, or the largest possible number if it isn't known yet.
    shards: AtomicUsize,
    listed: AtomicU64,
    suspects: AtomicU64,
    /// Number of scans in progress.
    scans: AtomicUsize,
    /// For each shard, the widths of all scans that belong to listings, together.
    listed_widths: Box<[AtomicU64]>,
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

/// The number of members from which on a scan that covers less than half a shard belongs to a
/// listing.
const LISTED: u64 = 256;

/// The width of a scan of all members.
const ALL: u64 = 1 << 32;

impl Counting {
    pub(crate) fn new(inner: Arc<dyn Backend>) -> Self {
        Self {
            inner,
            shards: AtomicUsize::new(MOST_SHARDS),
            listed: AtomicU64::new(0),
            suspects: AtomicU64::new(0),
            scans: AtomicUsize::new(0),
            listed_widths: (0..MOST_SHARDS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Sets the number of shards, and begins again to count their listings.
    pub(crate) fn set_shards(&self, shards: usize) {
        self.shards.store(shards, Ordering::Relaxed);
        self.listed_widths.iter().for_each(|width| width.store(0, Ordering::Relaxed));
    }

    pub(super) fn members_read(&self) -> MembersRead {
        MembersRead {
            listed: self.listed.load(Ordering::Relaxed),
            suspects: self.suspects.load(Ordering::Relaxed),
        }
    }

    /// Returns whether members are being read.
    pub(super) fn is_scanning(&self) -> bool {
        self.scans.load(Ordering::Acquire) > 0
    }

    /// Returns how often each shard was listed since the number of shards was set. A part of a
    /// listing counts in proportion to its width.
    pub(crate) fn listings_of_shards(&self) -> Vec<f64> {
        let shards = self.shards.load(Ordering::Relaxed);
        let listings =
            |width: &AtomicU64| width.load(Ordering::Relaxed) as f64 * shards as f64 / ALL as f64;
        self.listed_widths[..shards].iter().map(listings).collect()
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

    /// Counts a scan that has ended.
    fn count(&self, hashes: &Range<u64>, read: u64) {
        let shards = self.shards.load(Ordering::Relaxed) as u64;
        let width = hashes.end.saturating_sub(hashes.start);
        if width * 2 * shards < ALL && read < LISTED {
            self.suspects.fetch_add(read, Ordering::Relaxed);
        } else {
            let shard = (hashes.start * shards / ALL) as usize;
            self.listed_widths[shard].fetch_add(width, Ordering::Relaxed);
            self.listed.fetch_add(read, Ordering::Relaxed);
        }
    }
}

/// Returns the number of times that every shard was listed between two results of
/// [`Counting::listings_of_shards`].
pub(crate) fn least_listings(before: &[f64], after: &[f64]) -> u64 {
    /// Widths are rounded, so the parts of a listing may be slightly less than a shard together.
    const ROUNDING: f64 = 0.01;
    let listings = before.iter().zip(after).map(|(before, after)| after - before);
    (listings.fold(f64::INFINITY, f64::min) + ROUNDING) as u64
}

/// Returns the hashes that a scan covers, by their first 4 bytes.
fn hashes((first, end): Bounds<'_>) -> Range<u64> {
    let start = match first {
        Included(key) | Excluded(key) => place(key),
        Unbounded => 0,
    };
    let end = match end {
        Included(key) | Excluded(key) => place(key),
        Unbounded => ALL,
    };
    start..end
}

/// Returns the first 4 bytes of a member's hash, with which its key in the backend begins.
fn place(key: &[u8]) -> u64 {
    key.first_chunk().map_or(0, |&prefix| u64::from(u32::from_be_bytes(prefix)))
}

/// A scan of members.
struct CountedScan<'a> {
    scan: Scan<'a>,
    backend: &'a Counting,
    hashes: Range<u64>,
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
        self.backend.count(&self.hashes, self.read);
        self.backend.scans.fetch_sub(1, Ordering::Release);
    }
}

impl Backend for Counting {
    forward_backend!(inner: claim get write sync flush compact bytes_on_disk backup);

    fn range(&self, space: Keyspace, bounds: Bounds<'_>) -> Scan<'_> {
        if space != Keyspace::Members {
            return self.inner.range(space, bounds);
        }
        self.scans.fetch_add(1, Ordering::AcqRel);
        let scan = self.inner.range(space, bounds);
        Box::new(CountedScan { scan, backend: self, hashes: hashes(bounds), read: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twiceshy_store::{Batch, Durability, MemoryBackend, OpenOptions, Store};

    /// Returns a backend with this many members, whose hashes are evenly spread.
    fn with_members(members: u64, shards: usize) -> Counting {
        let backend = Counting::new(Arc::new(MemoryBackend::new()));
        backend.set_shards(shards);
        let mut batch = Batch::new();
        for member in 0..members {
            let place = (member * ALL / members) as u32;
            batch.insert(Keyspace::Members, place.to_be_bytes(), b"1");
        }
        backend.write(&batch, Durability::Buffered).unwrap();
        backend
    }

    /// Reads the members with these hashes, and returns their number.
    fn read(backend: &Counting, hashes: Range<u64>) -> usize {
        let [first, end] = [hashes.start, hashes.end].map(|place| (place as u32).to_be_bytes());
        let end = if hashes.end == ALL { Unbounded } else { Excluded(&end[..]) };
        let members = backend.range(Keyspace::Members, (Included(&first[..]), end));
        assert!(backend.is_scanning());
        members.count()
    }

    #[test]
    fn scans_of_whole_shards_are_counted_as_listings_and_others_as_suspects() {
        let backend = with_members(32, 4);
        let mut batch = Batch::new();
        batch.insert(Keyspace::Mistakes, b"mistake", b"");
        backend.write(&batch, Durability::Buffered).unwrap();
        assert_eq!(backend.data_bytes(), 32 * 5 + 7);
        assert_eq!(backend.pairs(Keyspace::Mistakes), 1);

        assert_eq!(read(&backend, 0..1 << 30), 8);
        assert_eq!(read(&backend, 3 << 30..ALL), 8);
        assert_eq!(read(&backend, 1 << 27..3 << 27), 2);
        assert_eq!(backend.members_read(), MembersRead { listed: 16, suspects: 2 });
        assert!(!backend.is_scanning());
        assert_eq!(backend.listings_of_shards(), [1.0, 0.0, 0.0, 1.0]);
    }

    #[test]
    fn parts_of_listing_add_up_to_one_listing() {
        const PARTS: u64 = 5;
        let backend = with_members(8000, 2);
        let before = backend.listings_of_shards();
        let half = ALL / 2;
        for part in 0..PARTS {
            assert_eq!(least_listings(&before, &backend.listings_of_shards()), 0);
            for first in [0, half] {
                let [from, to] = [part, part + 1].map(|part| first + half * part / PARTS);
                assert!(read(&backend, from..to) > 700);
            }
        }
        assert_eq!(read(&backend, 0..half / 1000), 4);
        assert_eq!(backend.members_read(), MembersRead { listed: 8000, suspects: 4 });
        assert_eq!(least_listings(&before, &backend.listings_of_shards()), 1);
        assert_eq!(least_listings(&backend.listings_of_shards(), &[1.0, 2.5]), 0);
    }

    /// If rebuilds list shards in smaller parts, this test fails.
    #[test]
    fn rotations_of_large_shards_are_counted_once_each() {
        const MEMBERS: u64 = 30_000;
        let backend = Arc::new(Counting::new(Arc::new(MemoryBackend::new())));
        let options = OpenOptions::new().capacity(MEMBERS as usize).shards(2);
        let options = options.false_positive_rate(0.05).background_share(0.0);
        let store: Store<_> = options.open_with(Arc::clone(&backend), None).unwrap();
        store.put_many((0..MEMBERS).map(|key| (key.to_be_bytes(), b""))).unwrap();
        store.tend().unwrap();
        assert_eq!(store.stats().shards, 2);
        backend.set_shards(2);
        let (before, read) = (store.stats(), backend.members_read());
        let mut absent = MEMBERS..;
        while store.stats().rotations < before.rotations + 4 {
            for key in absent.by_ref().take(1000) {
                assert!(!store.contains(&key.to_be_bytes()).unwrap());
            }
            store.tend().unwrap();
        }
        let rebuilds = store.stats().rebuilds - before.rebuilds;
        let listings: f64 = backend.listings_of_shards().iter().sum();
        assert!((listings - rebuilds as f64).abs() < 0.01, "{listings} of {rebuilds}");
        let listed = backend.members_read().since(read).listed;
        assert!(listed.abs_diff(rebuilds * MEMBERS / 2) < listed / 50, "{listed} in {rebuilds}");
    }
}
