//! The uncompressed telescoping filter of the papers, to show the cost of coding selectors.
//!
//! It works like the telescoping filter, but without a code. Instead, each slot has its own
//! selector with a fixed number of bits beside its digit. The papers' filter has 8 bits per
//! selector, "very space-inefficient". This one has 2, which is twice as much as the whole code
//! takes in the coded filter. Selectors are cyclic, so a query that collides with a member at every
//! selector stays a mistake, and an older mistake may come back.
//!
//! # Layout
//!
//! This is a rank-and-select quotient filter, as described in the literature and not optimised.
//! There are enough slots after the last home that no run wraps around. Per 64 slots, there are:
//!
//! ```text
//! occupied  64 bits   which of these quotients have a run
//! run_ends  64 bits   which of these slots are the last of a run
//! offset    16 bits   number of leading slots that belong to runs of earlier blocks
//! ```
//!
//! This makes 2.25 bits per slot. In addition, each slot has a word with the digit, and the
//! selector above it.
//!
//! # Invariants
//!
//! - Runs are contiguous and ordered by quotient. No run begins before its home, or later than the
//!   preceding runs force it to.
//! - Each member has a word in the run of its quotient: a selector, and the digit of the member
//!   with that number. Words of a run are in insertion order.
//!
//! Members are matched to words when they are listed for a repair.

use super::aqf::hasher;
use super::packed::Packed;
use super::{Contestant, Shape};
use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};
use twiceshy::{
    Dynamic, Filter, Hash, Stats,
    error::{InsertError, Invalid, RemoveError},
    hash::KeyedHasher,
};

/// The number of bits of a selector.
const SELECTOR_BITS: u32 = 2;
const SELECTORS: u32 = 1 << SELECTOR_BITS;

#[derive(Clone)]
pub(crate) struct Utaf {
    /// The binary logarithm of the number of home slots.
    home_bits: u32,
    remainder_bits: u32,
    occupied: Vec<u64>,
    run_ends: Vec<u64>,
    offsets: Vec<u16>,
    words: Packed,
    len: usize,
}

fn bit(plane: &[u64], at: usize) -> bool {
    plane[at / 64] >> (at % 64) & 1 == 1
}

fn set_bit(plane: &mut [u64], at: usize, value: bool) {
    let mask = 1 << (at % 64);
    plane[at / 64] = plane[at / 64] & !mask | (u64::from(value) << (at % 64));
}

/// Returns the position of the `rank`-th set bit of a word. There must be such a bit.
fn select(mut word: u64, rank: u32) -> usize {
    for _ in 0..rank {
        word &= word - 1;
    }
    word.trailing_zeros() as usize
}

impl Utaf {
    /// Creates an empty filter. `slots` must be a power of two, and at least 2.
    pub(crate) fn new(slots: u64, remainder_bits: u32) -> Self {
        assert!(slots.is_power_of_two() && slots > 1, "a power of two, not {slots}");
        // If hashes are random, these are enough slots for the runs that are pushed past the last
        // home slot.
        let all = slots + 4 * slots.isqrt() + 64;
        let blocks = all.div_ceil(64) as usize;
        Self {
            home_bits: slots.ilog2(),
            remainder_bits,
            occupied: vec![0; blocks],
            run_ends: vec![0; blocks],
            offsets: vec![0; blocks],
            words: Packed::new(blocks * 64, remainder_bits + SELECTOR_BITS),
            len: 0,
        }
    }

    fn quotient(&self, hash: Hash) -> usize {
        (hash.as_u128() >> (128 - self.home_bits)) as usize
    }

    /// Returns the word of a hash with this selector.
    fn word(&self, hash: Hash, selector: u32) -> u64 {
        let fresh = hash.as_u128() << (self.home_bits + selector * self.remainder_bits);
        let digit = (fresh >> (128 - self.remainder_bits)) as u64;
        u64::from(selector) << self.remainder_bits | digit
    }

    fn covers(&self, word: u64, hash: Hash) -> bool {
        word == self.word(hash, (word >> self.remainder_bits) as u32)
    }

