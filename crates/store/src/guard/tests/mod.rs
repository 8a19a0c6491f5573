//! Compares a guard with the map that it guards.

mod doubts;

use super::*;
use crate::OpenOptions;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread::ScopedJoinHandle;
use twiceshy::Secret;
use twiceshy_deadline::Deadline;

/// A database that fails on request.
#[derive(Default)]
struct Map {
    /// The first bytes of each key's hash, and its value.
    rows: Mutex<BTreeMap<u16, (i64, u32)>>,
    lookups: AtomicU64,
    is_down: AtomicBool,
    is_unlisted: AtomicBool,
    refuses_lookups: AtomicBool,
    /// Whether the database lists a wrong interval, shifted by half of all hashes.
    is_shifted: AtomicBool,
}

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("the database is down")]
struct Down;

impl Map {
    fn rows(&self) -> MutexGuard<'_, BTreeMap<u16, (i64, u32)>> {
        self.rows.lock().unwrap()
    }

    fn insert(&self, hash: Hash, key: u16, value: u32) {
        self.rows().insert(key, (hash_column(hash), value));
    }

    fn check(&self) -> Result<(), Down> {
        if self.is_down.load(Ordering::Relaxed) { Err(Down) } else { Ok(()) }
    }
}

impl MemberSource for Map {
    type Member = u16;
    type Error = Down;

    fn members(&self, hashes: RangeInclusive<Hash>) -> Result<Vec<u16>, Down> {
        self.check()?;
        if self.is_unlisted.load(Ordering::Relaxed) {
            return Err(Down);
        }
        let shift = u128::from(self.is_shifted.load(Ordering::Relaxed)) << 127;
        let shifted = |hash: Hash| Hash::from_u128(hash.as_u128() ^ shift);
        let hashes = shifted(*hashes.start())..=shifted(*hashes.end());
        let columns = hash_column(*hashes.start())..=hash_column(*hashes.end());
        let rows = self.rows();
        let listed = rows.iter().filter(|(_, (column, _))| columns.contains(column));
        Ok(listed.map(|(&key, _)| key).collect())
    }
}

impl Guarded for Map {
    type Key = u16;
    type Value = u32;

    fn look_up(&self, key: &u16) -> Result<Option<u32>, Down> {
        self.check()?;
        if self.refuses_lookups.load(Ordering::Relaxed) {
            return Err(Down);
        }
        self.lookups.fetch_add(1, Ordering::Relaxed);
        Ok(self.rows().get(key).map(|&(_, value)| value))
    }
}

fn secret() -> Secret {
    Secret::from_bytes([7; 16])
}

fn hasher() -> KeyedHasher {
    KeyedHasher::new(&secret())
}

/// Returns options of a filter so poor that most absent keys are mistakes at first.
fn options() -> OpenOptions {
    OpenOptions::new().capacity(16).false_positive_rate(0.2).shards(4).secret(secret())
}

fn put(guard: &Guard<Map>, key: u16, value: u32) -> Result<(), GuardError<Down>> {
    let hash = guard.hash(&key);
    guard.insert(&key, |map| {
        map.check()?;
        map.insert(hash, key, value);
        Ok(())
    })
}

fn delete(guard: &Guard<Map>, key: u16) -> Result<bool, GuardError<Down>> {
    guard.remove(&key, |map| {
        map.check()?;
        map.rows().remove(&key);
        Ok(())
    })
}

#[test]
fn hash_columns_sort_like_hashes() {
    let hashes = [0, 1, 1 << 64, 7 << 90, u128::MAX >> 1, 1 << 127, u128::MAX];
    let columns = hashes.map(|value| hash_column(Hash::from_u128(value)));
    assert!(columns.is_sorted());
    assert_eq!((columns[0], columns[6]), (i64::MIN, i64::MAX));
}

#[test]
fn keys_in_the_database_before_the_guard_was_opened_are_found() {
    let map = Map::default();
    for key in 0..1000u16 {
        map.insert(hasher().hash(&key), key, key.into());
    }
    let guard: Guard<Map> = options().open_guard_unready(map).unwrap();
    assert_eq!((guard.get(&7), guard.get(&2000)), (Ok(Some(7)), Ok(None)));
    assert_eq!((guard.stats().unfiltered, guard.stats().shards_ready), (1, 0));
    put(&guard, 1000, 1000).unwrap();
    assert!(delete(&guard, 0).unwrap());
    guard.rebuild().unwrap();
    assert_eq!((guard.stats().members, guard.stats().shards_ready), (1000, 4));
    assert!((1..=1000).all(|key| guard.get(&key) == Ok(Some(key.into()))));
}

#[test]
fn insert_many_makes_each_distinct_key_one_member() {
    let guard = options().open_guard(Map::default()).unwrap();
    put(&guard, 3, 0).unwrap();
    let keys = [1, 2, 3, 2, 1];
    let written = guard.insert_many(&keys, |map| {
        for key in keys {
            map.insert(hasher().hash(&key), key, 9);
        }
        Ok("done")
    });
    assert_eq!(written.unwrap(), "done");
    assert_eq!(guard.stats().members, 3);
    assert!((1..=3).all(|key| guard.get(&key) == Ok(Some(9))));
}

