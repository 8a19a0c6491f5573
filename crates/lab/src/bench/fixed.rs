//! The filters of fixed size in `bench point`, and the filters that they are compared with.

use super::adapters::{Adapter, Op, Work, count, count_hashes};
use crate::contestant::utaf::Utaf;
use std::ops::RangeInclusive;
use twiceshy::{
    Answer, Dynamic, ExtensionFilter, Filter, Hash, PlainQuotientFilter, TelescopingFilter,
    error::AdaptError,
    hash::KeyedHasher,
    telescoping::{CodedFilter, CodedScheme},
};

/// A filter with slots of fixed size.
pub(crate) trait Fixed: Dynamic + Sized {
    /// Whether the filter is faster if it gets many lookups in one call.
    const HAS_BATCHES: bool;

    fn empty(slots: u64, remainder_bits: u32) -> Self;

    /// Repairs a mistake. `list` returns the members in a range of hashes. Returns whether the
    /// repair succeeded.
    fn repair(&mut self, _: Hash, _list: impl Fn(RangeInclusive<Hash>) -> Vec<Hash>) -> bool {
        false
    }
}

fn coded<S: CodedScheme>(slots: u64, remainder_bits: u32) -> CodedFilter<S> {
    let builder = CodedFilter::builder().remainder_bits(remainder_bits).slots(slots);
    builder.build().expect("memory for a filter")
}

fn repair<S: CodedScheme>(
    filter: &mut CodedFilter<S>,
    mistake: Hash,
    list: impl Fn(RangeInclusive<Hash>) -> Vec<Hash>,
) -> bool {
    let Answer::Maybe(claim) = filter.check(mistake) else { return false };
    match filter.adapt(&claim, list(claim.suspects())) {
        Ok(_) => true,
        // Try again: the next claim covers a wider range. If all members in it are listed, the
        // filter can make room by forgetting older repairs.
        Err(AdaptError::Crowded) if filter.suspects(mistake) != claim.suspects() => {
            repair(filter, mistake, list)
        }
        Err(AdaptError::Crowded | AdaptError::Inseparable) => false,
        Err(error) => panic!("all suspects are listed: {error}"),
    }
}

impl Fixed for PlainQuotientFilter {
    const HAS_BATCHES: bool = true;

    fn empty(slots: u64, remainder_bits: u32) -> Self {
        let builder = Self::builder().remainder_bits(remainder_bits).slots(slots);
        builder.build().expect("memory for a filter")
    }
}

macro_rules! fixed {
    ($($filter:ty)*) => {$(
        impl Fixed for $filter {
            const HAS_BATCHES: bool = true;

            fn empty(slots: u64, remainder_bits: u32) -> Self {
                coded(slots, remainder_bits)
            }

            fn repair(
                &mut self,
                mistake: Hash,
                list: impl Fn(RangeInclusive<Hash>) -> Vec<Hash>,
            ) -> bool {
                repair(self, mistake, list)
            }
        }
    )*};
}

fixed!(TelescopingFilter ExtensionFilter);

impl Fixed for Utaf {
    const HAS_BATCHES: bool = false;

    fn empty(slots: u64, remainder_bits: u32) -> Self {
        Self::new(slots, remainder_bits)
    }

    fn repair(&mut self, mistake: Hash, list: impl Fn(RangeInclusive<Hash>) -> Vec<Hash>) -> bool {
        self.contains(mistake) && self.repair(mistake, &list(self.suspects(mistake)))
    }
}

/// The number of members per repair, in filters that are measured after repairs.
const MEMBERS_PER_REPAIR: usize = 4;

/// Queries non-members that the benchmarks don't use, and repairs the mistakes.
pub(crate) fn repair_some<F: Fixed>(filter: &mut F, members: &[Hash], hasher: &KeyedHasher) {
    let mut members = members.to_vec();
    members.sort_unstable();
    let list = |hashes: RangeInclusive<Hash>| {
        let first = members.partition_point(|member| member < hashes.start());
        let from = members[first..].iter().copied();
        from.take_while(|member| member <= hashes.end()).collect::<Vec<Hash>>()
    };
    let mut left = members.len() / MEMBERS_PER_REPAIR;
    let mut strangers = (1u64 << 42..).map(|key| hasher.hash(&key));
    while left > 0 {
        let stranger = strangers.next().expect("an endless iterator");
        let is_mistake = filter.contains(stranger) && list(stranger..=stranger).is_empty();
        left -= usize::from(is_mistake && filter.repair(stranger, list));
    }
}

pub(super) struct OneSize<F> {
    name: &'static str,
    filter: F,
    hasher: KeyedHasher,
    is_adapted: bool,
    maybe: Vec<bool>,
}

impl<F: Fixed> OneSize<F> {
    pub(super) fn new(name: &'static str, work: &Work) -> Self {
        let filter = F::empty(work.slots, work.remainder_bits);
        Self { name, filter, hasher: work.hasher.clone(), is_adapted: false, maybe: Vec::new() }
    }

    /// Creates a filter that is measured after repairs. Only its lookups are measured.
    pub(super) fn adapted(name: &'static str, work: &Work) -> Self {
        Self { is_adapted: true, ..Self::new(name, work) }
    }

    fn insert(&mut self, work: &Work, prehashed: bool) {
        for (key, &hash) in work.members.iter().zip(&work.member_hashes) {
            let hash = if prehashed { hash } else { self.hasher.hash(key) };
            self.filter.insert(hash).expect("room");
        }
    }
}

impl<F: Fixed> Adapter for OneSize<F> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn bytes(&self) -> u64 {
        self.filter.stats().memory
    }

    fn reset(&mut self, work: &Work) {
        self.filter = F::empty(work.slots, work.remainder_bits);
    }

    fn can(&self, op: Op) -> bool {
        match op {
            Op::Lookup { many: true, prehashed, .. } => prehashed && F::HAS_BATCHES,
            Op::Lookup { many: false, .. } => true,
            Op::Insert { many, .. } => !many && !self.is_adapted,
            Op::Bulk { .. } => false,
        }
    }

    fn run(&mut self, op: Op, work: &Work) -> usize {
        let Op::Lookup { positive, many, prehashed } = op else {
            self.insert(work, !matches!(op, Op::Insert { prehashed: false, .. }));
            if self.is_adapted {
                repair_some(&mut self.filter, &work.member_hashes, &self.hasher);
            }
            return self.filter.len();
        };
        let (keys, hashes) = work.queries(positive);
        match (many, prehashed) {
            (true, _) => {
                self.filter.contains_many(hashes, &mut self.maybe);
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
