//! Helpers shared by several tests.

#![allow(dead_code, unreachable_pub, reason = "not every test uses all of them")]

pub mod child;

use std::fs;
use std::ops::Bound::Unbounded;
use std::path::Path;
use tempfile::TempDir;
use twiceshy_store::{Backend, Batch, Durability, Keyspace, Layout, MemoryBackend, OpenOptions};

pub const LAYOUTS: [Layout; 2] = [Layout::Merged, Layout::Split];

/// Returns options of a bad filter: most absent keys are mistakes at first.
pub fn options(layout: Layout) -> OpenOptions {
    OpenOptions::new().capacity(16).false_positive_rate(0.2).shards(4).layout(layout)
}

/// Copies all pairs of a backend.
pub fn copy(backend: &impl Backend) -> MemoryBackend {
    let mut batch = Batch::new();
    for space in Keyspace::ALL {
        for pair in backend.range(space, (Unbounded, Unbounded)) {
            let (key, value) = pair.unwrap();
            batch.insert(space, key, value);
        }
    }
    let copy = MemoryBackend::new();
    copy.write(&batch, Durability::Synced).unwrap();
    copy
}

/// Copies the files of a directory, without its subdirectories.
pub fn copy_files(directory: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
        }
    }
    copy
}

/// A `SplitMix64` generator, which returns the same numbers in two processes.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}
