//! Moving bits within a line, without special instructions.

use super::memory::LINE;
use super::word::low_bits;

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
