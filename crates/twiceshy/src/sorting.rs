//! Sorts members by the part that a table stores of them, if that part fits in a 64-bit number.
//!
//! This is a radix sort. It first scatters the numbers into buckets by the leading bits of the
//! hash. It then sorts each bucket in the cache, from the lowest digit to the highest. If the
//! hashes are not uniform, the buckets are uneven, which causes more cache misses, but never more
//! passes.

use crate::Hash;
use crate::bits::memory::Lines;
use crate::bits::word::low_bits;
use crate::fingerprint::Digits;

/// Average number of members per bucket: small enough to sort a bucket in the cache, but large
/// enough to keep the number of buckets small.
const BUCKET: usize = 1 << 17;

/// Maximum number of bits per digit. The counters for all values of a digit fit in the L1 cache.
const DIGIT_BITS: u32 = 13;

/// Buckets smaller than this are sorted by comparison.
const FEW: usize = 1 << 10;

/// Packs the quotient and remainder of a hash, and the other bits of a member, into one number.
#[derive(Clone, Copy)]
pub(crate) struct Numbers {
    digits: Digits,
    other_bits: u32,
}

impl Numbers {
    /// Returns `None` if the quotient, the remainder and the other bits don't fit in 64 bits.
    pub(crate) fn new(digits: Digits, other_bits: u32) -> Option<Self> {
        let quotient_bits = u64::BITS - (digits.slots - 1).leading_zeros();
        let fits = quotient_bits + digits.remainder + other_bits <= u64::BITS;
        fits.then_some(Self { digits, other_bits })
    }

    /// Returns the number of a member. Given the same other bits, a larger hash never has a smaller
    /// number.
    #[inline(always)]
    fn of(self, hash: Hash, other: u64) -> u64 {
        let scaled = self.digits.scale(hash);
        let number = scaled.quotient << self.digits.remainder;
        (number | scaled.leading(self.digits.remainder)) << self.other_bits | other
    }

    /// Splits a number into the quotient, the remainder and the other bits.
    #[inline(always)]
    pub(crate) fn parts(self, number: u64) -> (u64, u64, u64) {
        let Digits { remainder, .. } = self.digits;
        let prefix = number >> self.other_bits;
        (prefix >> remainder, prefix & low_bits(remainder), number & low_bits(self.other_bits))
    }

    /// Returns the numbers of all keys in buckets, or `None` if there is not enough memory.
    #[inline(always)]
    pub(crate) fn scatter<K>(
        self,
        keys: &[K],
        parts: impl Fn(&K) -> (Hash, u64),
    ) -> Option<Scattered> {
        let leading = (keys.len() / BUCKET).next_power_of_two().ilog2();
        let bucket_of = |hash: Hash| hash.as_u128().unbounded_shr(128 - leading) as usize;
        let mut counts = vec![0; 1 << leading];
        for key in keys {
            counts[bucket_of(parts(key).0)] += 1;
        }
        let mut next: Vec<usize> = counts
            .iter()
            .scan(0, |sum, &count| Some(core::mem::replace(sum, *sum + count)))
            .collect();
        let mut lines = Lines::zeroed(keys.len().div_ceil(8))?;
        let numbers = lines.words_mut();
        for key in keys {
            let (hash, other) = parts(key);
            let place = &mut next[bucket_of(hash)];
            numbers[*place] = self.of(hash, other);
            *place += 1;
        }
        Some(Scattered { numbers: self, lines, counts })
    }
}

/// Numbers in buckets. The buckets are in order; the numbers inside a bucket are not.
pub(crate) struct Scattered {
    numbers: Numbers,
    lines: Lines,
    counts: Vec<usize>,
}

impl Scattered {
    /// Calls `each` with the numbers in order, until it fails. Numbers with the same quotient and
    /// remainder may be in two buckets; in that case their other bits are not in order.
    #[inline(always)]
    pub(crate) fn in_order<E>(
        mut self,
        mut each: impl FnMut(u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let leading = self.counts.len().ilog2();
        let other = low_bits(self.numbers.other_bits);
        let mut sorter = Sorter::default();
        let mut rest = self.lines.words_mut();
        for (bucket, count) in (0..).zip(self.counts) {
            let (numbers, others) = rest.split_at_mut(count);
            rest = others;
            let first = Hash::from_u128(u128::unbounded_shl(bucket, 128 - leading));
            let last = Hash::from_u128(first.as_u128() | u128::MAX.unbounded_shr(leading));
            let (least, most) = (self.numbers.of(first, 0), self.numbers.of(last, other));
            sorter.sort(numbers, least, u64::BITS - (most - least).leading_zeros());
            for &number in &*numbers {
                each(number)?;
            }
        }
        Ok(())
    }
}

/// A radix sort with reusable buffers.
#[derive(Default)]
struct Sorter {
    /// Number of occurrences of each value of each digit.
    counts: Vec<u32>,
    spare: Vec<u64>,
}

impl Sorter {
    /// Sorts numbers in `least..least + 2^bits`.
    #[inline(always)]
    fn sort(&mut self, numbers: &mut [u64], least: u64, bits: u32) {
        let countable = FEW..u32::MAX as usize;
        if !countable.contains(&numbers.len()) || bits == 0 {
            numbers.sort_unstable();
            return;
        }
        let digits = bits.div_ceil(DIGIT_BITS);
        let width = bits.div_ceil(digits);
        let value = |number: u64, digit: u32| {
            ((number - least) >> (digit * width)) as usize & ((1 << width) - 1)
        };
        self.counts.clear();
        self.counts.resize((digits as usize) << width, 0);
        for (digit, counts) in (0..).zip(self.counts.chunks_exact_mut(1 << width)) {
            for &number in &*numbers {
                counts[value(number, digit)] += 1;
            }
        }
        if self.spare.len() < numbers.len() {
            self.spare = vec![0; numbers.len()];
        }
        let mut to = &mut self.spare[..numbers.len()];
        let mut from = numbers;
        for (digit, next) in (0..).zip(self.counts.chunks_exact_mut(1 << width)) {
            let mut sum = 0;
            for count in next.iter_mut() {
                sum += core::mem::replace(count, sum);
            }
            for &number in &*from {
                let place = &mut next[value(number, digit)];
                to[*place as usize] = number;
                *place += 1;
            }
            core::mem::swap(&mut from, &mut to);
        }
        if digits % 2 == 1 {
            to.copy_from_slice(from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn radix_sort_equals_comparison_sort(
            seed in 1u64.., bits in 0u32..=64, least in any::<u64>(), count in FEW..4 * FEW
        ) {
            let range = low_bits(bits);
            let least = least.min(u64::MAX - range);
            let mut numbers: Vec<u64> = (0..count as u64)
                .map(|index| least + (seed.wrapping_mul(index).rotate_left(23) & range))
                .collect();
            let mut expected = numbers.clone();
            expected.sort_unstable();
            Sorter::default().sort(&mut numbers, least, bits);
            prop_assert!(numbers == expected);
        }
    }

    #[test]
    fn numbers_must_fit_in_64_bits() {
        let fits = |slots, width, other_bits| {
            Numbers::new(Digits { slots, remainder: width, width }, other_bits).is_some()
        };
        assert!(fits(1, 56, 0) && fits(1 << 8, 56, 0) && fits(1 << 48, 16, 0));
        assert!(!fits((1 << 8) + 1, 56, 0) && !fits(1 << 48, 17, 0));
        assert!(fits(1 << 48, 10, 6) && !fits(1 << 48, 10, 7));
    }
}
