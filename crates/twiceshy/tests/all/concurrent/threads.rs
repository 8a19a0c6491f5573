//! Threads that insert, remove, repair and look up, while the filter grows.

use super::model::Numbers;
use std::collections::BTreeMap;
use std::sync::RwLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use twiceshy::{
    Answer, Concurrent, Hash, QuotientFilter,
    error::{AdaptError, RemoveError},
};
use twiceshy_deadline::Deadline;
use twiceshy_model::concurrent::{Members, check_entries, forget, list};

const THREADS: usize = 8;
const STEPS: usize = 4_000;

/// A filter and a store that lists its members. Every member in the store is in the filter.
struct Shared {
    filter: Concurrent<QuotientFilter>,
    store: RwLock<Members>,
    repaired: AtomicUsize,
}

/// A thread, and the members that only this thread inserts and removes.
struct Worker<'a> {
    shared: &'a Shared,
    number: usize,
    numbers: Numbers,
    own: Vec<Hash>,
    counts: Members,
}

#[test]
fn concurrent_operations_lose_no_member() {
    let _deadline = Deadline::new();
    for seed in 0..6 {
        let filter = QuotientFilter::builder()
            .remainder_bits(9)
            .slots(2_000)
            .grow_at(0.9)
            .shards([1, 2, 8][seed % 3])
            .build_concurrent()
            .unwrap();
        let shared = Shared { filter, store: RwLock::default(), repaired: AtomicUsize::new(0) };
        let slots = slots(&shared.filter);
        let counts = std::thread::scope(|scope| {
            let work = |number| {
                let shared = &shared;
                scope.spawn(move || Worker::new(shared, number, seed).work())
            };
            let threads: Vec<_> = (0..THREADS).map(work).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        let members: Members = counts.into_iter().flatten().collect();
        assert_eq!(*shared.store.read().unwrap(), members);
        check_entries(&shared.filter, &members);
        shared.filter.validate().unwrap();
        assert!(shared.repaired.into_inner() > 100, "too few repairs");
        assert!(self::slots(&shared.filter) >= 4 * slots, "shards grew too little");
    }
}

fn slots(filter: &Concurrent<QuotientFilter>) -> u64 {
    filter.parameters().iter().map(|shard| shard.slots).sum()
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared, number: usize, seed: usize) -> Self {
        let numbers = Numbers((seed * THREADS + number) as u64 * 1_000_003);
        Self { shared, number, numbers, own: Vec::new(), counts: BTreeMap::new() }
    }

    /// Runs the thread, and returns its remaining members.
    fn work(mut self) -> Members {
        for _ in 0..STEPS {
            match self.numbers.below(20) {
                0..=7 => self.insert(),
                8 => self.insert_batch(),
                9 => self.insert_again(),
                10..=11 => self.remove(),
                12 => self.remove_listed(),
                13..=15 => self.repair(),
                _ => self.ask(),
            }
        }
        self.own.iter().for_each(|&member| self.must_hold(member));
        self.counts
    }

    /// Returns a hash whose last bits are the owner's number. Some hashes are in a few cells that
    /// all threads use.
    fn hash(&mut self, owner: usize) -> Hash {
        let hash = self.numbers.hash().as_u128();
        let crowded = self.numbers.below(8) == 0;
        let hash = if crowded { hash >> 122 << 122 | hash << 40 >> 40 } else { hash };
        Hash::from_u128(hash & !0xff | owner as u128)
    }

    fn pick(&mut self) -> Option<Hash> {
        (!self.own.is_empty()).then(|| self.own[self.numbers.below(self.own.len())])
    }

    fn must_hold(&self, member: Hash) {
        let filter = &self.shared.filter;
        assert!(filter.contains(member), "{member:?} is lost");
        assert!(filter.check(member).is_maybe(), "{member:?} is lost");
        assert!(filter.count(member) >= self.counts[&member]);
    }

    /// Adds a member to the store, after inserting it into the filter.
    fn store(&mut self, member: Hash, times: u64) {
        *self.shared.store.write().unwrap().entry(member).or_default() += times;
        let count = self.counts.entry(member).or_default();
        if *count == 0 {
            self.own.push(member);
        }
        *count += times;
        self.must_hold(member);
    }

    /// Removes a member from the store, before removing it from the filter.
    fn forget(&mut self, member: Hash) {
        forget(&mut self.shared.store.write().unwrap(), member);
        forget(&mut self.counts, member);
        if !self.counts.contains_key(&member) {
            self.own.retain(|&own| own != member);
        }
    }

    fn insert(&mut self) {
        let member = self.hash(self.number);
        self.shared.filter.insert(member).unwrap();
        self.store(member, 1);
    }

    fn insert_again(&mut self) {
        let Some(member) = self.pick() else { return };
        let times = self.numbers.next() % 5;
        self.shared.filter.insert_times(member, times).unwrap();
        self.store(member, times);
    }

    fn insert_batch(&mut self) {
        let members: Vec<Hash> = (0..20).map(|_| self.hash(self.number)).collect();
        self.shared.filter.insert_each(&members).unwrap();
        for member in members {
            self.store(member, 1);
        }
    }

    fn remove(&mut self) {
        let Some(member) = self.pick() else { return };
        self.forget(member);
        match self.numbers.below(2) {
            0 => self.shared.filter.remove_trusting(member).unwrap(),
            _ => self.shared.filter.remove_trusting_keeping_repairs(member).unwrap(),
        }
    }

    fn remove_listed(&mut self) {
        let Some(member) = self.pick() else { return };
        self.forget(member);
        loop {
            let Answer::Maybe(claim) = self.shared.filter.check(member) else {
                panic!("{member:?} is lost");
            };
            let mut listed = list(&self.shared.store.read().unwrap(), claim.suspects());
            // The store has already removed one copy of the member.
            listed.push(member.into());
            match self.shared.filter.remove(&claim, &listed) {
                Ok(()) => return,
                Err(RemoveError::Stale) => {}
                // Another thread has changed the store but not yet the filter, and may be waiting
                // for this thread. Removing without a list is safe, because the store listed this
                // hash as a member.
                Err(RemoveError::Unlisted { .. }) => {
                    return self.shared.filter.remove_trusting(member).unwrap();
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn repair(&mut self) {
        // Choose a query close to a member; otherwise it is seldom a mistake.
        let owner = THREADS + self.number;
        let query = match self.pick() {
            Some(member) => {
                let low = self.numbers.next() >> self.numbers.below(40);
                Hash::from_u128((member.as_u128() ^ u128::from(low) << 40) & !0xff | owner as u128)
            }
            None => self.hash(owner),
        };
        let Answer::Maybe(claim) = self.shared.filter.check(query) else { return };
        let listed = list(&self.shared.store.read().unwrap(), claim.suspects());
        // Give other threads time to make the claim stale.
        std::thread::yield_now();
        match self.shared.filter.adapt(&claim, &listed) {
            Ok(_) => self.shared.repaired.fetch_add(1, Ordering::Relaxed),
            // Another thread has changed the filter here, or has not yet changed the store.
            Err(AdaptError::Stale | AdaptError::Unlisted { .. }) => return,
            Err(error) => panic!("{error}"),
        };
    }

    fn ask(&mut self) {
        let mut maybe = Vec::new();
        let from = self.numbers.below(self.own.len().max(1));
        let some = &self.own[from..self.own.len().min(from + 30)];
        self.shared.filter.contains_many(some, &mut maybe);
        assert!(maybe.iter().all(|&maybe| maybe), "one of {some:?} is lost");
        if let Some(member) = self.pick() {
            self.must_hold(member);
        }
    }
}
