//! Runs the same tests on all backends.

use crate::common::copy_tree;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use twiceshy_deadline::Deadline;

use proptest::collection::vec;
use proptest::prelude::*;
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use tempfile::TempDir;
use twiceshy::QuotientFilter as Filter;
use twiceshy_store::backend::{MAX_KEY_BYTES, Result, Scan};
use twiceshy_store::{
    Backend, BackendError, Batch, Durability, Keyspace, MemoryBackend, OpenOptions, StoreError,
};

/// A kind of backend that tests can open.
trait Open: Backend + Sized {
    /// Whether data persists after the backend is dropped.
    const PERSISTENT: bool = true;

    /// Whether a scan sees a consistent snapshot between batches.
    const VIEWS: bool = false;

    fn open_at(path: &Path) -> Result<Self>;

    /// Opens an existing backend. Never creates one.
    fn open_existing_at(path: &Path) -> Result<Self>;
}

impl Open for MemoryBackend {
    const PERSISTENT: bool = false;

    fn open_at(_: &Path) -> Result<Self> {
        Ok(Self::new())
    }

    fn open_existing_at(path: &Path) -> Result<Self> {
        Self::open_at(path)
    }
}

#[cfg(feature = "fjall")]
impl Open for twiceshy_store::FjallBackend {
    /// Opens a backend with caches and memtables so small that it uses the disk immediately.
    fn open_at(path: &Path) -> Result<Self> {
        let mut options = twiceshy_store::FjallOptions::default();
        options.cache_bytes = 64 << 10;
        options.memtable_bytes = 32 << 10;
        Self::open(path, options)
    }

    fn open_existing_at(path: &Path) -> Result<Self> {
        let mut options = twiceshy_store::FjallOptions::default();
        options.create = false;
        Self::open(path, options)
    }
}

#[cfg(feature = "redb")]
impl Open for twiceshy_store::RedbBackend {
    const VIEWS: bool = true;

    fn open_at(path: &Path) -> Result<Self> {
        let mut options = twiceshy_store::RedbOptions::default();
        options.cache_bytes = 64 << 10;
        Self::open(path, options)
    }

    fn open_existing_at(path: &Path) -> Result<Self> {
        let mut options = twiceshy_store::RedbOptions::default();
        options.create = false;
        Self::open(path, options)
    }
}

