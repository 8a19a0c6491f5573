//! What every store promises when something goes wrong around it: opening fails, the filter can't
//! be saved, the directory or the backend is somebody else's, a write shows only after reopening.

mod common;

use common::copy;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use twiceshy::{KeyedHasher, Secret};
use twiceshy_store::backend::Unbounded;
use twiceshy_store::testing::{Fault, FaultyBackend};
use twiceshy_store::{
    Backend, BackendError, Batch, Durability, GuardedStore, Keyspace, Layout, List, ListOptions,
    ListStore, MemoryBackend, Options, RangeOptions, RangeStore, Result, StoreError,
};

type Faulty = Arc<FaultyBackend<MemoryBackend>>;

const SECRET: [u8; 16] = [7; 16];
const KEYS: u64 = 300;

/// A store of any kind, with keys and nothing else.
trait Subject: Sized {
    fn open_with(
        backend: Faulty,
        directory: Option<&Path>,
        capacity: Option<usize>,
    ) -> Result<Self>;
    fn put(&self, key: u64) -> Result<()>;
    fn has(&self, key: u64) -> Result<bool>;
    fn delete(&self, key: u64) -> Result<bool>;
    fn close(self) -> Result<()>;

    fn open(backend: &Faulty, directory: Option<&Path>) -> Result<Self> {
        Self::open_with(Arc::clone(backend), directory, Some(8))
    }
}

/// A [`GuardedStore`] of the merged layout.
struct Merged(GuardedStore<Faulty>);
/// A [`GuardedStore`] of the split layout.
struct Split(GuardedStore<Faulty>);
struct Ranges(RangeStore<u64, Faulty>);
/// A [`ListStore`] and its yes list.
struct Yes(ListStore<Faulty>);
/// A [`ListStore`] and its no list.
struct No(ListStore<Faulty>);

fn open_guarded(
    layout: Layout,
    backend: Faulty,
    directory: Option<&Path>,
    capacity: Option<usize>,
) -> Result<GuardedStore<Faulty>> {
    let mut options = Options::new().layout(layout).secret(Secret::from_bytes(SECRET)).shards(4);
    if let Some(capacity) = capacity {
        options = options.capacity(capacity);
    }
    let mut store = options.open_with(backend, directory)?;
    // If the filter can't be built, the store works without it.
    let _ = store.wait_until_ready();
    Ok(store)
}

fn open_lists(
    backend: Faulty,
    directory: Option<&Path>,
    capacity: Option<usize>,
) -> Result<ListStore<Faulty>> {
    let mut options = ListOptions::new().secret(Secret::from_bytes(SECRET)).shards(2);
    if let Some(capacity) = capacity {
        options = options.capacity(capacity);
    }
    options.open_with(backend, directory)
}

macro_rules! guarded {
    ($name:ident, $layout:expr) => {
        impl Subject for $name {
            fn open_with(
                backend: Faulty,
                directory: Option<&Path>,
                capacity: Option<usize>,
            ) -> Result<Self> {
                open_guarded($layout, backend, directory, capacity).map(Self)
            }

            fn put(&self, key: u64) -> Result<()> {
                self.0.put(&key.to_be_bytes(), b"1")
            }

            fn has(&self, key: u64) -> Result<bool> {
                self.0.contains(&key.to_be_bytes())
            }

            fn delete(&self, key: u64) -> Result<bool> {
                self.0.delete(&key.to_be_bytes())
            }

            fn close(self) -> Result<()> {
                self.0.close()
            }
        }
    };
}

guarded!(Merged, Layout::Merged);
guarded!(Split, Layout::Split);

impl Subject for Ranges {
    fn open_with(
        backend: Faulty,
        directory: Option<&Path>,
        capacity: Option<usize>,
    ) -> Result<Self> {
        let mut options = RangeOptions::new().secret(Secret::from_bytes(SECRET)).longest_range(4);
        if let Some(capacity) = capacity {
            options = options.capacity(capacity);
        }
        options.open_with(backend, directory).map(Self)
    }

    fn put(&self, key: u64) -> Result<()> {
        self.0.put(key, b"1")
    }

    fn has(&self, key: u64) -> Result<bool> {
        self.0.contains(key)
    }

