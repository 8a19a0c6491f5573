//! Stores that were written by an earlier version can be opened.
//!
//! A fixture is the saved filter of a store, and the pairs in its backend: one line per pair, with the
//! keyspace, the key and the value, in hexadecimal. So it doesn't depend on an engine. The fixtures `fjall`
//! and `redb` are whole directories.

mod common;

use common::copy_files;
use std::fs;
use std::ops::Bound::Unbounded;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;
use twiceshy::{TelescopingFilter, concurrent::Shard};
use twiceshy_store::backend::Observed;
use twiceshy_store::{
    Backend, Batch, Durability, Keyspace, Layout, List, MemoryBackend, OpenOptions, Store,
};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// A backend that counts its scans of members, which rebuilding the filter would need.
type Counted = Observed<MemoryBackend>;

struct Fixture {
    directory: TempDir,
    backend: Counted,
    scans: Arc<AtomicU64>,
}

impl Fixture {
    fn load(name: &str) -> Self {
        let directory = copy_files(&fixture(name));
        let bytes = |digits: &str| -> Vec<u8> {
            let digit = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
            (0..digits.len()).step_by(2).map(digit).collect()
        };
        let mut batch = Batch::new();
        for line in fs::read_to_string(directory.path().join("pairs.txt")).unwrap().lines() {
            let mut fields = line.split(' ');
            let mut field = || fields.next().unwrap();
            let name = field();
            let is_named = |space: &Keyspace| format!("{space:?}") == name;
            let space = Keyspace::ALL.into_iter().find(is_named).unwrap();
            batch.insert(space, bytes(field()), bytes(field()));
        }
        let backend = MemoryBackend::new();
        backend.write(&batch, Durability::Synced).unwrap();
        let scans = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&scans);
        let backend = Observed::new(backend, |_, _| {}).on_range(move |space, _| {
            counter.fetch_add(u64::from(space == Keyspace::Members), Ordering::Relaxed);
        });
        Self { directory, backend, scans }
    }
}

fn value(key: u32) -> Vec<u8> {
    format!("value {key}").into_bytes()
}

fn check_points<B: Backend, F: Shard>(store: &Store<B, F>, keys: u16) {
    store.validate().unwrap();
    for key in 0..keys {
        let found = store.get(&key.to_be_bytes()).unwrap();
        assert_eq!(found.as_deref(), Some(&value(key.into())[..]), "key {key}");
    }
    let before = store.stats().false_positives;
    assert!((1000..1200u16).all(|key| !store.contains(&key.to_be_bytes()).unwrap()));
    assert_eq!(store.stats().false_positives, before, "repaired when the fixture was written");
}

fn check_kept<F: Shard>(name: &str, layout: Layout) {
    let Fixture { directory, backend, scans } = Fixture::load(name);
    let options = OpenOptions::new().create(false).layout(layout);
    let store: Store<_, F> = options.open_with(backend, Some(directory.path())).unwrap();
    assert_eq!(scans.load(Ordering::Relaxed), 0, "the saved filter is used");
    assert!(store.stats().mistakes > 0);
    check_points(&store, 40);
    store.rebuild().unwrap();
    check_points(&store, 40);
}

#[test]
fn store_of_an_earlier_version_opens() {
    check_kept::<twiceshy::QuotientFilter>("merged", Layout::Merged);
    check_kept::<twiceshy::QuotientFilter>("split", Layout::Split);
    check_kept::<TelescopingFilter>("telescoping", Layout::Merged);
}

#[test]
fn range_store_of_an_earlier_version_opens() {
    let Fixture { directory, backend, scans } = Fixture::load("ranges");
    let options = OpenOptions::new().create(false);
    let store = options.open_ranges_with::<u32, _>(backend, Some(directory.path())).unwrap();
    assert_eq!(scans.load(Ordering::Relaxed), 0, "the saved filter is used");
    let check = || {
        store.validate().unwrap();
        for key in 0..40 {
            assert_eq!(store.get(key * 1000).unwrap().as_deref(), Some(&value(key)[..]));
        }
        let before = store.stats();
        let mut empty = (0..200u32).map(|key| key * 1000 + 500..key * 1000 + 503);
        assert!(empty.all(|range| store.range_is_empty(range).unwrap()));
        assert_eq!(store.stats().false_positives, before.false_positives);
        assert_eq!((before.mistakes, store.longest_range()), (2, 4));
    };
    check();
    store.rebuild().unwrap();
    check();
}

#[test]
fn lists_of_an_earlier_version_open() {
    let Fixture { directory, backend, scans } = Fixture::load("lists");
    let options = OpenOptions::new().create(false);
    let store = options.open_lists_with(backend, Some(directory.path())).unwrap();
    assert_eq!(scans.load(Ordering::Relaxed), 0, "the saved filter is used");
    let check = || {
        store.validate().unwrap();
        assert!((0..40u16).all(|key| store.contains(&key.to_be_bytes())));
        assert!((1000..1200u16).all(|key| !store.contains(&key.to_be_bytes())));
        assert_eq!((store.len(List::Yes), store.len(List::No)), (40, 200));
    };
    check();
    store.rebuild().unwrap();
    check();
}

/// Copies a directory with all directories in it.
#[cfg(any(feature = "fjall", feature = "redb"))]
fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[cfg(feature = "fjall")]
#[test]
fn fjall_directory_of_an_earlier_version_opens() {
    let directory = tempfile::tempdir().unwrap();
    copy_tree(&fixture("fjall"), directory.path());
    let mut store = OpenOptions::new().create(false).open(directory.path()).unwrap();
    store.wait_until_ready().unwrap();
    check_points(&store, 40);
}

#[cfg(feature = "redb")]
#[test]
fn redb_directory_of_an_earlier_version_opens() {
    use twiceshy_store::{RedbBackend, RedbOptions};
    let directory = tempfile::tempdir().unwrap();
    copy_tree(&fixture("redb"), directory.path());
    let backend = RedbBackend::open(directory.path().join("data"), RedbOptions::default()).unwrap();
    assert!(backend.range(Keyspace::Members, (Unbounded, Unbounded)).next().is_some());
    let options = OpenOptions::new().create(false);
    let mut store: Store<_> = options.open_with(backend, Some(directory.path())).unwrap();
    store.wait_until_ready().unwrap();
    for key in 0..4u16 {
        assert_eq!(store.get(&key.to_be_bytes()).unwrap().as_deref(), Some(&value(key.into())[..]));
    }
}
