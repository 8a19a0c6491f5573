//! Checks that no listed key is answered wrongly while many threads change the lists.

use super::options;
use crate::common::Random;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use twiceshy_deadline::Deadline;
use twiceshy_store::{List, MemoryBackend};

#[test]
fn listed_keys_are_answered_correctly_while_threads_change_lists() {
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
