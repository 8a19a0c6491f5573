//! Writes whose outcome is unknown, and databases whose hashes were made with a different secret.

use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Lets a write of a key time out. The write isn't visible in the database.
fn time_out(guard: &Guard<Map>, key: u16) {
    let failed = guard.insert(&key, |_| Err::<(), _>(WriteError::Unknown(Down)));
    assert!(matches!(failed, Err(GuardError::InDoubt(Down))), "{failed:?}");
}

/// Lets a write that timed out arrive at the database.
fn arrive(guard: &Guard<Map>, key: u16, value: u32) {
    guard.database().insert(guard.hash(&key), key, value);
}

fn ready() -> Guard<Map> {
    options().open_guard(Map::default()).unwrap()
}

#[test]
fn insert_that_arrives_after_a_repair_is_found() {
    let guard = ready();
    (0..100).for_each(|key| put(&guard, key, 1).unwrap());
    (100..200).for_each(|key| time_out(&guard, key));
    // If the guard did not record doubts, repairs would treat the keys that timed out as ghosts.
    assert!((100..1000).all(|key| guard.get(&key) == Ok(None)));
    (100..200).for_each(|key| arrive(&guard, key, 2));
    assert!((100..200).all(|key| guard.get(&key) == Ok(Some(2))));
}

#[test]
fn overwrite_that_arrives_after_a_removal_is_found() {
    let guard = ready();
    (0..100).for_each(|key| put(&guard, key, 1).unwrap());
    (0..100).for_each(|key| time_out(&guard, key));
    assert!((0..100).all(|key| delete(&guard, key).unwrap()));
    assert!((0..1000).all(|key| guard.get(&key) == Ok(None)));
    (0..100).for_each(|key| arrive(&guard, key, 2));
    assert!((0..100).all(|key| guard.get(&key) == Ok(Some(2))));
}

#[test]
fn write_that_arrives_after_a_rebuild_is_found() {
    let guard = ready();
    (0..100).for_each(|key| time_out(&guard, key));
    guard.rebuild().unwrap();
    assert!((0..1000).all(|key| guard.get(&key) == Ok(None)));
    (0..100).for_each(|key| arrive(&guard, key, 2));
    assert!((0..100).all(|key| guard.get(&key) == Ok(Some(2))));
}

#[test]
fn key_stays_in_doubt_after_a_later_write() {
    let guard = ready();
    (0..100).for_each(|key| time_out(&guard, key));
    (0..100).for_each(|key| put(&guard, key, 1).unwrap());
    assert!((0..100).all(|key| delete(&guard, key).unwrap()));
    assert!((0..1000).all(|key| guard.get(&key) == Ok(None)));
    assert_eq!((guard.doubts().len(), guard.stats().members), (100, 100));
    (0..100).for_each(|key| arrive(&guard, key, 2));
    assert!((0..100).all(|key| guard.get(&key) == Ok(Some(2))));
}

#[test]
fn removal_that_times_out_leaves_its_key_in_the_filter() {
    let guard = ready();
    put(&guard, 7, 1).unwrap();
    let failed = guard.remove(&7, |map| {
        map.rows().clear();
        Err(WriteError::Unknown(Down))
    });
    assert!(matches!(failed, Err(GuardError::InDoubt(Down))), "{failed:?}");
    assert_eq!((guard.get(&7), guard.doubts()), (Ok(None), vec![7]));
    // The removal is rolled back.
    arrive(&guard, 7, 1);
    assert_eq!(guard.get(&7), Ok(Some(1)));
}

#[test]
fn remove_of_a_key_in_doubt_calls_the_database() {
    for max_doubts in [0, 1] {
        let guard = options().max_doubts(max_doubts).open_guard(Map::default()).unwrap();
        time_out(&guard, 7);
        let mut is_called = false;
        let removed = guard.remove(&7, |_| {
            is_called = true;
            Ok(())
        });
        assert!(!removed.unwrap() && is_called);
    }
}

/// A database may refuse to look up a key that a client made up.
#[test]
fn settle_all_works_while_lookups_fail() {
    let guard = options().max_doubts(50).open_guard(Map::default()).unwrap();
    (0..100).for_each(|key| time_out(&guard, key));
    guard.database().refuses_lookups.store(true, Ordering::Relaxed);
    assert_eq!(guard.get(&7), Err(Down));
    guard.settle_all().unwrap();
    let stats = guard.stats();
    assert_eq!((stats.doubts, stats.members, stats.shards_ready), (0, 0, 4));
}

