//! A guard against the map that it guards.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread::ScopedJoinHandle;
use twiceshy::Secret;

/// A database that fails when it is told to.
#[derive(Default)]
struct Map {
    /// By the first bytes of the hash: lists are longer than what was asked for.
    rows: Mutex<BTreeMap<(i64, u16), u32>>,
    lookups: AtomicU64,
    is_down: AtomicBool,
    is_unlisted: AtomicBool,
}

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("the database is down")]
struct Down;

impl Map {
    fn rows(&self) -> MutexGuard<'_, BTreeMap<(i64, u16), u32>> {
        self.rows.lock().unwrap()
    }

    fn check(&self) -> Result<(), Down> {
        if self.is_down.load(Ordering::Relaxed) { Err(Down) } else { Ok(()) }
    }
}

impl Guarded for Map {
    type Key = u16;
    type Value = u32;
    type Error = Down;

    fn look_up(&self, key: &u16) -> Result<Option<u32>, Down> {
        self.check()?;
        self.lookups.fetch_add(1, Ordering::Relaxed);
        let column = hash_column(hasher().hash(key));
        Ok(self.rows().get(&(column, *key)).copied())
    }

    fn list(&self, hashes: RangeInclusive<Hash>) -> Result<Vec<u16>, Down> {
        self.check()?;
        if self.is_unlisted.load(Ordering::Relaxed) {
            return Err(Down);
        }
        let columns = (hash_column(*hashes.start()), 0)..=(hash_column(*hashes.end()), u16::MAX);
        Ok(self.rows().range(columns).map(|(&(_, key), _)| key).collect())
    }
}

fn secret() -> Secret {
    Secret::from_bytes([7; 16])
}

fn hasher() -> KeyedHasher {
    KeyedHasher::new(&secret())
}

/// So bad a filter that most absent keys are mistakes at first.
fn builder() -> GuardBuilder {
    GuardBuilder::new().capacity(16).false_positive_rate(0.2).shards(4).secret(secret())
}

fn put(guard: &Guard<Map>, key: u16, value: u32) -> Result<(), GuardError<Down>> {
    let row = (hash_column(guard.hash(&key)), key);
    guard.insert(&key, |map| {
        map.check()?;
        map.rows().insert(row, value);
        Ok(())
    })
}

fn delete(guard: &Guard<Map>, key: u16) -> Result<bool, Down> {
    let row = (hash_column(guard.hash(&key)), key);
    guard.remove(&key, |map| {
        map.check()?;
        map.rows().remove(&row);
        Ok(())
    })
}

#[test]
fn columns_are_in_the_order_of_hashes() {
    let hashes = [0, 1, 1 << 64, 7 << 90, u128::MAX >> 1, 1 << 127, u128::MAX];
    let columns = hashes.map(|value| hash_column(Hash::from_u128(value)));
    assert!(columns.is_sorted());
    assert_eq!((columns[0], columns[6]), (i64::MIN, i64::MAX));
}

#[test]
fn what_is_in_the_database_is_there_from_the_start() {
    let map = Map::default();
    for key in 0..1000u16 {
        map.rows().insert((hash_column(hasher().hash(&key)), key), key.into());
    }
    let guard: Guard<Map> = builder().build_unready(map).unwrap();
    assert_eq!((guard.get(&7), guard.get(&2000)), (Ok(Some(7)), Ok(None)));
    assert_eq!((guard.stats().unfiltered, guard.stats().shards_ready), (1, 0));
    put(&guard, 1000, 1000).unwrap();
    assert_eq!(delete(&guard, 0), Ok(true));
    guard.rebuild().unwrap();
    assert_eq!((guard.stats().members, guard.stats().shards_ready), (1000, 4));
    assert!((1..=1000).all(|key| guard.get(&key) == Ok(Some(key.into()))));
}

#[test]
fn many_keys_are_written_together_and_each_is_one_member() {
    let guard = builder().build(Map::default()).unwrap();
    put(&guard, 3, 0).unwrap();
    let keys = [1, 2, 3, 2, 1];
    let written = guard.insert_many(&keys, |map| {
        let row = |&key: &u16| ((hash_column(hasher().hash(&key)), key), 9);
        map.rows().extend(keys.iter().map(row));
        Ok("done")
    });
    assert_eq!(written.unwrap(), "done");
    assert_eq!(guard.stats().members, 3);
    assert!((1..=3).all(|key| guard.get(&key) == Ok(Some(9))));
}

#[test]
fn a_database_that_fails_leaves_ghosts_that_repairs_clear() {
    let guard = builder().build(Map::default()).unwrap();
    guard.database().is_down.store(true, Ordering::Relaxed);
    // A second one may look like the first, and be looked up, in vain.
    let failed = (0..200).filter(|&key| put(&guard, key, 0).is_err()).count();
    assert_eq!(failed, 200);
    let ghosts = guard.stats().ghosts_left;
    assert!(ghosts > 0 && ghosts == guard.stats().members);
    guard.database().is_down.store(false, Ordering::Relaxed);
    assert!((0..200).all(|key| guard.get(&key) == Ok(None)));
    assert_eq!((guard.stats().members, guard.stats().ghosts_cleared), (0, ghosts));
}