    fn delete(&self, key: u64) -> Result<bool> {
        self.0.delete(key)
    }

    fn close(self) -> Result<()> {
        self.0.close()
    }
}

impl Subject for Yes {
    fn open_with(
        backend: Faulty,
        directory: Option<&Path>,
        capacity: Option<usize>,
    ) -> Result<Self> {
        open_lists(backend, directory, capacity).map(Self)
    }

    fn put(&self, key: u64) -> Result<()> {
        self.0.add_yes(&key.to_be_bytes()).map(drop)
    }

    fn has(&self, key: u64) -> Result<bool> {
        Ok(self.0.list_of(&key.to_be_bytes())? == Some(List::Yes))
    }

    fn delete(&self, key: u64) -> Result<bool> {
        self.0.remove_yes(&key.to_be_bytes())
    }

    fn close(self) -> Result<()> {
        self.0.close()
    }
}

impl Subject for No {
    fn open_with(
        backend: Faulty,
        directory: Option<&Path>,
        capacity: Option<usize>,
    ) -> Result<Self> {
        open_lists(backend, directory, capacity).map(Self)
    }

    fn put(&self, key: u64) -> Result<()> {
        self.0.add_no(&key.to_be_bytes()).map(drop)
    }

    fn has(&self, key: u64) -> Result<bool> {
        Ok(self.0.list_of(&key.to_be_bytes())? == Some(List::No))
    }

    fn delete(&self, key: u64) -> Result<bool> {
        self.0.remove_no(&key.to_be_bytes())
    }