#[test]
fn repair_removes_a_fingerprint_that_a_refused_insert_left() {
    let guard: Guard<Map, twiceshy::TelescopingFilter> =
        options().capacity(400).open_guard_unready(Map::default()).unwrap();
    guard.rebuild().unwrap();
    let write = |key: u16, error: bool| {
        let hash = guard.hash(&key);
        guard.insert(&key, |map| {
            if error {
                map.is_unlisted.store(true, Ordering::Relaxed);
                return Err(WriteError::NotWritten(Down));
            }
            map.insert(hash, key, 1);
            Ok(())
        })
    };
    (0..300).for_each(|key| write(key, false).unwrap());
    assert!((1000..3000).all(|key| guard.get(&key) == Ok(None)));
    for key in 300..1000 {
        assert!(write(key, true).is_err());
        guard.database().is_unlisted.store(false, Ordering::Relaxed);
    }
    // About one in forty can't be undone.
    assert!(guard.stats().ghosts_left > 0, "without a listing, some inserts can't be undone");
    for _ in 0..2 {
        assert!((300..1000).all(|key| guard.get(&key) == Ok(None)));
    }
    assert!(guard.stats().ghosts_cleared > 0);
    assert!((0..300).all(|key| guard.get(&key) == Ok(Some(1))));
}

#[test]
fn settle_removes_a_key_from_the_filter_unless_the_database_has_it() {
    let guard = ready();
    (0..50).for_each(|key| time_out(&guard, key));
    (0..50).for_each(|key| time_out(&guard, key));
    (0..25).for_each(|key| arrive(&guard, key, 1));
    assert_eq!((guard.stats().members, guard.stats().doubts), (50, 50), "each once");
    assert!((0..50).all(|key| guard.settle(&key).unwrap() == (key < 25)));
    assert_eq!((guard.stats().members, guard.stats().doubts), (25, 0));
    assert!(!guard.settle(&99).unwrap(), "was not in doubt");
    assert!((0..25).all(|key| guard.get(&key) == Ok(Some(1)) && delete(&guard, key).unwrap()));
    assert_eq!(guard.stats().members, 0);
}

#[test]
fn key_stays_in_doubt_while_the_database_is_down() {
    let guard = ready();
    time_out(&guard, 7);
    guard.database().is_down.store(true, Ordering::Relaxed);
    assert!(matches!(guard.settle(&7), Err(GuardError::Database(Down))));
    assert!(guard.settle_all().is_err());
    guard.database().is_down.store(false, Ordering::Relaxed);
    assert_eq!(guard.doubts(), [7]);
    guard.settle_all().unwrap();
    assert!(guard.doubts().is_empty());
}

#[test]
fn write_that_panics_is_in_doubt() {
    let guard = ready();
    let write =
        || guard.insert(&7, |_| -> Result<(), WriteError<Down>> { panic!("in the caller") });
    assert!(catch_unwind(AssertUnwindSafe(write)).is_err());
    assert_eq!((guard.get(&7), guard.doubts()), (Ok(None), vec![7]));
    arrive(&guard, 7, 1);
    assert_eq!(guard.get(&7), Ok(Some(1)));
}

#[test]
fn shard_with_too_many_doubts_answers_maybe_until_all_are_settled() {
    let guard: Guard<Map> = options().max_doubts(10).open_guard(Map::default()).unwrap();
    (0..100).for_each(|key| time_out(&guard, key));
    assert_eq!((guard.doubts().len(), guard.stats().shards_ready), (10, 0));
    put(&guard, 1000, 1).unwrap();
    // Neither rebuilding nor settling the recorded doubts makes the shards ready.
    guard.rebuild().unwrap();
    guard.doubts().iter().for_each(|key| assert!(!guard.settle(key).unwrap()));
    guard.rebuild().unwrap();
    assert!((0..100).all(|key| guard.get(&key) == Ok(None)));
    assert_eq!((guard.doubts().len(), guard.stats().shards_ready), (0, 0));
    (0..100).for_each(|key| arrive(&guard, key, 2));
    assert!((0..100).all(|key| guard.get(&key) == Ok(Some(2))));

    guard.database().is_unlisted.store(true, Ordering::Relaxed);
    assert!(guard.settle_all().is_err());
    assert_eq!(guard.stats().shards_ready, 0);
    guard.database().is_unlisted.store(false, Ordering::Relaxed);
    guard.settle_all().unwrap();
    assert_eq!((guard.stats().members, guard.stats().shards_ready), (101, 4));
    assert!((0..100).all(|key| guard.get(&key) == Ok(Some(2))));
    time_out(&guard, 7);
    assert_eq!((guard.doubts(), guard.stats().shards_ready), (vec![7], 4), "there is room again");
}