    /// Returns the slot after the first `runs` runs of a home's block.
    fn end_of_runs(&self, home: usize, runs: u32) -> usize {
        let block = home / 64;
        let start = block * 64 + usize::from(self.offsets[block]);
        let Some(mut rank) = runs.checked_sub(1) else { return start };
        let mut block = start / 64;
        let mut ends = self.run_ends[block] >> (start % 64) << (start % 64);
        while ends.count_ones() <= rank {
            rank -= ends.count_ones();
            block += 1;
            ends = self.run_ends[block];
        }
        block * 64 + select(ends, rank) + 1
    }

    /// Counts the runs in a home's block before the home. If `through` is true, includes the home's
    /// own run.
    fn runs(&self, home: usize, through: bool) -> u32 {
        let occupied = self.occupied[home / 64] & ((1 << (home % 64)) - 1);
        occupied.count_ones() + u32::from(through && bit(&self.occupied, home))
    }

    /// Returns the run of a quotient, or an empty range where its run would begin.
    fn run(&self, quotient: usize) -> Range<usize> {
        let start = self.end_of_runs(quotient, self.runs(quotient, false)).max(quotient);
        let through = self.end_of_runs(quotient, self.runs(quotient, true));
        start..through.max(start)
    }

    /// Returns the first unused slot from `slot` on. All runs of homes up to an unused slot end
    /// before it.
    fn first_unused(&self, mut slot: usize) -> Option<usize> {
        // The last slot stays unused, so that each run is followed by a slot.
        while slot + 1 < self.words.len() {
            let end = self.end_of_runs(slot, self.runs(slot, true));
            if end <= slot {
                return Some(slot);
            }
            slot = end;
        }
        None
    }

    fn load(&self) -> f64 {
        self.len as f64 / f64::from(self.home_bits).exp2()
    }

    /// Returns the range of hashes whose members are needed to repair a mistake. These are the
    /// members of its run.
    pub(crate) fn suspects(&self, mistake: Hash) -> RangeInclusive<Hash> {
        let shift = 128 - self.home_bits;
        let first = mistake.as_u128() >> shift << shift;
        Hash::from_u128(first)..=Hash::from_u128(first | ((1 << shift) - 1))
    }

    /// Changes the selectors of the members that caused a mistake. Returns whether the mistake is
    /// repaired. `members` must be all members among the [suspects](Self::suspects).
    pub(crate) fn repair(&mut self, mistake: Hash, members: &[Hash]) -> bool {
        let run = self.run(self.quotient(mistake));
        let words: Vec<u64> = run.clone().map(|slot| self.words.get(slot)).collect();
        let mut owners = vec![None; words.len()];
        for member in 0..members.len() {
            let covers = |member: usize, word: usize| self.covers(words[word], members[member]);
            let found = find_word(member, &mut owners, &mut vec![false; words.len()], &covers);
            assert!(found, "a listed member has no word");
        }
        for ((slot, word), owner) in run.zip(words).zip(owners) {
            if self.covers(word, mistake) {
                let owner = members[owner.expect("all members of the run are listed")];
                let selector = (word >> self.remainder_bits) as u32;
                let others = (selector + 1..selector + SELECTORS).map(|next| next % SELECTORS);
                let mut others = others.map(|other| self.word(owner, other));
                if let Some(other) = others.find(|&word| !self.covers(word, mistake)) {
                    self.words.set(slot, other);
                }
            }
        }
        !self.contains(mistake)
    }
}

/// Finds a word for a member, and moves other members to different words if necessary. Returns
/// whether there is such a word.
fn find_word(
    member: usize,
    owners: &mut [Option<usize>],
    tried: &mut [bool],
    covers: &impl Fn(usize, usize) -> bool,
) -> bool {
    for word in 0..owners.len() {
        if tried[word] || !covers(member, word) {
            continue;
        }
        tried[word] = true;
        if owners[word].is_none_or(|owner| find_word(owner, owners, tried, covers)) {
            owners[word] = Some(member);
            return true;
        }
    }
    false
}

