//! Helpers shared by several tests.

#![allow(dead_code, unreachable_pub, reason = "some features use only a part of them")]

pub mod child;

use std::collections::BTreeMap;
use std::ops::Bound::Unbounded;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};
use tempfile::TempDir;
use twiceshy_store::{Backend, Batch, Durability, Keyspace, Layout, MemoryBackend, OpenOptions};

pub const LAYOUTS: [Layout; 2] = [Layout::Merged, Layout::Split];

/// Returns options of a filter so poor that most absent keys are mistakes at first. There is no
/// background thread, so that only the test changes the store.
pub fn options(layout: Layout) -> OpenOptions {
    let options = OpenOptions::new().capacity(16).false_positive_rate(0.2).shards(4);
    options.layout(layout).background_share(0.0)
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

/// Copies a directory to a new one, as a kill at one moment would leave it. Engines create and
/// delete files in the background, so this copies again if a file has changed meanwhile.
pub fn copy_tree(from: &Path, to: &Path) {
    for _ in 0..1000 {
        let before = files(from);
        if copy_once(from, to).is_ok() && files(from) == before && before.is_some() {
            return;
        }
        fs::remove_dir_all(to).unwrap();
    }
    panic!("the files in {} never stop changing", from.display());
}

/// Returns the path, length and time of the last change of each file, or `None` if one was deleted meanwhile.
fn files(directory: &Path) -> Option<BTreeMap<PathBuf, (u64, SystemTime)>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).ok()? {
        let entry = entry.ok()?;
        let metadata = entry.metadata().ok()?;
        if metadata.is_dir() {
            found.extend(files(&entry.path())?);
        } else {
            found.insert(entry.path(), (metadata.len(), metadata.modified().ok()?));
        }
    }
    Some(found)
}

fn copy_once(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_once(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
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