macro_rules! suite {
    ($($test:ident),* $(,)?) => {
        mod memory {
            $(#[test] fn $test() { super::$test::<twiceshy_store::MemoryBackend>(); })*
        }
        #[cfg(feature = "fjall")]
        mod fjall {
            $(#[test] fn $test() { super::$test::<twiceshy_store::FjallBackend>(); })*
        }
        #[cfg(feature = "redb")]
        mod redb {
            $(#[test] fn $test() { super::$test::<twiceshy_store::RedbBackend>(); })*
        }
    };
}

suite! {
    pairs_can_be_inserted_overwritten_and_removed,
    keyspaces_are_independent,
    ranges_return_only_keys_within_bounds,
    ranges_are_read_from_both_ends,
    a_scan_returns_pairs_that_exist_throughout_the_scan,
    keys_and_values_of_any_allowed_length_are_stored,
    the_last_change_of_a_key_wins,
    a_batch_with_too_long_keys_or_values_changes_nothing,
    threads_read_their_own_writes,
    scans_miss_no_pair_while_all_pairs_are_rewritten,
    all_pairs_are_found_after_reopening,
    eventual_writes_are_read_at_once_and_after_a_clean_close,
    later_operations_make_eventual_writes_durable,
    a_kill_loses_only_the_last_eventual_writes,
    flushing_and_compacting_change_nothing,
    a_backup_holds_the_same_pairs,
    a_backup_shows_one_moment_between_batches,
    a_backup_needs_an_empty_directory,
    too_long_keys_are_not_found,
    gets_and_writes_of_one_key_run_concurrently,
    a_directory_cannot_be_opened_twice,
    missing_backend_is_not_created,
    random_operations_match_a_model,
}

const LEVELS: [Durability; 3] = [Durability::Eventual, Durability::Buffered, Durability::Synced];

type Model = [BTreeMap<Vec<u8>, Vec<u8>>; 4];

fn fresh<B: Open>() -> (TempDir, B) {
    let directory = tempfile::tempdir().unwrap();
    let backend = B::open_at(directory.path()).unwrap();
    (directory, backend)
}

fn insert(backend: &impl Backend, space: Keyspace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
    let mut batch = Batch::new();
    batch.insert(space, key, value);
    backend.write(&batch, Durability::Buffered).unwrap();
}

fn remove(backend: &impl Backend, space: Keyspace, key: impl AsRef<[u8]>) {
    let mut batch = Batch::new();
    batch.remove(space, key);
    backend.write(&batch, Durability::Buffered).unwrap();
}

fn get(backend: &impl Backend, space: Keyspace, key: impl AsRef<[u8]>) -> Option<Vec<u8>> {
    backend.get(space, key.as_ref()).unwrap().map(Vec::from)
}

fn collect(scan: Scan<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    scan.map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}

fn all(backend: &impl Backend, space: Keyspace) -> Vec<(Vec<u8>, Vec<u8>)> {
    collect(backend.range(space, (Unbounded, Unbounded)))
}

fn contents(backend: &impl Backend) -> Model {
    Keyspace::ALL.map(|space| all(backend, space).into_iter().collect())
}

fn pairs_can_be_inserted_overwritten_and_removed<B: Open>() {
    let (_directory, backend) = fresh::<B>();
    assert_eq!(get(&backend, Keyspace::Members, "a"), None);
    insert(&backend, Keyspace::Members, "a", "1");
    assert_eq!(get(&backend, Keyspace::Members, "a").unwrap(), b"1");
    insert(&backend, Keyspace::Members, "a", "2");
    assert_eq!(get(&backend, Keyspace::Members, "a").unwrap(), b"2");
    remove(&backend, Keyspace::Members, "a");
    assert_eq!(get(&backend, Keyspace::Members, "a"), None);
    remove(&backend, Keyspace::Members, "a");
    for durability in LEVELS {
        backend.write(&Batch::new(), durability).unwrap();
    }
    assert_eq!(all(&backend, Keyspace::Members), []);
}

fn keyspaces_are_independent<B: Open>() {
    let (_directory, backend) = fresh::<B>();
    let mut batch = Batch::new();
    for space in Keyspace::ALL {
        batch.insert(space, "key", format!("{space:?}"));
    }
    backend.write(&batch, Durability::Synced).unwrap();
    for space in Keyspace::ALL {
        assert_eq!(all(&backend, space), [(b"key".to_vec(), format!("{space:?}").into_bytes())]);
    }
    remove(&backend, Keyspace::Keys, "key");
    assert_eq!(get(&backend, Keyspace::Keys, "key"), None);
    assert!(get(&backend, Keyspace::Mistakes, "key").is_some());
}

fn ranges_return_only_keys_within_bounds<B: Open>() {
    let (_directory, backend) = fresh::<B>();
    let keys: [&[u8]; 8] =
        [b"", b"\0", b"\0\0", b"\0\x01", b"a", b"a\0", b"a\xff\xff", b"\xff\xff"];
    let mut model = BTreeMap::new();
    for (i, key) in keys.iter().enumerate() {
        insert(&backend, Keyspace::Mistakes, key, [i as u8]);
        model.insert(key.to_vec(), vec![i as u8]);
    }
    let bounds = || {
        let others: [&[u8]; 3] = [b"\0\0\0", b"a\xff", b"z"];
        keys.into_iter()
            .chain(others)
            .flat_map(|key| [Included(key), Excluded(key)])
            .chain([Unbounded])
    };
    for start in bounds() {
        for end in bounds() {
            let within = |key: &[u8]| {
                (match start {
                    Included(start) => start <= key,
                    Excluded(start) => start < key,
                    Unbounded => true,
                }) && (match end {
                    Included(end) => key <= end,
                    Excluded(end) => key < end,
                    Unbounded => true,
                })
            };
            let mut expected: Vec<_> =
                model.clone().into_iter().filter(|(key, _)| within(key)).collect();
            let range = || backend.range(Keyspace::Mistakes, (start, end));
            assert_eq!(collect(range()), expected, "{start:?} {end:?}");
            expected.reverse();
            assert_eq!(collect(Box::new(range().rev())), expected, "{start:?} {end:?}");
        }
    }
    for prefix in keys {
        let expected: Vec<_> =
            model.clone().into_iter().filter(|(key, _)| key.starts_with(prefix)).collect();
        assert_eq!(collect(backend.prefix(Keyspace::Mistakes, prefix)), expected);
    }
}

fn ranges_are_read_from_both_ends<B: Open>() {
    let (_directory, backend) = fresh::<B>();
    let mut batch = Batch::new();
    for i in 0..1000_u32 {
        batch.insert(Keyspace::Keys, i.to_be_bytes(), []);
    }
    backend.write(&batch, Durability::Buffered).unwrap();
    for back_every in [2, 3, 50] {
        let mut scan = backend.range(Keyspace::Keys, (Unbounded, Unbounded));
        let (mut front, mut back) = (0, 1000);
        for step in 1.. {
            let pair = if step % back_every == 0 { scan.next_back() } else { scan.next() };
            let Some(pair) = pair else { break };
            let expected = if step % back_every == 0 {
                back -= 1;
                back
            } else {
                front += 1;
                front - 1
            };
            assert_eq!(*pair.unwrap().0, u32::to_be_bytes(expected));
        }
        assert_eq!(front, back);
        assert!(scan.next().is_none() && scan.next_back().is_none());
    }
}

fn a_scan_returns_pairs_that_exist_throughout_the_scan<B: Open>() {
    let (_directory, backend) = fresh::<B>();
    let mut batch = Batch::new();
    for i in (0..2000_u32).step_by(2) {
        batch.insert(Keyspace::Members, i.to_be_bytes(), b"old");
    }
    backend.write(&batch, Durability::Buffered).unwrap();
    let mut scan = backend.range(Keyspace::Members, (Unbounded, Unbounded));
    let mut seen = vec![scan.next().unwrap().unwrap().0];
    // Writes before and after the scan's current position neither delay nor confuse the scan.
    for chunk in (0..2000_u32).collect::<Vec<_>>().chunks(200) {
        let mut batch = Batch::new();
        for &i in chunk {
            match i % 4 {
                2 => batch.remove(Keyspace::Members, i.to_be_bytes()),
                _ => batch.insert(Keyspace::Members, i.to_be_bytes(), b"new"),
            }
        }
        backend.write(&batch, Durability::Buffered).unwrap();
    }
    seen.extend(scan.map(|pair| pair.unwrap().0));
    assert!(seen.is_sorted_by(|a, b| a < b), "keys are in order, each once");
    for i in (0..2000_u32).step_by(4) {
        assert!(seen.binary_search_by(|key| (**key).cmp(&i.to_be_bytes())).is_ok());
    }
}

fn keys_and_values_of_any_allowed_length_are_stored<B: Open>() {
    let (directory, mut backend) = fresh::<B>();
    let lengths = [0, 1, 2, 19, 20, 21, 255, 256, 4096, 32_767, 65_533, MAX_KEY_BYTES];
    let mut model = BTreeMap::new();
    for length in lengths {
        for byte in [0, 7, 255] {
            let (key, value) = (vec![byte; length], vec![byte; length * 3]);
            insert(&backend, Keyspace::Keys, &key, &value);
            model.insert(key, value);
        }
    }
    for round in 0..2 {
        for (key, value) in &model {
            assert_eq!(get(&backend, Keyspace::Keys, key).as_ref(), Some(value));
        }
        assert!(all(&backend, Keyspace::Keys).into_iter().eq(model.clone()));
        if B::PERSISTENT && round == 0 {
            drop(backend);
            backend = B::open_at(directory.path()).unwrap();
        }
    }
    insert(&backend, Keyspace::Keys, "large", vec![1; 5 << 20]);
    assert_eq!(get(&backend, Keyspace::Keys, "large").unwrap(), vec![1; 5 << 20]);
    for key in model.keys() {
        remove(&backend, Keyspace::Keys, key);
    }
    assert_eq!(all(&backend, Keyspace::Keys).len(), 1);
}

fn the_last_change_of_a_key_wins<B: Open>() {
    let (directory, mut backend) = fresh::<B>();
    insert(&backend, Keyspace::Meta, "d", "0");
    let mut batch = Batch::new();
    batch.insert(Keyspace::Meta, "a", "1");
    batch.insert(Keyspace::Meta, "a", "2");
    batch.insert(Keyspace::Meta, "b", "1");
    batch.remove(Keyspace::Meta, "b");
    batch.remove(Keyspace::Meta, "c");
    batch.insert(Keyspace::Meta, "c", "1");
    batch.remove(Keyspace::Meta, "d");
    batch.insert(Keyspace::Meta, "d", "1");
    batch.remove(Keyspace::Meta, "d");
    backend.write(&batch, Durability::Buffered).unwrap();
    let expected = [(b"a".to_vec(), b"2".to_vec()), (b"c".to_vec(), b"1".to_vec())];
    assert_eq!(all(&backend, Keyspace::Meta), expected);
    if B::PERSISTENT {
        drop(backend);
        backend = B::open_at(directory.path()).unwrap();
        assert_eq!(all(&backend, Keyspace::Meta), expected);
    }
    backend.compact().unwrap();
    assert_eq!(all(&backend, Keyspace::Meta), expected);
}

fn a_batch_with_too_long_keys_or_values_changes_nothing<B: Open>() {
    let (_directory, backend) = fresh::<B>();
    let mut batch = Batch::new();
    batch.insert(Keyspace::Members, "a", "1");
    batch.insert(Keyspace::Members, vec![1; MAX_KEY_BYTES + 1], "1");
    let error = backend.write(&batch, Durability::Buffered).unwrap_err();
    assert!(matches!(error, BackendError::KeyTooLong { bytes } if bytes == MAX_KEY_BYTES + 1));
    assert_eq!(all(&backend, Keyspace::Members), []);
    // No stored key has this length. Looking one up is not an error.
    assert_eq!(get(&backend, Keyspace::Members, vec![1; MAX_KEY_BYTES + 1]), None);
}

fn threads_read_their_own_writes<B: Open>() {
    let _deadline = Deadline::new();
    let (_directory, backend) = fresh::<B>();
    let backend = &backend;
    std::thread::scope(|threads| {
        for thread in 0..8_u8 {
            threads.spawn(move || {
                for i in 0..40_u32 {
                    let key = [&[thread][..], &i.to_be_bytes()].concat();
                    let mut batch = Batch::new();
                    batch.insert(Keyspace::Members, &key, vec![thread; 500]);
                    batch.insert(Keyspace::Mistakes, &key, []);
                    batch.insert(Keyspace::Meta, "last", &key);
                    backend.write(&batch, Durability::Buffered).unwrap();
                    assert!(get(backend, Keyspace::Members, &key).is_some(), "read your writes");
                    let prefix = backend.prefix(Keyspace::Members, &[thread]);
                    assert_eq!(prefix.count(), i as usize + 1);
                }
            });
        }
    });
    assert_eq!(all(backend, Keyspace::Members).len(), 8 * 40);
    assert_eq!(all(backend, Keyspace::Mistakes).len(), 8 * 40);
}

fn scans_miss_no_pair_while_all_pairs_are_rewritten<B: Open>() {
    let _deadline = Deadline::new();
    let (_directory, backend) = fresh::<B>();
    let write = |round: u32| {
        let mut batch = Batch::new();
        for i in 0..50_u32 {
            batch.insert(Keyspace::Members, i.to_be_bytes(), round.to_be_bytes());
        }
        backend.write(&batch, Durability::Buffered).unwrap();
    };
    write(0);
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let mut pairs = all(&backend, Keyspace::Members);
                assert_eq!(pairs.len(), 50);
                pairs.dedup_by(|a, b| a.1 == b.1);
                assert!(pairs.len() == 1 || !B::VIEWS);
            }
        });
        (1..300).for_each(write);
        done.store(true, Ordering::Relaxed);
    });
}

