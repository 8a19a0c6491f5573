//! The secret numbers with which a filter makes its remainders.

use super::secret::EntropyError;
use crate::sync::fill_randomly;
use core::fmt;

/// The function with which a filter makes remainders and extensions from the fractions of scaled
/// hashes.
///
/// The first 64 bits of a fraction, `f`, become `a·f + b` modulo 2^64, where `a` is odd. The other
/// 64 bits stay as they are, and so does the quotient. Different fractions stay different, because
/// `a` has an inverse.
///
/// With [plain](Self::PLAIN) remainders, the default, `a` is 1 and `b` is 0. Then all hashes of one
/// fingerprint are neighbours, and a filter can be [doubled](crate::QuotientFilter::doubled) and
/// merged with filters of other sizes. With [fresh](Self::fresh) remainders, the mistakes of
/// another filter don't reveal which hashes share a fingerprint: see
/// [`rotated`](crate::QuotientFilter::rotated).
///
/// The numbers are secret, like the [`Secret`](crate::Secret) of the hashes. `Debug` never shows
/// them.
///
/// ```
/// use twiceshy::quotient::Remainders;
/// let fresh = Remainders::fresh()?;
/// assert_eq!(format!("{fresh:?}"), "Remainders(redacted)");
/// assert_eq!(Remainders::from_bytes(fresh.expose()), fresh);
/// assert!(Remainders::default().is_plain());
/// # Ok::<(), twiceshy::hash::EntropyError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Remainders {
    /// The multiplier, which is always odd.
    pub(super) a: u64,
    pub(super) b: u64,
}

impl Remainders {
    /// Remainders that are the first bits of the unchanged fraction.
    pub const PLAIN: Self = Self { a: 1, b: 0 };

    /// Creates random remainders from the operating system's entropy.
    ///
    /// # Errors
    /// If the operating system can't provide entropy.
    pub fn fresh() -> Result<Self, EntropyError> {
        let mut bytes = [0; 16];
        fill_randomly(&mut bytes)?;
        Ok(Self::from_bytes(bytes))
    }

    /// Creates remainders from bytes, for example those that [`expose`](Self::expose) returned: 8
    /// bytes for `a`, whose lowest bit is set, and 8 bytes for `b`, both little-endian. Except in
    /// tests, the bytes must be random and unpredictable.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        let number = u128::from_le_bytes(bytes);
        Self { a: number as u64 | 1, b: (number >> 64) as u64 }
    }

    /// Returns `a` and `b` as bytes. Store them where only the filter's owner can read them.
    pub const fn expose(&self) -> [u8; 16] {
        ((self.b as u128) << 64 | self.a as u128).to_le_bytes()
    }

    /// Returns whether these are plain remainders, which are the first bits of the unchanged
    /// fraction.
    pub const fn is_plain(&self) -> bool {
        self.a == 1 && self.b == 0
    }

    /// Returns `a` and `b` as a snapshot stores them: zeros stand for plain remainders.
    pub(crate) fn to_fields(self) -> [u64; 2] {
        if self.is_plain() { [0, 0] } else { [self.a, self.b] }
    }

    /// Returns the remainders that a snapshot stores, or `None` if `a` is even, or if plain
    /// remainders are not stored as zeros.
    pub(crate) fn of_fields([a, b]: [u64; 2]) -> Option<Self> {
        match (a, b) {
            (0, 0) => Some(Self::PLAIN),
            (1, 0) => None,
            _ => (a % 2 == 1).then_some(Self { a, b }),
        }
    }
}

/// Returns [plain](Remainders::PLAIN) remainders.
impl Default for Remainders {
    fn default() -> Self {
        Self::PLAIN
    }
}

impl fmt::Debug for Remainders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_plain() { "Remainders(plain)" } else { "Remainders(redacted)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn unmix_inverts_mix(bytes in any::<[u8; 16]>(), fraction in any::<u128>()) {
            let remainders = Remainders::from_bytes(bytes);
            prop_assert_eq!(remainders.unmix(remainders.mix(fraction)), fraction);
            prop_assert_eq!(remainders.mix(remainders.unmix(fraction)), fraction);
            prop_assert_eq!(remainders.mix(fraction) as u64, fraction as u64);
            prop_assert_eq!(Remainders::PLAIN.mix(fraction), fraction);
        }

        #[test]
        fn remainders_round_trip_through_fields_and_bytes(bytes in any::<[u8; 16]>()) {
            let remainders = Remainders::from_bytes(bytes);
            prop_assert_eq!(Remainders::from_bytes(remainders.expose()), remainders);
            prop_assert_eq!(Remainders::of_fields(remainders.to_fields()), Some(remainders));
        }
    }

    #[test]
    fn fresh_remainders_differ() {
        let (one, other) = (Remainders::fresh().unwrap(), Remainders::fresh().unwrap());
        assert!(one != other && !one.is_plain());
    }

    #[test]
    fn even_multipliers_and_plain_remainders_not_stored_as_zeros_are_refused() {
        assert_eq!(Remainders::of_fields([0, 0]), Some(Remainders::PLAIN));
        for fields in [[1, 0], [2, 0], [0, 1], [8, 9]] {
            assert_eq!(Remainders::of_fields(fields), None);
        }
    }
}
