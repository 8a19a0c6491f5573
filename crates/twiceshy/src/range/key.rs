//! The types of keys in range filters.

use core::net::{Ipv4Addr, Ipv6Addr};
use core::ops::{Bound, RangeBounds, RangeInclusive};
use core::time::Duration;
use std::time::SystemTime;

/// A key type that maps to integers in the same order, so that a range of keys is a range of
/// integers.
///
/// The number of a key must grow with the key, and different keys must have different numbers.
///
/// # How long ranges can be
/// A filter's rate holds for ranges of up to
/// [`longest_range`](crate::builder::Builder::longest_range) *numbers*, at most 2^20. For longer
/// ranges the rate of false positives grows with the length, and soon the answer is always "maybe".
/// Therefore the numbers should be as coarse as your ranges allow:
///
/// - Consecutive integers and IP addresses have consecutive numbers, so ranges of up to 2^20 of
///   them work.
/// - [`Duration`] and [`SystemTime`] are numbered in nanoseconds, so the longest range is about a
///   millisecond. For ranges of minutes, number the keys in seconds, as below.
/// - [`f64`] is numbered by its bits. There are 2^52 numbers between 1.0 and 2.0, so hardly any
///   range works except that of a single value. Convert such keys to integers: for example cents
///   instead of 9.99.
///
/// Implement this trait for your own type by returning such a number:
///
/// ```
/// use twiceshy::range::RangeKey;
/// #[derive(Clone, Copy)]
/// struct Seconds(u64);
/// impl RangeKey for Seconds {
///     const BITS: u32 = 64;
///     fn number(self) -> u128 {
///         self.0.into()
///     }
/// }
///
/// // Ranges of up to 12 days.
/// let builder = twiceshy::RangeFilter::<Seconds>::builder().longest_range(1 << 20);
/// let mut filter = builder.capacity(1000).build()?;
/// filter.insert(Seconds(1_700_000_000))?;
/// assert!(filter.contains_range(Seconds(1_699_900_000)..Seconds(1_700_100_000)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait RangeKey: Copy {
    /// Width of the numbers in bits, 1 to 128.
    const BITS: u32;

    /// Returns the number of this key.
    fn number(self) -> u128;

    /// Returns the numbers of the keys in a range, or `None` if the range is empty.
    #[inline]
    fn numbers(range: &impl RangeBounds<Self>) -> Option<RangeInclusive<u128>> {
        let first = match range.start_bound() {
            Bound::Included(key) => key.number(),
            Bound::Excluded(key) => key.number().checked_add(1)?,
            Bound::Unbounded => 0,
        };
        let last = match range.end_bound() {
            Bound::Included(key) => key.number(),
            Bound::Excluded(key) => key.number().checked_sub(1)?,
            Bound::Unbounded => u128::MAX >> (u128::BITS - Self::BITS),
        };
        (first <= last).then_some(first..=last)
    }
}

/// Implements [`RangeKey`] for types, given the width of their numbers and how to compute a number.
macro_rules! range_keys {
    ($($(#[$doc:meta])* $type:ident: $bits:expr, |$key:ident| $number:expr;)*) => {$(
        $(#[$doc])*
        impl RangeKey for $type {
            const BITS: u32 = $bits;

            #[inline]
            fn number(self) -> u128 {
                let $key = self;
                $number
            }
        }
    )*};
}

macro_rules! integers {
    ($($unsigned:ident $signed:ident)*) => {range_keys! {$(
        $unsigned: Self::BITS, |key| key.into();
        /// Negative keys have the smaller numbers.
        $signed: Self::BITS, |key| (key.cast_unsigned() ^ Self::MIN.cast_unsigned()).into();
    )*}};
}

integers! { u8 i8 u16 i16 u32 i32 u64 i64 u128 i128 }

range_keys! {
    /// Numbers are in the order of [`f64::total_cmp`]: -0 is before 0, and NaNs are at both ends.
    f64: 64, |key| {
        let bits = key.to_bits().cast_signed();
        // For negative values, larger bits mean smaller numbers.
        (bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()).number()
    };
    Ipv4Addr: 32, |key| key.to_bits().into();
    Ipv6Addr: 128, |key| key.to_bits();
    /// A duration's number is its length in nanoseconds.
    Duration: 94, |key| key.as_nanos();
    /// Times are numbered in nanoseconds, from the past to the future.
    SystemTime: 96, |key| match key.duration_since(Self::UNIX_EPOCH) {
        Ok(since) => (1 << 95) + since.as_nanos(),
        Err(before) => (1 << 95) - before.duration().as_nanos(),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cmp::Ordering;
    use proptest::prelude::*;

    fn keeps_order<K: RangeKey>(a: K, b: K, order: Ordering) {
        assert_eq!(a.number().cmp(&b.number()), order);
        assert!([a, b].iter().all(|key| key.number().checked_shr(K::BITS).unwrap_or(0) == 0));
    }

    proptest! {
        #[test]
        fn numbers_sort_like_their_keys(a in any::<u128>(), b in any::<u128>()) {
            macro_rules! check {
                ($($unsigned:ident $signed:ident)*) => {$(
                    let (x, y) = (a as $unsigned, b as $unsigned);
                    keeps_order(x, y, x.cmp(&y));
                    let (x, y) = (x.cast_signed(), y.cast_signed());
                    keeps_order(x, y, x.cmp(&y));
                )*};
            }
            check!(u8 i8 u16 i16 u32 i32 u64 i64 u128 i128);
            let [x, y] = [a, b].map(|bits| f64::from_bits(bits as u64));
            keeps_order(x, y, x.total_cmp(&y));
            let [x, y] = [a, b].map(|bits| Ipv4Addr::from(bits as u32));
            keeps_order(x, y, x.cmp(&y));
            let [x, y] = [a, b].map(Ipv6Addr::from);
            keeps_order(x, y, x.cmp(&y));
            let [x, y] = [a, b].map(|bits| Duration::new(bits as u64 >> 1, (bits >> 100) as u32));
            keeps_order(x, y, x.cmp(&y));
            let epoch = SystemTime::UNIX_EPOCH;
            let [x, y] = [x, y].map(|time| time / 4);
            keeps_order(epoch + x, epoch + y, x.cmp(&y));
            keeps_order(epoch - x, epoch - y, y.cmp(&x));
            keeps_order(epoch + x, epoch - y, (x + y).cmp(&Duration::ZERO));
        }
    }
}
