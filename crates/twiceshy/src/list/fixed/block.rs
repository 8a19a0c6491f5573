//! The layout of a block: 512 quotients, their remainders and seeds.
//!
//! ```text
//!  16 bits   groups·low_bits   512 + keys         keys·remainder_bits    groups + ones
//! ┌────────┬─────────────────┬──────────────────┬──────────────────────┬───────────────┬┄┄┄┐
//! │ keys   │ low seed bits   │ heads            │ remainders           │ high seed bits│ 0 │
//! └────────┴─────────────────┴──────────────────┴──────────────────────┴───────────────┴┄┄┄┘
//!            padded to a       per quotient: a    sorted within each     per group: the
//!            whole byte        1 for each key,    quotient               number in unary
//!                              then a 0                                  (ones, then a 0)
//! ```
//!
//! Bit 0 is the lowest bit of the first byte. Blocks begin at multiples of 8 bytes. The position of
//! the heads doesn't depend on the keys; later positions depend only on the number of keys.

use super::build::MAX_SEEDS;
use super::lookup::remainder;
use super::shape::Shape;
use crate::Hash;
use crate::bits::machine::Machine;
use crate::bits::word::low_bits;
use crate::error::Invalid;
use core::ops::Range;

/// Number of quotients per block.
pub(crate) const BLOCK: usize = 512;

/// Average overhead of a block in bits: its entry in the index, its number of keys, and the unused
/// part of its last word.
pub(super) const HEAD_BITS: f64 = 32.0 + 16.0 + 32.0;

/// Number of bits that encode the number of keys.
const COUNT_BITS: usize = 16;

/// Maximum number of keys per block.
pub(super) const MOST_KEYS: usize = (1 << COUNT_BITS) - 1;

/// Maximum number of seed bits that a lookup reads. No block that can be built has more.
const MAX_SEED_BITS: usize = 1 << 28;

/// The contents of a group.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Group {
    pub(super) seed: u64,
    /// The fingerprints, sorted and all different. Each is one number: the quotient's index in the
    /// group, then the remainder.
    pub(super) fingerprints: Vec<u64>,
}

/// Appends bits to a vector of words.
#[derive(Default)]
pub(super) struct BitWriter {
    pub(super) words: Vec<u64>,
    bits: usize,
}

impl BitWriter {
    /// Appends `count` bits, at most 64.
    #[inline]
    pub(super) fn push(&mut self, value: u64, count: u32) {
        if count == 0 {
            return;
        }
        let used = (self.bits % 64) as u32;
        if used == 0 {
            self.words.push(value);
        } else {
            *self.words.last_mut().expect("there is a partly filled word") |= value << used;
            if used + count > 64 {
                self.words.push(value >> (64 - used));
            }
        }
        self.bits += count as usize;
    }

    /// Appends `count` ones and a zero.
    pub(super) fn push_ones(&mut self, mut count: u64) {
        while count >= 63 {
            self.push(low_bits(63), 63);
            count -= 63;
        }
        self.push(low_bits(count as u32), count as u32 + 1);
    }

    /// Iterates over the bytes written so far. The last word is padded with zeros.
    pub(super) fn bytes(&self) -> impl Iterator<Item = u8> {
        self.words.iter().flat_map(|word| word.to_le_bytes())
    }

    /// Appends zeros up to a multiple of `bits`.
    pub(super) fn align(&mut self, bits: usize) {
        let missing = self.bits.next_multiple_of(bits) - self.bits;
        self.push(0, missing as u32);
    }
}

/// Writes the groups of a block.
pub(super) fn write(shape: &Shape, groups: &[Group], writer: &mut BitWriter) {
    let keys: usize = groups.iter().map(|group| group.fingerprints.len()).sum();
    writer.push(keys as u64, COUNT_BITS as u32);
    for group in groups {
        writer.push(group.seed & low_bits(shape.low_bits), shape.low_bits);
    }
    writer.align(8);
    for group in groups {
        let mut rest = &group.fingerprints[..];
        for quotient in 0..1u64 << shape.group_bits {
            let is_here = |other: &&u64| *other >> shape.remainder_bits == quotient;
            let count = rest.iter().take_while(is_here).count();
            rest = &rest[count..];
            writer.push_ones(count as u64);
        }
    }
    for fingerprint in groups.iter().flat_map(|group| &group.fingerprints) {
        writer.push(fingerprint & low_bits(shape.remainder_bits), shape.remainder_bits);
    }
    for group in groups {
        writer.push_ones(group.seed >> shape.low_bits);
    }
    writer.align(64);
}

/// Reads a block.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    pub(super) shape: &'a Shape,
    /// The bytes from the start of the block, including at least 16 bytes after its end.
    pub(super) bytes: &'a [u8],
}