/// Writes time out and arrive later, during repairs and rebuilds. Every write that has arrived is found.
#[test]
fn threads_find_every_write_that_arrives_late() {
    const WRITERS: u16 = 2;
    let guard: Guard<Map> = options().max_doubts(50).open_guard(Map::default()).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let guard = &guard;
        let write = move |writer: u16| {
            let keys = || (writer..200).step_by(WRITERS.into());
            for round in 0..40 {
                for key in keys() {
                    time_out(guard, key);
                    if key % 3 == 0 {
                        put(guard, key, round).unwrap();
                        assert!(delete(guard, key).unwrap());
                    }
                }
                for key in keys() {
                    assert_eq!(guard.get(&key), Ok(None), "not yet");
                    arrive(guard, key, round);
                    assert_eq!(guard.get(&key), Ok(Some(round)), "arrived");
                }
                // Each writer settles only its own keys.
                keys().for_each(|key| assert!(guard.settle(&key).unwrap()));
                keys().for_each(|key| assert!(delete(guard, key).unwrap()));
            }
        };
        let writers: Vec<_> =
            (0..WRITERS).map(|number| scope.spawn(move || write(number))).collect();
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
    guard.settle_all().unwrap();
    assert_eq!((guard.stats().members, guard.stats().shards_ready), (0, 4));
}

/// Returns a map whose hashes were made with a different secret.
fn foreign(keys: u16) -> Map {
    let map = Map::default();
    let other = KeyedHasher::new(&Secret::from_bytes([8; 16]));
    (0..keys).for_each(|key| map.insert(other.hash(&key), key, 1));
    map
}

#[test]
fn guard_needs_a_secret_unless_it_may_generate_one() {
    let without = OpenOptions::new().capacity(16);
    assert!(matches!(without.open_guard(Map::default()), Err(GuardError::NoSecret)));
    assert!(matches!(
        without.open_guard_unready::<_, QuotientFilter>(Map::default()),
        Err(GuardError::NoSecret)
    ));
    assert!(without.clone().generate_secret().open_guard(Map::default()).is_ok());
    let guard = without.generate_secret().open_guard(foreign(5000));
    assert!(matches!(guard, Err(GuardError::ForeignHash)));
}

#[test]
fn open_guard_fails_if_hashes_were_made_with_another_secret() {
    for (keys, shards) in [(1, 1), (1, 64), (5000, 1), (5000, 64)] {
        let guard = options().shards(shards).open_guard(foreign(keys));
        assert!(matches!(guard, Err(GuardError::ForeignHash)), "{keys} keys, {shards} shards");
    }
}

#[test]
fn repair_fails_if_the_database_lists_the_wrong_keys() {
    let guard = ready();
    (0..500).for_each(|key| put(&guard, key, 1).unwrap());
    guard.database().is_shifted.store(true, Ordering::Relaxed);
    assert!((500..1500).all(|key| guard.get(&key) == Ok(None)));
    assert!(guard.stats().repairs_failed > 0);
    guard.database().is_shifted.store(false, Ordering::Relaxed);
    assert!((0..500).all(|key| guard.get(&key) == Ok(Some(1))));
}

#[derive(Clone, Debug)]
enum Op {
    Put(u16),
    Delete(u16),
    /// Writes a key, with an unknown outcome. The flag says whether the write is done immediately.
    TimeOut(u16, bool),
    /// Removes a key, with an unknown outcome. The flag says whether the removal is done immediately.
    DeleteTimesOut(u16, bool),
    /// Lets a write that timed out arrive, if there is one.
    Arrive(u16),
    Refused(u16),
    Get(u16),
    Settle(u16),
    SettleAll,
    Rebuild,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = || 0..120u16;
    let op = prop_oneof![
        6 => key().prop_map(Op::Put),
        4 => key().prop_map(Op::Delete),
        2 => (key(), any::<bool>()).prop_map(|(key, is_done)| Op::TimeOut(key, is_done)),
        1 => (key(), any::<bool>()).prop_map(|(key, is_done)| Op::DeleteTimesOut(key, is_done)),
        2 => key().prop_map(Op::Arrive),
        1 => key().prop_map(Op::Refused),
        8 => key().prop_map(Op::Get),
        2 => key().prop_map(Op::Settle),
        1 => Just(Op::SettleAll),
        1 => Just(Op::Rebuild),
    ];
    proptest::collection::vec(op, 1..200)
}