#[test]
fn refused_write_leaves_nothing_in_the_filter() {
    let guard = options().open_guard(Map::default()).unwrap();
    (0..100).for_each(|key| put(&guard, key, 1).unwrap());
    for key in 50..300 {
        let refused = guard.insert(&key, |_| Err::<(), _>(WriteError::NotWritten(Down)));
        assert!(matches!(refused, Err(GuardError::NotWritten(Down))), "{refused:?}");
    }
    assert_eq!((guard.stats().members, guard.stats().ghosts_left), (100, 0));
    assert!(guard.doubts().is_empty());
    assert!((0..100).all(|key| guard.get(&key) == Ok(Some(1))));
}

#[test]
fn failed_repair_is_counted_and_the_read_succeeds() {
    let guard = options().open_guard(Map::default()).unwrap();
    (0..100).for_each(|key| put(&guard, key, 1).unwrap());
    guard.database().is_unlisted.store(true, Ordering::Relaxed);
    assert!((100..1000).all(|key| guard.get(&key) == Ok(None)));
    let failed = guard.stats();
    assert!(failed.repairs_failed > 0 && failed.repairs == 0);
    guard.database().is_unlisted.store(false, Ordering::Relaxed);
    assert!((100..1000).all(|key| guard.get(&key) == Ok(None)));
    assert!(guard.stats().repairs > 0);
    assert!((100..1000).all(|key| guard.get(&key) == Ok(None)));
    let repaired = guard.stats();
    assert_eq!(
        (repaired.repairs_failed, repaired.repeated_false_positives),
        (failed.repairs_failed, 0)
    );
}

/// A write that was done but not acknowledged makes a kept mistake a member.
#[test]
fn kept_mistake_that_is_a_member_does_not_block_inserts() {
    let guard = options().open_guard(Map::default()).unwrap();
    (0..50).for_each(|key| put(&guard, key, 1).unwrap());
    assert!((50..500).all(|key| guard.get(&key) == Ok(None)));
    assert!(guard.stats().mistakes > 0);
    for key in 50..500 {
        let hash = guard.hash(&key);
        let failed = guard.insert(&key, |map| {
            map.insert(hash, key, 1);
            Err::<(), _>(WriteError::Unknown(Down))
        });
        assert!(matches!(failed, Err(GuardError::InDoubt(Down))), "{failed:?}");
    }
    (500..1500).for_each(|key| put(&guard, key, 1).unwrap());
    assert!((0..1500).all(|key| guard.get(&key) == Ok(Some(1))));
}

#[test]
fn kept_mistakes_stay_within_the_limit() {
    let guard = options().mistakes_kept(10).open_guard(Map::default()).unwrap();
    (0..100).for_each(|key| put(&guard, key, 1).unwrap());
    assert!((100..1000).all(|key| guard.get(&key) == Ok(None)));
    let stats = guard.stats();
    assert_eq!((stats.mistakes, stats.mistakes + stats.mistakes_forgotten), (10, stats.repairs));
}

#[test]
fn batch_of_any_size_is_inserted_into_a_small_guard() {
    let guard = options().shards(1).open_guard(Map::default()).unwrap();
    let keys: Vec<u16> = (0..50_000).collect();
    let hashes: Vec<Hash> = keys.iter().map(|key| guard.hash(key)).collect();
    let insert = |map: &Map| {
        keys.iter().zip(&hashes).for_each(|(&key, &hash)| map.insert(hash, key, 1));
        Ok(())
    };
    guard.insert_many(&keys, insert).unwrap();
    assert_eq!(guard.stats().members, 50_000);
    assert!(keys.iter().step_by(97).all(|key| guard.get(key) == Ok(Some(1))));
    guard.validate().unwrap();
}

#[test]
fn stats_does_not_wait_for_a_write() {
    let _deadline = Deadline::new();
    let guard = options().open_guard(Map::default()).unwrap();
    (0..50).for_each(|key| put(&guard, key, 1).unwrap());
    assert!((50..500).all(|key| guard.get(&key) == Ok(None)));
    let hash = guard.hash(&500);
    let stats = guard.insert(&500, |map| {
        map.insert(hash, 500, 1);
        Ok(guard.stats())
    });
    let stats = stats.unwrap();
    assert!(stats.mistakes > 0 && stats.list_bytes > 16 * stats.mistakes, "{stats:?}");
}

/// Each writer has its own keys, and readers read all keys. No acknowledged key may ever be missing.
#[test]
fn no_acknowledged_key_is_missing_while_threads_write() {
    const WRITERS: u16 = 3;
    let _deadline = Deadline::new();
    let guard = options().open_guard(Map::default()).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let guard = &guard;
                scope.spawn(move || {
                    let keys = || (writer..300).step_by(WRITERS.into());
                    for round in 0..30 {
                        for key in keys() {
                            put(guard, key, round).unwrap();
                            assert_eq!(guard.get(&key), Ok(Some(round)), "put");
                        }
                        for key in keys().skip(round as usize % 2).step_by(2) {
                            assert!(delete(guard, key).unwrap());
                            assert_eq!(guard.get(&key), Ok(None), "deleted");
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                assert!((0..2000).all(|key| guard.get(&key).is_ok()));
                guard.rebuild().unwrap();
            }
        });
        let ends: Vec<_> = writers.into_iter().map(ScopedJoinHandle::join).collect();
        is_done.store(true, Ordering::Relaxed);
        assert!(ends.iter().all(Result::is_ok));
    });
    let stats = guard.stats();
    // A mistake that is repaired while its shard is rebuilt may recur once.
    assert!(stats.repairs_failed == 0 && stats.repeated_false_positives < 5, "{stats:?}");
    assert_eq!(stats.members, guard.database().rows().len() as u64);
}
