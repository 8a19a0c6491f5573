//! The swapping adaptive cuckoo filter (Mitzenmacher et al. 2018).
//!
//! A key has two bins of four slots each. Each slot of a bin has its own fingerprint function:
//!
//! ```text
//! slot   4 b            4 b + 1        4 b + 2        4 b + 3
//!        | function 0   | function 1   | function 2   | function 3   |
//! ```
//!
//! To repair a mistake, the key that it collides with swaps places with another slot of the bin,
//! which may be empty. Both keys then have different fingerprints than before. All bits of a slot
//! belong to the fingerprint. A query that collides with a key in all slots is never repaired.

use super::Size;
use super::adaptive::{Adaptive, Place, Scheme};
use super::functions::Functions;

pub(super) struct Swapping {
    fingerprint_bits: u32,
}

impl Swapping {
    pub(super) fn filter(size: Size) -> Adaptive<Self> {
        Adaptive::new(Self { fingerprint_bits: size.slot_bits }, size)
    }
}

impl Scheme for Swapping {
    const BINS: u32 = 2;
    const BIN: usize = 4;

    fn word(&self, key: Functions, place: Place, _: u64) -> u64 {
        key.fingerprint((place.slot % Self::BIN) as u32, self.fingerprint_bits)
    }

    fn change(filter: &mut Adaptive<Self>, slot: usize) {
        let (key, _) = filter.stored(slot).expect("an occupied slot");
        let step = 1 + filter.random.below(Self::BIN - 1);
        let other = slot - slot % Self::BIN + (slot + step) % Self::BIN;
        match filter.stored(other) {
            Some((there, _)) => filter.rewrite(slot, there, 0),
            None => filter.store(slot, None),
        }
        filter.rewrite(other, key, 0);
    }
}