fn all_pairs_are_found_after_reopening<B: Open>() {
    if !B::PERSISTENT {
        return;
    }
    let (directory, mut backend) = fresh::<B>();
    let mut model = Model::default();
    for round in 0..10_u8 {
        let durability = LEVELS[usize::from(round) / 2 % 3];
        for space in Keyspace::ALL {
            let mut batch = Batch::new();
            for i in 0..100 {
                let (key, value) = ([i, round % 3, space as u8], vec![round; 100]);
                batch.insert(space, key, &value);
                model[space as usize].insert(key.to_vec(), value);
            }
            backend.write(&batch, durability).unwrap();
        }
        drop(backend);
        backend = B::open_at(directory.path()).unwrap();
        assert_eq!(contents(&backend), model);
    }
    assert!(backend.bytes_on_disk().unwrap() > 0);
}

/// Writes a pair whose key is a number, with eventual durability.
fn insert_eventually(backend: &impl Backend, number: u32) {
    let mut batch = Batch::new();
    batch.insert(Keyspace::Mistakes, number.to_be_bytes(), [7; 50]);
    batch.insert(Keyspace::Meta, "last", number.to_be_bytes());
    backend.write(&batch, Durability::Eventual).unwrap();
}

/// Returns the number of pairs from `insert_eventually`. They must be the first ones, in whole
/// batches.
fn count_numbers(backend: &impl Backend) -> u32 {
    let keys: Vec<_> = all(backend, Keyspace::Mistakes).into_iter().map(|(key, _)| key).collect();
    let count = keys.len() as u32;
    assert!(keys.into_iter().eq((0..count).map(|number| number.to_be_bytes().to_vec())));
    let last = get(backend, Keyspace::Meta, "last");
    assert_eq!(last, count.checked_sub(1).map(|last| last.to_be_bytes().to_vec()));
    count
}