/// The rows in the database, the writes that may still arrive, and the mistakes that were made.
#[derive(Default)]
struct Model {
    rows: BTreeMap<u16, u32>,
    in_flight: BTreeMap<u16, u32>,
    doubts: BTreeSet<u16>,
    mistakes: BTreeSet<u16>,
    has_overflowed: bool,
}

impl Model {
    fn doubt(&mut self, key: u16, guard: &Guard<Map>) {
        self.doubts.insert(key);
        self.has_overflowed |= guard.stats().shards_ready < 4;
    }

    fn get(&mut self, guard: &Guard<Map>, key: u16) {
        let lookups = || guard.database().lookups.load(Ordering::Relaxed);
        let (before, skipped) = (lookups(), guard.stats().repairs_skipped);
        assert_eq!(guard.get(&key), Ok(self.rows.get(&key).copied()), "{key}");
        let is_mistake = lookups() > before && !self.rows.contains_key(&key);
        if is_mistake && !self.doubts.contains(&key) && !self.has_overflowed {
            assert!(self.mistakes.insert(key), "{key} is a mistake that recurs");
        }
        // If the filter has no room, it skips the repair, so the mistake may recur.
        if guard.stats().repairs_skipped > skipped {
            self.mistakes.remove(&key);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn guard_loses_no_member_and_repeats_no_mistake(ops in ops(), max_doubts in 0..40usize) {
        let guard = options().max_doubts(max_doubts).open_guard(Map::default()).unwrap();
        let mut model = Model::default();
        for (value, op) in (0..).zip(ops) {
            match op {
                Op::Put(key) => {
                    put(&guard, key, value).unwrap();
                    model.rows.insert(key, value);
                    model.mistakes.remove(&key);
                }
                Op::Delete(key) => {
                    // Like `get`, a removal of an absent key asks the filter, which may answer by
                    // mistake. Call `model.get` first, so that the model knows about the mistake.
                    if model.rows.remove(&key).is_some() || model.doubts.contains(&key) {
                        delete(&guard, key).unwrap();
                    } else {
                        model.get(&guard, key);
                        prop_assert!(!delete(&guard, key).unwrap());
                    }
                }
                Op::TimeOut(key, is_done) => {
                    time_out(&guard, key);
                    if is_done {
                        arrive(&guard, key, value);
                        model.rows.insert(key, value);
                    } else {
                        model.in_flight.insert(key, value);
                    }
                    model.doubt(key, &guard);
                    model.mistakes.remove(&key);
                }
                Op::DeleteTimesOut(key, is_done) => {
                    let mut is_called = false;
                    let removed = guard.remove(&key, |map| {
                        is_called = true;
                        if is_done {
                            map.rows().remove(&key);
                        }
                        Err(WriteError::Unknown(Down))
                    });
                    prop_assert_eq!(removed.is_err(), is_called);
                    prop_assert!(is_called || !model.rows.contains_key(&key));
                    if is_called && is_done {
                        model.rows.remove(&key);
                    }
                    if is_called {
                        model.doubt(key, &guard);
                    }
                }
                Op::Arrive(key) => {
                    if let Some(value) = model.in_flight.remove(&key) {
                        arrive(&guard, key, value);
                        model.rows.insert(key, value);
                    }
                }
                Op::Refused(key) => {
                    let refused = guard.insert(&key, |_| Err::<(), _>(WriteError::NotWritten(Down)));
                    prop_assert!(matches!(refused, Err(GuardError::NotWritten(Down))));
                    model.mistakes.remove(&key);
                }
                Op::Get(key) => model.get(&guard, key),
                Op::Settle(key) => {
                    model.in_flight.remove(&key);
                    prop_assert_eq!(guard.settle(&key).unwrap(), model.rows.contains_key(&key));
                    model.doubts.remove(&key);
                    model.mistakes.remove(&key);
                }
                Op::SettleAll => {
                    model.in_flight.clear();
                    guard.settle_all().unwrap();
                    model.mistakes.retain(|key| !model.doubts.contains(key));
                    model.doubts.clear();
                    prop_assert!(guard.doubts().is_empty());
                    prop_assert_eq!(guard.stats().shards_ready, 4);
                    model.has_overflowed = false;
                }
                Op::Rebuild => guard.rebuild().unwrap(),
            }
        }
        for _ in 0..2 {
            (0..120).for_each(|key| model.get(&guard, key));
        }
        prop_assert_eq!(guard.stats().repairs_failed, 0);
        guard.settle_all().unwrap();
        guard.rebuild().unwrap();
        prop_assert_eq!(guard.stats().members, model.rows.len() as u64);
    }
}
