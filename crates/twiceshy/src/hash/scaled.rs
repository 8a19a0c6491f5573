//! The exact product of a hash and the number of slots, and its inverse.

use super::Hash;
use crate::bits::word::high_bits_128;

/// `hash × slots`, split into an integer and a fraction. The integer is the quotient; the
/// remainder and the extension are the leading bits of the fraction.
///
/// ```text
///            64 bits                       128 bits
/// ┌──────────────────────┬───────────┬────────────────────┬┄┄┄┄┄┄┄┄┄┄┄┄┄┐
/// │ quotient < slots     │ remainder │ extension, digit   │ redundant   │
/// │                      │ r bits    │ by digit of r bits │ ⌊log₂ slots⌋│
/// └──────────────────────┴───────────┴────────────────────┴┄┄┄┄┄┄┄┄┄┄┄┄┄┘
/// ```
///
/// Two different hashes with the same quotient have fractions at least `slots`
/// apart, so they differ before the last `⌊log₂ slots⌋` bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Scaled {
    pub(crate) quotient: u64,
    pub(crate) fraction: u128,
}

impl Scaled {
    #[inline(always)]
    pub(crate) fn new(hash: Hash, slots: u64) -> Self {
        let low = u128::from(hash.0 as u64) * u128::from(slots);
        let high = (hash.0 >> 64) * u128::from(slots) + (low >> 64);
        Self { quotient: (high >> 64) as u64, fraction: (high << 64) | u128::from(low as u64) }
    }

    /// Returns the first `bits` bits of the fraction as a number; `bits` is 1 to 64.
    #[inline(always)]
    pub(crate) fn leading(self, bits: u32) -> u64 {
        (self.fraction >> 64) as u64 >> (64 - bits)
    }

    /// Returns the fraction with all bits cleared except the first `bits`.
    #[inline(always)]
    pub(crate) fn truncated(self, bits: u32) -> u128 {
        self.fraction & high_bits_128(bits)
    }
}

/// Returns the smallest hash whose scaled hash is at least `(quotient, fraction)`, if there is
/// one: the product divided by `slots`, rounded up.
pub(crate) fn first_hash_at(quotient: u64, fraction: u128, slots: u64) -> Option<Hash> {
    if quotient >= slots {
        return None;
    }
    let slots = u128::from(slots);
    // Long division, 64 bits at a time; the first digit is 0 because quotient < slots.
    let middle = (u128::from(quotient) << 64) | (fraction >> 64);
    let low = ((middle % slots) << 64) | u128::from(fraction as u64);
    let floor = ((middle / slots) << 64) | (low / slots);
    if low.is_multiple_of(slots) { Some(Hash(floor)) } else { floor.checked_add(1).map(Hash) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn powers_of_two_shift_bits_from_fraction_to_quotient() {
        let hash = Hash(0xabcd_ef01_2345_6789_abcd_ef01_2345_6789);
        let scaled = Scaled::new(hash, 1 << 12);
        assert_eq!(scaled.quotient, 0xabc);
        assert_eq!(scaled.fraction, hash.0 << 12);
        assert_eq!(scaled.leading(8), 0xde);
        assert_eq!(scaled.truncated(8), 0xde << 120);
    }

    proptest! {
        #[test]
        fn product_is_exact(hash in any::<u128>(), slots in 1u64..) {
            // Computes the same product from 32-bit limbs.
            let scaled = Scaled::new(Hash(hash), slots);
            let mut limbs = [0u64; 6];
            for (i, limb) in (0..4).map(|i| (i, (hash >> (32 * i)) as u32)) {
                for (j, part) in [slots as u32, (slots >> 32) as u32].into_iter().enumerate() {
                    let mut carry = u64::from(limb) * u64::from(part);
                    for place in &mut limbs[i + j..] {
                        let sum = *place + (carry & 0xffff_ffff);
                        *place = sum & 0xffff_ffff;
                        carry = (carry >> 32) + (sum >> 32);
                    }
                }
            }
            let number = |limbs: &[u64]| {
                limbs.iter().rev().fold(0u128, |sum, &limb| (sum << 32) | u128::from(limb))
            };
            prop_assert_eq!(u128::from(scaled.quotient), number(&limbs[4..]));
            prop_assert_eq!(scaled.fraction, number(&limbs[..4]));
            prop_assert!(scaled.quotient < slots);
        }

        #[test]
        fn first_hash_at_inverts_scaling(hash in any::<u128>(), slots in 1u64.., bits in 0u32..=128) {
            let scaled = Scaled::new(Hash(hash), slots);
            prop_assert_eq!(first_hash_at(scaled.quotient, scaled.fraction, slots), Some(Hash(hash)));
            // Rounding the product down to a prefix can only make the hash smaller, and the
            // hash before the first one is before the prefix.
            let floor = scaled.truncated(bits);
            let first = first_hash_at(scaled.quotient, floor, slots).unwrap();
            prop_assert!(first <= Hash(hash));
            let rounded = Scaled { quotient: scaled.quotient, fraction: floor };
            prop_assert!(Scaled::new(first, slots) >= rounded);
            if let Some(before) = first.0.checked_sub(1) {
                prop_assert!(Scaled::new(Hash(before), slots) < rounded);
            }
        }

        #[test]
        fn different_hashes_differ_before_the_last_bits(
            hash in any::<u128>(), step in 1u128..1000, slots in 1u64..
        ) {
            let other = hash.wrapping_add(step);
            let (a, b) = (Scaled::new(Hash(hash), slots), Scaled::new(Hash(other), slots));
            prop_assume!(a.quotient == b.quotient);
            let fresh = 128 - slots.ilog2();
            prop_assert_ne!(a.truncated(fresh), b.truncated(fresh));
        }
    }
}
