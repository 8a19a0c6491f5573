//! Tests of damaged or old saved filters, damaged maps, and stores that are already open.

#![cfg(feature = "fjall")]

use crate::common::{LAYOUTS, Random, copy_files, options};
use std::ops::Bound::Unbounded;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, mpsc};
use std::{fs, io, thread};
use twiceshy::{QuotientFilter, Secret};
use twiceshy_deadline::Deadline;
use twiceshy_store::backend::{BackendClaim, Bounds, Scan};
use twiceshy_store::testing::{Fault, FaultyBackend};
use twiceshy_store::{
    Backend, BackendError, Batch, Bytes, Durability, FjallBackend, FjallOptions, Keyspace, Layout,
    MemoryBackend, OpenOptions, Store, StoreError,
};

type OnFjall = Store<FjallBackend>;

fn open(path: &Path, layout: Layout) -> OnFjall {
    let mut store = options(layout).open(path).unwrap();
    store.wait_until_ready().unwrap();
    store
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn put(store: &OnFjall, numbers: impl Iterator<Item = u32>) {
    store.put_many(numbers.map(|number| (key(number), key(number)))).unwrap();
}

/// Checks that exactly the keys below `members` are present.
fn check(store: &OnFjall, members: u32) {
    for number in 0..2 * members {
        let expected = (number < members).then(|| key(number));
        let found = store.get(&key(number)).unwrap();
        assert_eq!(found.as_deref(), expected.as_ref().map(|key| &key[..]), "{number}");
    }
    assert_eq!(store.stats().members, u64::from(members));
}

fn snapshot(path: &Path) -> PathBuf {
    let files = fs::read_dir(path).unwrap().map(|file| file.unwrap().path());
    let mut snapshots = files.filter(|file| file.extension().is_some_and(|end| end == "snapshot"));
    let found = snapshots.next().unwrap();
    assert_eq!(snapshots.next(), None);
    found
}

fn is_saved(path: &Path, layout: Layout) -> bool {
    // A background thread would rebuild due shards immediately.
    let store = options(layout).background_share(0.0).open(path).unwrap();
    let stats = store.stats();
    // A saved filter is ready immediately, and nothing is read to build it.
    stats.shards_ready == stats.shards && stats.backend_scans == 0
}

#[test]
fn filter_is_rebuilt_if_its_snapshot_is_damaged() {
    let mut random = Random(1);
    for layout in LAYOUTS {
        let directory = tempfile::tempdir().unwrap();
        let store = open(directory.path(), layout);
        put(&store, 0..200);
        check(&store, 200);
        store.close().unwrap();
        assert!(is_saved(directory.path(), layout));
        for damage in 0..16 {
            let file = snapshot(directory.path());
            let mut bytes = fs::read(&file).unwrap();
            match damage {
                0 => bytes.clear(),
                1 => bytes.push(0),
                2 => bytes[0] ^= 1,
                3 => *bytes.last_mut().unwrap() ^= 0x80,
                4..10 => bytes.truncate(random.below(bytes.len() as u64) as usize),
                _ => {
                    let bit = random.below(8 * bytes.len() as u64);
                    bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
                }
            }
            fs::write(&file, bytes).unwrap();
            let store = open(directory.path(), layout);
            assert!(store.stats().backend_scans > 0, "{damage} was not seen");
            check(&store, 200);
            assert_eq!(store.stats().repeated_false_positives, 0);
            store.close().unwrap();
        }
        fs::remove_file(snapshot(directory.path())).unwrap();
        check(&open(directory.path(), layout), 200);
    }
}

#[test]
fn old_snapshot_is_not_used() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let store = open(path, Layout::Merged);
    put(&store, 0..100);
    store.close().unwrap();
    let old = copy_files(path);
    let put_back = || {
        for file in fs::read_dir(old.path()).unwrap().map(Result::unwrap) {
            fs::copy(file.path(), path.join(file.file_name())).unwrap();
        }
    };
    let store = open(path, Layout::Merged);
    put(&store, 100..150);
    store.close().unwrap();
    put_back();
    check(&open(path, Layout::Merged), 150);
    // An old snapshot isn't used if the newer one is missing.
    let new = snapshot(path);
    put_back();
    fs::remove_file(&new).unwrap();
    check(&open(path, Layout::Merged), 150);
    // An old snapshot isn't used under the newer one's name, either.
    assert!(is_saved(path, Layout::Merged));
    fs::copy(snapshot(old.path()), snapshot(path)).unwrap();
    let store = open(path, Layout::Merged);
    assert!(store.stats().backend_scans > 0, "it is built again");
    check(&store, 150);
}