#[test]
fn a_repair_that_fails_is_counted_and_fails_no_read() {
    let guard = builder().build(Map::default()).unwrap();
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

/// A write that was done, but not acknowledged, leaves a member among the mistakes.
#[test]
fn a_mistake_that_is_a_member_hinders_no_neighbour() {
    let guard = builder().build(Map::default()).unwrap();
    (0..50).for_each(|key| put(&guard, key, 1).unwrap());
    assert!((50..500).all(|key| guard.get(&key) == Ok(None)));
    assert!(guard.stats().mistakes > 0);
    for key in 50..500 {
        let row = (hash_column(guard.hash(&key)), key);
        let failed = guard.insert(&key, |map| {
            map.rows().insert(row, 1);
            Err::<(), _>(Down)
        });
        assert!(matches!(failed, Err(GuardError::Database(Down))), "{failed:?}");
    }
    (500..1500).for_each(|key| put(&guard, key, 1).unwrap());
    assert!((0..1500).all(|key| guard.get(&key) == Ok(Some(1))));
}

#[test]
fn no_more_mistakes_are_kept_than_asked_for() {
    let guard = builder().mistakes_kept(10).build(Map::default()).unwrap();
    (0..100).for_each(|key| put(&guard, key, 1).unwrap());
    assert!((100..1000).all(|key| guard.get(&key) == Ok(None)));
    let stats = guard.stats();
    assert_eq!((stats.mistakes, stats.mistakes + stats.mistakes_forgotten), (10, stats.repairs));
}

/// Writers that each have their own keys and readers of all: nothing that was acknowledged is
/// ever missing.
#[test]
fn threads_lose_no_member() {
    const WRITERS: u16 = 3;
    let guard = builder().build(Map::default()).unwrap();
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
                            assert_eq!(delete(guard, key), Ok(true));
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
    assert_eq!((stats.repairs_failed, stats.repeated_false_positives), (0, 0));
    assert_eq!(stats.members, guard.database().rows().len() as u64);
}

#[derive(Clone, Debug)]
enum Op {
    Put(u16),
    /// A write that fails: before it is done, or after.
    PutInVain(u16, bool),
    Delete(u16),
    Get(u16),
    Rebuild,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = || 0..200u16;
    let op = prop_oneof![
        6 => key().prop_map(Op::Put),
        1 => (key(), any::<bool>()).prop_map(|(key, is_done)| Op::PutInVain(key, is_done)),
        4 => key().prop_map(Op::Delete),
        8 => key().prop_map(Op::Get),
        1 => Just(Op::Rebuild),
    ];
    proptest::collection::vec(op, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_member_is_missing_and_no_mistake_made_twice(ops in ops()) {
        let guard = builder().build(Map::default()).unwrap();
        let (mut model, mut mistakes) = (BTreeMap::new(), BTreeSet::new());
        let lookups = || guard.database().lookups.load(Ordering::Relaxed);
        let get = |model: &BTreeMap<u16, u32>, mistakes: &mut BTreeSet<u16>, key: u16| {
            let before = lookups();
            assert_eq!(guard.get(&key), Ok(model.get(&key).copied()));
            if lookups() > before && !model.contains_key(&key) {
                assert!(mistakes.insert(key), "{key} is a mistake again");
            }
        };
        for (value, op) in (0..).zip(ops) {
            match op {
                Op::Put(key) => {
                    put(&guard, key, value).unwrap();
                    model.insert(key, value);
                    mistakes.remove(&key);
                }
                Op::PutInVain(key, is_done) => {
                    let row = (hash_column(guard.hash(&key)), key);
                    let failed = guard.insert(&key, |map| {
                        if is_done {
                            map.rows().insert(row, value);
                        }
                        Err::<(), _>(Down)
                    });
                    prop_assert!(matches!(failed, Err(GuardError::Database(Down))));
                    if is_done {
                        model.insert(key, value);
                    }
                    // A ghost is a mistake, once.
                    mistakes.remove(&key);
                }
                Op::Delete(key) => {
                    let before = lookups();
                    let was_there = model.remove(&key).is_some();
                    prop_assert_eq!(delete(&guard, key), Ok(was_there));
                    if !was_there && lookups() > before {
                        prop_assert!(mistakes.insert(key), "{} is a mistake again", key);
                    }
                }
                Op::Get(key) => get(&model, &mut mistakes, key),
                Op::Rebuild => guard.rebuild().unwrap(),
            }
        }
        for _ in 0..2 {
            (0..200).for_each(|key| get(&model, &mut mistakes, key));
        }
        prop_assert_eq!(guard.stats().repairs_failed, 0);
        // A ghost that was put again is a member twice, so far.
        guard.rebuild().unwrap();
        prop_assert_eq!(guard.stats().members, model.len() as u64);
    }
}