    fn close(self) -> Result<()> {
        self.0.close()
    }
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

/// A backend with a store of keys in it, and no saved filter.
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

/// The files of a directory, by name.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The filter of a store whose opening failed was never built, and must not be saved.
fn an_open_that_fails_hides_no_key<S: Subject>() {
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
fn a_store_whose_open_failed_hides_no_key() {
    with_each!(an_open_that_fails_hides_no_key);
}

/// A filter without members under a record as it was when range stores could save one by mistake.
#[test]
fn saved_filters_of_the_old_format_are_not_trusted() {
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

fn refuses_a_second_store<S: Subject>() {
    let backend = faulty(MemoryBackend::new());
    let store = S::open(&backend, None).unwrap();
    store.put(1).unwrap();
    let second = S::open(&backend, None).err().unwrap();
    assert!(matches!(second, StoreError::Backend(BackendError::Claimed)), "{second}");
    assert!(Yes::open(&backend, None).is_err() && Ranges::open(&backend, None).is_err());
    store.put(2).unwrap();
    store.close().unwrap();
    // Free after closing, after dropping, and after an open that failed.
    drop(S::open(&backend, None).unwrap());
    backend.fail_at(1, Fault::Before);
    assert!(S::open(&backend, None).is_err());
    backend.heal();
    let store = S::open(&backend, None).unwrap();
    assert!(store.has(1).unwrap() && store.has(2).unwrap());
}

#[test]
fn a_backend_has_one_store_at_a_time() {
    with_each!(refuses_a_second_store);
}

fn says_that_only_the_filter_was_not_saved<S: Subject>() {
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

    // A file that can't be removed or written must not fail anything either.
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
fn a_filter_that_cannot_be_saved_is_no_loss() {
    with_each!(says_that_only_the_filter_was_not_saved);
}

fn says_that_the_backend_was_not_synced<S: Subject>() {
    let backend = faulty(MemoryBackend::new());
    let directory = tempfile::tempdir().unwrap();
    let store = S::open(&backend, Some(directory.path())).unwrap();
    store.put(1).unwrap();
    backend.fail_from(0, Fault::Before);
    assert!(matches!(store.close(), Err(StoreError::Backend(_))));
}

#[test]
fn a_backend_that_cannot_be_synced_is_an_error_of_its_own() {
    with_each!(says_that_the_backend_was_not_synced);
}

fn leaves_files_alone<S: Subject>() {
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
fn files_that_are_not_ours_are_never_removed() {
    with_each!(leaves_files_alone);
}

/// As a store remembers that was opened on a machine with more memory.
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
    assert_eq!(meta(&backend, b"shape").unwrap(), large, "a larger machine may come back");
    // Asked for, it is refused, and nothing has changed.
    assert!(matches!(open(Some(TOO_MANY as usize * 2)), Err(StoreError::Build(_))));
    assert_eq!(meta(&backend, b"shape").unwrap(), large);
    // A capacity that fits takes effect.
    let store = open(Some(1000)).unwrap();
    assert!(has_all(&store));
    drop(store);
    assert_eq!(meta(&backend, b"shape").unwrap()[..8], 1000u64.to_be_bytes());
}

#[test]
fn a_remembered_capacity_that_does_not_fit_locks_nobody_out() {
    with_each!(opens_with_less_memory);
}

/// A put fails at each operation, and a delete after it at each or at none.
fn writes_removals_in_doubt<S: Subject>() {
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
fn a_removal_holds_although_an_earlier_write_shows_late() {
    with_each!(writes_removals_in_doubt);
}

fn notices_another_identity<S: Subject>() {
    let filled = filled::<S>();
    let record = meta(&filled, b"store").unwrap();
    for bit in 0..record.len() * 8 {
        let backend = faulty(copy(filled.inner()));
        let mut damaged = record.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        set_meta(&backend, b"store", &damaged);
        // Without a secret that is asked for, nothing else could tell.
        let opened = [
            Options::new().capacity(8).open_with(Arc::clone(&backend), None).map(drop_guarded),
            RangeOptions::new()
                .capacity(8)
                .open_with::<u64, _>(Arc::clone(&backend), None)
                .map(drop),
            ListOptions::new().capacity(8).open_with(Arc::clone(&backend), None).map(drop),
        ];
        assert!(opened.iter().all(Result::is_err), "bit {bit}");
    }
    // As it was before there was a check value.
    let old = [&2u32.to_be_bytes(), &record[4..record.len() - 16]].concat();
    set_meta(&filled, b"store", &old);
    assert!(has_all(&S::open(&filled, None).unwrap()));
    assert_eq!(meta(&filled, b"store").unwrap(), old);
}

fn drop_guarded(store: GuardedStore<Faulty>) {
    drop(store);
}

#[test]
fn a_damaged_secret_or_layout_is_noticed() {
    with_each!(notices_another_identity);
}

#[test]
fn a_filter_is_not_handed_out_until_all_shards_are_ready() {
    let filled = filled::<Merged>();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("filter");
    let is_unready = (0..100).any(|n| {
        let backend = faulty(copy(filled.inner()));
        backend.fail_from(n, Fault::Before);
        let Ok(store) = Merged::open(&backend, None) else { return false };
        assert!(store.0.stats().shards_ready < store.0.stats().shards);
        let error = store.0.save_filter(&file).unwrap_err();
        assert!(matches!(error, StoreError::Unready), "{error}");
        assert!(!file.exists());
        true
    });
    assert!(is_unready);
}

#[test]
fn scrubbing_a_range_store_outdates_the_saved_filter_first() {
    let backend = filled::<Ranges>();
    let directory = tempfile::tempdir().unwrap();
    Ranges::open(&backend, Some(directory.path())).unwrap().close().unwrap();
    assert!(meta(&backend, b"clean").is_some());
    let store = Ranges::open(&backend, Some(directory.path())).unwrap();
    // Its first operation is to remove the name.
    backend.fail_from(1, Fault::Before);
    assert!(store.0.scrub().is_err());
    backend.heal();
    assert_eq!(meta(&backend, b"clean"), None);
    store.0.scrub().unwrap();
    assert!(has_all(&store));
}

/// A range of 64 partitions with a filter that is wrong about most of them.
#[test]
fn one_question_takes_few_places_for_mistakes() {
    let options = RangeOptions::new().capacity(8).false_positive_rate(0.99).longest_range(4);
    let store: RangeStore<u64, _> = options.open_with(MemoryBackend::new(), None).unwrap();
    (0..50).for_each(|n| store.put(n * 10_001, b"1").unwrap());
    let mut most = 0;
    for first in (1000..400_000).step_by(1000) {
        let before = store.stats().mistakes;
        let is_empty = store.range_is_empty(first..first + 4 * 63).unwrap();
        assert_eq!(is_empty, store.range(first..first + 4 * 63).unwrap().next().is_none());
        most = most.max(store.stats().mistakes - before);
    }
    assert!((1..=4).contains(&most), "{most} mistakes of one question");
}

#[cfg(feature = "fjall")]
#[test]
fn a_directory_that_holds_something_else_is_refused() {
    let opens: [fn(&Path) -> Result<()>; 3] = [
        |path| Options::new().open(path)?.close(),
        |path| RangeOptions::new().open::<u64>(path)?.close(),
        |path| ListOptions::new().open(path)?.close(),
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
        // In a store, files of others may be.
        fs::write(empty.join("notes.txt"), "precious").unwrap();
        open(&empty).unwrap();
        assert!(empty.join("notes.txt").exists());
    }
}

/// If a mistake can't be kept, that puts no member in doubt: the filter is saved all the same.
#[test]
fn a_mistake_that_cannot_be_kept_is_no_doubt() {
    let backend = faulty(MemoryBackend::new());
    let directory = tempfile::tempdir().unwrap();
    let options = common::options(Layout::Merged);
    let store: GuardedStore<_> =
        options.open_with(Arc::clone(&backend), Some(directory.path())).unwrap();
    (0..40u8).for_each(|key| store.put(&[key], b"1").unwrap());
    for key in 40..=255u8 {
        backend.fail_at(u64::from(key % 8), Fault::After);
        let _ = store.get(&[key]);
        backend.heal();
    }
    assert!(store.stats().repairs_failed > 0);
    assert!(!store.delete(&[255]).unwrap());
    store.close().unwrap();
    assert!(meta(&backend, b"clean").is_some());

    let ranges = faulty(MemoryBackend::new());
    let options = RangeOptions::new().capacity(8).false_positive_rate(0.99).longest_range(4);
    let store: RangeStore<u64, _> =
        options.open_with(Arc::clone(&ranges), Some(directory.path())).unwrap();
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

/// After a panic in the middle of a change, the filter may be wrong about a key of the no list. It
/// isn't saved, so that the next open heals it.
#[test]
fn a_filter_that_a_panic_has_left_is_not_saved() {
    let backend = faulty(MemoryBackend::new());
    let directory = tempfile::tempdir().unwrap();
    let options = ListOptions::new().capacity(8).false_positive_rate(0.7).shards(2);
    let options = options.secret(Secret::from_bytes(SECRET));
    let store = options.open_with(Arc::clone(&backend), Some(directory.path())).unwrap();
    store.add_many(List::Yes, (0..20u8).map(|key| [key])).unwrap();
    let listed = || backend.inner().range(Keyspace::Mistakes, (Unbounded, Unbounded)).count();
    for key in 20..100u8 {
        // Until the write is done, which is the last operation.
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
    let store = options.open_with(backend, Some(directory.path())).unwrap();
    assert_eq!(store.len(List::No), 80);
    store.verify().unwrap();
}

#[test]
fn a_list_is_never_counted_below_zero() {
    let backend = faulty(MemoryBackend::new());
    let store = open_lists(Arc::clone(&backend), None, Some(8)).unwrap();
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

/// A reverse map that lists keys that are not there is damaged, and a scrub heals it. The filter may
/// take such a key for a member that it never held.
#[test]
fn a_scrub_that_fails_loses_no_member_of_a_damaged_store() {
    let secret = Secret::from_bytes(SECRET);
    let hasher = KeyedHasher::new(&secret);
    let options = Options::new().layout(Layout::Split).secret(secret).shards(4);
    let options = options.capacity(400).false_positive_rate(0.1);
    let open = |backend: &Faulty, directory: &Path| {
        let store = options.clone().open_with(Arc::clone(backend), Some(directory));
        let mut store: GuardedStore<Faulty> = store.unwrap();
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
        let is_scrubbed = store.0.scrub().is_ok();
        backend.heal();
        assert!(has_all(&store), "after a failure at {failing_at}");
        store.close().unwrap();
        let store = open(&backend, directory.path());
        assert!(has_all(&store), "reopened after a failure at {failing_at}");
        if is_scrubbed {
            assert!(failing_at > 0, "a scrub uses the backend");
            break;
        }
    }
}
