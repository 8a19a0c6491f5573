//! The filters of fixed space in `bench point`.

use super::adapters::{Adapter, Op, Work, count, count_hashes};
use twiceshy::{Dynamic, ExtensionFilter, Hash, KeyedHasher, TelescopingFilter};

/// A filter of ours that has no operations for batches but lookups.
pub(super) struct Coded<F> {
    name: &'static str,
    filter: F,
    hasher: KeyedHasher,
    empty: fn(&Work) -> F,
    contains_many: fn(&F, &[Hash], &mut Vec<bool>),
    maybe: Vec<bool>,
}

impl Coded<TelescopingFilter> {
    pub(super) fn telescoping(work: &Work) -> Self {
        let empty = |work: &Work| {
            let builder = TelescopingFilter::builder().remainder_bits(work.remainder_bits);
            builder.slots(work.slots).build().expect("memory for a filter")
        };
        Self::new("taf", work, empty, TelescopingFilter::contains_many)
    }
}

impl Coded<ExtensionFilter> {
    pub(super) fn extension(work: &Work) -> Self {
        let empty = |work: &Work| {
            let builder = ExtensionFilter::builder().remainder_bits(work.remainder_bits);
            builder.slots(work.slots).build().expect("memory for a filter")
        };
        Self::new("exaf", work, empty, ExtensionFilter::contains_many)
    }
}

impl<F: Dynamic> Coded<F> {
    fn new(
        name: &'static str,
        work: &Work,
        empty: fn(&Work) -> F,
        contains_many: fn(&F, &[Hash], &mut Vec<bool>),
    ) -> Self {
        let hasher = work.hasher.clone();
        Self { name, filter: empty(work), hasher, empty, contains_many, maybe: Vec::new() }
    }
}

impl<F: Dynamic> Adapter for Coded<F> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn bytes(&self) -> u64 {
        self.filter.memory_usage()
    }

    fn reset(&mut self, work: &Work) {
        self.filter = (self.empty)(work);
    }

    fn can(&self, op: Op) -> bool {
        match op {
            Op::Lookup { many, prehashed, .. } => prehashed || !many,
            Op::Insert { many, .. } => !many,
            Op::Bulk { .. } => false,
        }
    }

    fn run(&mut self, op: Op, work: &Work) -> usize {
        let Op::Lookup { positive, many, prehashed } = op else {
            for (key, &hash) in work.members.iter().zip(&work.member_hashes) {
                let is_prehashed = matches!(op, Op::Insert { prehashed: true, .. });
                let hash = if is_prehashed { hash } else { self.hasher.hash(key) };
                self.filter.insert(hash).expect("room");
            }
            return self.filter.len();
        };
        let (keys, hashes) = work.queries(positive);
        match (many, prehashed) {
            (true, _) => {
                (self.contains_many)(&self.filter, hashes, &mut self.maybe);
                self.maybe.iter().filter(|&&maybe| maybe).count()
            }
            (false, true) => count_hashes(hashes, |hash| self.filter.contains(hash)),
            (false, false) => count(keys, |key| self.filter.contains(self.hasher.hash(&key))),
        }
    }

    fn look_up(&self, key: u64, hash: Hash, prehashed: bool) -> bool {
        let hash = if prehashed { hash } else { self.hasher.hash(&key) };
        self.filter.contains(hash)
    }
}
