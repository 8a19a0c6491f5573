//! Keys that are numbers, and spans of numbers.

use crate::error::{Result, StoreError};
use smallvec::SmallVec;
use std::marker::PhantomData;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::{RangeBounds, RangeInclusive};
use std::time::{Duration, SystemTime};
use twiceshy::range::RangeKey;

/// A key of a [`RangeStore`](crate::RangeStore). Its number can be turned back into the key.
///
/// A store can rule out an empty range without a disk read if the range has no more than 2^20 numbers,
/// so the unit of the numbers matters: see [`RangeKey`](RangeKey#how-long-ranges-can-be). `f64` keys
/// work for single values, and [`Duration`] and [`SystemTime`] for ranges of a millisecond. To ask for
/// ranges of days, use a key that counts seconds, for example.
///
/// ```
/// use twiceshy::range::RangeKey;
/// use twiceshy_store::StoredKey;
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// struct Millis(u64);
/// impl RangeKey for Millis {
///     const BITS: u32 = 64;
///     fn number(self) -> u128 {
///         self.0.into()
///     }
/// }
/// impl StoredKey for Millis {
///     fn from_number(number: u128) -> Option<Self> {
///         number.try_into().ok().map(Self)
///     }
/// }
/// assert_eq!(Millis::from_number(Millis(7).number()), Some(Millis(7)));
/// ```
pub trait StoredKey: RangeKey {
    /// Returns the key with this number, or `None` if there is no such key.
    fn from_number(number: u128) -> Option<Self>;
}

macro_rules! integers {
    ($($unsigned:ident $signed:ident)*) => {$(
        impl StoredKey for $unsigned {
            fn from_number(number: u128) -> Option<Self> {
                number.try_into().ok()
            }
        }

        impl StoredKey for $signed {
            fn from_number(number: u128) -> Option<Self> {
                let number = $unsigned::try_from(number).ok()?;
                Some((number ^ Self::MIN.cast_unsigned()).cast_signed())
            }
        }
    )*};
}

integers! { u8 i8 u16 i16 u32 i32 u64 i64 u128 i128 }

impl StoredKey for f64 {
    fn from_number(number: u128) -> Option<Self> {
        let ordered = i64::from_number(number)?;
        let bits = ordered ^ ((ordered >> 63).cast_unsigned() >> 1).cast_signed();
        Some(Self::from_bits(bits.cast_unsigned()))
    }
}

impl StoredKey for Ipv4Addr {
    fn from_number(number: u128) -> Option<Self> {
        u32::from_number(number).map(Self::from_bits)
    }
}

impl StoredKey for Ipv6Addr {
    fn from_number(number: u128) -> Option<Self> {
        Some(Self::from_bits(number))
    }
}

impl StoredKey for Duration {
    fn from_number(number: u128) -> Option<Self> {
        const SECOND: u128 = 1_000_000_000;
        let seconds = (number / SECOND).try_into().ok()?;
        Some(Self::new(seconds, (number % SECOND) as u32))
    }
}

impl StoredKey for SystemTime {
    fn from_number(number: u128) -> Option<Self> {
        const EPOCH: u128 = 1 << 95;
        match number.checked_sub(EPOCH) {
            Some(since) => Self::UNIX_EPOCH.checked_add(Duration::from_number(since)?),
            None => Self::UNIX_EPOCH.checked_sub(Duration::from_number(EPOCH - number)?),
        }
    }
}

/// A number to ask the filter about. There need not be a key with this number.
#[derive(Clone, Copy)]
pub(super) struct Number<K>(u128, PhantomData<fn() -> K>);

impl<K: RangeKey> Number<K> {
    pub(super) fn new(number: u128) -> Self {
        Self(number, PhantomData)
    }

    /// Returns the number as it is stored: big-endian, in as many bytes as the largest number needs.
    pub(super) fn to_bytes(self) -> SmallVec<[u8; 16]> {
        let unused = 16 - K::BITS.div_ceil(8) as usize;
        SmallVec::from_slice(&self.0.to_be_bytes()[unused..])
    }

    /// Reads a stored number. Returns `None` if the bytes aren't a valid number.
    pub(super) fn from_bytes(stored: &[u8]) -> Option<Self> {
        if stored.len() != K::BITS.div_ceil(8) as usize {
            return None;
        }
        let mut bytes = [0; 16];
        bytes[16 - stored.len()..].copy_from_slice(stored);
        let number = u128::from_be_bytes(bytes);
        is_short::<K>(number).then(|| Self::new(number))
    }
}

impl<K: RangeKey> RangeKey for Number<K> {
    const BITS: u32 = K::BITS;

    fn number(self) -> u128 {
        self.0
    }
}

/// Returns whether a number has no more bits than the type allows.
fn is_short<K: RangeKey>(number: u128) -> bool {
    number.checked_shr(K::BITS).unwrap_or(0) == 0
}

/// All numbers from `first` to `last`. `last` is not less than `first`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) first: u128,
    pub(super) last: u128,
}

impl Span {
    /// Returns the span of one key, or an error if its number has too many bits.
    pub(super) fn one<K: RangeKey>(key: K) -> Result<Self> {
        Self { first: key.number(), last: key.number() }.checked::<K>()
    }

