//! Masks, selection and moves of bits in words and lines, without special instructions.

use super::memory::LINE;

/// Returns a word whose lowest `count` bits are set. `count` may be 64.
#[inline(always)]
pub(crate) const fn low_bits(count: u32) -> u64 {
    if count == 0 { 0 } else { u64::MAX >> (64 - count) }
}

/// Returns a word whose bits `first..=last` are set.
#[inline(always)]
pub(crate) const fn bit_range(first: u32, last: u32) -> u64 {
    (u64::MAX << first) & (u64::MAX >> (63 - last))
}

/// Returns a 128-bit word whose highest `count` bits are set. `count` may be 128.
#[inline(always)]
pub(crate) const fn high_bits_128(count: u32) -> u128 {
    if count == 0 { 0 } else { u128::MAX << (128 - count) }
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Returns the position of the `rank`-th set bit of `word`, counted from 0. `word` must have more
/// than `rank` set bits.
///
/// To find the byte, compares running bit counts with `rank` in all eight bytes in parallel. To find
/// the bit in that byte, clears the set bits before it.
#[inline(always)]
pub(crate) const fn select(word: u64, rank: u32) -> u32 {
    debug_assert!(word.count_ones() > rank);
    let pairs = word - ((word >> 1) & 0x5555_5555_5555_5555);
    let nibbles = (pairs & 0x3333_3333_3333_3333) + ((pairs >> 2) & 0x3333_3333_3333_3333);
    let bytes = (nibbles + (nibbles >> 4)) & 0x0f0f_0f0f_0f0f_0f0f;
    // Byte i is the number of set bits in bytes 0..=i. It is at most 64, so bit 7 is free.
    let running = bytes.wrapping_mul(ONES);
    let passed = (((rank as u64 * ONES) | HIGHS) - running) & HIGHS;
    let byte_start = passed.count_ones() * 8;
    let before = (running << 8 >> byte_start) as u32 & 0xff;
    let mut rest = word >> byte_start;
    let mut left = rank - before;
    while left > 0 {
        rest &= rest - 1;
        left -= 1;
    }
    byte_start + rest.trailing_zeros()
}

/// Implements [`Machine::balanced`](super::machine::Machine::balanced) with one byte per bit, eight
/// bytes in parallel. A multiplication computes the running sums.
#[inline(always)]
pub(crate) const fn balanced(plus: u32, minus: u32, more: u32) -> u32 {
    /// Spreads the lowest 8 bits to one byte each, which is 0 or 1.
    const fn spread(bits: u32) -> u64 {
        // Keep bit i in byte i. Carry it up to the byte's highest bit, then shift it down to the
        // lowest.
        let bits = (bits as u64 & 0xff).wrapping_mul(ONES) & 0x8040_2010_0804_0201;
        ((bits + 0x007f_7f7f_7f7f_7f7f) | bits) >> 7 & ONES
    }
    let (mut balanced, mut at) = (0, 0);
    let (mut plus_before, mut minus_before) = (more as u64, 0);
    while at < u32::BITS {
        // Sums are at most 96, so no byte overflows.
        let (pluses, minuses) = (spread(plus >> at), spread(minus >> at));
        let differs =
            (pluses + plus_before).wrapping_mul(ONES) ^ (minuses + minus_before).wrapping_mul(ONES);
        // Set the highest bit of each byte that is zero.
        let zeros = !(((differs & !HIGHS) + !HIGHS) | differs) & HIGHS;
        // Pack these bits into the highest byte.
        balanced |= ((zeros >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56 << at) as u32;
        plus_before += pluses.count_ones() as u64;
        minus_before += minuses.count_ones() as u64;
        at += 8;
    }
    balanced
}

/// The bytes of a cache line. Bits are counted from the lowest bit of the first byte.
pub(crate) type Line = [u8; LINE];

/// Moves the bits `first..=last` up by `by`, and puts `value` below them. The highest `by` bits of
/// that range are dropped; bits outside the range stay. Then flips those bits of the first three
/// words that are set in `flips`.
///
/// `by` must be less than 64, and at most the number of bits in the range.
#[inline(always)]
pub(super) fn push_bits(
    line: &mut Line,
    (first, last): (u32, u32),
    by: u32,
    value: u64,
    flips: [u64; 3],
) {
    let words = line.as_chunks_mut::<8>().0;
    let word = |words: &[[u8; 8]], at: usize| u64::from_le_bytes(words[at % (LINE / 8)]);
    // In the first word, keep the bits below `first`.
    let below = low_bits(first % 64);
    let (mut at, top) = (first as usize / 64, last as usize / 64);
    let mut old = word(words, at);
    let mut stays = old & below;
    let mut wide = u128::from(old & !below) << by | u128::from(value) << (first % 64);
    while at < top {
        words[at % (LINE / 8)] = (stays | wide as u64).to_le_bytes();
        at += 1;
        old = word(words, at);
        stays = 0;
        wide = u128::from(old) << by | wide >> 64;
    }
    // In the last word, keep the bits above `last`.
    let above = !low_bits(last % 64 + 1);
    words[at % (LINE / 8)] = (stays | wide as u64 & !above | old & above).to_le_bytes();
    for (at, flips) in flips.into_iter().enumerate() {
        words[at] = (word(words, at) ^ flips).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::machine::{AnyShape, Level, Machine, Operation, Target};
    use proptest::prelude::*;

    fn naive_select(word: u64, rank: u32) -> u32 {
        (0..64).filter(|bit| word >> bit & 1 == 1).nth(rank as usize).unwrap()
    }

    #[test]
    fn masks_handle_smallest_and_largest_counts() {
        assert_eq!(low_bits(0), 0);
        assert_eq!(low_bits(1), 1);
        assert_eq!(low_bits(64), u64::MAX);
        assert_eq!(bit_range(0, 63), u64::MAX);
        assert_eq!(bit_range(63, 63), 1 << 63);
        assert_eq!(bit_range(3, 4), 0b11000);
        assert_eq!(high_bits_128(0), 0);
        assert_eq!(high_bits_128(1), 1 << 127);
        assert_eq!(high_bits_128(128), u128::MAX);
    }

    proptest! {
        #[test]
        fn balanced_agrees_with_bit_counts(plus: u32, minus: u32, more in 0u32..65) {
            let balanced = balanced(plus, minus, more);
            for bit in 0..32 {
                let count = |bits: u32| (bits << (31 - bit)).count_ones();
                prop_assert_eq!(balanced >> bit & 1 == 1, count(minus) == count(plus) + more);
            }
        }

        #[test]
        fn select_finds_every_bit(dense in any::<u64>(), mask in any::<u64>()) {
            for word in [dense, dense & mask, dense | mask, u64::MAX, 1 << 63, 1] {
                for rank in 0..word.count_ones() {
                    prop_assert_eq!(select(word, rank), naive_select(word, rank));
                }
            }
        }
    }

    struct Push(Line, (u32, u32), u32, u64, [u64; 3]);

    impl Operation for Push {
        type Argument = ();
        type Output = Line;
        type Shapes = AnyShape;
        fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) -> Line {
            let Push(mut line, bits, by, value, flips) = self;
            machine.push_bits(&mut line, bits, by, value, flips);
            line
        }
    }

    fn bit(line: &Line, at: u32) -> bool {
        line[at as usize / 8] >> (at % 8) & 1 == 1
    }

    proptest! {
        #[test]
        fn push_bits_moves_every_bit_on_every_machine(
            line: [u8; LINE],
            ends in (0u32..512, 0u32..512),
            by in 1u32..64,
            value: u64,
            flips: [u64; 3],
        ) {
            let (first, last) = (ends.0.min(ends.1), ends.0.max(ends.1));
            let by = by.min(last - first + 1);
            let value = value & low_bits(by);
            let push = || Push(line, (first, last), by, value, flips);
            let pushed = Target { level: Level::Portable, shape: 0 }.run(push());
            for at in 0..512 {
                let moved = if at < first || at > last {
                    bit(&line, at)
                } else if at < first + by {
                    value >> (at - first) & 1 == 1
                } else {
                    bit(&line, at - by)
                };
                let flipped = at < 192 && flips[at as usize / 64] >> (at % 64) & 1 == 1;
                prop_assert_eq!(bit(&pushed, at), moved ^ flipped, "bit {}", at);
            }
            prop_assert_eq!(Target::detect().run(push()), pushed);
        }
    }
}
