//! Our reverse map, which holds the members in hash order. An insert is a blind write, and a repair
//! is one short scan.

use super::pages::{PagedMap, Traffic};
use super::{KEY_BYTES, Key, Mapped};
use twiceshy::{Answer, Hash, QuotientFilter, hash::KeyedHasher};

pub(super) struct ByHash {
    hasher: KeyedHasher,
    filter: QuotientFilter,
    /// The map, ordered by the first half of the hash and by the key, as in the store.
    map: PagedMap<(u64, Key), ()>,
    traffic: Traffic,
}

fn first_half(hash: Hash) -> u64 {
    (hash.as_u128() >> 64) as u64
}

impl ByHash {
    pub(super) fn new(hasher: KeyedHasher, log2_slots: u32, remainder_bits: u32) -> Self {
        let filter = QuotientFilter::builder()
            .slots(1 << log2_slots)
            .remainder_bits(remainder_bits)
            .build()
            .expect("memory for a filter");
        let map = PagedMap::new((0, 0), size_of::<u64>() + KEY_BYTES);
        Self { hasher, filter, map, traffic: Traffic::default() }
    }

    fn at(&self, key: Key) -> (u64, Key) {
        (first_half(self.hasher.hash(&key)), key)
    }
}

impl Mapped for ByHash {
    fn insert(&mut self, member: Key) {
        self.filter.insert(self.hasher.hash(&member)).expect("room");
        self.map.insert(self.at(member), (), &mut self.traffic);
    }

    fn ask(&mut self, stranger: Key) -> bool {
        let query = self.hasher.hash(&stranger);
        let Answer::Maybe(claim) = self.filter.check(query) else { return false };
        let suspects = claim.suspects();
        let ends = (first_half(*suspects.start()), 0)..=(first_half(*suspects.end()), Key::MAX);
        let listed = self.map.range(&ends, &mut self.traffic);
        let hashes = listed.iter().map(|((_, key), ())| self.hasher.hash(key));
        let members: Vec<Hash> = hashes.filter(|hash| suspects.contains(hash)).collect();
        self.filter.adapt(&claim, &members).expect("all members listed, and room");
        assert!(!self.filter.contains(query), "not repaired");
        true
    }

    fn delete(&mut self, member: Key) {
        self.filter.remove_trusting(self.hasher.hash(&member)).expect("a member");
        assert!(self.map.remove(self.at(member), &mut self.traffic), "a member");
    }

    fn traffic(&mut self) -> &mut Traffic {
        &mut self.traffic
    }

    fn verified(&self) -> Vec<Key> {
        let mut left =
            self.map.iter().map(|((_, key), ())| self.hasher.hash(&key)).collect::<Vec<_>>();
        left.sort_unstable();
        let mut left = left.into_iter().peekable();
        for entry in self.filter.iter() {
            let its = |hash: &Hash| entry.fingerprint.covers(*hash);
            let count = std::iter::from_fn(|| left.next_if(its)).count();
            assert_eq!(count as u64, entry.count, "members of one fingerprint");
        }
        assert_eq!(left.next(), None, "a member without a fingerprint");
        self.map.iter().map(|((_, key), ())| key).collect()
    }
}
