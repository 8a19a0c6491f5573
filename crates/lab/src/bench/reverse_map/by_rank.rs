//! The reverse map of the `AdaptiveQF` paper, which is ordered by minirun and rank.
//!
//! A new member goes to the end of its minirun, so the filter knows its rank. An insert is
//! therefore a blind write here, too. A removal needs reads, because only the map knows which of the members
//! with the same fingerprint to remove. It also changes the ranks of the members after the removed
//! one.

use super::pages::{PagedMap, Traffic};
use super::quotient::QuotientModel;
use super::{KEY_BYTES, Key, Mapped};
use twiceshy::hash::KeyedHasher;

pub(super) struct ByRank {
    hasher: KeyedHasher,
    filter: QuotientModel,
    map: PagedMap<(u64, u32), Key>,
    traffic: Traffic,
}

impl ByRank {
    pub(super) fn new(hasher: KeyedHasher, log2_slots: u32, remainder_bits: u32) -> Self {
        let filter = QuotientModel::new(log2_slots, remainder_bits);
        // A minirun and a rank take 8 bytes together.
        let map = PagedMap::new((0, 0), size_of::<u64>() + KEY_BYTES);
        Self { hasher, filter, map, traffic: Traffic::default() }
    }
}

impl Mapped for ByRank {
    fn insert(&mut self, member: Key) {
        let (place, _) = self.filter.insert(self.hasher.hash(&member));
        self.map.insert((place.minirun, place.rank), member, &mut self.traffic);
    }

    fn ask(&mut self, stranger: Key) -> bool {
        let query = self.hasher.hash(&stranger);
        let mut is_mistake = false;
        while let Some(place) = { self.filter.matches(query).next() } {
            let member = self.map.get((place.minirun, place.rank), &mut self.traffic);
            let member = self.hasher.hash(&member.expect("one entry per fingerprint"));
            self.filter.lengthen(place.slot, member, query);
            is_mistake = true;
        }
        is_mistake
    }

    fn delete(&mut self, member: Key) {
        let Self { filter, map, traffic, hasher } = self;
        let mut places = filter.matches(hasher.hash(&member));
        let is_it = |key| key == Some(member);
        let place = places.find(|place| is_it(map.get((place.minirun, place.rank), traffic)));
        let place = place.expect("a member");
        drop(places);
        let len = filter.minirun_len(place.minirun);
        for rank in place.rank + 1..len {
            let key = map.get((place.minirun, rank), traffic).expect("one entry per fingerprint");
            map.insert((place.minirun, rank - 1), key, traffic);
            traffic.moved += 1;
        }
        map.remove((place.minirun, len - 1), traffic);
        filter.remove(place.slot);
    }

    fn traffic(&mut self) -> &mut Traffic {
        &mut self.traffic
    }

    fn verified(&self) -> Vec<Key> {
        let entries: Vec<_> = self.map.iter().collect();
        // The filter and the map are both ordered by minirun, and within a minirun by rank. So
        // their entries correspond one to one.
        let mut last = None;
        let mut rank = 0;
        let fingerprints: Vec<_> = self.filter.iter().flatten().collect();
        assert_eq!(fingerprints.len(), entries.len());
        for (fingerprint, &(at, key)) in fingerprints.into_iter().zip(&entries) {
            rank = if last == Some(fingerprint.minirun) { rank + 1 } else { 0 };
            last = Some(fingerprint.minirun);
            assert_eq!(at, (fingerprint.minirun, rank));
            assert!(self.filter.covers(fingerprint, self.hasher.hash(&key)));
        }
        entries.into_iter().map(|(_, key)| key).collect()
    }
}