/// Keys that are written while the snapshot can't be read must be found later.
#[test]
fn snapshot_that_becomes_readable_again_is_not_used() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let store = open(path, Layout::Merged);
    put(&store, 0..100);
    store.close().unwrap();
    let file = snapshot(path);
    let aside = path.join("aside");
    fs::rename(&file, &aside).unwrap();
    let store = open(path, Layout::Merged);
    put(&store, 100..150);
    // Copy the files that a crash would leave.
    let copied = tempfile::tempdir().unwrap();
    let copy = copied.path().join("copy");
    store.backup(&copy).unwrap();
    fs::rename(&aside, copy.join(file.file_name().unwrap())).unwrap();
    check(&open(&copy, Layout::Merged), 150);
}

#[test]
fn store_cannot_be_opened_twice() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), Layout::Split);
    put(&store, 0..10);
    let again = options(Layout::Split).open(directory.path());
    assert!(matches!(again, Err(StoreError::Backend(BackendError::Locked { .. }))));
    check(&store, 10);
    drop(store);
    check(&open(directory.path(), Layout::Split), 10);
    let merged = options(Layout::Merged).open(directory.path());
    assert!(matches!(merged, Err(StoreError::Layout { found: Layout::Split, .. })));
}

/// After a journal is lost, the map of keys and the reverse map may differ. No key is ever missing, and in
/// the end both maps are equal again.
#[test]
fn key_map_and_reverse_map_that_differ_are_made_equal() {
    let backend = Arc::new(MemoryBackend::new());
    let open =
        || -> Store<_> { options(Layout::Split).open_with(Arc::clone(&backend), None).unwrap() };
    let store = open();
    store.put_many((0..600).map(|n| (key(n), key(n)))).unwrap();
    drop(store);
    let members: Vec<_> = backend
        .range(Keyspace::Members, (Unbounded, Unbounded))
        .map(|pair| pair.unwrap().0)
        .collect();
    let mut batch = Batch::new();
    members.iter().step_by(3).for_each(|member| batch.remove(Keyspace::Members, member));
    (0..600).step_by(7).for_each(|n| batch.remove(Keyspace::Keys, key(n)));
    backend.write(&batch, Durability::Buffered).unwrap();

    let mut store = open();
    let check = |store: &Store<_>| {
        for n in 0..700 {
            let is_there = n < 600 && n % 7 > 0;
            assert_eq!(store.contains(&key(n)).unwrap(), is_there, "{n}");
        }
        let keys: Vec<_> = (0..700).map(key).collect();
        let values = store.get_many(&keys).unwrap();
        assert_eq!(values.iter().flatten().count(), 600 - 86);
    };
    check(&store);
    store.wait_until_ready().unwrap();
    check(&store);
    assert_eq!(store.stats().members, 600 - 86);
    let count = |space| backend.range(space, (Unbounded, Unbounded)).count();
    assert_eq!((count(Keyspace::Members), count(Keyspace::Keys)), (600 - 86, 600 - 86));
    let before = store.stats();
    check(&store);
    // A shard that is rebuilt meanwhile, or that has no room for a repair, makes a few more
    // mistakes.
    let gets = store.stats().backend_gets - before.backend_gets;
    assert!((2 * (600 - 86)..2 * (600 - 86) + 100).contains(&gets), "{gets}");
    for n in (0..600).filter(|n| n % 7 > 0) {
        assert!(store.delete(&key(n)).unwrap());
    }
    assert_eq!((store.stats().members, count(Keyspace::Members)), (0, 0));
}

fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_all(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

/// The store was saved and used again, and has then lost a part of its journal, but none of its
/// tables. Every remaining key is found.
#[test]
fn every_key_is_found_after_a_journal_is_damaged() {
    for layout in LAYOUTS {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let store = || -> OnFjall {
            let mut engine = FjallOptions::default();
            engine.memtable_bytes = 16 << 10;
            let backend = FjallBackend::open(path.join("data"), engine).unwrap();
            options(layout).open_with(backend, Some(&path)).unwrap()
        };
        let first = store();
        put(&first, 0..50);
        first.flush().unwrap();
        first.close().unwrap();
        let second = store();
        second.flush().unwrap();
        put(&second, 50..1500);
        let [base, copy] = ["base", "copy"].map(|name| directory.path().join(name));
        // The engine may change its files during the copy.
        let is_whole = || {
            copy_all(&path, &base)?;
            copy_all(&base, &copy)?;
            let opens = options(layout).open(&copy).is_ok();
            fs::remove_dir_all(&copy)?;
            Ok::<_, io::Error>(opens)
        };
        let _deadline = Deadline::new();
        while !is_whole().unwrap_or(false) {
            fs::remove_dir_all(&base).unwrap();
            let _ = fs::remove_dir_all(&copy);
        }
        for percent in [0, 1, 10, 50, 90, 100] {
            copy_all(&base, &copy).unwrap();
            for file in fs::read_dir(copy.join("data/fjall")).unwrap() {
                let file = file.unwrap().path();
                if file.extension().is_some_and(|end| end == "jnl") {
                    let bytes = fs::read(&file).unwrap();
                    let used = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
                    fs::write(&file, &bytes[..used * percent / 100]).unwrap();
                }
            }
            let mut cut = options(layout).open(&copy).unwrap();
            for _ in 0..2 {
                let keys: Vec<_> = cut.iter().map(|pair| pair.unwrap().0).collect();
                assert!(keys.len() >= 50 && (percent < 100 || keys.len() == 1500));
                assert!(keys.iter().all(|key| cut.contains(key).unwrap()), "{layout:?} {percent}");
                cut.wait_until_ready().unwrap();
            }
            assert_eq!(cut.stats().members, cut.iter().count() as u64, "{layout:?} {percent}");
            drop(cut);
            fs::remove_dir_all(&copy).unwrap();
        }
    }
}

/// Returns options of a split store whose filter often confuses keys.
fn poor() -> OpenOptions {
    let secret = Secret::from_bytes([7; 16]);
    let options = OpenOptions::new().capacity(64).false_positive_rate(0.3).shards(1);
    options.layout(Layout::Split).secret(secret)
}

fn with_sixty_keys() -> Arc<MemoryBackend> {
    let backend = Arc::new(MemoryBackend::new());
    let store: Store<_> = poor().open_with(Arc::clone(&backend), None).unwrap();
    (0..60).for_each(|n| store.put(&key(n), b"").unwrap());
    drop(store);
    backend
}

/// Removes a key from the reverse map.
fn unlist(backend: &MemoryBackend, number: u32) {
    let members = backend.range(Keyspace::Members, (Unbounded, Unbounded));
    let mut members = members.map(|pair| pair.unwrap().0);
    let member = members.find(|member| member.ends_with(&key(number))).unwrap();
    let mut batch = Batch::new();
    batch.remove(Keyspace::Members, member);
    backend.write(&batch, Durability::Buffered).unwrap();
}

#[test]
fn maps_that_each_lack_a_different_key_are_reconciled() {
    for unlisted in 0..40 {
        let backend = with_sixty_keys();
        unlist(&backend, unlisted);
        let mut batch = Batch::new();
        batch.remove(Keyspace::Keys, key(40));
        backend.write(&batch, Durability::Buffered).unwrap();
        let mut store: Store<_> = poor().open_with(Arc::clone(&backend), None).unwrap();
        store.wait_until_ready().unwrap();
        for n in (0..60).filter(|&n| n != unlisted) {
            assert_eq!(store.delete(&key(n)).unwrap(), n != 40);
            assert!(!store.contains(&key(n)).unwrap());
        }
        assert!(store.contains(&key(unlisted)).unwrap(), "{unlisted}");
    }
}

/// A backend that calls a function when the keys are first read.
struct Reading<F> {
    backend: Arc<MemoryBackend>,
    is_read: AtomicBool,
    then: F,
}

impl<F: Fn() + Send + Sync + 'static> Backend for Reading<F> {
    fn claim(&self) -> Result<BackendClaim, BackendError> {
        self.backend.claim()
    }

    fn get(&self, space: Keyspace, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        self.backend.get(space, key)
    }

    fn range(&self, space: Keyspace, bounds: Bounds<'_>) -> Scan<'_> {
        let pairs = self.backend.range(space, bounds);
        if space == Keyspace::Keys && !self.is_read.swap(true, SeqCst) {
            // Call `then` after the scan has read the first key, but before it reads the last one.
            return Box::new(pairs.inspect(|pair| {
                if *pair.as_ref().unwrap().0 == key(0) {
                    (self.then)();
                }
            }));
        }
        pairs
    }

    fn write(&self, batch: &Batch, durability: Durability) -> Result<(), BackendError> {
        self.backend.write(batch, durability)
    }

    fn sync(&self) -> Result<(), BackendError> {
        self.backend.sync()
    }

    fn flush(&self) -> Result<(), BackendError> {
        self.backend.flush()
    }

    fn compact(&self) -> Result<(), BackendError> {
        self.backend.compact()
    }

    fn bytes_on_disk(&self) -> Result<u64, BackendError> {
        self.backend.bytes_on_disk()
    }

    fn backup(&self, to: &Path) -> Result<(), BackendError> {
        self.backend.backup(to)
    }
}

/// A key that the reverse map doesn't list isn't in the filter. Deleting it must not remove another key's
/// fingerprint.
#[test]
fn delete_of_a_key_missing_from_the_reverse_map_loses_no_other_key() {
    let _deadline = Deadline::new();
    if thread::available_parallelism().is_ok_and(|threads| threads.get() == 1) {
        // One thread builds the shards only after it has read the keys.
        return;
    }
    for unlisted in 20..60 {
        let backend = with_sixty_keys();
        unlist(&backend, unlisted);
        let (built, is_built) = mpsc::channel();
        let (reading, is_reading) = mpsc::channel();
        let (deleted, is_deleted) = mpsc::channel::<()>();
        let (built, is_deleted) = (Mutex::new(built), Mutex::new(is_deleted));
        let then = move || {
            reading.send(()).unwrap();
            is_deleted.lock().unwrap().recv().unwrap();
        };
        let reading = Reading { backend, is_read: AtomicBool::new(false), then };
        let options = poor().on_progress(move |_| built.lock().unwrap().send(()).unwrap());
        let mut store: Store<_> = options.open_with(reading, None).unwrap();
        is_reading.recv().unwrap();
        is_built.recv().unwrap();
        assert!(store.delete(&key(unlisted)).unwrap());
        deleted.send(()).unwrap();
        store.wait_until_ready().unwrap();
        for n in (0..60).filter(|&n| n != unlisted) {
            assert!(store.contains(&key(n)).unwrap(), "{n} without {unlisted}");
        }
    }
}

#[test]
fn capacity_that_cannot_be_built_is_not_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let impossible = || OpenOptions::new().capacity(1 << 50);
    assert!(matches!(impossible().open(directory.path()), Err(StoreError::Build(_))));
    let store = OpenOptions::new().open(directory.path()).unwrap();
    store.put(b"key", b"value").unwrap();
    store.close().unwrap();
    assert!(matches!(impossible().open(directory.path()), Err(StoreError::Build(_))));
    let store = OpenOptions::new().open(directory.path()).unwrap();
    assert_eq!(store.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn failed_build_is_reported_and_can_be_retried() {
    let backend = Arc::new(FaultyBackend::new(MemoryBackend::new()));
    let options = options(Layout::Split);
    let store: Store<_> = options.open_with(Arc::clone(&backend), None).unwrap();
    store.put_many((0..60).map(|n| (key(n), key(n)))).unwrap();
    drop(store);
    let mut was_seen = false;
    for n in 0..40 {
        backend.heal();
        backend.fail_at(n, Fault::Before);
        let store = options.open_with::<_, QuotientFilter>(Arc::clone(&backend), None);
        let Ok(mut store) = store else { continue };
        let is_ready = store.wait_until_ready().is_ok();
        backend.heal();
        if is_ready {
            continue;
        }
        was_seen = true;
        assert!(matches!(store.wait_until_ready(), Err(StoreError::Unready)));
        assert!(store.stats().shards_ready < store.stats().shards);
        store.rebuild().unwrap();
        store.wait_until_ready().unwrap();
        let before = store.stats().unfiltered;
        (0..100).for_each(|n| assert_eq!(store.contains(&key(n)).unwrap(), n < 60));
        assert_eq!(store.stats().unfiltered, before);
    }
    backend.heal();
    assert!(was_seen);
}

/// A failed write may take effect when the store is opened again, and then its key must be in the filter.
#[test]
fn filter_is_not_saved_after_a_failed_write() {
    let directory = tempfile::tempdir().unwrap();
    let backend = Arc::new(FaultyBackend::new(MemoryBackend::new()));
    let open = || -> Store<_> {
        options(Layout::Merged).open_with(Arc::clone(&backend), Some(directory.path())).unwrap()
    };
    let store = open();
    store.put(b"key", b"").unwrap();
    backend.fail_at(0, Fault::Before);
    assert!(store.put(b"another", b"").is_err());
    backend.heal();
    store.close().unwrap();
    let mut store = open();
    assert!(store.stats().shards_ready < store.stats().shards || store.stats().backend_scans > 0);
    store.wait_until_ready().unwrap();
    assert_eq!(store.stats().members, 1);
    store.close().unwrap();
    assert_eq!(open().stats().backend_scans, 0);
}
