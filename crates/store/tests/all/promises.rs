//! Tests that every store keeps its promises when something goes wrong: opening fails, the filter can't be
//! saved, the directory or the backend is in use, or a write takes effect only after reopening.

use crate::common::copy;
use std::fs;
use std::ops::Bound::Unbounded;
use std::path::Path;
use std::sync::Arc;
use twiceshy::{Secret, hash::KeyedHasher};
use twiceshy_store::testing::{Fault, FaultyBackend, save_filter};
use twiceshy_store::{
    Backend, BackendError, Batch, Durability, Keyspace, Layout, List, ListStore, MemoryBackend,
    OpenOptions, RangeStore, Result, Store, StoreError,
};

type Faulty = Arc<FaultyBackend<MemoryBackend>>;

const SECRET: [u8; 16] = [7; 16];
const KEYS: u64 = 300;

/// A store of any kind, used as a set of keys.
trait Subject: Sized {
    fn open_with(
        backend: Faulty,
        directory: Option<&Path>,
        capacity: Option<usize>,
    ) -> Result<Self>;
    fn put(&self, key: u64) -> Result<()>;
    fn has(&self, key: u64) -> Result<bool>;
    fn delete(&self, key: u64) -> Result<bool>;
    fn rebuild(&self) -> Result<()>;
    fn validate(&self) -> Result<()>;
    fn close(self) -> Result<()>;

    fn open(backend: &Faulty, directory: Option<&Path>) -> Result<Self> {
        Self::open_with(Arc::clone(backend), directory, Some(8))
    }
}

/// Returns options for any store. Each kind of store ignores the options of other kinds.
fn options(layout: Layout, capacity: Option<usize>) -> OpenOptions {
    let options = OpenOptions::new().secret(Secret::from_bytes(SECRET)).shards(4);
    let options = options.layout(layout).longest_range(4);
    match capacity {
        Some(capacity) => options.capacity(capacity),
        None => options,
    }
}

/// Opens a store, and waits for its filter. If the filter can't be built, the store works without it.
fn open_points(
    options: &OpenOptions,
    backend: Faulty,
    directory: Option<&Path>,
) -> Result<Store<Faulty>> {
    let mut store = options.open_with(backend, directory)?;
    let _ = store.wait_until_ready();
    Ok(store)
}

