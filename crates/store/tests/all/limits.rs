//! Tests of stores with a memory limit.

use crate::common::Random;
use std::path::Path;
use std::sync::Arc;
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
