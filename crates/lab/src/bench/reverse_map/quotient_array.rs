//! A reverse map that is an array parallel to a quotient filter. When a fingerprint moves to
//! another slot, its entry in the array moves, too.

use super::pages::{PAGE_BYTES, Traffic};
use super::quotient::QuotientModel;
use super::{KEY_BYTES, Key, Mapped};
use std::ops::RangeInclusive;
use twiceshy::hash::KeyedHasher;

pub(super) struct QuotientArray {
    hasher: KeyedHasher,
    filter: QuotientModel,
    keys: Vec<Option<Key>>,
    traffic: Traffic,
}

impl QuotientArray {
    pub(super) fn new(hasher: KeyedHasher, log2_slots: u32, remainder_bits: u32) -> Self {
        let filter = QuotientModel::new(log2_slots, remainder_bits);
        let keys = vec![None; filter.iter().len()];
        Self { hasher, filter, keys, traffic: Traffic::default() }
    }

    fn touch(traffic: &mut Traffic, slots: RangeInclusive<usize>) {
        let page = |slot| slot * KEY_BYTES / PAGE_BYTES;
        (page(*slots.start())..=page(*slots.end())).for_each(|page| traffic.touch(page));
    }

    fn read(keys: &[Option<Key>], traffic: &mut Traffic, slot: usize) -> Key {
        traffic.reads += 1;
        Self::touch(traffic, slot..=slot);
        keys[slot].expect("the array matches the filter")
    }

    /// Counts the entries that have moved within these slots, and the entry that was written.
    fn count_moves(&mut self, slots: RangeInclusive<usize>) {
        let moved = (slots.end() - slots.start()) as u64;
        self.traffic.reads += moved;
        self.traffic.writes += moved + 1;
        self.traffic.moved += moved;
        Self::touch(&mut self.traffic, slots);
    }
}

impl Mapped for QuotientArray {
    fn insert(&mut self, member: Key) {
        let (place, empty) = self.filter.insert(self.hasher.hash(&member));
        self.keys.resize(self.filter.iter().len(), None);
        self.keys.copy_within(place.slot..empty, place.slot + 1);
        self.keys[place.slot] = Some(member);
        self.count_moves(place.slot..=empty);
    }

    fn ask(&mut self, stranger: Key) -> bool {
        let query = self.hasher.hash(&stranger);
        let mut is_mistake = false;
        while let Some(place) = { self.filter.matches(query).next() } {
            let member = Self::read(&self.keys, &mut self.traffic, place.slot);
            self.filter.lengthen(place.slot, self.hasher.hash(&member), query);
            is_mistake = true;
        }
        is_mistake
    }

    fn delete(&mut self, member: Key) {
        let Self { filter, keys, traffic, hasher } = self;
        let mut places = filter.matches(hasher.hash(&member));
        let place = places.find(|place| Self::read(keys, traffic, place.slot) == member);
        let slot = place.expect("a member").slot;
        drop(places);
        let last = self.filter.remove(slot);
        self.keys.copy_within(slot + 1..=last, slot);
        self.keys[last] = None;
        self.count_moves(slot..=last);
    }

    fn traffic(&mut self) -> &mut Traffic {
        &mut self.traffic
    }

    fn verified(&self) -> Vec<Key> {
        assert_eq!(self.filter.iter().len(), self.keys.len());
        for (fingerprint, key) in self.filter.iter().zip(&self.keys) {
            assert_eq!(fingerprint.is_some(), key.is_some());
            if let Some((fingerprint, key)) = fingerprint.zip(key.as_ref()) {
                assert!(self.filter.covers(fingerprint, self.hasher.hash(key)));
            }
        }
        self.keys.iter().copied().flatten().collect()
    }
}
