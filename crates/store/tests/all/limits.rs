//! Tests of stores with a memory limit.

use crate::common::Random;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use twiceshy::Secret;
use twiceshy_deadline::Deadline;
use twiceshy_store::{MemoryBackend, OpenOptions, Store};

const RATE: f64 = 0.002;

fn options() -> OpenOptions {
    let secret = Secret::from_bytes([4; 16]);
    OpenOptions::new().false_positive_rate(RATE).secret(secret).background_share(0.0)
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

type Tried = Store<Arc<MemoryBackend>>;

fn open(options: &OpenOptions, backend: &Arc<MemoryBackend>, directory: &Path) -> Tried {
    let mut store = options.open_with(Arc::clone(backend), Some(directory)).unwrap();
    // Ignore the error: shards that don't fit aren't ready.
    let _ = Store::wait_until_ready(&mut store);
    store
}

/// A store that is reopened with less memory gets shorter remainders.
#[test]
fn tend_terminates_if_a_store_is_reopened_with_less_memory() {
    const MEMBERS: u64 = 200_000;
    let _deadline = Deadline::new();
    let (backend, directory) = (Arc::default(), tempfile::tempdir().unwrap());
    let planned = options().capacity(MEMBERS as usize);
    let store = open(&planned, &backend, directory.path());
    store.import((0..MEMBERS).map(|number| (key(number), b""))).unwrap();
    store.tend().unwrap();
    let memory = store.stats().memory();
    store.close().unwrap();
    for percent in [100, 95, 90, 86, 83, 80, 77, 75, 60] {
        let limit = memory * percent / 100;
        let store = open(&planned.clone().memory(limit), &backend, directory.path());
        store.tend().unwrap();
        let stats = store.stats();
        assert!(stats.shards_due == 0 && stats.memory() <= limit, "{percent} %: {stats:?}");
        assert!((0..MEMBERS).step_by(997).all(|number| store.contains(&key(number)).unwrap()));
        store.close().unwrap();
    }
}

/// The saved filter fits into the limit, but a rebuild of a shard doesn't, even with the shortest remainders.
#[test]
fn shard_that_should_shrink_but_does_not_fit_is_left_as_it_is() {
    const MEMBERS: u64 = 200_000;
    let _deadline = Deadline::new();
    let (backend, directory) = (Arc::default(), tempfile::tempdir().unwrap());
    let grown = options().shards(16);
    let store = open(&grown, &backend, directory.path());
    store.put_many((0..MEMBERS).map(|number| (key(number), b""))).unwrap();
    store.tend().unwrap();
    for number in (0..MEMBERS).step_by(10) {
        assert!(store.delete(&key(number)).unwrap());
    }
    let before = store.stats();
    store.close().unwrap();
    let limit = before.filter_bytes + before.filter_bytes / 20 + before.upkeep_bytes + (40 << 10);
    let store = open(&grown.memory(limit), &backend, directory.path());
    assert_eq!(store.stats().filter_bytes, before.filter_bytes, "the saved filter is used");
    store.tend().unwrap();
    let stats = store.stats();
    assert_eq!((stats.shards_due, stats.shards_ready), (0, 16), "{stats:?}");
    store.validate().unwrap();
}

/// Near the limit, a shard can neither grow nor repair all recorded mistakes from the start.
#[test]
fn tend_terminates_if_repairs_fill_a_store_near_its_limit() {
    const LIMIT: u64 = 256 << 10;
    let _deadline = Deadline::new();
    let store: Tried = options().memory(LIMIT).open_with(Arc::default(), None).unwrap();
    let mut random = Random(5);
    let (mut members, mut asked) = (0_u64, 1 << 40);
    for _ in 0..300 {
        for _ in 0..random.below(600) {
            store.put(&key(members), b"").unwrap();
            members += 1;
        }
        for _ in 0..3000 {
            assert!(!store.contains(&key(asked)).unwrap());
            asked += 1;
        }
        store.tend().unwrap();
        let stats = store.stats();
        assert!(stats.memory() <= LIMIT, "{stats:?}");
    }
    assert!((0..members).step_by(97).all(|number| store.contains(&key(number)).unwrap()));
    assert!(store.stats().rotations > 0);
}

#[test]
fn batches_succeed_at_the_memory_limit_with_few_shards() {
    let _deadline = Deadline::new();
    for shards in [1, 2, 4] {
        let options = options().memory(256 << 10).shards(shards);
        let store: Tried = options.open_with(Arc::default(), None).unwrap();
        for batch in 0..250 {
            let pairs = (batch * 1024..(batch + 1) * 1024).map(|number| (key(number), b""));
            store.put_many(pairs).unwrap();
        }
        assert!((0..250 * 1024).step_by(97).all(|number| store.contains(&key(number)).unwrap()));
        assert!(store.stats().memory() <= 256 << 10, "{:?}", store.stats());
    }
}

#[test]
fn import_that_fails_gives_its_room_back() {
    let _deadline = Deadline::new();
    let store: Tried = options().open_with(Arc::default(), None).unwrap();
    let before = store.stats().filter_bytes;
    let pairs = (0..1_000_000_usize).map(|number| (vec![0; number << 13], b""));
    store.import(pairs).unwrap_err();
    assert!(store.stats().filter_bytes > 10 * before, "there is room for all pairs");
    store.tend().unwrap();
    let stats = store.stats();
    assert!(stats.filter_bytes < 2 * before && stats.shards_due == 0, "{stats:?}");
}

/// The iterator counts the pairs that an import holds.
#[test]
fn import_holds_few_pairs_at_once_if_memory_is_limited() {
    struct Held(Arc<AtomicUsize>);

    impl AsRef<[u8]> for Held {
        fn as_ref(&self) -> &[u8] {
            &[0; 64]
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    const LIMIT: u64 = 1 << 20;
    let store: Tried = options().memory(LIMIT).open_with(Arc::default(), None).unwrap();
    let (held, most) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
    let pairs = (0..20_000).map(|number| {
        most.fetch_max(held.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        (key(number), Held(Arc::clone(&held)))
    });
    store.import(pairs).unwrap();
    // Each has 72 bytes.
    assert!((1024..=2048).contains(&most.into_inner()));
}
