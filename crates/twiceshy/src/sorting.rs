//! Sorts members by the part of them that a table stores. That part must fit in a 64-bit number.
//!
//! This is a radix sort. It first scatters the numbers into buckets by the leading bits of the
//! hash. It then sorts each bucket in the cache, from the lowest digit to the highest. If the
//! hashes are not uniform, the buckets are uneven, which causes more cache misses, but never more
//! passes. If remainders are not plain, a bucket has whole quotients, because the numbers of one
//! quotient are not in hash order.

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
    /// Creates a packing. Returns `None` if the quotient, the remainder and the other bits don't
    /// fit in 64 bits.
    pub(crate) fn new(digits: Digits, other_bits: u32) -> Option<Self> {
        let quotient_bits = u64::BITS - (digits.slots - 1).leading_zeros();
        let fits = quotient_bits + digits.remainder + other_bits <= u64::BITS;
        fits.then_some(Self { digits, other_bits })
    }

    /// Packs a member into a number. If remainders are plain, members with the same other bits have
    /// numbers in hash order.
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

    /// Packs all keys into numbers, and scatters these into buckets. Returns `None` if there is not
    /// enough memory.
    #[inline(always)]
    pub(crate) fn scatter<K>(
        self,
        keys: &[K],
        parts: impl Fn(&K) -> (Hash, u64),
    ) -> Option<Scattered> {
        let leading = (keys.len() / BUCKET).next_power_of_two().ilog2();
        if self.digits.remainders.is_plain() {
            let bucket_of = |hash: Hash| hash.as_u128().unbounded_shr(128 - leading) as usize;
            self.scatter_into(leading, 1 << leading, bucket_of, keys, parts)
        } else {
            let shift = self.quotient_shift(leading);
            let bucket_of = |hash: Hash| (self.digits.scale(hash).quotient >> shift) as usize;
            self.scatter_into(leading, bucket_of(Hash::MAX) + 1, bucket_of, keys, parts)
        }
    }

    /// Returns how many places to shift a quotient to the right so that about `leading` bits are
    /// left.
    fn quotient_shift(self, leading: u32) -> u32 {
        let quotient_bits = u64::BITS - (self.digits.slots - 1).leading_zeros();
        quotient_bits.saturating_sub(leading)
    }

    #[inline(always)]
    fn scatter_into<K>(
        self,
        leading: u32,
        buckets: usize,
        bucket_of: impl Fn(Hash) -> usize,
        keys: &[K],
        parts: impl Fn(&K) -> (Hash, u64),
    ) -> Option<Scattered> {
        let mut lines = Lines::zeroed(keys.len().div_ceil(8))?;
        let numbers = lines.words_mut();
        let items = keys.iter().map(|key| {
            let (hash, other) = parts(key);
            (bucket_of(hash), (hash, other))
        });
        let ends = scatter(buckets, items, |place, (hash, other)| {
            numbers[place] = self.of(hash, other);
        });
        Some(Scattered { numbers: self, lines, ends, leading })
    }

    /// Returns the smallest and the largest number that a bucket can contain. About `leading` bits
    /// of a hash select its bucket.
    fn bounds(self, bucket: u64, leading: u32) -> (u64, u64) {
        let other = low_bits(self.other_bits);
        if self.digits.remainders.is_plain() {
            let first = Hash::from_u128(u128::from(bucket).unbounded_shl(128 - leading));
            let last = Hash::from_u128(first.as_u128() | u128::MAX.unbounded_shr(leading));
            return (self.of(first, 0), self.of(last, other));
        }
        let shift = self.quotient_shift(leading);
        let first = bucket << shift;
        let last = (first | low_bits(shift)).min(self.digits.slots - 1);
        let number = |quotient, remainder| quotient << self.digits.remainder | remainder;
        let most = number(last, low_bits(self.digits.remainder)) << self.other_bits | other;
        (number(first, 0) << self.other_bits, most)
    }
}

/// Distributes items over buckets. The items are pairs of a bucket and a value. Calls `put` with
/// the place of each value, in the order of the items, and returns the end of each bucket.
#[inline(always)]
pub(crate) fn scatter<T>(
    buckets: usize,
    items: impl Iterator<Item = (usize, T)> + Clone,
    mut put: impl FnMut(usize, T),
) -> Vec<usize> {
    let mut places = vec![0; buckets];
    for (bucket, _) in items.clone() {
        places[bucket] += 1;
    }
    let mut sum = 0;
    for place in &mut places {
        sum += core::mem::replace(place, sum);
    }
    for (bucket, value) in items {
        put(places[bucket], value);
        places[bucket] += 1;
    }
    places
}

/// Numbers that were scattered into buckets. The buckets are in order; the numbers inside a bucket
/// are not.
pub(crate) struct Scattered {
    numbers: Numbers,
    lines: Lines,
    /// The end of each bucket.
    ends: Vec<usize>,
    leading: u32,
}

impl Scattered {
    /// Calls `each` with the numbers in ascending order, until `each` fails. Numbers with the same
    /// quotient and remainder may be in two buckets; in that case their other bits are not in
    /// order.
    #[inline(always)]
    pub(crate) fn in_order<E>(
        mut self,
        mut each: impl FnMut(u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut sorter = Sorter::default();
        let (all, mut start) = (self.lines.words_mut(), 0);
        for (bucket, end) in (0..).zip(self.ends) {
            let numbers = &mut all[core::mem::replace(&mut start, end)..end];
            let (least, most) = self.numbers.bounds(bucket, self.leading);
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
    /// Sorts numbers. All of them must be in `least..least + 2^bits`.
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
    fn new_returns_none_if_numbers_exceed_64_bits() {
        let fits = |slots, width, other_bits| {
            Numbers::new(Digits::plain(slots, width, width), other_bits).is_some()
        };
        assert!(fits(1, 56, 0) && fits(1 << 8, 56, 0) && fits(1 << 48, 16, 0));
        assert!(!fits((1 << 8) + 1, 56, 0) && !fits(1 << 48, 17, 0));
        assert!(fits(1 << 48, 10, 6) && !fits(1 << 48, 10, 7));
    }
}
