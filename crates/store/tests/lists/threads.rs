//! Checks that no listed key is answered wrongly while many threads change the lists.

use crate::common::Random;
use crate::options;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use twiceshy_deadline::Deadline;
use twiceshy_store::backend::Observed;
use twiceshy_store::{Keyspace, List, MemoryBackend};

#[test]
fn threads_see_no_wrong_answer() {
    const FIXED: u64 = 300;
    let _deadline = Deadline::new();
    let store = options().capacity(64).open_lists_with(MemoryBackend::new(), None).unwrap();
    let key = |n: u64| n.to_be_bytes();
    // These keys stay on their lists.
    store.add_many(List::Yes, (0..FIXED).map(key)).unwrap();
    store.add_many(List::No, (FIXED..2 * FIXED).map(key)).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let store = &store;
        let writers: Vec<_> = (0..2u64)
            .map(|writer| {
                scope.spawn(move || {
                    // Each thread has its own keys, which it moves from list to list.
                    let mut random = Random(writer);
                    let mut lists = [None; 200];
                    for _ in 0..6000 {
                        let n = random.below(200);
                        let own = key(1 << 32 | writer << 16 | n);
                        let list = &mut lists[n as usize];
                        *list = match (*list, random.below(2)) {
                            (None, 0) => store.add_yes(&own).unwrap().then_some(List::Yes),
                            (None, _) => store.add_no(&own).unwrap().then_some(List::No),
                            (Some(List::Yes), _) => {
                                assert!(store.add_no(&own).is_err());
                                (!store.remove_yes(&own).unwrap()).then_some(List::Yes)
                            }
                            (Some(List::No), _) => {
                                assert!(store.add_yes(&own).is_err());
                                (!store.remove_no(&own).unwrap()).then_some(List::No)
                            }
                        };
                        match list {
                            Some(list) => assert_eq!(store.contains(&own), *list == List::Yes),
                            None => assert_eq!(store.list_of(&own).unwrap(), None),
                        }
                    }
                })
            })
            .collect();
        for reader in 0..2 {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut random = Random(reader + 100);
                let all: Vec<_> = (0..2 * FIXED).map(key).collect();
                let mut answers = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    for _ in 0..200 {
                        let n = random.below(2 * FIXED);
                        assert_eq!(store.contains(&key(n)), n < FIXED, "{n}");
                    }
                    store.contains_many(&all, &mut answers);
                    let wrong = answers.iter().zip(0..).find(|&(&answer, n)| answer != (n < FIXED));
                    assert_eq!(wrong, None);
                }
            });
        }
        let ended: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        for ended in ended {
            ended.unwrap();
        }
    });
    store.validate().unwrap();
    assert!(store.stats().repairs > 100);
}

/// After a yes key is inserted and before its collisions are repaired, a lookup of a no key waits, and isn't
/// answered "yes".
#[test]
fn lookup_of_a_no_key_waits_for_the_repair_of_a_new_yes_key() {
    const NO: u64 = 300;
    let _deadline = Deadline::new();
    let (moment, moments) = channel();
    let answered = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&answered);
    let backend = Observed::new(MemoryBackend::new(), |_, _| {}).on_range(move |space, _| {
        if space == Keyspace::Members {
            let before = seen.load(Ordering::SeqCst);
            // The receiver is gone when the test is over.
            let _ = moment.send(());
            // Wait longer than a wrong answer would take; a right answer comes later.
            for _ in 0..2000 {
                if seen.load(Ordering::SeqCst) > before {
                    break;
                }
                thread::yield_now();
            }
        }
    });
    let store = options().capacity(64).open_lists_with(backend, None).unwrap();
    let no: Vec<[u8; 8]> = (0..NO).map(u64::to_be_bytes).collect();
    store.add_many(List::No, &no).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (store, no, answered, is_over) = (&store, &no, &answered, &is_over);
        let asking = scope.spawn(move || {
            let mut many = Vec::new();
            for asked in 0u64.. {
                if moments.recv().is_err() || is_over.load(Ordering::SeqCst) {
                    return asked;
                }
                if asked % 2 == 0 {
                    assert!(!no.iter().any(|key| store.contains(key)));
                } else {
                    store.contains_many(no, &mut many);
                    assert!(!many.contains(&true));
                }
                answered.fetch_add(1, Ordering::SeqCst);
            }
            unreachable!("the test is over before")
        });
        for key in NO..NO + 100 {
            store.add_yes(&key.to_be_bytes()).unwrap();
            if asking.is_finished() {
                break;
            }
        }
        // The last moment.
        is_over.store(true, Ordering::SeqCst);
        assert!(store.entries(List::Yes).count() > 0);
        assert!(asking.join().unwrap() > 20, "the filter is too good for this test");
    });
}