/// Returns the number of pairs from `insert_eventually` that would survive a kill now.
fn count_after_kill<B: Open>(directory: &Path) -> u32 {
    // A kill leaves the files as they are now.
    let copy = tempfile::tempdir().unwrap();
    copy_tree(directory, copy.path());
    count_numbers(&B::open_at(copy.path()).unwrap())
}

fn eventual_writes_are_read_at_once_and_after_a_clean_close<B: Open>() {
    let _deadline = Deadline::new();
    let (directory, mut backend) = fresh::<B>();
    let copies = tempfile::tempdir().unwrap();
    for number in 0..700 {
        insert_eventually(&backend, number);
        assert!(get(&backend, Keyspace::Mistakes, number.to_be_bytes()).is_some());
        if number % 100 == 50 {
            assert_eq!(count_numbers(&backend), number + 1);
        }
        if B::PERSISTENT && number == 350 {
            assert!(backend.bytes_on_disk().unwrap() > 0);
            backend.backup(copies.path()).unwrap();
            assert_eq!(count_numbers(&B::open_at(copies.path()).unwrap()), number + 1);
        }
        if number == 450 {
            backend.compact().unwrap();
            assert_eq!(count_numbers(&backend), number + 1);
        }
        if B::PERSISTENT && number % 300 == 10 {
            drop(backend);
            backend = B::open_at(directory.path()).unwrap();
            assert_eq!(count_numbers(&backend), number + 1);
        }
    }
    if B::PERSISTENT {
        drop(backend);
        assert_eq!(count_numbers(&B::open_at(directory.path()).unwrap()), 700);
    }
}

