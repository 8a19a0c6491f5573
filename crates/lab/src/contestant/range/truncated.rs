//! A range filter that stores the first bits of each key in a set of the crate `fst`. The set is a
//! trie that shares equal suffixes.
//!
//! It is a substitute for `SuRF`, which has no crate. Like `SuRF`, it only knows how keys begin. It
//! isn't succinct, though, and needs more space per bit.

use super::{Keys, RangeContestant};
use fst::{IntoStreamer, Set, SetBuilder, Streamer};

/// The number of bits per letter of the trie. With more bits, nodes are large. With fewer bits,
/// there are many nodes.
const LETTER_BITS: u32 = 4;
const LETTERS: usize = (u64::BITS / LETTER_BITS) as usize;

pub(super) struct Truncated {
    /// The maximum size of the set in bits.
    most_bits: u64,
    prefix_bits: Option<u32>,
    set: Set<Vec<u8>>,
}

/// The first bits of a key, as a word of letters.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Word {
    letters: [u8; LETTERS],
    len: usize,
}

impl Word {
    /// Returns the first bits of a key. The last letter is complete, but the first letter may have
    /// fewer bits, so each additional bit takes about the same space.
    fn new(key: u64, prefix_bits: u32) -> Self {
        let prefix = key >> (u64::BITS - prefix_bits);
        let len = prefix_bits.div_ceil(LETTER_BITS) as usize;
        let mut letters = [0; LETTERS];
        for (at, letter) in letters[..len].iter_mut().rev().enumerate() {
            *letter = (prefix >> (at as u32 * LETTER_BITS)) as u8 & ((1 << LETTER_BITS) - 1);
        }
        Self { letters, len }
    }

    fn letters(&self) -> &[u8] {
        &self.letters[..self.len]
    }
}

impl Truncated {
    pub(super) fn new(most_bits: u64) -> Self {
        Self { most_bits, prefix_bits: None, set: Set::default() }
    }

    /// Returns the number of bits of the longest prefixes that fit into the space. They are no
    /// longer than is needed to separate the members.
    fn fitting(&self, sorted: &[u64]) -> u32 {
        let fits =
            |bits: &u32| set(sorted, *bits).as_fst().as_bytes().len() as u64 * 8 <= self.most_bits;
        let fewest = sorted.len().max(8).ilog2() - 2;
        (fewest..=u64::BITS).take_while(fits).last().unwrap_or(fewest)
    }
}

fn set(sorted: &[u64], prefix_bits: u32) -> Set<Vec<u8>> {
    let mut builder = SetBuilder::memory();
    for &key in sorted {
        // Inserting a word twice is not an error, and changes nothing.
        builder.insert(Word::new(key, prefix_bits).letters()).expect("words in order");
    }
    builder.into_set()
}

impl RangeContestant for Truncated {
    fn insert_each(&mut self, _: &[u64]) {
        unreachable!("a static filter");
    }

    /// Builds the set. The first call also determines the length of the prefixes.
    fn bulk(&mut self, sorted: &[u64]) {
        let prefix_bits = self.prefix_bits.unwrap_or_else(|| self.fitting(sorted));
        self.prefix_bits = Some(prefix_bits);
        self.set = set(sorted, prefix_bits);
    }

    fn contains(&self, range: &Keys) -> bool {
        let Some(bits) = self.prefix_bits else { return false };
        let [first, last] = [range.start(), range.end()].map(|&key| Word::new(key, bits));
        let words = self.set.range().ge(first.letters()).le(last.letters());
        words.into_stream().next().is_some()
    }

    fn bits(&self) -> u64 {
        self.set.as_fst().as_bytes().len() as u64 * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twiceshy_workloads::key::scatter;

    #[test]
    fn words_of_key_prefixes_sort_like_the_keys() {
        assert_eq!(Word::new(0xabcd << 48, 16).letters(), [0xa, 0xb, 0xc, 0xd]);
        assert_eq!(Word::new(0xabcd << 48, 13).letters(), [0x1, 0x5, 0x7, 0x9]);
        assert_eq!(Word::new(u64::MAX, 64).letters(), [0xf; 16]);
        assert!(Word::new(u64::MAX / 2, 9).letters() < Word::new(u64::MAX / 2 + 1, 9).letters());
    }

    #[test]
    fn prefixes_are_as_long_as_the_space_allows() {
        let mut members: Vec<u64> = (0..1000).map(scatter).collect();
        members.sort_unstable();
        let mut roomy = Truncated::new(u64::MAX);
        roomy.bulk(&members);
        assert_eq!(roomy.prefix_bits, Some(64));
        let mut close = Truncated::new(16_000);
        close.bulk(&members);
        assert!(close.bits() <= 16_000);
        let longer = set(&members, close.prefix_bits.unwrap() + 1);
        assert!(longer.as_fst().as_bytes().len() * 8 > 16_000);
    }
}
