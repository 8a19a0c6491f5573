//! Tests of opening a range store.

use super::watched::{always, options};
use crate::common::copy;
use std::ops::Bound::Unbounded;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use twiceshy::Secret;
use twiceshy_deadline::Deadline;
use twiceshy_store::backend::Observed;
use twiceshy_store::{
    Backend, Batch, Durability, Keyspace, MemoryBackend, OpenOptions, RangeStore, Store, StoreError,
};

type Shared = Arc<MemoryBackend>;
type Watched = Arc<Observed<MemoryBackend>>;

fn open(options: &OpenOptions, backend: &Shared) -> Result<RangeStore<u64, Shared>, StoreError> {
    options.open_ranges_with(Arc::clone(backend), None)
}

fn keys(backend: &Shared, space: Keyspace) -> Vec<Vec<u8>> {
    backend.range(space, (Unbounded, Unbounded)).map(|pair| pair.unwrap().0.to_vec()).collect()
}

#[test]
fn store_of_one_kind_cannot_be_opened_as_another() {
    let ranges = Shared::default();
    open(&options(), &ranges).unwrap().put(7, b"1").unwrap();
    let points =
        OpenOptions::new().open_with::<_, twiceshy::QuotientFilter>(Arc::clone(&ranges), None);
    let error = points.err().unwrap();
    assert_eq!(error.to_string(), "this is a range store of 64-bit keys, for ranges of up to 4");

    let points = Shared::default();
    let store: Store<_> = OpenOptions::new().open_with(Arc::clone(&points), None).unwrap();
    store.put(b"alice", b"1").unwrap();
    drop(store);
    let before = keys(&points, Keyspace::Meta);
    let error = open(&options(), &points).err().unwrap();
    assert!(matches!(error, StoreError::Kind(_)), "{error}");
    assert_eq!(keys(&points, Keyspace::Meta), before);
    // Each store can still be opened as its own kind.
    let store: Store<_> = OpenOptions::new().open_with(points, None).unwrap();
    assert!(store.contains(b"alice").unwrap());
    assert!(open(&options(), &ranges).unwrap().contains(7).unwrap());
}

#[test]
fn store_keeps_its_secret_and_key_type_and_longest_range() {
    let backend = Shared::default();
    open(&always(), &backend).unwrap().put(7, b"1").unwrap();
    let other_keys = always().open_ranges_with::<u32, _>(Arc::clone(&backend), None);
    assert!(matches!(other_keys.err().unwrap(), StoreError::Kind(_)));
    let other_range = open(&always().longest_range(8), &backend);
    assert!(matches!(other_range.err().unwrap(), StoreError::Kind(_)));
    let other_secret = open(&always().secret(Secret::from_bytes([8; 16])), &backend);
    assert!(matches!(other_secret.err().unwrap(), StoreError::Secret));
    // Three is rounded up to four. By default, the store keeps its longest range.
    assert!(open(&always().longest_range(3), &backend).unwrap().contains(7).unwrap());
    let store = open(&OpenOptions::new(), &backend).unwrap();
    assert!(store.contains(7).unwrap());
    assert_eq!(store.longest_range(), 4);
}

#[test]
fn filter_that_cannot_be_built_is_refused_before_anything_is_written() {
    let backend = Shared::default();
    for impossible in [
        options().longest_range(0),
        options().longest_range(1 << 21),
        options().false_positive_rate(0.0),
        options().false_positive_rate(f64::NAN),
        options().create(false),
    ] {
        assert!(open(&impossible, &backend).is_err());
        assert!(Keyspace::ALL.iter().all(|&space| keys(&backend, space).is_empty()));
    }
    let missing = open(&options().create(false), &backend);
    assert!(matches!(missing.err().unwrap(), StoreError::Missing));
}

#[test]
fn data_without_a_secret_is_refused() {
    let backend = Shared::default();
    let mut batch = Batch::new();
    batch.insert(Keyspace::Keys, [0; 8], "1");
    backend.write(&batch, Durability::Synced).unwrap();
    assert!(matches!(open(&options(), &backend).err().unwrap(), StoreError::Format(_)));
}