fn later_operations_make_eventual_writes_durable<B: Open>() {
    if !B::PERSISTENT {
        return;
    }
    let (directory, backend) = fresh::<B>();
    let operations: [fn(&B); 7] = [
        |backend| insert(backend, Keyspace::Keys, "buffered", ""),
        |backend| {
            let mut batch = Batch::new();
            batch.insert(Keyspace::Keys, "synced", "");
            backend.write(&batch, Durability::Synced).unwrap();
        },
        |backend| backend.write(&Batch::new(), Durability::Buffered).unwrap(),
        |backend| backend.write(&Batch::new(), Durability::Synced).unwrap(),
        |backend| backend.sync().unwrap(),
        |backend| backend.flush().unwrap(),
        |backend| backend.compact().unwrap(),
    ];
    for (round, operation) in (1..).zip(operations) {
        for number in 10 * (round - 1)..10 * round {
            insert_eventually(&backend, number);
        }
        operation(&backend);
        assert_eq!(count_after_kill::<B>(directory.path()), 10 * round, "round {round}");
    }
}

fn a_kill_loses_only_the_last_eventual_writes<B: Open>() {
    if !B::PERSISTENT {
        return;
    }
    let (directory, backend) = fresh::<B>();
    for number in 0..600 {
        insert_eventually(&backend, number);
        if number % 37 == 0 {
            let left = count_after_kill::<B>(directory.path());
            assert!(left <= number + 1 && left + 255 > number, "{left} of {}", number + 1);
        }
    }
}

