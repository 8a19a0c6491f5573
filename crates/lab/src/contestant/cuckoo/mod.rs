//! The cuckoo filters that the papers compare with, implemented as described and not optimised.
//!
//! | filter | bins per key | file | a mistake is repaired by |
//! | --- | --- | --- | --- |
//! | cuckoo | 2 of 4 slots; the fingerprint determines the second | [`partial_key`] | nothing |
//! | vacuum | the same, but the second is near the first | [`partial_key`], [`ranges`] | nothing |
//! | cyclic | 4 of 1 slot | [`mod@cyclic`] | the next fingerprint function |
//! | swapping | 2 of 4 slots | [`mod@swapping`] | another slot of the bin |
//! | cuckooing | 4 of 1 slot | [`mod@cuckooing`] | another bin |
//!
//! All of them use the same space as the telescoping filter (§6 of its paper). The telescoping
//! filter uses three bits per slot for metadata and adaptivity, so a slot here has three bits more
//! than a remainder. The three adaptive filters also have an array of their keys (see
//! [`adaptive`]), which isn't counted.

mod adaptive;
mod cuckooing;
mod cyclic;
mod functions;
mod partial_key;
mod ranges;
mod swapping;
#[cfg(test)]
mod tests;

use super::packed::Packed;
use super::{Contestant, Shape};
use cuckooing::Cuckooing;
use cyclic::Cyclic;
use partial_key::PartialKey;
use swapping::Swapping;

/// The size of a filter.
#[derive(Clone, Copy)]
struct Size {
    /// The minimum number of slots. A filter rounds it up to whole bins or ranges.
    slots: usize,
    slot_bits: u32,
    /// The seed of the hash and of the random walks.
    seed: u64,
}

impl Size {
    /// The number of bits that a slot has in addition to those of a remainder.
    const MORE_BITS: u32 = 3;

    fn of(shape: &Shape) -> Self {
        let slot_bits = shape.remainder_bits + Self::MORE_BITS;
        Self { slots: shape.slots as usize, slot_bits, seed: shape.seed }
    }
}

/// The maximum number of kicks per insert. A tenth of this number isn't enough for a load of 0.95.
const KICKS: usize = 2000;

/// The error when there is no room for a key. The filter is unchanged.
#[derive(Debug)]
struct Full {
    members: usize,
    slots: usize,
}

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { members, slots } = self;
        write!(f, "no room after {KICKS} kicks, with {members} members in {slots} slots")
    }
}

impl std::error::Error for Full {}

/// The operations that all cuckoo filters have.
trait Cuckoo {
    /// Inserts a key that is not a member.
    ///
    /// # Errors
    /// [`Full`]; the filter is unchanged.
    fn insert(&mut self, key: u64) -> Result<(), Full>;

    /// Removes a member. Returns whether the filter had it.
    fn remove(&mut self, key: u64) -> bool;

    fn contains(&self, key: u64) -> bool;

    /// Repairs a mistake. Returns whether the filter now answers "absent".
    fn repair(&mut self, mistake: u64) -> bool;

    /// Returns the number of members.
    fn len(&self) -> usize;

    /// Returns the slots.
    fn words(&self) -> &Packed;

    /// Panics unless all invariants hold and the members are exactly these.
    #[cfg(test)]
    fn validate(&self, members: &std::collections::HashSet<u64>);
}

/// A cuckoo filter as a contestant.
struct Baseline<F>(F);

impl<F: Cuckoo> Contestant for Baseline<F> {
    fn insert(&mut self, keys: &[u64]) {
        for &key in keys {
            self.0.insert(key).unwrap_or_else(|full| panic!("{full}"));
        }
    }

    fn remove(&mut self, keys: &[u64]) -> bool {
        keys.iter().all(|&key| self.0.remove(key))
    }

    fn contains(&self, key: u64) -> bool {
        self.0.contains(key)
    }

    fn repair(&mut self, mistake: u64) {
        self.0.repair(mistake);
    }

    fn bits(&self) -> u64 {
        self.0.words().bits()
    }

    fn used_bits(&self) -> f64 {
        self.bits() as f64 * self.0.len() as f64 / self.0.words().len() as f64
    }
}

pub(super) fn plain(shape: &Shape) -> Box<dyn Contestant> {
    Box::new(Baseline(PartialKey::cuckoo(Size::of(shape))))
}

pub(super) fn vacuum(shape: &Shape) -> Box<dyn Contestant> {
    Box::new(Baseline(PartialKey::vacuum(Size::of(shape))))
}

pub(super) fn cyclic(shape: &Shape, selector_bits: u32) -> Box<dyn Contestant> {
    Box::new(Baseline(Cyclic::filter(Size::of(shape), selector_bits)))
}

pub(super) fn swapping(shape: &Shape) -> Box<dyn Contestant> {
    Box::new(Baseline(Swapping::filter(Size::of(shape))))
}

pub(super) fn cuckooing(shape: &Shape) -> Box<dyn Contestant> {
    Box::new(Baseline(Cuckooing::filter(Size::of(shape))))
}