/// The maps are written together, but may differ after a journal is damaged.
#[test]
fn key_map_and_reverse_map_that_differ_are_made_equal() {
    let backend = Shared::default();
    let store = open(&always(), &backend).unwrap();
    (0..200).for_each(|n| store.put(n * 100, b"1").unwrap());
    for n in 0..200 {
        assert!(store.range_is_empty(n * 100 + 1..n * 100 + 5).unwrap());
    }
    let mistakes = store.stats().mistakes;
    assert!(mistakes > 20);
    drop(store);
    let mut batch = Batch::new();
    // Take every third key out of the listing. Of the others, delete every fifth, but leave it in
    // the listing.
    for member in keys(&backend, Keyspace::Members) {
        let n = u64::from_be_bytes(*member.last_chunk().unwrap()) / 100;
        if n.is_multiple_of(3) {
            batch.remove(Keyspace::Members, member);
        } else if n.is_multiple_of(5) {
            batch.remove(Keyspace::Keys, (n * 100).to_be_bytes());
        }
    }
    backend.write(&batch, Durability::Synced).unwrap();

    let store = open(&always(), &backend).unwrap();
    let is_there = |n: u64| n.is_multiple_of(3) || !n.is_multiple_of(5);
    for n in 0..200 {
        assert_eq!(store.contains(n * 100).unwrap(), is_there(n), "{n}");
        assert!(store.range_is_empty(n * 100 + 1..n * 100 + 5).unwrap());
        assert_eq!(store.delete(n * 100).unwrap(), is_there(n));
        store.put(n * 100, b"2").unwrap();
    }
    assert_eq!(store.stats().members, 200);
    assert_eq!(keys(&backend, Keyspace::Members).len(), 200);
    store.validate().unwrap();
}

#[test]
fn invalid_records_in_the_backend_are_ignored() {
    let backend = Shared::default();
    let store = open(&always(), &backend).unwrap();
    (0..50).for_each(|n| store.put(n * 100, b"1").unwrap());
    drop(store);
    let mut batch = Batch::new();
    for junk in [&b""[..], b"abc", &[0xff; 12], &[7; 40]] {
        batch.insert(Keyspace::Members, junk, "junk");
        batch.insert(Keyspace::Mistakes, junk, "junk");
    }
    // These spans are reversed, cover two partitions, or contain a member.
    for (first, last) in [(9u64, 8u64), (3, 4), (500, 501)] {
        batch.insert(Keyspace::Mistakes, first.to_be_bytes(), last.to_be_bytes());
    }
    batch.insert(Keyspace::Keys, "no number", "junk");
    backend.write(&batch, Durability::Synced).unwrap();

    let store = open(&always(), &backend).unwrap();
    for n in 0..50 {
        assert!(store.contains(n * 100).unwrap());
        assert!(store.range_is_empty(n * 100 + 1..n * 100 + 5).unwrap());
    }
    (0..50).for_each(|n| store.put(n * 100 + 7, b"2").unwrap());
    store.rebuild().unwrap();
    assert!((0..50).all(|n| !store.range_is_empty(n * 100..=n * 100 + 1).unwrap()));
    assert!(store.iter().any(|pair| matches!(pair, Err(StoreError::Format(_)))));
}

/// The filter grows to hold all members, however small it was planned.
#[test]
fn store_planned_for_no_members_grows() {
    let _deadline = Deadline::new();
    for capacity in [0, 1, 50] {
        let store = open(&always().capacity(capacity), &Shared::default()).unwrap();
        store.put(7, b"1").unwrap();
        store.put(1 << 30, b"1").unwrap();
        store.put_many((1..1025u64).map(|n| (n << 20, b"2"))).unwrap();
        std::thread::scope(|scope| {
            for thread in 1..5u64 {
                let store = &store;
                scope.spawn(move || {
                    store.put_many((0..1024).map(|n| ((n << 20) + thread * 50, b"3"))).unwrap();
                });
            }
        });
        assert_eq!(store.stats().members, 1 + 1024 + 4 * 1024);
        store.validate().unwrap();
    }
}

/// Returns the files in a directory, excluding the backend.
fn saved(directory: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().path()).collect()
}