/// The filter as a contestant, with its reverse map.
pub(super) struct Mapped {
    filter: Utaf,
    hasher: KeyedHasher,
    members: BTreeSet<Hash>,
}

impl Mapped {
    pub(super) fn new(shape: &Shape) -> Self {
        let filter = Utaf::new(shape.slots, shape.remainder_bits);
        Self { filter, hasher: hasher(shape.seed), members: BTreeSet::new() }
    }
}

impl Contestant for Mapped {
    fn insert(&mut self, keys: &[u64]) {
        for key in keys {
            let hash = self.hasher.hash(key);
            self.filter.insert(hash).expect("room");
            self.members.insert(hash);
        }
    }

    fn remove(&mut self, _: &[u64]) -> bool {
        false
    }

    fn contains(&self, key: u64) -> bool {
        self.filter.contains(self.hasher.hash(&key))
    }

    fn repair(&mut self, mistake: u64) {
        let hash = self.hasher.hash(&mistake);
        let suspects = self.members.range(self.filter.suspects(hash));
        let suspects: Vec<Hash> = suspects.copied().collect();
        // The repair fails if the query has the same digits as a member. Then the query stays a
        // mistake.
        self.filter.repair(hash, &suspects);
    }

    fn bits(&self) -> u64 {
        8 * self.filter.stats().memory
    }

    fn used_bits(&self) -> f64 {
        self.bits() as f64
    }
}

impl Filter for Utaf {
    fn contains(&self, hash: Hash) -> bool {
        let quotient = self.quotient(hash);
        bit(&self.occupied, quotient)
            && self.run(quotient).any(|slot| self.covers(self.words.get(slot), hash))
    }

    fn len(&self) -> usize {
        self.len
    }

    fn contains_many(&self, hashes: &[Hash], answers: &mut Vec<bool>) {
        answers.clear();
        answers.extend(hashes.iter().map(|&hash| self.contains(hash)));
    }

    fn stats(&self) -> Stats {
        let blocks = size_of::<u64>() * 2 + size_of::<u16>();
        Stats {
            members: self.len,
            memory: (self.occupied.len() * blocks) as u64 + self.words.bits() / 8,
            load: self.load(),
            ..Stats::default()
        }
    }

    fn validate(&self) -> Result<(), Invalid> {
        let occupied = (0..1 << self.home_bits).filter(|&quotient| bit(&self.occupied, quotient));
        let stored: usize = occupied.map(|quotient| self.run(quotient).len()).sum();
        if stored == self.len {
            return Ok(());
        }
        Err(Invalid::new(format!("{stored} slots are used, for {} members", self.len)))
    }
}

impl Dynamic for Utaf {
    fn insert_many(&mut self, hashes: &[Hash]) -> Result<(), InsertError> {
        let mut copy = self.clone();
        hashes.iter().try_for_each(|&hash| copy.insert(hash))?;
        *self = copy;
        Ok(())
    }

    /// Always fails, because this filter can't tell which of its entries belongs to a member.
    fn remove_trusting(&mut self, _: Hash) -> Result<(), RemoveError> {
        Err(RemoveError::Ambiguous)
    }

