//! The cyclic adaptive cuckoo filter (Mitzenmacher et al. 2018).
//!
//! A key has four bins of one slot each. A slot records which of 2^s fingerprint functions it uses:
//!
//! ```text
//! bit  0                  f         f + s
//!      | fingerprint, not 0 | selector |
//! ```
//!
//! A repair advances the selector of the slot that the mistake collides with, cyclically. A query
//! that collides with all 2^s fingerprints of a key is never repaired. A kicked key starts with the
//! first function again.

use super::Size;
use super::adaptive::{Adaptive, Place, Scheme};
use super::functions::Functions;

pub(super) struct Cyclic {
    fingerprint_bits: u32,
    selector_bits: u32,
}

impl Cyclic {
    /// Creates a filter. The selector takes some of the bits of a slot.
    pub(super) fn filter(size: Size, selector_bits: u32) -> Adaptive<Self> {
        assert!(size.slot_bits > selector_bits, "no bit is left for a fingerprint");
        let fingerprint_bits = size.slot_bits - selector_bits;
        Adaptive::new(Self { fingerprint_bits, selector_bits }, size)
    }

    fn selector(&self, word: u64) -> u64 {
        word >> self.fingerprint_bits
    }
}

impl Scheme for Cyclic {
    const BINS: u32 = 4;
    const BIN: usize = 1;

    fn word(&self, key: Functions, _: Place, like: u64) -> u64 {
        let selector = self.selector(like);
        let fingerprint = key.fingerprint(selector as u32, self.fingerprint_bits);
        selector << self.fingerprint_bits | fingerprint
    }

    fn change(filter: &mut Adaptive<Self>, slot: usize) {
        let (key, word) = filter.stored(slot).expect("an occupied slot");
        let Self { fingerprint_bits, selector_bits } = filter.scheme;
        let next = (filter.scheme.selector(word) + 1) % (1 << selector_bits);
        filter.rewrite(slot, key, next << fingerprint_bits);
    }
}
