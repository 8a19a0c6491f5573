//! The cuckoo filter (Fan et al. 2014) and the vacuum filter (Wang and Zhou 2019), which don't
//! adapt and keep no keys.
//!
//! # Layout
//!
//! The filter is an array of bins. A bin has four slots with one fingerprint each. The hash of a
//! key gives its first bin. Either bin of the key follows from the other one and the fingerprint:
//!
//! ```text
//! other bin = bin xor d(fingerprint),  0 < d(fingerprint) < range
//! ```
//!
//! Both bins are in the same aligned range of bins, whose size is a power of two. In the cuckoo
//! filter, this range is the whole table. The vacuum filter has shorter ranges, see [`ranges`].
//!
//! # Invariants
//!
//! - A slot's word is 0 if and only if it is empty.
//! - Each fingerprint is in one of the two bins of its key, once per key that has it.
//! - The number of bins is a multiple of every range.

use super::functions::{Functions, reduce};
use super::ranges::{self, Ranges, range_of};
use super::{Cuckoo, Full, KICKS, Size};
use crate::bench::Random;
use crate::contestant::aqf::hasher;
use crate::contestant::packed::Packed;
use twiceshy::hash::KeyedHasher;
use twiceshy_workloads::key::scatter;

/// Number of slots per bin.
pub(super) const BIN: usize = 4;

pub(super) struct PartialKey {
    words: Packed,
    fingerprint_bits: u32,
    ranges: Ranges,
    len: usize,
    hasher: KeyedHasher,
    random: Random,
}

impl PartialKey {
    /// Creates a cuckoo filter. Its number of bins is a power of two.
    pub(super) fn cuckoo(size: Size) -> Self {
        let bins = size.slots.div_ceil(BIN).next_power_of_two();
        Self::new(bins, [bins; 4], size)
    }

    /// Creates a vacuum filter. Its number of bins is a multiple of its longest range.
    pub(super) fn vacuum(size: Size) -> Self {
        let bins = size.slots.div_ceil(BIN);
        let ranges = ranges::choose(bins);
        let longest = ranges.into_iter().fold(1, usize::max);
        Self::new(bins.next_multiple_of(longest), ranges, size)
    }

    fn new(bins: usize, ranges: Ranges, size: Size) -> Self {
        Self {
            words: Packed::new(bins * BIN, size.slot_bits),
            fingerprint_bits: size.slot_bits,
            ranges,
            len: 0,
            hasher: hasher(size.seed),
            random: Random(size.seed),
        }
    }

    /// Returns a key's fingerprint and first bin.
    fn start(&self, key: u64) -> (u64, usize) {
        let functions = Functions::new(self.hasher.hash(&key));
        let bins = self.words.len() / BIN;
        (functions.fingerprint(0, self.fingerprint_bits), functions.place(0, bins))
    }

    /// Returns the other bin of a fingerprint, or the same bin if the range is a single bin.
    fn other(&self, bin: usize, fingerprint: u64) -> usize {
        match range_of(&self.ranges, fingerprint) {
            1 => bin,
            range => bin ^ (1 + reduce(scatter(fingerprint), range - 1)),
        }
    }

    /// Finds a slot with this word in a bin. The word 0 stands for an empty slot.
    fn find(&self, bin: usize, word: u64) -> Option<usize> {
        (bin * BIN..(bin + 1) * BIN).find(|&slot| self.words.get(slot) == word)
    }

    /// Finds a slot with this word in either bin of a fingerprint.
    fn find_in_both(&self, bin: usize, fingerprint: u64, word: u64) -> Option<usize> {
        self.find(bin, word).or_else(|| self.find(self.other(bin, fingerprint), word))
    }
}

impl Cuckoo for PartialKey {
    fn insert(&mut self, key: u64) -> Result<(), Full> {
        let (mut fingerprint, first) = self.start(key);
        let mut bin = [first, self.other(first, fingerprint)][self.random.below(2)];
        let mut walk = Vec::new();
        for _ in 0..=KICKS {
            if let Some(slot) = self.find_in_both(bin, fingerprint, 0) {
                self.words.set(slot, fingerprint);
                self.len += 1;
                return Ok(());
            }
            let slot = bin * BIN + self.random.below(BIN);
            let kicked = self.words.get(slot);
            self.words.set(slot, fingerprint);
            walk.push((slot, kicked));
            (fingerprint, bin) = (kicked, self.other(bin, kicked));
        }
        for (slot, kicked) in walk.into_iter().rev() {
            self.words.set(slot, kicked);
        }
        Err(Full { members: self.len, slots: self.words.len() })
    }

    fn remove(&mut self, key: u64) -> bool {
        let (fingerprint, bin) = self.start(key);
        let Some(slot) = self.find_in_both(bin, fingerprint, fingerprint) else { return false };
        self.words.set(slot, 0);
        self.len -= 1;
        true
    }

    fn contains(&self, key: u64) -> bool {
        let (fingerprint, bin) = self.start(key);
        self.find_in_both(bin, fingerprint, fingerprint).is_some()
    }

    fn repair(&mut self, _: u64) -> bool {
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
        // A fingerprint may be in either of its bins. Use the lower bin to identify it.
        let known = |bin: usize, fingerprint: u64| {
            let other = self.other(bin, fingerprint);
            let range = range_of(&self.ranges, fingerprint);
            assert_eq!(self.other(other, fingerprint), bin, "the other bin's other bin");
            assert_eq!(other / range, bin / range, "both bins are in one range");
            assert!(other < self.words.len() / BIN, "both bins exist");
            (bin.min(other), fingerprint)
        };
        let slots = (0..self.words.len()).map(|slot| (slot / BIN, self.words.get(slot)));
        let mut stored: Vec<_> =
            slots.filter(|slot| slot.1 != 0).map(|(bin, word)| known(bin, word)).collect();
        let wanted = members.iter().map(|&key| self.start(key));
        let mut wanted: Vec<_> = wanted.map(|(word, bin)| known(bin, word)).collect();
        stored.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(stored.len(), self.len, "the number of members");
        assert!(stored == wanted, "the fingerprints are not the members'");
    }
}