/// The documentation says how many writes can be lost.
#[cfg(feature = "redb")]
#[test]
fn redb_syncs_every_256th_eventual_write() {
    let (directory, backend) = fresh::<twiceshy_store::RedbBackend>();
    for number in 0..520 {
        insert_eventually(&backend, number);
        if [0, 100, 254, 255, 256, 510, 511, 512, 519].contains(&number) {
            let left = count_after_kill::<twiceshy_store::RedbBackend>(directory.path());
            assert_eq!(left, (number + 1) / 256 * 256);
        }
    }
}

fn flushing_and_compacting_change_nothing<B: Open>() {
    let (directory, mut backend) = fresh::<B>();
    for round in 0..20_u8 {
        let mut batch = Batch::new();
        for i in 0..250_u8 {
            match (i ^ round) % 5 {
                0 => batch.remove(Keyspace::Members, [i]),
                _ => batch.insert(Keyspace::Members, [i], vec![round; 200]),
            }
        }
        backend.write(&batch, Durability::Buffered).unwrap();
    }
    let before = contents(&backend);
    backend.sync().unwrap();
    backend.flush().unwrap();
    assert_eq!(contents(&backend), before);
    backend.compact().unwrap();
    assert_eq!(contents(&backend), before);
    if B::PERSISTENT {
        drop(backend);
        backend = B::open_at(directory.path()).unwrap();
        assert_eq!(contents(&backend), before);
    }
}

fn a_backup_holds_the_same_pairs<B: Open>() {
    let (_directory, backend) = fresh::<B>();
    let target = tempfile::tempdir().unwrap();
    let path = target.path().join("in/a new/directory");
    if !B::PERSISTENT {
        let error = backend.backup(&path).unwrap_err();
        assert!(matches!(error, BackendError::Unsupported { .. }), "{error}");
        return;
    }
    let mut batch = Batch::new();
    for space in [Keyspace::Members, Keyspace::Mistakes, Keyspace::Meta] {
        batch.insert(space, [], b"empty");
        for i in 0..1000_u32 {
            batch.insert(space, i.to_le_bytes(), vec![i as u8; 50]);
        }
    }
    backend.write(&batch, Durability::Buffered).unwrap();
    remove(&backend, Keyspace::Members, 7_u32.to_le_bytes());
    backend.backup(&path).unwrap();
    let before = contents(&backend);
    insert(&backend, Keyspace::Members, "later", "1");

    let copy = B::open_at(&path).unwrap();
    assert_eq!(contents(&copy), before);
    insert(&copy, Keyspace::Members, "other", "1");
    assert_eq!(get(&backend, Keyspace::Members, "other"), None);
    drop(copy);
    let copy = B::open_at(&path).unwrap();
    assert!(get(&copy, Keyspace::Members, "other").is_some());
}

fn a_backup_shows_one_moment_between_batches<B: Open>() {
    let _deadline = Deadline::new();
    if !B::PERSISTENT {
        return;
    }
    let (_directory, backend) = fresh::<B>();
    let target = tempfile::tempdir().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for round in 0_u32.. {
                let mut batch = Batch::new();
                for space in Keyspace::ALL {
                    batch.insert(space, "round", round.to_be_bytes());
                    batch.insert(space, round.to_be_bytes(), []);
                }
                backend.write(&batch, Durability::Buffered).unwrap();
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for i in 0..5 {
            let path = target.path().join(i.to_string());
            backend.backup(&path).unwrap();
            let copy = B::open_at(&path).unwrap();
            let first = contents(&copy)[0].clone();
            assert!(contents(&copy).iter().all(|space| *space == first));
            let round = first
                .get(&b"round"[..])
                .map_or(0, |r| u32::from_be_bytes(r.as_slice().try_into().unwrap()) as usize + 1);
            assert_eq!(first.len(), if round == 0 { 0 } else { round + 1 });
        }
        done.store(true, Ordering::Relaxed);
    });
}

