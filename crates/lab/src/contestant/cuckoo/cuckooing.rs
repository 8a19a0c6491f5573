//! The cuckooing adaptive cuckoo filter (Kopelowitz et al. 2021).
//!
//! A key has four bins of one slot each. All bits of a slot are fingerprint, and a key has a
//! different fingerprint in each of its places. A slot doesn't record which of its key's places it
//! is, so a lookup compares each place with the key's fingerprint for that place.
//!
//! To repair a mistake, the key that it collides with moves to another of its places. If that place
//! is taken, the key there moves to another of its own places, as in an insert. If there is no room
//! for that, both keys stay.

use super::Size;
use super::adaptive::{Adaptive, Place, Scheme};
use super::functions::Functions;

pub(super) struct Cuckooing {
    fingerprint_bits: u32,
}

impl Cuckooing {
    pub(super) fn filter(size: Size) -> Adaptive<Self> {
        Adaptive::new(Self { fingerprint_bits: size.slot_bits }, size)
    }
}

impl Scheme for Cuckooing {
    const BINS: u32 = 4;
    const BIN: usize = 1;

    fn word(&self, key: Functions, place: Place, _: u64) -> u64 {
        key.fingerprint(place.number, self.fingerprint_bits)
    }

    fn change(filter: &mut Adaptive<Self>, slot: usize) {
        let before = filter.stored(slot);
        let (key, _) = before.expect("an occupied slot");
        filter.store(slot, None);
        if filter.settle(key, Some(slot)).is_err() {
            filter.store(slot, before);
        }
    }
}
