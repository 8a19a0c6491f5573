//! Compares a range store with a `BTreeMap`, in a universe so small that everything collides.

use super::watched::{Watched, options};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use twiceshy_store::{Backend, MemoryBackend, StoredKey};

/// An operation. Each `u8` stands for a key at the start, in the middle or at the end of the key type.
#[derive(Clone, Debug)]
enum Op {
    Put(u8, u8),
    PutMany(Vec<(u8, u8)>),
    Delete(u8),
    Get(u8),
    IsEmpty(u8, u8),
    Range(u8, u8),
    Reopen,
    Rebuild,
}

fn ops(most: usize) -> impl Strategy<Value = Vec<Op>> {
    // Prefer keys at both ends and around the middle of the type.
    let key = || prop_oneof![0u8..12, 122u8..134, 244u8..=255, any::<u8>()];
    let length = || prop_oneof![8 => 0u8..8, 1 => any::<u8>()];
    let op = prop_oneof![
        6 => (key(), any::<u8>()).prop_map(|(key, value)| Op::Put(key, value)),
        1 => prop::collection::vec((key(), any::<u8>()), 0..8).prop_map(Op::PutMany),
        4 => key().prop_map(Op::Delete),
        3 => key().prop_map(Op::Get),
        8 => (key(), length()).prop_map(|(key, more)| Op::IsEmpty(key, key.saturating_add(more))),
        2 => (key(), length()).prop_map(|(key, more)| Op::Range(key, key.saturating_add(more))),
        1 => Just(Op::Reopen),
        1 => Just(Op::Rebuild),
    ];
    prop::collection::vec(op, 0..most)
}

struct Pair<K: StoredKey, B: Backend> {
    watched: Watched<K, B>,
    key: fn(u8) -> K,
    model: BTreeMap<u8, u8>,
    /// Ranges that were read from disk, and are still empty.
    known: BTreeSet<u8>,
}

impl<K: StoredKey + PartialEq + Debug, B: Backend> Pair<K, B> {
    fn new(backend: B, key: fn(u8) -> K) -> Self {
        let watched = Watched::open(options(), backend);
        Self { watched, key, model: BTreeMap::new(), known: BTreeSet::new() }
    }

    fn step(&mut self, op: &Op) {
        let key = self.key;
        match *op {
            Op::Put(n, value) => {
                self.watched.store().put(key(n), &[value]).unwrap();
                self.model.insert(n, value);
                self.known.remove(&n);
            }
            Op::PutMany(ref pairs) => {
                for &(n, value) in pairs {
                    self.model.insert(n, value);
                    self.known.remove(&n);
                }
                let pairs = pairs.iter().map(|&(n, value)| (key(n), [value]));
                self.watched.store().put_many(pairs).unwrap();
            }
            Op::Delete(n) => {
                let removed = self.model.remove(&n).is_some();
                let deleted = self.visit(n, n, |pair| pair.store().delete(key(n)).unwrap());
                assert_eq!(deleted, removed);
            }
            Op::Get(n) => {
                let value = self.visit(n, n, |pair| pair.store().get(key(n)).unwrap());
                assert_eq!(value.map(|value| value[0]), self.model.get(&n).copied());
            }
            Op::IsEmpty(first, last) => {
                let is_empty = self.visit(first, last, |pair| {
                    pair.store().range_is_empty(key(first)..=key(last)).unwrap()
                });
                assert_eq!(is_empty, self.model.range(first..=last).next().is_none());
            }
            Op::Range(first, last) => {
                let expected: Vec<(K, u8)> =
                    self.model.range(first..=last).map(|(&n, &value)| (key(n), value)).collect();
                for backwards in [false, true] {
                    let mut pairs = self.visit(first, last, |pair| {
                        let pairs = pair.store().range(key(first)..=key(last)).unwrap();
                        let read = |found: Result<(K, _), _>| {
                            let (key, value): (K, twiceshy_store::Bytes) = found.unwrap();
                            (key, value[0])
                        };
                        let pairs = pairs.map(read);
                        if backwards { pairs.rev().collect() } else { pairs.collect::<Vec<_>>() }
                    });
                    if backwards {
                        pairs.reverse();
                    }
                    assert_eq!(pairs, expected);
                }
            }
            Op::Reopen => self.watched.reopen(),
            Op::Rebuild => self.watched.store().rebuild().unwrap(),
        }
        let stats = self.watched.store().stats();
        self.watched.store().validate().unwrap();
        assert_eq!(stats.members, self.model.len() as u64);
        assert_eq!((stats.repairs_failed, stats.repeated_false_positives), (0, 0));
    }