#[test]
fn saved_filter_is_used_only_if_it_is_intact_and_current() {
    let directory = tempfile::tempdir().unwrap();
    let scans = Arc::new(AtomicU64::new(0));
    let observed = |backend: MemoryBackend| {
        let counter = Arc::clone(&scans);
        Arc::new(Observed::new(backend, |_, _| {}).on_range(move |space, _| {
            counter.fetch_add(u64::from(space == Keyspace::Members), Ordering::Relaxed);
        }))
    };
    let mut backend = observed(MemoryBackend::new());
    let open_in = |backend: &Watched, options: &OpenOptions| -> (u64, RangeStore<u64, _>) {
        let before = scans.load(Ordering::Relaxed);
        let store = options.open_ranges_with(Arc::clone(backend), Some(directory.path())).unwrap();
        (scans.load(Ordering::Relaxed) - before, store)
    };
    let ranges = || (0..200u64).map(|n| n * 50 + 10..n * 50 + 14);
    let check = |store: &RangeStore<u64, _>, members: u64| {
        store.validate().unwrap();
        assert_eq!(store.stats().members, members);
        assert!((0..members).all(|n| store.contains(n * 100).unwrap()));
        assert!(ranges().all(|range| store.range_is_empty(range).unwrap()));
    };

    let (_, store) = open_in(&backend, &always());
    (0..100).for_each(|n| store.put(n * 100, b"1").unwrap());
    check(&store, 100);
    // Repeat the queries, because a filter that grows may make different mistakes than before.
    let mut before = 0;
    while store.stats().false_positives > before {
        before = store.stats().false_positives;
        // Make room for more repairs.
        store.rebuild().unwrap();
        check(&store, 100);
    }
    assert!(before > 20);
    store.close().unwrap();
    let old = saved(directory.path());
    assert_eq!(old.len(), 1);
    let old = (old[0].clone(), std::fs::read(&old[0]).unwrap());

    let (scanned, store) = open_in(&backend, &always());
    assert_eq!(scanned, 0);
    check(&store, 100);
    assert_eq!(store.stats().false_positives, 0);
    // The saved filter doesn't contain later writes, so the first write removes it.
    store.put(100 * 100, b"1").unwrap();
    assert!(saved(directory.path()).is_empty());
    // Don't close the store, as if the process were killed.
    backend = observed(copy(&backend));
    std::mem::forget(store);
    let (scanned, store) = open_in(&backend, &always());
    assert!(scanned > 0);
    check(&store, 101);
    // If the filter wasn't changed, its file is still the same after the store is opened and
    // dropped.
    drop(store);
    let newer = saved(directory.path());
    drop(open_in(&backend, &always()).1);
    assert_eq!(saved(directory.path()), newer);
    // Neither an older filter under the newer one's name nor a damaged filter is used.
    for bytes in [old.1.clone(), vec![0; 1000]] {
        std::fs::write(&saved(directory.path())[0], bytes).unwrap();
        let (scanned, store) = open_in(&backend, &always());
        assert!(scanned > 0);
        check(&store, 101);
    }
    std::fs::write(&old.0, &old.1).unwrap();
    // A filter with a higher rate than requested isn't used, either.
    let (scanned, store) = open_in(&backend, &always().false_positive_rate(0.01));
    assert!(scanned > 0);
    check(&store, 101);
    drop(store);
    let (scanned, store) = open_in(&backend, &always().false_positive_rate(0.01));
    assert_eq!(scanned, 0);
    check(&store, 101);
}

#[test]
fn damaged_identity_record_is_refused() {
    let backend = Shared::default();
    drop(open(&always(), &backend).unwrap());
    let identity = backend.get(Keyspace::Meta, b"store").unwrap().unwrap().to_vec();
    let mut broken: Vec<Vec<u8>> = (0..identity.len()).map(|n| identity[..n].to_vec()).collect();
    broken.push([&identity[..], &[0]].concat());
    for (at, value) in [(0, 9), (4, 3), (4, 1), (21, 0), (21, 255), (29, 3)] {
        let mut other = identity.clone();
        other[at] = value;
        broken.push(other);
    }
    for bytes in broken {
        let mut batch = Batch::new();
        batch.insert(Keyspace::Meta, "store", &bytes);
        backend.write(&batch, Durability::Synced).unwrap();
        assert!(open(&OpenOptions::new(), &backend).is_err(), "{bytes:?}");
    }
}

#[cfg(feature = "fjall")]
#[test]
fn range_store_and_its_backup_can_be_reopened() {
    use std::net::Ipv4Addr;
    let directory = tempfile::tempdir().unwrap();
    let [path, copy] = ["store", "copy"].map(|name| directory.path().join(name));
    let store = options().open_ranges::<Ipv4Addr>(&path).unwrap();
    let address = |n: u8| Ipv4Addr::new(10, 0, n, 1);
    (0..100).for_each(|n| store.put(address(n), &[n]).unwrap());
    store.flush().unwrap();
    store.compact().unwrap();
    assert!(store.bytes_on_disk().unwrap() > 0);
    store.backup(&copy).unwrap();
    store.delete(address(7)).unwrap();
    store.close().unwrap();
    for (path, members) in [(path, 99), (copy, 100)] {
        let store = OpenOptions::new().open_ranges::<Ipv4Addr>(path).unwrap();
        assert_eq!(store.stats().members, members);
        let network = Ipv4Addr::new(10, 0, 0, 0)..=Ipv4Addr::new(10, 0, 255, 255);
        let pairs: Vec<_> = store.range(network).unwrap().map(Result::unwrap).collect();
        assert_eq!(pairs.len() as u64, members);
        assert!(pairs.iter().all(|(key, value)| address(value[0]) == *key));
    }
    let nowhere = directory.path().join("nowhere");
    let missing = OpenOptions::new().create(false).open_ranges::<u64>(&nowhere);
    assert!(matches!(missing.err().unwrap(), StoreError::Missing));
    assert!(!nowhere.exists());
}