fn a_backup_needs_an_empty_directory<B: Open>() {
    if !B::PERSISTENT {
        return;
    }
    let (directory, backend) = fresh::<B>();
    let target = tempfile::tempdir().unwrap();
    std::fs::write(target.path().join("diary"), "dear").unwrap();
    let error = backend.backup(target.path()).unwrap_err();
    assert!(
        matches!(&error, BackendError::Occupied { path } if path.ends_with("diary")),
        "{error}"
    );
    let names = |path: &Path| std::fs::read_dir(path).unwrap().count();
    assert_eq!(names(target.path()), 1, "no lock file is left in a foreign directory");
    assert!(matches!(backend.backup(directory.path()), Err(BackendError::Occupied { .. })));
    // A backup may replace unfinished files that a killed backup left beside its lock file. Without
    // a lock file, files with the same names aren't ours and must stay.
    let target = tempfile::tempdir().unwrap();
    for engine in ["fjall", "redb"] {
        std::fs::write(target.path().join(format!("{engine}.new")), "half").unwrap();
    }
    assert!(matches!(backend.backup(target.path()), Err(BackendError::Occupied { .. })));
    assert_eq!(names(target.path()), 2);
    std::fs::write(target.path().join("lock"), "").unwrap();
    backend.backup(target.path()).unwrap();
}

/// No backend stores keys of this length, but looking them up must not fail.
fn too_long_keys_are_not_found<B: Open>() {
    let (_directory, backend) = fresh::<B>();
    let [zeros, sevens] = [0, 7].map(|byte| vec![byte; MAX_KEY_BYTES]);
    for key in [&zeros[..], &sevens, b"a", b"z"] {
        insert(&backend, Keyspace::Keys, key, "");
    }
    for byte in [0, 7, b'm'] {
        for length in [MAX_KEY_BYTES + 1, MAX_KEY_BYTES + 2, 100_000] {
            let long = vec![byte; length];
            assert_eq!(backend.get(Keyspace::Keys, &long).unwrap(), None);
            let before = if byte == b'm' { 3 } else { 1 + usize::from(byte == 7) };
            let count = |bounds| backend.range(Keyspace::Keys, bounds).map(Result::unwrap).count();
            for start in [Included(&long[..]), Excluded(&long[..])] {
                assert_eq!(count((start, Unbounded)), 4 - before, "from {byte} {length}");
            }
            for end in [Included(&long[..]), Excluded(&long[..])] {
                assert_eq!(count((Unbounded, end)), before, "to {byte} {length}");
            }
            assert_eq!(backend.prefix(Keyspace::Keys, &long).count(), 0);
        }
    }
}

