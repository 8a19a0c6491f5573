//! Tests of a range store with many threads.

use super::watched::{Watched, always, is_repaired, options};
use crate::common::Random;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use twiceshy_deadline::Deadline;
use twiceshy_store::{MemoryBackend, RangeStore};

const THREADS: u64 = 4;
const ROUNDS: u64 = 3000;

/// Returns key `n` of thread `me`. Each thread knows the values of its own keys, but all threads share
/// partitions.
fn key(me: u64, n: u64) -> u64 {
    n * THREADS + me
}

#[test]
fn threads_find_their_keys_and_repeat_no_mistake() {
    const OWN: u64 = 200;
    let _deadline = Deadline::new();
    let mut watched: Watched<u64, _> = Watched::open(options(), MemoryBackend::new());
    let store = watched.store();
    let worker = |me: u64| {
        move || {
            let mut random = Random(me);
            let mut own = BTreeMap::new();
            for round in 0..ROUNDS {
                let mine = key(me, random.below(OWN));
                let value = round.to_be_bytes();
                match random.below(5) {
                    0 => {
                        let many = (0..random.below(6)).map(|_| key(me, random.below(OWN)));
                        let many: Vec<u64> = many.collect();
                        store.put_many(many.iter().map(|&key| (key, value))).unwrap();
                        own.extend(many.into_iter().map(|key| (key, value)));
                    }
                    1 | 2 => {
                        store.put(mine, &value).unwrap();
                        own.insert(mine, value);
                    }
                    _ => {
                        let deleted = store.delete(mine).unwrap();
                        assert_eq!(deleted, own.remove(&mine).is_some());
                    }
                }
                let asked = key(me, random.below(OWN));
                let found = store.get(asked).unwrap().map(|value| value.to_vec());
                assert_eq!(found, own.get(&asked).map(|value| value.to_vec()));
                // This thread's keys are present, regardless of the other threads.
                let span = asked..asked + 1 + random.below(40);
                let pairs = store.range(span.clone()).unwrap().map(|pair| pair.unwrap());
                let mine = pairs.filter(|(key, _)| key % THREADS == me);
                let mine: Vec<_> = mine.map(|(key, value)| (key, value.to_vec())).collect();
                let expected = own.range(span.clone());
                let expected: Vec<_> =
                    expected.map(|(&key, value)| (key, value.to_vec())).collect();
                assert_eq!(mine, expected);
                if !expected.is_empty() {
                    assert!(!store.range_is_empty(span).unwrap());
                }
                // Look up absent keys, so that all threads repair the same mistakes at the same time.
                let far = (1 << 30) + random.below(500) * 3;
                assert!(store.range_is_empty(far..far + 3).unwrap());
            }
            own
        }
    };
    let model = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|me| scope.spawn(worker(me))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<BTreeMap<_, _>>()
    });
    for _ in 0..2 {
        check(watched.store(), &model);
        watched.reopen();
    }
}

fn check<B: twiceshy_store::Backend>(store: &RangeStore<u64, B>, model: &BTreeMap<u64, [u8; 8]>) {
    let pairs = store.iter().map(|pair| pair.unwrap());
    let pairs: Vec<_> = pairs.map(|(key, value)| (key, value.to_vec())).collect();
    let expected = model.iter().map(|(&key, value)| (key, value.to_vec()));
    assert!(pairs.into_iter().eq(expected));
    let stats = store.stats();
    assert_eq!(stats.members, model.len() as u64);
    assert_eq!((stats.ghosts_left, stats.ghosts_cleared), (0, 0));
    assert_eq!((stats.repairs_failed, stats.repeated_false_positives), (0, 0));
    store.validate().unwrap();
    assert!(model.keys().all(|&key| store.contains(key).unwrap()));
}

/// Members that collide with repaired mistakes are removed and put again, and the filter grows. No lookup may
/// read the disk for a repaired mistake.
#[test]
fn no_mistake_is_repeated_while_members_are_removed_and_inserted() {
    let _deadline = Deadline::new();
    let watched: Watched<u64, _> = Watched::open(always(), MemoryBackend::new());
    let member = |n: u64| n * 1001;
    (0..50).for_each(|n| watched.store().put(member(n), b"").unwrap());
    let ranges = (0..600).map(|n| n * 80 + 1..n * 80 + 4);
    let ranges = ranges.filter(|range| (0..50).all(|n| !range.contains(&member(n))));
    let is_mistake = |range: &std::ops::Range<u64>| is_repaired(watched.store(), range.clone());
    let mistakes: Vec<_> = ranges.filter(is_mistake).collect();
    assert!(mistakes.len() > 30, "the filter is too good for this test");
    let is_over = AtomicBool::new(false);
    let store = watched.store();
    let before = store.stats();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    for range in &mistakes {
                        assert!(store.range_is_empty(range.clone()).unwrap());
                    }
                }
            });
        }
        let writers = [0, 1].map(|me| {
            scope.spawn(move || {
                for round in 0..20 {
                    for n in (me..50).step_by(2) {
                        assert!(store.delete(member(n)).unwrap());
                        store.put(member(n), b"").unwrap();
                    }
                    for n in 0..20 {
                        store.put(1 << 40 | round << 20 | n << 10 | me, b"").unwrap();
                    }
                }
            })
        });
        for writer in writers {
            writer.join().unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let after = store.stats();
    assert!(after.repairs > before.repairs, "no mistake collided again");
    assert_eq!(after.false_positives, before.false_positives);
}
