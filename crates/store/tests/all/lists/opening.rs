//! Tests of opening lists.

use super::options;
use crate::common::copy;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use twiceshy::{QuotientFilter, Secret};
use twiceshy_store::backend::Observed;
use twiceshy_store::{
    Backend, Batch, Durability, Keyspace, List, ListStore, MemoryBackend, OpenOptions, StoreError,
};

type Shared = Arc<MemoryBackend>;

fn open(backend: &Shared) -> Result<ListStore<Shared>, StoreError> {
    options().open_lists_with(Arc::clone(backend), None)
}

#[test]
fn store_of_one_kind_cannot_be_opened_as_another() {
    let lists = Shared::default();
    open(&lists).unwrap().add_yes(b"alice").unwrap();
    let points = OpenOptions::new().open_with::<_, QuotientFilter>(lists.clone(), None);
    let error = points.err().unwrap().to_string();
    assert_eq!(error, "this is a yes list and a no list");
    let ranges = OpenOptions::new().open_ranges_with::<u64, _>(lists.clone(), None);
    assert!(matches!(ranges.err().unwrap(), StoreError::Kind(_)));
    assert!(open(&lists).unwrap().contains(b"alice"));

    let points = Shared::default();
    drop(OpenOptions::new().open_with::<_, QuotientFilter>(points.clone(), None));
    let lists = OpenOptions::new().open_lists_with(points, None);
    assert!(matches!(lists.err().unwrap(), StoreError::Kind(_)));
}

#[test]
fn filter_that_cannot_be_built_is_refused_before_anything_is_written() {
    let backend = Shared::default();
    for impossible in [
        options().false_positive_rate(0.0),
        options().false_positive_rate(1.0),
        options().false_positive_rate(f64::NAN),
        options().false_positive_rate(1e-40),
        options().shards(0),
        options().create(false),
    ] {
        assert!(impossible.open_lists_with(Arc::clone(&backend), None).is_err());
        assert!(backend.get(Keyspace::Meta, b"store").unwrap().is_none());
    }
    let long = vec![0; 1 << 16];
    let store = open(&backend).unwrap();
    assert!(matches!(store.add_no(&long), Err(StoreError::KeyTooLong { .. })));
    assert!(matches!(
        store.add_many(List::Yes, [&b"x"[..], &long]),
        Err(StoreError::KeyTooLong { .. })
    ));
    assert!(store.is_empty());
    drop(store);
    let other = options().secret(Secret::from_bytes([8; 16])).open_lists_with(backend, None);
    assert!(matches!(other.err().unwrap(), StoreError::Secret));
}

/// After a clean close, opening doesn't scan the yes list; after a write without closing, it does.
#[test]
fn saved_filter_is_used_only_if_nothing_was_written_since() {
    let scans = Arc::new(AtomicU64::new(0));
    let observed = |backend: MemoryBackend| {
        let counted = Arc::clone(&scans);
        Arc::new(Observed::new(backend, |_, _| {}).on_range(move |space, _| {
            counted.fetch_add(u64::from(space == Keyspace::Members), Ordering::Relaxed);
        }))
    };
    let mut backend = observed(MemoryBackend::new());
    let directory = tempfile::tempdir().unwrap();
    let open = |backend: &Arc<Observed<MemoryBackend>>| {
        options().open_lists_with(Arc::clone(backend), Some(directory.path())).unwrap()
    };
    let store = open(&backend);
    store.add_many(List::Yes, (0..100u8).map(|key| [key])).unwrap();
    store.add_many(List::No, (100..200u8).map(|key| [key])).unwrap();
    store.close().unwrap();

    let before = scans.load(Ordering::Relaxed);
    let store = open(&backend);
    assert_eq!(scans.load(Ordering::Relaxed), before);
    assert_eq!((store.len(List::Yes), store.len(List::No)), (100, 100));
    assert!((0..200u8).all(|key| store.contains(&[key]) == (key < 100)));
    // Write without closing, as if the process were killed.
    store.add_yes(&[200]).unwrap();
    backend = observed(copy(&backend));
    std::mem::forget(store);
    let store = open(&backend);
    assert!(scans.load(Ordering::Relaxed) > before);
    assert!(store.contains(&[200]) && store.len(List::Yes) == 101);
    store.close().unwrap();

    // With a different rate, the saved filter isn't used.
    let better = options().false_positive_rate(1e-4);
    let store = better.open_lists_with(Arc::clone(&backend), Some(directory.path())).unwrap();
    assert!(store.stats().expected_rate <= 1e-4);
    assert!((0..200u8).all(|key| store.contains(&[key]) == (key < 100)));
    store.validate().unwrap();
}

/// The store never writes a key to both lists, so this must be damage.
#[test]
fn validate_reports_a_key_on_both_lists() {
    let backend = Shared::default();
    let store = open(&backend).unwrap();
    store.add_yes(b"both").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (hash, key) = store.entries(List::Yes).next().unwrap().unwrap();
    let stored = [&hash.as_u128().to_be_bytes()[..4], &key].concat();
    let mut batch = Batch::new();
    batch.insert(Keyspace::Mistakes, stored, b"");
    backend.write(&batch, Durability::Synced).unwrap();
    let error = store.validate().unwrap_err().to_string();
    assert!(error.starts_with("the store is damaged: both is on the no list"), "{error}");
    drop(store);
    let opened = options().open_lists_with(backend, Some(directory.path()));
    assert!(matches!(opened.err().unwrap(), StoreError::Build(_)));
}