/// All threads use the same key.
fn gets_and_writes_of_one_key_run_concurrently<B: Open>() {
    let _deadline = Deadline::new();
    let (_directory, backend) = fresh::<B>();
    insert(&backend, Keyspace::Keys, "key", [0; 8]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let value = backend.get(Keyspace::Keys, b"key").unwrap().unwrap();
                    assert!(value.iter().all(|&byte| byte == value[0]), "torn");
                }
            });
        }
        for round in 0..200 {
            insert(&backend, Keyspace::Keys, "key", [round; 8]);
            if round % 20 == 0 {
                backend.compact().unwrap();
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

fn a_directory_cannot_be_opened_twice<B: Open>() {
    if !B::PERSISTENT {
        return;
    }
    let (directory, backend) = fresh::<B>();
    let Err(error) = B::open_at(directory.path()) else { panic!("opened twice") };
    assert!(matches!(&error, BackendError::Locked { path } if path == directory.path()));
    assert!(error.to_string().contains("already open"));
    insert(&backend, Keyspace::Meta, "still", "works");
    drop(backend);
    assert!(get(&B::open_at(directory.path()).unwrap(), Keyspace::Meta, "still").is_some());
}

fn missing_backend_is_not_created<B: Open>() {
    if !B::PERSISTENT {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let entries = |path: &Path| std::fs::read_dir(path).unwrap().count();
    let is_missing = |path: &Path| {
        let opened = B::open_existing_at(path);
        assert!(matches!(opened, Err(BackendError::Missing { path: missing }) if missing == path));
    };
    let path = directory.path().join("data");
    is_missing(&path);
    assert_eq!(entries(directory.path()), 0);
    let file = directory.path().join("file");
    std::fs::write(&file, "dear").unwrap();
    is_missing(&file);
    std::fs::create_dir(&path).unwrap();
    is_missing(&path);
    assert_eq!(entries(&path), 0);

    // The directory has a backend, but the backend has no store.
    drop(B::open_at(&path).unwrap());
    let backend = B::open_existing_at(&path).unwrap();
    let saved = directory.path().join("saved");
    let options = OpenOptions::new().create(false);
    let opened = options.open_with::<_, Filter>(backend, Some(&saved));
    assert!(matches!(opened, Err(StoreError::Missing)));
    let backend = B::open_existing_at(&path).unwrap();
    assert_eq!(contents(&backend), Model::default());
    assert!(!saved.exists());
    OpenOptions::new().open_with::<_, Filter>(backend, Some(&saved)).unwrap().close().unwrap();
    let backend = B::open_existing_at(&path).unwrap();
    options.open_with::<_, Filter>(backend, Some(&saved)).unwrap();
}

#[cfg(all(feature = "fjall", feature = "redb"))]
#[test]
fn engine_refuses_another_engines_data() {
    use twiceshy_store::{FjallBackend, RedbBackend};
    let directory = tempfile::tempdir().unwrap();
    drop(FjallBackend::open_at(directory.path()).unwrap());
    for open in [RedbBackend::open_at, RedbBackend::open_existing_at] {
        let Err(error) = open(directory.path()) else { panic!("opened") };
        assert!(matches!(error, BackendError::Occupied { .. }), "{error}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write { changes: Vec<(Keyspace, Vec<u8>, Option<Vec<u8>>)>, durability: Durability },
    Get(Keyspace, Vec<u8>),
    Range(Keyspace, Bound<Vec<u8>>, Bound<Vec<u8>>),
    Flush,
    Compact,
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Most keys are short and consist of small numbers, so that steps reuse them. Some keys are longer.
    let key = || prop_oneof![9 => vec(0..3_u8, 0..4), 1 => vec(any::<u8>(), 0..300)];
    let value = prop_oneof![9 => vec(any::<u8>(), 0..40), 1 => vec(any::<u8>(), 0..20_000)];
    let space = || prop::sample::select(&Keyspace::ALL[..]);
    let bound = || prop_oneof![key().prop_map(Included), key().prop_map(Excluded), Just(Unbounded)];
    let change = (space(), key(), prop::option::weighted(0.7, value));
    let step = prop_oneof![
        10 => (vec(change, 0..12), prop::sample::select(&LEVELS[..]))
            .prop_map(|(changes, durability)| Step::Write { changes, durability }),
        5 => (space(), key()).prop_map(|(space, key)| Step::Get(space, key)),
        5 => (space(), bound(), bound()).prop_map(|(space, start, end)| Step::Range(space, start, end)),
        1 => Just(Step::Flush),
        1 => Just(Step::Compact),
        2 => Just(Step::Reopen),
    ];
    vec(step, 1..60)
}

fn random_operations_match_a_model<B: Open>() {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(32) };
    proptest!(config, |(steps in steps())| run::<B>(&steps));
}

fn run<B: Open>(steps: &[Step]) {
    let (directory, mut backend) = fresh::<B>();
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Write { changes, durability } => {
                let mut batch = Batch::new();
                for (space, key, value) in changes {
                    if let Some(value) = value {
                        batch.insert(*space, key, value);
                        model[*space as usize].insert(key.clone(), value.clone());
                    } else {
                        batch.remove(*space, key);
                        model[*space as usize].remove(key);
                    }
                }
                backend.write(&batch, *durability).unwrap();
            }
            Step::Get(space, key) => {
                assert_eq!(get(&backend, *space, key).as_ref(), model[*space as usize].get(key));
            }
            Step::Range(space, start, end) => {
                let bounds = (start.as_ref().map(Vec::as_slice), end.as_ref().map(Vec::as_slice));
                let found = collect(backend.range(*space, bounds));
                let mut expected: Vec<_> = model[*space as usize].clone().into_iter().collect();
                expected.retain(|(key, _)| {
                    use std::ops::RangeBounds;
                    RangeBounds::<[u8]>::contains(&bounds, key)
                });
                assert_eq!(found, expected);
            }
            Step::Flush => backend.flush().unwrap(),
            Step::Compact => backend.compact().unwrap(),
            Step::Reopen if B::PERSISTENT => {
                drop(backend);
                backend = B::open_at(directory.path()).unwrap();
            }
            Step::Reopen => {}
        }
    }
    assert_eq!(contents(&backend), model);
}