    fn insert(&mut self, hash: Hash) -> Result<(), InsertError> {
        let quotient = self.quotient(hash);
        let full = InsertError::Full { load: self.load() };
        if self.len >> self.home_bits > 0 {
            return Err(full);
        }
        let run = self.run(quotient);
        let Some(unused) = self.first_unused(run.end) else { return Err(full) };
        // If a slot is pushed into a block, one more slot of that block belongs to earlier blocks,
        // so the block's offset grows.
        let spilt = quotient / 64 + 1..unused / 64 + 1;
        if self.offsets[spilt.clone()].contains(&u16::MAX) {
            return Err(full);
        }
        self.offsets[spilt].iter_mut().for_each(|offset| *offset += 1);
        for slot in (run.end..unused).rev() {
            self.words.set(slot + 1, self.words.get(slot));
            let is_end = bit(&self.run_ends, slot);
            set_bit(&mut self.run_ends, slot + 1, is_end);
        }
        if !run.is_empty() {
            set_bit(&mut self.run_ends, run.end - 1, false);
        }
        self.words.set(run.end, self.word(hash, 0));
        set_bit(&mut self.run_ends, run.end, true);
        set_bit(&mut self.occupied, quotient, true);
        self.len += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contestant::aqf::hasher;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Panics unless all invariants hold and the members are exactly these.
    fn validate(filter: &Utaf, members: &BTreeSet<Hash>) {
        let mut end = 0;
        let mut len = 0;
        for home in 0..filter.words.len() {
            if home % 64 == 0 {
                let offset = usize::from(filter.offsets[home / 64]);
                assert_eq!(offset, end.max(home) - home, "the offset of block {}", home / 64);
            }
            if !bit(&filter.occupied, home) {
                let is_unused = end <= home;
                assert!(!is_unused || filter.words.get(home) == 0 && !bit(&filter.run_ends, home));
                continue;
            }
            let run = filter.run(home);
            assert_eq!(run.start, end.max(home), "where the run of {home} is");
            let ends = run.clone().filter(|&slot| bit(&filter.run_ends, slot));
            assert!(ends.eq(run.end - 1..run.end), "the run of {home} has one end, its last");
            end = run.end;
            len += run.len();
        }
        assert!(len == filter.len && len == members.len(), "{len} words");
        assert!(members.iter().all(|&member| filter.contains(member)), "a member is lost");
    }

    fn listed(filter: &Utaf, members: &BTreeSet<Hash>, mistake: Hash) -> Vec<Hash> {
        members.range(filter.suspects(mistake)).copied().collect()
    }

    fn hash(key: u64) -> Hash {
        hasher(1).hash(&key)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        /// The filter has few bits, to cause many mistakes, and few slots, so that it becomes full.
        #[test]
        fn members_are_never_lost(
            home_bits in 1u32..9,
            remainder_bits in 1u32..8,
            keys in prop::collection::vec((any::<bool>(), 0u64..1000), 0..300),
        ) {
            let mut filter = Utaf::new(1 << home_bits, remainder_bits);
            let mut members = BTreeSet::new();
            for (is_member, key) in keys {
                let hash = hash(key);
                if members.contains(&hash) {
                    continue;
                }
                if is_member {
                    let inserted = filter.insert(hash).is_ok();
                    prop_assert_eq!(inserted, members.len() < 1 << home_bits);
                    if inserted {
                        members.insert(hash);
                    }
                } else if filter.contains(hash) {
                    let repaired = filter.repair(hash, &listed(&filter, &members, hash));
                    prop_assert_eq!(repaired, !filter.contains(hash));
                }
                validate(&filter, &members);
            }
        }
    }

    #[test]
    fn filter_with_12_bits_per_slot_repairs_mistakes() {
        let slots = 1 << 12;
        let mut filter = Utaf::new(slots, 8);
        let members: BTreeSet<Hash> = (0..slots * 9 / 10).map(hash).collect();
        for &member in &members {
            filter.insert(member).unwrap();
        }
        let strangers = || (1 << 40..(1 << 40) + 100_000).map(hash);
        let mistakes: Vec<Hash> = strangers().filter(|&hash| filter.contains(hash)).collect();
        let rate = mistakes.len() as f64 / 100_000.0;
        assert!((0.002..0.005).contains(&rate), "{rate}");
        let is_repaired = |mistake: &&Hash| {
            !filter.contains(**mistake)
                || filter.repair(**mistake, &listed(&filter, &members, **mistake))
        };
        let repaired = mistakes.iter().filter(is_repaired).count();
        assert!(repaired + 3 > mistakes.len(), "{repaired} of {}", mistakes.len());
        validate(&filter, &members);
        let bits = filter.stats().memory as f64 * 8.0 / slots as f64;
        // The limit allows for the slots after the last home slot.
        assert!(bits < 12.25 * 1.09, "{bits} bits per slot");
    }
}