    /// Asks for a range, and checks that a range known to be empty costs no disk read.
    fn visit<T>(&mut self, first: u8, last: u8, ask: impl Fn(&Watched<K, B>) -> T) -> T {
        let before = self.watched.store().stats();
        let (visits, answer) = self.watched.visits(|_| ask(&self.watched));
        let after = self.watched.store().stats();
        assert_eq!(after.lookups, before.lookups + 1);
        // Some ranges are too long for the filter, and are always looked up.
        if visits > 0 && after.unfiltered == before.unfiltered {
            let is_known = (first..=last).all(|n| self.known.contains(&n));
            assert!(!is_known, "{first} to {last} is visited again");
            // The whole range is kept if it has at most four partitions, and if there was room for
            // the repair.
            let is_repaired = after.true_positives == before.true_positives
                && after.repairs_skipped == before.repairs_skipped;
            if is_repaired && last - first < 13 {
                self.known.extend(first..=last);
            }
        }
        answer
    }

    fn run(mut self, ops: &[Op]) {
        for op in ops {
            self.step(op);
        }
        self.step(&Op::Reopen);
        let key = self.key;
        let pairs = self.watched.store().iter().map(|pair| pair.unwrap());
        let pairs: Vec<(K, u8)> = pairs.map(|(key, value)| (key, value[0])).collect();
        let expected: Vec<_> = self.model.iter().map(|(&n, &value)| (key(n), value)).collect();
        assert_eq!(pairs, expected);
        // The second pass repeats queries whose mistakes the first pass has repaired.
        for _ in 0..2 {
            for first in 0..=255u8 {
                self.step(&Op::Get(first));
                self.step(&Op::IsEmpty(first, first.saturating_add(3)));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn store_matches_model_for_all_8_bit_keys(ops in ops(150)) {
        Pair::new(MemoryBackend::new(), |n| n).run(&ops);
    }

    #[test]
    fn store_matches_model_at_both_ends_of_64_bits(ops in ops(150)) {
        let key = |n| if n < 128 { u64::from(n) } else { u64::MAX - u64::from(255 - n) };
        Pair::new(MemoryBackend::new(), key).run(&ops);
    }

    #[test]
    fn store_matches_model_at_signed_extremes(ops in ops(150)) {
        let key = |n| if n < 128 { i32::MIN + i32::from(n) } else { i32::MAX - i32::from(255 - n) };
        Pair::new(MemoryBackend::new(), key).run(&ops);
    }

    #[test]
    fn store_matches_model_at_both_ends_of_128_bits(ops in ops(150)) {
        let key = |n| if n < 128 { u128::from(n) } else { u128::MAX - u128::from(255 - n) };
        Pair::new(MemoryBackend::new(), key).run(&ops);
    }
}

#[cfg(feature = "fjall")]
proptest! {
    #![proptest_config(ProptestConfig { cases: 4, ..ProptestConfig::default() })]

    #[test]
    fn store_on_disk_matches_model(ops in ops(100)) {
        let directory = tempfile::tempdir().unwrap();
        let options = twiceshy_store::FjallOptions::default();
        let backend = twiceshy_store::FjallBackend::open(directory.path(), options).unwrap();
        Pair::new(backend, |n| n).run(&ops);
    }
}
