//! A reverse map that is an array parallel to an adaptive cuckoo filter (Mitzenmacher et al.).
//!
//! A repair changes a fingerprint. After that, the fingerprint no longer determines the other
//! bucket of its key, or the key's fingerprint there, so each kick reads the key that it moves.
//!
//! The number of kicks depends on when a new key kicks out another key. The `AdaptiveQF`'s authors
//! count 0.62 kicks per insert (table 1). Their code kicks as soon as the first bucket is full,
//! which is [`Haste::Hasty`] here. Cuckoo filters usually look into the second bucket first, which
//! needs little more than half as many kicks.

use super::super::random::Random;
use super::pages::{PAGE_BYTES, Traffic};
use super::{KEY_BYTES, Key, Mapped};
use twiceshy::{Hash, hash::KeyedHasher};

/// The number of slots per bucket.
const WAYS: usize = 4;

/// The number of fingerprints that a key cycles through.
const SELECTORS: u32 = 4;

/// Maximum number of kicks per insert.
const KICKS: usize = 500;

/// When a new key kicks out another key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Haste {
    /// When both buckets of the new key are full.
    Patient,
    /// When the first bucket of the new key is full.
    Hasty,
}

pub(super) struct CuckooArray {
    hasher: KeyedHasher,
    haste: Haste,
    log2_buckets: u32,
    fingerprint_bits: u32,
    filter: Vec<Option<Fingerprint>>,
    keys: Vec<Option<Key>>,
    random: Random,
    traffic: Traffic,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Fingerprint {
    /// Which of the key's fingerprints is stored.
    selector: u32,
    bits: u32,
}

impl CuckooArray {
    pub(super) fn new(
        hasher: KeyedHasher,
        haste: Haste,
        log2_slots: u32,
        fingerprint_bits: u32,
    ) -> Self {
        let slots = 1 << log2_slots;
        Self {
            hasher,
            haste,
            log2_buckets: log2_slots - WAYS.ilog2(),
            fingerprint_bits,
            filter: vec![None; slots],
            keys: vec![None; slots],
            random: Random(9),
            traffic: Traffic::default(),
        }
    }

    /// Returns the buckets of a hash, taken from its first and its last bits.
    fn buckets(&self, hash: Hash) -> [usize; 2] {
        let hash = hash.as_u128();
        let last = hash & ((1 << self.log2_buckets) - 1);
        [(hash >> (128 - self.log2_buckets)) as usize, last as usize]
    }

    fn slots(&self, hash: Hash) -> impl Iterator<Item = usize> + use<> {
        let slots = |bucket| bucket * WAYS..(bucket + 1) * WAYS;
        let [one, other] = self.buckets(hash);
        slots(one).chain(slots(other).filter(move |_| one != other))
    }

    /// Returns a fingerprint of a hash, taken from bits that aren't used for buckets.
    fn fingerprint(&self, hash: Hash, selector: u32) -> Fingerprint {
        let middle = hash.as_u128() << (self.log2_buckets + selector * self.fingerprint_bits);
        Fingerprint { selector, bits: (middle >> (128 - self.fingerprint_bits)) as u32 }
    }

    /// Iterates over the slots that have a fingerprint of this hash.
    fn matches(&self, hash: Hash) -> impl Iterator<Item = usize> {
        let is_one = move |slot: &usize| {
            self.filter[*slot].is_some_and(|fingerprint| {
                fingerprint == self.fingerprint(hash, fingerprint.selector)
            })
        };
        self.slots(hash).filter(is_one)
    }

    fn touch(traffic: &mut Traffic, slot: usize) {
        traffic.touch(slot * KEY_BYTES / PAGE_BYTES);
    }

    fn read(keys: &[Option<Key>], traffic: &mut Traffic, slot: usize) -> Key {
        traffic.reads += 1;
        Self::touch(traffic, slot);
        keys[slot].expect("the array matches the filter")
    }

    fn write(&mut self, slot: usize, key: Option<Key>) {
        let fingerprint = key.map(|key| self.fingerprint(self.hasher.hash(&key), 0));
        self.filter[slot] = fingerprint;
        self.keys[slot] = key;
        self.traffic.writes += 1;
        Self::touch(&mut self.traffic, slot);
    }
}

impl Mapped for CuckooArray {
    fn insert(&mut self, member: Key) {
        let mut key = member;
        let mut bucket = None;
        for _ in 0..KICKS {
            let hash = self.hasher.hash(&key);
            let [one, other] = self.buckets(hash);
            // A kicked key goes to its other bucket.
            let is_first = match (bucket, self.haste) {
                (Some(from), _) => from == other,
                (None, Haste::Hasty) => true,
                (None, Haste::Patient) => self.random.below(2) == 0,
            };
            let target = if is_first { one } else { other };
            let sees_both = self.haste == Haste::Patient;
            let is_seen = |slot: &usize| sees_both || slot / WAYS == target;
            let mut seen = self.slots(hash).filter(is_seen);
            if let Some(slot) = seen.find(|&slot| self.filter[slot].is_none()) {
                return self.write(slot, Some(key));
            }
            let slot = target * WAYS + self.random.below(WAYS);
            let victim = Self::read(&self.keys, &mut self.traffic, slot);
            self.write(slot, Some(key));
            self.traffic.moved += 1;
            (key, bucket) = (victim, Some(target));
        }
        panic!("the cuckoo filter is full");
    }

    fn ask(&mut self, stranger: Key) -> bool {
        let query = self.hasher.hash(&stranger);
        let mut is_mistake = false;
        // A change of a fingerprint can bring the mistake back, but not this many times in a row.
        for _ in 0..KICKS {
            let Some(slot) = ({ self.matches(query).next() }) else { return is_mistake };
            let member = Self::read(&self.keys, &mut self.traffic, slot);
            let selector = self.filter[slot].map_or(0, |old| (old.selector + 1) % SELECTORS);
            self.filter[slot] = Some(self.fingerprint(self.hasher.hash(&member), selector));
            is_mistake = true;
        }
        panic!("a mistake that can't be repaired");
    }

    fn delete(&mut self, member: Key) {
        let mut traffic = std::mem::take(&mut self.traffic);
        let mut slots = self.matches(self.hasher.hash(&member));
        let slot = slots.find(|&slot| Self::read(&self.keys, &mut traffic, slot) == member);
        let slot = slot.expect("a member");
        drop(slots);
        self.traffic = traffic;
        self.write(slot, None);
    }

    fn traffic(&mut self) -> &mut Traffic {
        &mut self.traffic
    }

    fn verified(&self) -> Vec<Key> {
        for (slot, (fingerprint, key)) in self.filter.iter().zip(&self.keys).enumerate() {
            assert_eq!(fingerprint.is_some(), key.is_some());
            if let Some((fingerprint, key)) = fingerprint.zip(*key) {
                let hash = self.hasher.hash(&key);
                assert!(fingerprint == self.fingerprint(hash, fingerprint.selector));
                assert!(self.slots(hash).any(|one| one == slot), "the key is in one of its slots");
            }
        }
        self.keys.iter().copied().flatten().collect()
    }
}