    /// Returns the span of the keys within bounds, or `None` if there can't be any.
    pub(super) fn of<K: RangeKey>(range: &impl RangeBounds<K>) -> Result<Option<Self>> {
        let span = K::numbers(range).map(|numbers| {
            let (first, last) = numbers.into_inner();
            Self { first, last }
        });
        span.map(Self::checked::<K>).transpose()
    }

    /// Returns an error if a number has too many bits, because it would be stored as a different number.
    fn checked<K: RangeKey>(self) -> Result<Self> {
        if is_short::<K>(self.last) { Ok(self) } else { Err(StoreError::Number { bits: K::BITS }) }
    }

    pub(super) fn contains(self, number: u128) -> bool {
        (self.first..=self.last).contains(&number)
    }

    /// Returns the range of numbers to ask the filter about.
    pub(super) fn numbers<K: RangeKey>(self) -> RangeInclusive<Number<K>> {
        Number::new(self.first)..=Number::new(self.last)
    }

    /// Returns the number of partitions that the span touches.
    pub(super) fn partitions(self, memento_bits: u32) -> u128 {
        ((self.last >> memento_bits) - (self.first >> memento_bits)).saturating_add(1)
    }

    /// Cuts the span into pieces of one partition each.
    pub(super) fn pieces(self, memento_bits: u32) -> impl Iterator<Item = Self> {
        let mementos = (1 << memento_bits) - 1;
        ((self.first >> memento_bits)..=(self.last >> memento_bits)).map(move |partition| {
            let start = partition << memento_bits;
            Self { first: self.first.max(start), last: self.last.min(start | mementos) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fmt::Debug;

    fn check_round_trip<K: StoredKey + PartialEq + Debug>(key: K) {
        let number: Number<K> = Number::new(key.number());
        let stored = number.to_bytes();
        let read: Number<K> = Number::from_bytes(&stored).unwrap();
        assert_eq!(K::from_number(read.number()), Some(key));
        assert!(Number::<K>::from_bytes(&stored[1..]).is_none());
    }

    proptest! {
        #[test]
        fn keys_round_trip_through_their_numbers(bits in any::<u128>()) {
            macro_rules! check {
                ($($unsigned:ident $signed:ident)*) => {$(
                    check_round_trip(bits as $unsigned);
                    check_round_trip((bits as $unsigned).cast_signed());
                )*};
            }
            check!(u8 i8 u16 i16 u32 i32 u64 i64 u128 i128);
            let float = f64::from_bits(bits as u64);
            let number: Number<f64> = Number::new(float.number());
            prop_assert_eq!(f64::from_number(number.number()).unwrap().to_bits(), bits as u64);
            check_round_trip(Ipv4Addr::from(bits as u32));
            check_round_trip(Ipv6Addr::from(bits));
            let time = Duration::new(bits as u64, (bits >> 100) as u32 % 1_000_000_000);
            check_round_trip(time);
            let time = time / 8;
            check_round_trip(SystemTime::UNIX_EPOCH + time);
            check_round_trip(SystemTime::UNIX_EPOCH - time);
        }

        #[test]
        fn stored_numbers_sort_like_keys(a in any::<u64>(), b in any::<u64>()) {
            let bytes = |key| Number::<u64>::new(u128::from(key)).to_bytes();
            prop_assert_eq!(bytes(a).cmp(&bytes(b)), a.cmp(&b));
        }
    }

    #[test]
    fn from_number_is_none_if_no_key_has_the_number() {
        assert_eq!(u8::from_number(256), None);
        assert_eq!(i8::from_number(256), None);
        assert_eq!(Duration::from_number(u128::MAX), None);
        assert_eq!(SystemTime::from_number(u128::MAX), None);
        assert!(Number::<Duration>::from_bytes(&[u8::MAX; 12]).is_none(), "more than 94 bits");
    }

    /// A key whose numbers have more bits than its type declares.
    #[derive(Clone, Copy)]
    struct Liar(u128);

    impl RangeKey for Liar {
        const BITS: u32 = 8;

        fn number(self) -> u128 {
            self.0
        }
    }

    #[test]
    fn keys_whose_numbers_have_too_many_bits_are_refused() {
        assert!(Span::one(Liar(255)).is_ok() && Span::one(Liar(256)).is_err());
        assert!(Span::of(&(Liar(3)..Liar(256))).is_ok());
        assert!(Span::of(&(Liar(3)..=Liar(256))).is_err());
        assert_eq!(Span::of(&(Liar(5)..)).unwrap(), Some(Span { first: 5, last: 255 }));
        assert_eq!(Span::of(&(Liar(5)..Liar(5))).unwrap(), None);
    }

    #[test]
    fn pieces_of_a_span_end_at_partition_borders() {
        let pieces = |first, last, bits| -> Vec<(u128, u128)> {
            let span = Span { first, last };
            let pieces: Vec<_> = span.pieces(bits).map(|span| (span.first, span.last)).collect();
            assert_eq!(pieces.len() as u128, span.partitions(bits));
            pieces
        };
        assert_eq!(pieces(3, 9, 2), [(3, 3), (4, 7), (8, 9)]);
        assert_eq!(pieces(5, 6, 2), [(5, 6)]);
        assert_eq!(pieces(5, 6, 0), [(5, 5), (6, 6)]);
        let max = u128::MAX;
        assert_eq!(pieces(max - 4, max, 2), [(max - 4, max - 4), (max - 3, max)]);
        assert_eq!(Span { first: 0, last: max }.partitions(0), max);
    }
}