/// Declares a subject: its store, its layout, and how it is opened, written and read. Keys are bytes,
/// except in a range store.
macro_rules! subject {
    (
        $(#[$doc:meta])* $name:ident($store:ty), $layout:ident, $open:expr,
        put: |$put:ident, $key:ident| $write:expr, has: |$has:ident, $asked:ident| $read:expr,
        delete: |$delete:ident, $removed:ident| $remove:expr
    ) => {
        $(#[$doc])*
        struct $name($store);

        impl Subject for $name {
            fn open_with(
                backend: Faulty,
                directory: Option<&Path>,
                capacity: Option<usize>,
            ) -> Result<Self> {
                $open(&options(Layout::$layout, capacity), backend, directory).map(Self)
            }

            fn put(&self, $key: u64) -> Result<()> {
                let $put = &self.0;
                $write
            }

            fn has(&self, $asked: u64) -> Result<bool> {
                let $has = &self.0;
                $read
            }

            fn delete(&self, $removed: u64) -> Result<bool> {
                let $delete = &self.0;
                $remove
            }

            fn rebuild(&self) -> Result<()> {
                self.0.rebuild()
            }

            fn validate(&self) -> Result<()> {
                self.0.validate()
            }

            fn close(self) -> Result<()> {
                self.0.close()
            }
        }
    };
}

subject! {
    /// A [`Store`] with the merged layout.
    Merged(Store<Faulty>), Merged, open_points,
    put: |store, key| store.put(&key.to_be_bytes(), b"1"),
    has: |store, key| store.contains(&key.to_be_bytes()),
    delete: |store, key| store.delete(&key.to_be_bytes())
}

subject! {
    /// A [`Store`] with the split layout.
    Split(Store<Faulty>), Split, open_points,
    put: |store, key| store.put(&key.to_be_bytes(), b"1"),
    has: |store, key| store.contains(&key.to_be_bytes()),
    delete: |store, key| store.delete(&key.to_be_bytes())
}

subject! {
    Ranges(RangeStore<u64, Faulty>), Merged, OpenOptions::open_ranges_with,
    put: |store, key| store.put(key, b"1"),
    has: |store, key| store.contains(key),
    delete: |store, key| store.delete(key)
}

subject! {
    /// A [`ListStore`] and its yes list.
    Yes(ListStore<Faulty>), Merged, OpenOptions::open_lists_with,
    put: |store, key| store.add_yes(&key.to_be_bytes()).map(drop),
    has: |store, key| Ok(store.list_of(&key.to_be_bytes())? == Some(List::Yes)),
    delete: |store, key| store.remove_yes(&key.to_be_bytes())
}

subject! {
    /// A [`ListStore`] and its no list.
    No(ListStore<Faulty>), Merged, OpenOptions::open_lists_with,
    put: |store, key| store.add_no(&key.to_be_bytes()).map(drop),
    has: |store, key| Ok(store.list_of(&key.to_be_bytes())? == Some(List::No)),
    delete: |store, key| store.remove_no(&key.to_be_bytes())
}

/// Runs a test with a store of each kind.
macro_rules! with_each {
    ($test:ident) => {
        $test::<Merged>();
        $test::<Split>();
        $test::<Ranges>();
        $test::<Yes>();
        $test::<No>();
    };
}

fn faulty(backend: MemoryBackend) -> Faulty {
    Arc::new(FaultyBackend::new(backend))
}

/// Returns a backend that contains a store with keys, without a saved filter.
fn filled<S: Subject>() -> Faulty {
    let backend = faulty(MemoryBackend::new());
    let store = S::open(&backend, None).unwrap();
    (0..KEYS).for_each(|key| store.put(key * 1000).unwrap());
    drop(store);
    backend
}

fn has_all<S: Subject>(store: &S) -> bool {
    (0..KEYS).all(|key| store.has(key * 1000).unwrap())
}

fn meta(backend: &Faulty, name: &[u8]) -> Option<Vec<u8>> {
    backend.inner().get(Keyspace::Meta, name).unwrap().map(|value| value.to_vec())
}

fn set_meta(backend: &Faulty, name: &[u8], value: impl AsRef<[u8]>) {
    let mut batch = Batch::new();
    batch.insert(Keyspace::Meta, name, value);
    backend.inner().write(&batch, Durability::Synced).unwrap();
}

/// Returns the names of the files in a directory.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The filter of a store whose opening failed was never built, and must not be saved.
fn no_key_is_missing_after_a_failed_open_of<S: Subject>() {
    let filled = filled::<S>();
    for fault in [Fault::Before, Fault::After] {
        for n in 0..60 {
            let backend = faulty(copy(filled.inner()));
            let directory = tempfile::tempdir().unwrap();
            backend.fail_at(n, fault);
            let _ = S::open(&backend, Some(directory.path()));
            backend.heal();
            let store = S::open(&backend, Some(directory.path())).unwrap();
            assert!(has_all(&store), "{fault:?} at {n}");
            assert!(store.delete(0).unwrap());
        }
    }
}

#[test]
fn no_key_is_missing_after_a_failed_open() {
    with_each!(no_key_is_missing_after_a_failed_open_of);
}

/// The saved filter is empty, with a record of version 1. Range stores could save such a filter by mistake.
#[test]
fn saved_filter_of_the_old_format_is_not_used() {
    let backend = filled::<Ranges>();
    let directory = tempfile::tempdir().unwrap();
    let empty = faulty(MemoryBackend::new());
    Ranges::open(&empty, Some(directory.path())).unwrap().close().unwrap();
    let record = meta(&empty, b"clean").unwrap();
    assert_eq!(names(directory.path()).len(), 1);
    set_meta(&backend, b"clean", &record[record.len() - 88..]);
    let store = Ranges::open(&backend, Some(directory.path())).unwrap();
    assert!(has_all(&store));
    assert_eq!(meta(&backend, b"clean"), None);
}

fn second_store_is_refused<S: Subject>() {
    let backend = faulty(MemoryBackend::new());
    let store = S::open(&backend, None).unwrap();
    store.put(1).unwrap();
    let second = S::open(&backend, None).err().unwrap();
    assert!(matches!(second, StoreError::Backend(BackendError::Claimed)), "{second}");
    assert!(Yes::open(&backend, None).is_err() && Ranges::open(&backend, None).is_err());
    store.put(2).unwrap();
    store.close().unwrap();
    // The backend is free after closing, after dropping, and after a failed open.
    drop(S::open(&backend, None).unwrap());
    backend.fail_at(1, Fault::Before);
    assert!(S::open(&backend, None).is_err());
    backend.heal();
    let store = S::open(&backend, None).unwrap();
    assert!(store.has(1).unwrap() && store.has(2).unwrap());
}

#[test]
fn backend_can_have_only_one_open_store() {
    with_each!(second_store_is_refused);
}

fn close_reports_unsaved_filter<S: Subject>() {
    let backend = faulty(MemoryBackend::new());
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("store");
    let store = S::open(&backend, Some(&directory)).unwrap();
    (0..KEYS).for_each(|key| store.put(key * 1000).unwrap());
    fs::remove_dir(&directory).unwrap();
    fs::write(&directory, "in the way").unwrap();
    let error = store.close().unwrap_err();
    assert!(matches!(error, StoreError::FilterNotSaved { .. }), "{error}");
    assert!(std::error::Error::source(&error).is_some());
    fs::remove_file(&directory).unwrap();

    // If the directory disappears while the store is open, only saving the filter fails.
    let store = S::open(&backend, Some(&directory)).unwrap();
    assert!(has_all(&store));
    store.close().unwrap();
    let store = S::open(&backend, Some(&directory)).unwrap();
    fs::remove_dir_all(&directory).unwrap();
    store.put(1).unwrap();
    assert!(store.has(1).unwrap() && !store.has(2).unwrap());
    assert!(store.delete(1).unwrap());
    assert!(matches!(store.close(), Err(StoreError::FilterNotSaved { .. })));
    assert_eq!(meta(&backend, b"clean"), None);
}

#[test]
fn no_data_is_lost_if_the_filter_cannot_be_saved() {
    with_each!(close_reports_unsaved_filter);
}

fn close_reports_failed_sync<S: Subject>() {
    let backend = faulty(MemoryBackend::new());
    let directory = tempfile::tempdir().unwrap();
    let store = S::open(&backend, Some(directory.path())).unwrap();
    store.put(1).unwrap();
    backend.fail_from(0, Fault::Before);
    assert!(matches!(store.close(), Err(StoreError::Backend(_))));
}

#[test]
fn close_returns_the_error_of_a_failed_sync() {
    with_each!(close_reports_failed_sync);
}

fn foreign_files_stay<S: Subject>() {
    let backend = faulty(MemoryBackend::new());
    let directory = tempfile::tempdir().unwrap();
    let theirs = [".filter-notes.tmp", "filter-2024.snapshot", "filter-backup.snapshot"];
    for name in theirs {
        fs::write(directory.path().join(name), "precious").unwrap();
    }
    for round in 0..2 {
        let store = S::open(&backend, Some(directory.path())).unwrap();
        store.put(round).unwrap();
        store.close().unwrap();
    }
    let names = names(directory.path());
    assert!(theirs.iter().all(|name| names.iter().any(|there| there == name)), "{names:?}");
    assert_eq!(names.len(), theirs.len() + 1, "only one filter is kept");
}

#[test]
fn foreign_files_are_never_removed() {
    with_each!(foreign_files_stay);
}

/// Opens a store that remembers a capacity from a machine with more memory.
fn opens_with_less_memory<S: Subject>() {
    const TOO_MANY: u64 = 1 << 45;
    let backend = filled::<S>();
    let shape = meta(&backend, b"shape").unwrap();
    let large = [&TOO_MANY.to_be_bytes(), &shape[8..]].concat();
    set_meta(&backend, b"shape", &large);
    let open = |capacity| S::open_with(Arc::clone(&backend), None, capacity);
    let store = open(None).unwrap();
    assert!(has_all(&store));
    store.put(1).unwrap();
    drop(store);
    assert_eq!(
        meta(&backend, b"shape").unwrap(),
        large,
        "the capacity is kept for a larger machine"
    );
    // An explicit capacity that doesn't fit is refused, and changes nothing.
    assert!(matches!(open(Some(TOO_MANY as usize * 2)), Err(StoreError::Build(_))));
    assert_eq!(meta(&backend, b"shape").unwrap(), large);
    // A capacity that fits takes effect.
    let store = open(Some(1000)).unwrap();
    assert!(has_all(&store));
    drop(store);
    assert_eq!(meta(&backend, b"shape").unwrap()[..8], 1000u64.to_be_bytes());
}

#[test]
fn store_opens_if_its_recorded_capacity_does_not_fit_into_memory() {
    with_each!(opens_with_less_memory);
}

/// Lets a put and then a delete fail, at each combination of their backend operations.
fn removal_is_written_in_doubt<S: Subject>() {
    let filled = filled::<S>();
    for n in 0..6 {
        for m in 0..6 {
            let backend = faulty(copy(filled.inner()));
            let store = S::open(&backend, None).unwrap();
            backend.fail_at(n, Fault::Late);
            let _ = store.put(7);
            backend.fail_at(m, Fault::Late);
            let deleted = store.delete(7);
            backend.heal();
            drop(store);
            backend.reopen().unwrap();
            let store = S::open(&backend, None).unwrap();
            let is_there = store.has(7).unwrap();
            assert!(deleted.is_err() || !is_there, "{n} {m}: removed, and back");
            assert!(has_all(&store));
        }
    }
}

#[test]
fn removed_key_stays_removed_when_a_failed_put_takes_effect_later() {
    with_each!(removal_is_written_in_doubt);
}

fn damaged_identity_is_noticed<S: Subject>() {
    let filled = filled::<S>();
    let record = meta(&filled, b"store").unwrap();
    for bit in 0..record.len() * 8 {
        let backend = faulty(copy(filled.inner()));
        let mut damaged = record.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        set_meta(&backend, b"store", &damaged);
        // If the options have no secret, only the check value shows the damage.
        let options = OpenOptions::new().capacity(8);
        let backend = || Arc::clone(&backend);
        let opened = [
            options.open_with(backend(), None).map(|store: Store<Faulty>| drop(store)),
            options.open_ranges_with::<u64, _>(backend(), None).map(drop),
            options.open_lists_with(backend(), None).map(drop),
        ];
        assert!(opened.iter().all(Result::is_err), "bit {bit}");
    }
    // In the previous format, a store's identity has no check value.
    let old = [&2u32.to_be_bytes(), &record[4..record.len() - 16]].concat();
    set_meta(&filled, b"store", &old);
    assert!(has_all(&S::open(&filled, None).unwrap()));
    assert_eq!(meta(&filled, b"store").unwrap(), old);
}

#[test]
fn damaged_secret_or_layout_is_noticed() {
    with_each!(damaged_identity_is_noticed);
}

#[test]
fn save_filter_fails_until_all_shards_are_ready() {
    let filled = filled::<Merged>();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("filter");
    let is_unready = (0..100).any(|n| {
        let backend = faulty(copy(filled.inner()));
        backend.fail_from(n, Fault::Before);
        let Ok(store) = Merged::open(&backend, None) else { return false };
        assert!(store.0.stats().shards_ready < store.0.stats().shards);
        let error = save_filter(&store.0, &file).unwrap_err();
        assert!(matches!(error, StoreError::Unready), "{error}");
        assert!(!file.exists());
        true
    });
    assert!(is_unready);
}

#[test]
fn rebuild_of_a_range_store_first_invalidates_the_saved_filter() {
    let backend = filled::<Ranges>();
    let directory = tempfile::tempdir().unwrap();
    Ranges::open(&backend, Some(directory.path())).unwrap().close().unwrap();
    assert!(meta(&backend, b"clean").is_some());
    let store = Ranges::open(&backend, Some(directory.path())).unwrap();
    // The first operation of a rebuild succeeds: it removes the backend's entry for the saved
    // filter.
    backend.fail_from(1, Fault::Before);
    assert!(store.0.rebuild().is_err());
    backend.heal();
    assert_eq!(meta(&backend, b"clean"), None);
    store.0.rebuild().unwrap();
    assert!(has_all(&store));
}

/// The query is for a range of 64 partitions. The filter is wrong about most of them.
#[test]
fn range_query_records_at_most_four_mistakes() {
    let options = OpenOptions::new().capacity(8).false_positive_rate(0.99).longest_range(4);
    let store: RangeStore<u64, _> = options.open_ranges_with(MemoryBackend::new(), None).unwrap();
    (0..50).for_each(|n| store.put(n * 10_001, b"1").unwrap());
    let mut most = 0;
    for first in (1000..400_000).step_by(1000) {
        let before = store.stats().mistakes;
        let is_empty = store.range_is_empty(first..first + 4 * 63).unwrap();
        assert_eq!(is_empty, store.range(first..first + 4 * 63).unwrap().next().is_none());
        most = most.max(store.stats().mistakes - before);
    }
    assert!((1..=4).contains(&most), "{most} mistakes of one query");
}

#[cfg(feature = "fjall")]
#[test]
fn directory_with_other_files_is_refused() {
    let opens: [fn(&Path) -> Result<()>; 3] = [
        |path| Store::open(path)?.close(),
        |path| OpenOptions::new().open_ranges::<u64>(path)?.close(),
        |path| OpenOptions::new().open_lists(path)?.close(),
    ];
    for open in opens {
        let root = tempfile::tempdir().unwrap();
        for (name, file) in [("notes", "notes.txt"), ("numbers", "data/numbers.csv")] {
            let directory = root.path().join(name);
            let file = directory.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "precious").unwrap();
            let before = names(file.parent().unwrap());
            let error = open(&directory).unwrap_err();
            assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
            assert_eq!(names(file.parent().unwrap()), before);
            assert_eq!(names(&directory).len(), 1);
        }
        // Leftovers of a killed process are accepted, and so is an empty directory.
        let killed = root.path().join("killed");
        fs::create_dir_all(killed.join("data/fjall.new")).unwrap();
        fs::write(killed.join("data/lock"), "").unwrap();
        open(&killed).unwrap();
        let empty = root.path().join("empty");
        fs::create_dir(&empty).unwrap();
        open(&empty).unwrap();
        // A store may have other files beside it.
        fs::write(empty.join("notes.txt"), "precious").unwrap();
        open(&empty).unwrap();
        assert!(empty.join("notes.txt").exists());
    }
}

/// If a mistake can't be kept, no member is in doubt, and the filter is still saved.
#[test]
fn filter_is_saved_even_if_a_mistake_could_not_be_kept() {
    let backend = faulty(MemoryBackend::new());
    let directory = tempfile::tempdir().unwrap();
    let options = crate::common::options(Layout::Merged);
    let store: Store<_> = options.open_with(Arc::clone(&backend), Some(directory.path())).unwrap();
    (0..40u8).for_each(|key| store.put(&[key], b"1").unwrap());
    for key in 0..4000_u16 {
        backend.fail_at(u64::from(key % 8), Fault::After);
        let _ = store.get(&key.to_be_bytes());
        backend.heal();
    }
    assert!(store.stats().repairs_failed > 0);
    assert!(!store.delete(&[255]).unwrap());
    store.close().unwrap();
    assert!(meta(&backend, b"clean").is_some());

    let ranges = faulty(MemoryBackend::new());
    let options = OpenOptions::new().capacity(8).false_positive_rate(0.99).longest_range(4);
    let store: RangeStore<u64, _> =
        options.open_ranges_with(Arc::clone(&ranges), Some(directory.path())).unwrap();
    (0..50).for_each(|n| store.put(n * 10_001, b"1").unwrap());
    for first in (1000..400_000).step_by(1000) {
        ranges.fail_at(first / 1000 % 8, Fault::After);
        let _ = store.range_is_empty(first..first + 4);
        ranges.heal();
    }
    assert!(store.stats().repairs_failed > 0);
    store.close().unwrap();
    assert!(meta(&ranges, b"clean").is_some());
}

/// After a panic in the middle of a change, the filter may be wrong about a key of the no list. It isn't
/// saved, so that the next open rebuilds it.
#[test]
fn filter_is_not_saved_after_a_panic() {
    let backend = faulty(MemoryBackend::new());
    let directory = tempfile::tempdir().unwrap();
    let options = OpenOptions::new().capacity(8).false_positive_rate(0.7).shards(2);
    let options = options.secret(Secret::from_bytes(SECRET));
    let store = options.open_lists_with(Arc::clone(&backend), Some(directory.path())).unwrap();
    store.add_many(List::Yes, (0..20u8).map(|key| [key])).unwrap();
    let listed = || backend.inner().range(Keyspace::Mistakes, (Unbounded, Unbounded)).count();
    for key in 20..100u8 {
        // Let each operation of the addition panic in turn. The last one is the write, which is
        // done before the panic.
        let before = listed();
        for n in (0..).take_while(|_| listed() == before) {
            backend.fail_at(n, Fault::Panic);
            let add = std::panic::AssertUnwindSafe(|| store.add_no(&[key]));
            let _ = std::panic::catch_unwind(add);
            backend.heal();
        }
    }
    for key in 100..=255u8 {
        store.add_yes(&[key]).unwrap();
    }
    store.close().unwrap();
    let store = options.open_lists_with(backend, Some(directory.path())).unwrap();
    assert_eq!(store.len(List::No), 80);
    store.validate().unwrap();
}

#[test]
fn length_of_a_list_never_drops_below_zero() {
    let backend = faulty(MemoryBackend::new());
    let store = Yes::open(&backend, None).unwrap().0;
    let listed = || backend.inner().range(Keyspace::Members, (Unbounded, Unbounded)).count();
    for n in (0..).take_while(|_| listed() == 0) {
        backend.fail_at(n, Fault::After);
        assert!(store.add_yes(b"alice").is_err());
        backend.heal();
    }
    assert!(store.remove_yes(b"alice").unwrap());
    assert_eq!((store.len(List::Yes), listed()), (0, 0));
    assert!(store.is_empty());
}

/// A rebuild repairs a damaged reverse map that lists absent keys. The filter may take such a key for a
/// member, although it never held that key.
#[test]
fn failed_rebuild_of_a_damaged_store_loses_no_member() {
    let secret = Secret::from_bytes(SECRET);
    let hasher = KeyedHasher::new(&secret);
    let options = OpenOptions::new().layout(Layout::Split).secret(secret).shards(4);
    let options = options.capacity(400).false_positive_rate(0.1);
    let open = |backend: &Faulty, directory: &Path| {
        let store = options.clone().open_with(Arc::clone(backend), Some(directory));
        let mut store: Store<Faulty> = store.unwrap();
        store.wait_until_ready().unwrap();
        Split(store)
    };
    let mut orphans = Batch::new();
    for orphan in 1..=KEYS {
        let key = orphan.to_be_bytes();
        let mut member = hasher.hash_bytes(&key).as_u128().to_be_bytes()[..4].to_vec();
        member.extend_from_slice(&key);
        orphans.insert(Keyspace::Members, member, b"");
    }
    for failing_at in (0..).step_by(61) {
        let (backend, directory) = (filled::<Split>(), tempfile::tempdir().unwrap());
        open(&backend, directory.path()).close().unwrap();
        let store = open(&backend, directory.path());
        backend.write(&orphans, Durability::Synced).unwrap();
        backend.fail_from(failing_at, Fault::Before);
        let is_rebuilt = store.0.rebuild().is_ok();
        backend.heal();
        assert!(has_all(&store), "after a failure at {failing_at}");
        store.close().unwrap();
        let store = open(&backend, directory.path());
        assert!(has_all(&store), "reopened after a failure at {failing_at}");
        if is_rebuilt {
            assert!(failing_at > 0, "a rebuild uses the backend");
            break;
        }
    }
}

/// Writes keys to the backend directly, so that the filter lacks them.
fn validate_finds_keys_that_the_filter_lacks<S: Subject>() {
    let backend = filled::<S>();
    let store = S::open(&backend, None).unwrap();
    store.validate().unwrap();
    store.rebuild().unwrap();
    store.validate().unwrap();

    let larger = faulty(copy(backend.inner()));
    let other = S::open(&larger, None).unwrap();
    (1..20).for_each(|key| other.put(key).unwrap());
    drop(other);
    let mut batch = Batch::new();
    for space in [Keyspace::Members, Keyspace::Keys, Keyspace::Mistakes] {
        for pair in larger.inner().range(space, (Unbounded, Unbounded)) {
            let (key, value) = pair.unwrap();
            batch.insert(space, key, value);
        }
    }
    backend.inner().write(&batch, Durability::Synced).unwrap();
    let error = store.validate().unwrap_err();
    assert!(matches!(error, StoreError::Invalid(_)), "{error}");
}

#[test]
fn validate_notices_keys_that_the_filter_lacks() {
    with_each!(validate_finds_keys_that_the_filter_lacks);
}
