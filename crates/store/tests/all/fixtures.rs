//! Tests that stores written by an earlier version can be opened.
//!
//! A fixture is the saved filter of a store, and the pairs in its backend: one line per pair, with the
//! keyspace, the key and the value, in hexadecimal. So it doesn't depend on an engine. The fixtures `fjall`
//! and `redb` are whole directories.

use crate::common::copy_files;
#[cfg(any(feature = "fjall", feature = "redb"))]
use crate::common::copy_tree;
use std::fs;
use std::ops::Bound::Unbounded;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;
use twiceshy::{
    QuotientFilter, Secret, Snapshot, TelescopingFilter, concurrent::Shard, hash::KeyedHasher,
};
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
    let _deadline = twiceshy_deadline::Deadline::new();
    let Fixture { directory, backend, scans } = Fixture::load(name);
    // A background thread would rebuild shards with different sizes, and then different keys would
    // be mistakes.
    let options = OpenOptions::new().create(false).layout(layout).background_share(0.0);
    let store: Store<_, F> = options.open_with(backend, Some(directory.path())).unwrap();
    assert_eq!(scans.load(Ordering::Relaxed), 0, "the saved filter is used");
    assert!(store.stats().mistakes > 0);
    check_points(&store, 40);
    // Shards get fresh remainders, and their removals leave traces from then on.
    assert_eq!(store.tend().unwrap(), store.stats().shards);
    store.rebuild().unwrap();
    // The rebuilt shards make different mistakes, and may have no room for their repairs.
    let mut before = u64::MAX;
    while store.stats().false_positives != before {
        before = store.stats().false_positives;
        assert!((1000..1200u16).all(|key| !store.contains(&key.to_be_bytes()).unwrap()));
        store.tend().unwrap();
    }
    check_points(&store, 40);
}

#[test]
fn store_of_an_earlier_version_opens() {
    check_kept::<QuotientFilter>("merged", Layout::Merged);
    check_kept::<QuotientFilter>("split", Layout::Split);
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
fn list_store_of_an_earlier_version_opens() {
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

/// Earlier versions doubled a full filter, which cost a bit of each remainder. No fixture is that
/// large, so the test replaces a saved filter by a doubled one.
#[test]
fn doubled_filter_of_an_earlier_version_regains_long_remainders() {
    const RATE: f64 = 0.002;
    const MEMBERS: u32 = 10_000;
    let _deadline = twiceshy_deadline::Deadline::new();
    let (backend, directory) = (Arc::new(MemoryBackend::new()), tempfile::tempdir().unwrap());
    let secret = Secret::from_bytes([3; 16]);
    let options = OpenOptions::new().false_positive_rate(RATE).shards(4).capacity(1000);
    let options = options.secret(secret.clone()).background_share(0.0);
    let open =
        || -> Store<_> { options.open_with(Arc::clone(&backend), Some(directory.path())).unwrap() };
    let store = open();
    store.put_many((0..MEMBERS).map(|key| (key.to_be_bytes(), b""))).unwrap();
    store.close().unwrap();

    let builder = QuotientFilter::builder().false_positive_rate(RATE).capacity(1000).shards(4);
    let filter = builder.build_concurrent().unwrap();
    let hasher = KeyedHasher::new(&secret);
    (0..MEMBERS).for_each(|key| filter.insert(hasher.hash_bytes(&key.to_be_bytes())).unwrap());
    let rate = filter.stats().expected_rate;
    assert!(rate > 4.0 * RATE, "it was doubled: {rate}");
    let mut files = fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().path());
    let file = files.find(|file| file.extension().is_some_and(|end| end == "snapshot")).unwrap();
    filter.save(&file).unwrap();
    // The backend's entry for the saved filter ends with the file's length and its last 64 bytes.
    let bytes = fs::read(&file).unwrap();
    let mut meta = backend.range(Keyspace::Meta, (Unbounded, Unbounded)).map(Result::unwrap);
    let (key, record) = meta.find(|(key, _)| &key[..] == b"clean").unwrap();
    let length = (bytes.len() as u64).to_be_bytes();
    let record = [&record[..record.len() - 72], &length, &bytes[bytes.len() - 64..]].concat();
    let mut batch = Batch::new();
    batch.insert(Keyspace::Meta, key, record);
    backend.write(&batch, Durability::Synced).unwrap();

    let store = open();
    let stats = store.stats();
    assert_eq!((stats.expected_rate, stats.rebuilds), (rate, 0), "the doubled filter is used");
    assert_eq!(store.tend().unwrap(), 4);
    let stats = store.stats();
    assert!(stats.expected_rate <= 1.1 * RATE, "{stats:?}");
    assert_eq!((stats.members, stats.shards_due), (MEMBERS.into(), 0));
    assert!((0..MEMBERS).all(|key| store.contains(&key.to_be_bytes()).unwrap()));
    store.validate().unwrap();
    let absent = MEMBERS..MEMBERS + 100_000;
    assert!(absent.into_iter().all(|key| !store.contains(&key.to_be_bytes()).unwrap()));
    let (mistakes, expected) = (store.stats().false_positives as f64, 1.1 * RATE * 1e5);
    assert!(mistakes <= expected + 5.0 * expected.sqrt(), "{mistakes} mistakes");
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
