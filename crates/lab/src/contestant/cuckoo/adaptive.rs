//! The common part of the adaptive cuckoo filters.
//!
//! # Layout
//!
//! The filter is an array of slots of a few bits each. A parallel array holds the keys whose
//! fingerprints are in the slots. The papers call it the *remote representation*. It isn't counted
//! as the filter's memory, and is read only to move a key or to repair a mistake.
//!
//! # Invariants
//!
//! - A slot's word is 0 if and only if it is empty.
//! - The slot of a key is one of the key's places. The slot holds the word that the [`Scheme`]
//!   stores for the key there.
//! - A key is in exactly one slot.
//!
//! The filter never answers "absent" for a member, because a lookup computes the same words for
//! the same places. When a key moves, the word for its new place is written. A move that can't be
//! completed is undone.

use super::functions::Functions;
use super::{Cuckoo, Full, KICKS, Size};
use crate::bench::Random;
use crate::contestant::aqf::hasher;
use crate::contestant::packed::Packed;
use twiceshy::hash::KeyedHasher;

/// A place where a key can be stored.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) slot: usize,
    /// Which of the key's bins contains the slot.
    pub(super) number: u32,
}

/// Defines the places of keys, the words stored there, and how mistakes are repaired.
pub(super) trait Scheme: Sized {
    /// The number of bins per key. Each is given by its own hash function.
    const BINS: u32;
    /// The number of slots per bin. A key that is kicked out of a bin goes to another of its bins.
    const BIN: usize;

    /// Returns the word of a key in one of its places. If there are several possible words, makes
    /// the same choice as in `like`, which is the slot's current word, or 0 for a key that is new
    /// there.
    fn word(&self, key: Functions, place: Place, like: u64) -> u64;

    /// Changes an occupied slot, and other slots if necessary. Afterwards, a mistake that collided
    /// with the slot most likely no longer does.
    fn change(filter: &mut Adaptive<Self>, slot: usize);
}

pub(super) struct Adaptive<S> {
    pub(super) scheme: S,
    words: Packed,
    /// The key in each slot. It is undefined for empty slots.
    keys: Vec<u64>,
    len: usize,
    hasher: KeyedHasher,
    pub(super) random: Random,
}

/// The number of times that colliding slots are changed before a repair gives up. This is enough
/// for the cyclic filters to return to their initial state.
const PASSES: u32 = 8;

impl<S: Scheme> Adaptive<S> {
    /// Creates an empty filter.
    pub(super) fn new(scheme: S, size: Size) -> Self {
        let slots = size.slots.next_multiple_of(S::BIN);
        Self {
            scheme,
            words: Packed::new(slots, size.slot_bits),
            keys: vec![0; slots],
            len: 0,
            hasher: hasher(size.seed),
            random: Random(size.seed),
        }
    }

    fn functions(&self, key: u64) -> Functions {
        Functions::new(self.hasher.hash(&key))
    }

    fn places(&self, key: Functions) -> impl Iterator<Item = Place> + use<S> {
        let bins = self.words.len() / S::BIN;
        (0..S::BINS).flat_map(move |number| {
            let first = key.place(number, bins) * S::BIN;
            (first..first + S::BIN).map(move |slot| Place { slot, number })
        })
    }

    /// Returns whether a slot holds the word that would be stored for this key.
    fn collides(&self, key: Functions, place: Place) -> bool {
        let word = self.words.get(place.slot);
        word != 0 && self.scheme.word(key, place, word) == word
    }

    /// Returns the key in a slot, and the word there.
    pub(super) fn stored(&self, slot: usize) -> Option<(u64, u64)> {
        let word = self.words.get(slot);
        (word != 0).then(|| (self.keys[slot], word))
    }

    /// Overwrites a slot.
    pub(super) fn store(&mut self, slot: usize, stored: Option<(u64, u64)>) {
        let (key, word) = stored.unwrap_or_default();
        self.keys[slot] = key;
        self.words.set(slot, word);
    }

    /// Stores a key in a slot again. Its new word makes the same choice as the word `like`.
    pub(super) fn rewrite(&mut self, slot: usize, key: u64, like: u64) {
        let of = self.functions(key);
        let place = self.places(of).find(|place| place.slot == slot).expect("a place of the key");
        self.store(slot, Some((key, self.scheme.word(of, place, like))));
    }

    /// Finds a slot for a key outside the bin that it comes from. Moves other keys in a random walk
    /// if necessary.
    ///
    /// # Errors
    /// [`Full`] if the walk gets too long; the filter is unchanged.
    pub(super) fn settle(&mut self, mut key: u64, mut from: Option<usize>) -> Result<(), Full> {
        let mut walk = Vec::new();
        for _ in 0..=KICKS {
            let of = self.functions(key);
            let is_apart = |place: &Place| from.is_none_or(|from| place.slot / S::BIN != from);
            let mut places: Vec<Place> = self.places(of).filter(is_apart).collect();
            if places.is_empty() {
                // All places of the key are in the same bin, so choose among these.
                places = self.places(of).collect();
            }
            let free = places.iter().find(|place| self.words.get(place.slot) == 0);
            let random = places[self.random.below(places.len())];
            let place = *free.unwrap_or(&random);
            let before = self.stored(place.slot);
            self.store(place.slot, Some((key, self.scheme.word(of, place, 0))));
            let Some((kicked, _)) = before else { return Ok(()) };
            walk.push((place.slot, before));
            (key, from) = (kicked, Some(place.slot / S::BIN));
        }
        for (slot, before) in walk.into_iter().rev() {
            self.store(slot, before);
        }
        Err(Full { members: self.len, slots: self.words.len() })
    }
}

impl<S: Scheme> Cuckoo for Adaptive<S> {
    fn insert(&mut self, key: u64) -> Result<(), Full> {
        self.settle(key, None)?;
        self.len += 1;
        Ok(())
    }

    fn remove(&mut self, key: u64) -> bool {
        let mut places = self.places(self.functions(key));
        let is_it = |place: &Place| self.stored(place.slot).is_some_and(|(other, _)| other == key);
        let Some(place) = places.find(is_it) else { return false };
        self.store(place.slot, None);
        self.len -= 1;
        true
    }

    fn contains(&self, key: u64) -> bool {
        let key = self.functions(key);
        self.places(key).any(|place| self.collides(key, place))
    }

    /// Changes the colliding slots until the mistake is gone; the papers change them only once.
    /// After a change, the same slot or a different one may still collide, with about the
    /// probability of a mistake.
    fn repair(&mut self, mistake: u64) -> bool {
        let of = self.functions(mistake);
        for _ in 0..PASSES {
            for place in self.places(of) {
                if self.collides(of, place) {
                    S::change(self, place.slot);
                }
            }
            if !self.contains(mistake) {
                return true;
            }
        }
        false
    }

    fn len(&self) -> usize {
        self.len
    }

    fn words(&self) -> &Packed {
        &self.words
    }

    #[cfg(test)]
    fn validate(&self, members: &std::collections::HashSet<u64>) {
        let stored = (0..self.words.len()).filter_map(|slot| Some((slot, self.stored(slot)?)));
        let mut keys = std::collections::HashSet::new();
        for (slot, (key, word)) in stored {
            let of = self.functions(key);
            let is_right =
                |place: Place| place.slot == slot && self.scheme.word(of, place, word) == word;
            assert!(self.places(of).any(is_right), "slot {slot} doesn't have a word of its key");
            assert!(keys.insert(key), "key {key} is in two slots");
        }
        assert_eq!(keys.len(), self.len, "the number of members");
        assert!(keys == *members, "the keys are not the members");
    }
}
