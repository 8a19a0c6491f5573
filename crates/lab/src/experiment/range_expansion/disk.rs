//! The store from which growing filters read their members. It has two maps on disk: the pairs in
//! key order, and a reverse map in the order of the partitions' hashes.

use std::ops::Bound::{Included, Unbounded};
use std::ops::RangeInclusive;
use tempfile::TempDir;
use twiceshy::{Hash, range::Partitions};
use twiceshy_store::backend::Bounds;
use twiceshy_store::{
    Backend, BackendError, Batch, Durability, FjallBackend, FjallOptions, Keyspace,
};
use twiceshy_workloads::key;

/// Size of a value in bytes, as in the Aeris paper.
const VALUE_BYTES: usize = 504;
const KEY_BYTES: usize = 8;
const HASH_BYTES: usize = 16;

/// The size of the data, divided by the size of the engine's block cache.
const CACHE_SHARE: u64 = 100;

pub(super) struct Disk {
    directory: TempDir,
    partitions: Partitions<u64>,
    cache_bytes: u64,
}

/// A freshly opened engine with an empty cache.
pub(super) struct Opened {
    engine: FjallBackend,
}

impl Disk {
    /// Creates an empty store for `keys` keys.
    pub(super) fn new(keys: usize, partitions: Partitions<u64>) -> Self {
        let directory = tempfile::tempdir().expect("room for a directory");
        let bytes = (keys * (KEY_BYTES + VALUE_BYTES)) as u64;
        Self { directory, partitions, cache_bytes: bytes / CACHE_SHARE }
    }

    pub(super) fn open(&self) -> Opened {
        let mut options = FjallOptions::default();
        options.cache_bytes = self.cache_bytes;
        options.memtable_bytes = 4 << 20;
        options.journal_bytes = 64 << 20;
        let engine = FjallBackend::open(self.directory.path(), options);
        Opened { engine: engine.expect("a directory of its own") }
    }

    /// Writes more keys. Then compacts the store, so that no background work is left.
    pub(super) fn write(&self, keys: &[u64]) {
        let Opened { engine } = self.open();
        for keys in keys.chunks(1024) {
            let mut batch = Batch::new();
            for &key in keys {
                let [bytes, hash] =
                    [key.to_be_bytes().to_vec(), hash_bytes(self.partitions.hash_of(key))];
                batch.insert(Keyspace::Members, [hash, bytes.clone()].concat(), b"");
                batch.insert(Keyspace::Keys, bytes, key::key::<VALUE_BYTES>(key));
            }
            engine.write(&batch, Durability::Buffered).expect("room on the disk");
        }
        engine.compact().expect("room on the disk");
    }
}

impl Opened {
    /// Returns all keys. Also reads their values.
    pub(super) fn keys(&self) -> Vec<u64> {
        self.scan(Keyspace::Keys, (Unbounded, Unbounded)).collect()
    }

    /// Iterates over all members in hash order. Reads them from the reverse map.
    pub(super) fn members(&self) -> impl Iterator<Item = u64> {
        self.scan(Keyspace::Members, (Unbounded, Unbounded))
    }

    /// Returns the members with these hashes. Reads them from the reverse map.
    pub(super) fn listed(&self, hashes: &RangeInclusive<Hash>) -> Result<Vec<u64>, BackendError> {
        let first = hash_bytes(*hashes.start());
        let last = [hash_bytes(*hashes.end()), vec![u8::MAX; KEY_BYTES]].concat();
        let pairs = self.engine.range(Keyspace::Members, (Included(&first), Included(&last)));
        pairs.map(|pair| Ok(key_of(&pair?.0))).collect()
    }

    fn scan(&self, space: Keyspace, bounds: Bounds<'_>) -> impl Iterator<Item = u64> {
        let pairs = self.engine.range(space, bounds);
        pairs.map(|pair| key_of(&pair.expect("a disk that can be read").0))
    }
}

fn hash_bytes(hash: Hash) -> Vec<u8> {
    let bytes: [u8; HASH_BYTES] = hash.as_u128().to_be_bytes();
    bytes.to_vec()
}

/// Returns the key at the end of a stored key. In both maps, stored keys end with the key.
fn key_of(stored: &[u8]) -> u64 {
    u64::from_be_bytes(*stored.last_chunk().expect("keys of 8 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use twiceshy::{RangeFilter, Secret};
    use twiceshy_workloads::key::scatter;

    #[test]
    fn keys_can_be_read_in_key_order_and_in_hash_order() {
        let filter = RangeFilter::<u64>::builder().slots(1000).secret(Secret::from_bytes([3; 16]));
        let partitions = filter.build().unwrap().partitions().clone();
        let keys: Vec<u64> = (0..3000).map(scatter).collect();
        let disk = Disk::new(keys.len(), partitions.clone());
        disk.write(&keys[..2000]);
        disk.write(&keys[2000..]);
        let mut wanted = keys.clone();
        wanted.sort_unstable();
        let opened = disk.open();
        assert_eq!(opened.keys(), wanted);
        wanted.sort_unstable_by_key(|&key| partitions.hash_of(key));
        assert_eq!(opened.members().collect::<Vec<_>>(), wanted);
        let [first, last] = [wanted[100], wanted[199]].map(|key| partitions.hash_of(key));
        assert_eq!(opened.listed(&(first..=last)).unwrap(), wanted[100..200]);
    }
}