impl Block<'_> {
    /// Returns at least 57 bits from bit `at` on. Bits past the end are 0.
    #[inline(always)]
    fn window(&self, at: usize) -> u64 {
        let bytes = self.bytes.get(at / 8..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |&bytes| u64::from_le_bytes(bytes) >> (at % 8))
    }

    #[inline(always)]
    fn keys(&self) -> usize {
        (self.window(0) & low_bits(COUNT_BITS as u32)) as usize
    }

    #[inline(always)]
    fn heads(&self) -> usize {
        (COUNT_BITS + self.shape.groups() * self.shape.low_bits as usize).next_multiple_of(8)
    }

    #[inline(always)]
    fn remainders(&self) -> usize {
        self.heads() + BLOCK + self.keys()
    }

    #[inline(always)]
    fn highs(&self) -> usize {
        self.remainders() + self.keys() * self.shape.remainder_bits as usize
    }

    /// Guesses the byte offsets of a quotient's head and of its remainders, for prefetching.
    #[inline(always)]
    pub(super) fn guess(shape: &Shape, quotient: usize) -> [usize; 2] {
        let heads = COUNT_BITS + shape.groups() * shape.low_bits as usize;
        let remainders = heads + 2 * BLOCK + quotient * shape.remainder_bits as usize;
        [(heads + 2 * quotient) / 8, remainders / 8]
    }

    /// Returns the position after the first `count` zeros from bit `from` on, or `from + most` if
    /// the first `most` bits have fewer.
    #[inline(always)]
    fn after_zeros<M: Machine>(&self, machine: M, from: usize, count: usize, most: usize) -> usize {
        let Some(mut left) = count.checked_sub(1) else { return from };
        let mut at = from;
        while at < from + most {
            // Step by whole bytes, so that the position within a byte stays the same.
            let zeros = !self.window(at) & low_bits(56);
            let count = zeros.count_ones() as usize;
            if count > left {
                return at + machine.select(zeros, left as u32) as usize + 1;
            }
            left -= count;
            at += 56;
        }
        from + most
    }

    /// Counts the ones from bit `from` up to the next zero.
    #[inline(always)]
    fn ones(&self, from: usize, most: usize) -> usize {
        let mut at = from;
        loop {
            let ones = (self.window(at) | !low_bits(56)).trailing_ones().min(56) as usize;
            at += ones;
            if ones < 56 || at - from > most {
                return at - from;
            }
        }
    }

    /// Returns the indices of a quotient's remainders.
    #[inline(always)]
    fn run<M: Machine>(&self, machine: M, quotient: usize) -> Range<usize> {
        let (heads, most) = (self.heads(), BLOCK + self.keys());
        let start = self.after_zeros(machine, heads, quotient, most);
        let first = (start - heads).saturating_sub(quotient);
        first..first + self.ones(start, most)
    }

    /// Returns the seed of a group.
    #[inline(always)]
    pub(super) fn seed<M: Machine>(&self, machine: M, group: usize) -> u64 {
        let (highs, most) = (self.highs(), (8 * self.bytes.len()).min(MAX_SEED_BITS));
        let start = self.after_zeros(machine, highs, group, most);
        let low_bits_at = COUNT_BITS + group * self.shape.low_bits as usize;
        let low = self.window(low_bits_at) & low_bits(self.shape.low_bits);
        (self.ones(start, most) as u64) << self.shape.low_bits | low
    }

    /// Returns whether a quotient has the remainder of a hash.
    #[inline(always)]
    pub(super) fn contains<M: Machine>(&self, machine: M, quotient: usize, hash: Hash) -> bool {
        let run = self.run(machine, quotient);
        if run.is_empty() {
            return false;
        }
        let bits = self.shape.remainder_bits;
        let seed = self.seed(machine, quotient >> self.shape.group_bits);
        let wanted = remainder(hash, seed, bits);
        let at = self.remainders();
        // Compare all remainders, because an early exit would be mispredicted.
        let equal = run.map(|number| {
            let remainder = self.window(at + number * bits as usize) & low_bits(bits);
            u32::from(remainder == wanted)
        });
        equal.sum::<u32>() > 0
    }

    /// Reads all groups of a block of `bytes` bytes, and checks that it is well-formed.
    pub(super) fn groups(&self, bytes: usize) -> Result<Vec<Group>, Invalid> {
        let shape = self.shape;
        let invalid = |what: &str| Err(Invalid(what.into()));
        if self.highs().div_ceil(8) > bytes {
            return invalid("a block is too short for its keys");
        }
        let mut groups = Vec::with_capacity(shape.groups());
        let (mut head, mut next, mut high) = (self.heads(), self.remainders(), self.highs());
        for group in 0..shape.groups() {
            let mut fingerprints = Vec::new();
            for quotient in 0..1u64 << shape.group_bits {
                let count = self.ones(head, BLOCK + self.keys());
                head += count + 1;
                if head > self.remainders() {
                    return invalid("a block has more heads than keys");
                }
                for _ in 0..count {
                    let remainder = self.window(next) & low_bits(shape.remainder_bits);
                    fingerprints.push(quotient << shape.remainder_bits | remainder);
                    next += shape.remainder_bits as usize;
                }
            }
            if !fingerprints.is_sorted_by(|a, b| a < b) {
                return invalid("remainders are out of order");
            }
            let ones = self.ones(high, 8 * bytes);
            high += ones + 1;
            if high > 8 * bytes {
                return invalid("a block is too short for its seeds");
            }
            let low = self.window(COUNT_BITS + group * shape.low_bits as usize);
            let seed = (ones as u64) << shape.low_bits | low & low_bits(shape.low_bits);
            // The builder tries no larger seeds, and they would make lookups slow.
            if seed >= MAX_SEEDS {
                return invalid("a seed is too large");
            }
            groups.push(Group { seed, fingerprints });
        }
        // Writing the groups again must give the same bytes. This also checks that there are as
        // many heads as keys.
        let mut writer = BitWriter::default();
        write(shape, &groups, &mut writer);
        if !writer.bytes().eq(self.bytes[..bytes].iter().copied()) {
            return invalid("a block is not in canonical form");
        }
        Ok(groups)
    }
}
