//! Many members into an empty filter: sorted, then written in one pass.
//!
//! What the table stores of a member, its quotient and remainder, is one number of a
//! word, and numbers are sorted by their digits, without comparing any: first into
//! buckets, by the leading bits of the hash, then each bucket in the cache, from the
//! lowest digit up. Hashes that are not uniform make buckets uneven, which costs cache
//! misses, but never more passes.

use super::AdaptiveQuotientFilter;
use super::construct::Written;
use super::entry::Entry;
use super::insert::Refused;
use crate::Hash;
use crate::bits::machine::{Machine, Operation};
use crate::bits::memory::Lines;
use crate::bits::word::low_bits;
use crate::error::BuildError;
use crate::fingerprint::Digits;

/// Numbers in a bucket, about: few enough to be sorted in the cache, but so many that there
/// are few buckets to scatter to.
const BUCKET: usize = 1 << 17;

/// Bits of a digit, at most: counters of all its values fit the first-level cache.
const DIGIT_BITS: u32 = 13;

/// Less than so many numbers are sorted by comparing.
const FEW: usize = 1 << 10;

impl AdaptiveQuotientFilter {
    /// Inserts members into an empty filter, in the order of their hashes; or returns `None`,
    /// and does nothing, if their numbers don't fit a word, or memory.
    pub(super) fn fill<K>(
        &mut self,
        keys: &[K],
        hash: impl Fn(&K) -> Hash,
    ) -> Option<Result<(), Refused>> {
        let numbers = Numbers::new(self.digits)?;
        let written = self.table.level().run(Fill { filter: self, numbers, keys, hash })?;
        Some(if let Ok(written) = written {
            self.count_written(written);
            Ok(())
        } else {
            self.table.clear();
            Err(Refused::Full)
        })
    }
}

struct Fill<'a, K, H> {
    filter: &'a mut AdaptiveQuotientFilter,
    numbers: Numbers,
    keys: &'a [K],
    hash: H,
}

impl<K, H: Fn(&K) -> Hash> Operation for Fill<'_, K, H> {
    type Output = Option<Result<Written, BuildError>>;

    #[inline(always)]
    fn run<M: Machine>(self, _: M) -> Self::Output {
        let Self { filter, numbers, keys, hash } = self;
        let (scattered, digits) = (numbers.scatter(keys, hash)?, filter.digits);
        let mut writer = filter.writer();
        let written = scattered.in_order(|quotient, remainder, count| {
            if count == 1 {
                return writer.write_single((quotient, remainder));
            }
            let fingerprint = digits.spell(quotient, core::iter::once(remainder));
            writer.write(Entry::single(fingerprint).of(count))
        });
        Some(written.and_then(|()| writer.finish()))
    }
}

/// Quotient and remainder of a hash as one number.
#[derive(Clone, Copy)]
struct Numbers {
    digits: Digits,
}

impl Numbers {
    /// Numbers for these digits, if they fit a word.
    fn new(digits: Digits) -> Option<Self> {
        let bits = u64::BITS - (digits.slots - 1).leading_zeros() + digits.remainder;
        (bits <= u64::BITS).then_some(Self { digits })
    }

    /// Larger hashes have larger numbers, or the same.
    #[inline(always)]
    fn of(self, hash: Hash) -> u64 {
        let scaled = self.digits.scale(hash);
        scaled.quotient << self.digits.remainder | scaled.leading(self.digits.remainder)
    }

    /// The numbers of all keys, in buckets, or `None` if there is no memory for them.
    #[inline(always)]
    fn scatter<K>(self, keys: &[K], hash: impl Fn(&K) -> Hash) -> Option<Scattered> {
        let leading = (keys.len() / BUCKET).next_power_of_two().ilog2();
        let bucket_of = |hash: Hash| hash.as_u128().unbounded_shr(128 - leading) as usize;
        let mut counts = vec![0; 1 << leading];
        for key in keys {
            counts[bucket_of(hash(key))] += 1;
        }
        let mut next: Vec<usize> = counts
            .iter()
            .scan(0, |sum, &count| Some(core::mem::replace(sum, *sum + count)))
            .collect();
        let mut lines = Lines::zeroed(keys.len().div_ceil(8))?;
        let numbers = lines.words_mut();
        for key in keys {
            let hash = hash(key);
            let place = &mut next[bucket_of(hash)];
            numbers[*place] = self.of(hash);
            *place += 1;
        }
        Some(Scattered { numbers: self, lines, counts })
    }
}

/// Numbers in buckets, which are in order.
struct Scattered {
    numbers: Numbers,
    lines: Lines,
    counts: Vec<usize>,
}

impl Scattered {
    /// Calls `each` with the quotients and remainders, in order, and how many have them,
    /// until it fails.
    #[inline(always)]
    fn in_order<E>(
        mut self,
        mut each: impl FnMut(u64, u64, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let width = self.numbers.digits.remainder;
        // One number may be in two buckets.
        let (mut at_hand, mut times) = (0, 0);
        let leading = self.counts.len().ilog2();
        let mut sorter = Sorter::default();
        let mut rest = self.lines.words_mut();
        for (bucket, count) in (0..).zip(self.counts) {
            let (numbers, others) = rest.split_at_mut(count);
            rest = others;
            let first = Hash::from_u128(u128::unbounded_shl(bucket, 128 - leading));
            let last = Hash::from_u128(first.as_u128() | u128::MAX.unbounded_shr(leading));
            let (least, most) = (self.numbers.of(first), self.numbers.of(last));
            sorter.sort(numbers, least, u64::BITS - (most - least).leading_zeros());
            for &number in &*numbers {
                if number != at_hand && times > 0 {
                    each(at_hand >> width, at_hand & low_bits(width), times)?;
                    times = 0;
                }
                at_hand = number;
                times += 1;
            }
        }
        if times > 0 {
            each(at_hand >> width, at_hand & low_bits(width), times)?;
        }
        Ok(())
    }
}

/// Sorts numbers by their digits.
#[derive(Default)]
struct Sorter {
    /// Counters of the values of each digit.
    counts: Vec<u32>,
    spare: Vec<u64>,
}

impl Sorter {
    /// Sorts numbers that are at least `least`, and less than 2^`bits` more.
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
        for &number in &*numbers {
            for (digit, counts) in (0..).zip(self.counts.chunks_exact_mut(1 << width)) {
                counts[value(number, digit)] += 1;
            }
        }
        self.spare.resize(numbers.len().max(self.spare.len()), 0);
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
        fn digits_sort_as_comparing_does(
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
    fn numbers_that_do_not_fit_a_word_are_refused() {
        let fits = |slots, width| Numbers::new(Digits { slots, remainder: width, width }).is_some();
        assert!(fits(1, 56) && fits(1 << 8, 56) && fits(1 << 48, 16));
        assert!(!fits((1 << 8) + 1, 56) && !fits(1 << 48, 17));
        let mut filter =
            AdaptiveQuotientFilter::builder().remainder_bits(56).slots(3000).build().unwrap();
        let hash = |index: u128| Hash::from_u128(index.wrapping_mul(u128::MAX / 2000));
        let hashes: Vec<Hash> = (0..2000).map(hash).collect();
        filter.insert_many(&hashes).unwrap();
        assert!(filter.validate().is_ok() && hashes.iter().all(|&hash| filter.contains(hash)));
    }
}
