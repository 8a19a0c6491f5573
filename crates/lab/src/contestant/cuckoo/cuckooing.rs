//! The cuckooing adaptive cuckoo filter (Kopelowitz et al. 2021).
//!
//! Four bins of one slot, and all bits of a slot are fingerprint: in its first place a key
//! has another fingerprint than in its second, and so on. Nothing says which place of its key a
//! slot is: a lookup compares the fingerprint of each place with the slot there.
//!
//! A mistake has the key that it collides with go to another of its places, and whoever is there
//! to another of theirs, as if it were inserted anew. Where there is no room for that, it stays.

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
