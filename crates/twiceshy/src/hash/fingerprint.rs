//! Scaled hashes, and fingerprints: prefixes of them.

use super::Hash;
use crate::bits::word::high_bits_128;
use core::ops::RangeInclusive;

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

/// The part of a member that a filter stores: the quotient of its scaled hash, and the first bits
/// of the fraction.
///
/// Fingerprints of one filter are ordered by quotient first, then by the stored bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fingerprint {
    slots: u64,
    quotient: u64,
    /// The stored bits in the most significant places, followed by zeros.
    prefix: u128,
    bits: u32,
}

impl Fingerprint {
    /// Returns the quotient and the first `bits` bits (at most 128) of a hash scaled by `slots`.
    #[inline(always)]
    pub(crate) fn of(scaled: Scaled, bits: u32, slots: u64) -> Self {
        let bits = bits.min(128);
        Self { slots, quotient: scaled.quotient, prefix: scaled.truncated(bits), bits }
    }

    /// Returns the whole part of the scaled hash.
    pub const fn quotient(&self) -> u64 {
        self.quotient
    }

    /// Returns the stored bits of the fraction: remainder and extension. They are the top
    /// [`bits`](Self::bits) bits of this number; the others are zero.
    pub const fn prefix(&self) -> u128 {
        self.prefix
    }

    /// Returns the number of bits of the fraction that are stored.
    pub const fn bits(&self) -> u32 {
        self.bits
    }

    /// Returns the hashes that have this fingerprint. At least one hash must have it.
    pub(crate) fn hashes(&self) -> RangeInclusive<Hash> {
        self.checked_hashes().expect("a fingerprint of a hash")
    }

    /// Returns the hashes that have this fingerprint, or `None` if no hash has it.
    pub(crate) fn checked_hashes(&self) -> Option<RangeInclusive<Hash>> {
        let first = first_hash_at(self.quotient, self.prefix, self.slots)?;
        let (next, carry) = match self.bits {
            0 => (0, true),
            bits => self.prefix.overflowing_add(1 << (128 - bits)),
        };
        let behind = first_hash_at(self.quotient + u64::from(carry), next, self.slots);
        let last = behind.map_or(Hash::MAX, |hash| Hash::from_u128(hash.as_u128() - 1));
        (first <= last).then_some(first..=last)
    }

    /// Returns whether any hash has this fingerprint. For short fingerprints this is always true,
    /// because there are more hashes than prefixes of that length.
    pub(crate) fn is_of_a_hash(&self) -> bool {
        let slot_bits = u64::BITS - (self.slots - 1).leading_zeros();
        self.quotient < self.slots
            && (self.bits + slot_bits <= 128 || self.checked_hashes().is_some())
    }

    /// Returns whether a hash has this fingerprint.
    pub fn covers(&self, hash: Hash) -> bool {
        self.covers_scaled(Scaled::new(hash, self.slots))
    }

    /// Returns whether every hash that has the `other` fingerprint, of the same filter, has this
    /// one, too.
    #[inline(always)]
    pub(crate) fn covers_all(&self, other: &Self) -> bool {
        let scaled = Scaled { quotient: other.quotient, fraction: other.prefix };
        self.bits <= other.bits && self.covers_scaled(scaled)
    }

    /// Returns the same fingerprint in a filter with 2^`doublings` times the slots: `doublings`
    /// bits move from the fraction to the quotient. The fraction must have more bits than that.
    #[inline(always)]
    pub(crate) fn doubled(self, doublings: u32) -> Self {
        let moved = self.prefix.unbounded_shr(128 - doublings) as u64;
        Self {
            slots: self.slots << doublings,
            quotient: self.quotient << doublings | moved,
            prefix: self.prefix << doublings,
            bits: self.bits - doublings,
        }
    }

    /// Returns the same fingerprint in a filter with 2^`bits` times the slots, where this filter's
    /// slots are part number `part`.
    #[inline(always)]
    pub(crate) fn within(self, part: u64, bits: u32) -> Self {
        Self { slots: self.slots << bits, quotient: part * self.slots + self.quotient, ..self }
    }

    /// Returns the fingerprint with only the first `bits` bits of the fraction.
    #[inline(always)]
    pub(crate) fn truncated(self, bits: u32) -> Self {
        Self { prefix: self.prefix & high_bits_128(bits), bits, ..self }
    }

    #[inline(always)]
    pub(crate) fn covers_scaled(&self, scaled: Scaled) -> bool {
        self.quotient == scaled.quotient && self.prefix == scaled.truncated(self.bits)
    }
}

/// Splits fractions into digits.
///
/// Digit 0 is the remainder. The other digits form the extension, and each is as wide as a slot. A
/// digit that reaches past the last bit ends in zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digits {
    pub(crate) slots: u64,
    /// Bits per remainder. A new table's remainders fill a slot; each doubling of the table makes
    /// them one bit shorter, down to zero.
    pub(crate) remainder: u32,
    /// Bits per slot.
    pub(crate) width: u32,
}

impl Digits {
    #[inline(always)]
    pub(crate) fn scale(self, hash: Hash) -> Scaled {
        Scaled::new(hash, self.slots)
    }

    /// Returns the shape that operations are compiled for: the bits per slot, or 0 if remainders
    /// are shorter because the table was doubled.
    pub(crate) fn shape(self) -> u32 {
        if self.remainder == self.width { self.width } else { 0 }
    }

    /// Returns the number of bits in the first `count` digits; `count` is at least 1.
    #[inline(always)]
    fn bits(self, count: u32) -> u32 {
        self.remainder + (count - 1) * self.width
    }

    /// Returns the number of digits that hold this many bits, at least 1.
    fn holding(self, bits: u32) -> u32 {
        1 + bits.saturating_sub(self.remainder).div_ceil(self.width)
    }

    /// Returns whether a fraction has digit `index` (1 or more).
    #[inline(always)]
    pub(crate) fn has(self, index: u32) -> bool {
        self.bits(index) < u128::BITS
    }

    /// Returns digit `index` of a fraction, which must [have](Self::has) that digit.
    #[inline(always)]
    pub(crate) fn digit(self, fraction: u128, index: u32) -> u64 {
        match index {
            0 => fraction.unbounded_shr(128 - self.remainder) as u64,
            _ => ((fraction << self.bits(index)) >> (128 - self.width)) as u64,
        }
    }

    /// Returns the fingerprint made of the first `count` digits of a hash.
    #[inline(always)]
    pub(crate) fn fingerprint(self, scaled: Scaled, count: u32) -> Fingerprint {
        Fingerprint::of(scaled, self.bits(count), self.slots)
    }

    /// Returns the fingerprint that consists of these digits. There must be at least one digit.
    pub(crate) fn spell(self, quotient: u64, digits: impl Iterator<Item = u64>) -> Fingerprint {
        let (mut fraction, mut count) = (0, 0);
        for digit in digits {
            fraction |= match count {
                0 => u128::from(digit).unbounded_shl(128 - self.remainder),
                _ => (u128::from(digit) << (128 - self.width)) >> self.bits(count),
            };
            count += 1;
        }
        self.fingerprint(Scaled { quotient, fraction }, count)
    }

    pub(crate) fn count(self, fingerprint: &Fingerprint) -> u32 {
        self.holding(fingerprint.bits)
    }

    /// Iterates over the digits of a fingerprint.
    pub(crate) fn of(self, fingerprint: Fingerprint) -> impl Iterator<Item = u64> {
        (0..self.count(&fingerprint)).map(move |index| self.digit(fingerprint.prefix, index))
    }

    /// Returns the maximum number of useful digits. Together with the quotient they determine the
    /// hash, so only equal hashes share all of them.
    pub(crate) fn most(self) -> u32 {
        self.holding(128 - self.slots.ilog2())
    }

    /// Returns how many digits of `member` a fingerprint needs so that it does not cover `other`:
    /// one more than the two hashes share.
    ///
    /// Returns 0 if the quotients differ, and `None` if the hashes are equal.
    pub(crate) fn to_tell_apart(self, member: Scaled, other: Scaled) -> Option<u32> {
        if member.quotient != other.quotient {
            return Some(0);
        }
        let shared = (member.fraction ^ other.fraction).leading_zeros();
        (shared < 128).then_some(self.holding(shared + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn widths() -> impl Strategy<Value = (u32, u32)> {
        (1u32..=56).prop_flat_map(|width| (Just(width), 0..=width))
    }

    proptest! {
        #[test]
        fn hashes_returns_exactly_the_covered_range(
            hash in any::<u128>(), slots in 1u64..1 << 48, bits in 0u32..=128
        ) {
            let hash = Hash::from_u128(hash);
            let fingerprint = Fingerprint::of(Scaled::new(hash, slots), bits, slots);
            prop_assert!(fingerprint.covers(hash) && fingerprint.is_of_a_hash());
            let hashes = fingerprint.hashes();
            prop_assert!(hashes.contains(&hash));
            prop_assert!(fingerprint.covers(*hashes.start()) && fingerprint.covers(*hashes.end()));
            if let Some(before) = hashes.start().as_u128().checked_sub(1) {
                prop_assert!(!fingerprint.covers(Hash::from_u128(before)));
            }
            if let Some(behind) = hashes.end().as_u128().checked_add(1) {
                prop_assert!(!fingerprint.covers(Hash::from_u128(behind)));
            }
        }

        #[test]
        fn what_is_of_a_hash_has_hashes(
            quotient: u64, prefix: u128, slots in 1u64..1 << 48, bits in 0u32..=128
        ) {
            let prefix = prefix & high_bits_128(bits);
            let fingerprint = Fingerprint { slots, quotient: quotient % slots, prefix, bits };
            prop_assert_eq!(fingerprint.is_of_a_hash(), fingerprint.checked_hashes().is_some());
        }

        #[test]
        fn digits_spell_their_fingerprint(
            hash in any::<u128>(), slots in 1u64..1 << 48, (width, remainder) in widths(), count in any::<u32>()
        ) {
            let digits = Digits { slots, remainder, width };
            let count = count % digits.most() + 1;
            let fingerprint = digits.fingerprint(digits.scale(Hash::from_u128(hash)), count);
            prop_assert_eq!(digits.count(&fingerprint), count);
            let spelt = digits.spell(fingerprint.quotient, digits.of(fingerprint));
            prop_assert_eq!(spelt, fingerprint);
        }

        #[test]
        fn different_hashes_can_always_be_told_apart(
            hash in any::<u128>(), bit in 0u32..128, slots in 1u64..1 << 48, (width, remainder) in widths()
        ) {
            let digits = Digits { slots, remainder, width };
            let [a, b] = [hash, hash ^ (1 << bit)].map(|hash| digits.scale(Hash::from_u128(hash)));
            let count = digits.to_tell_apart(a, b).unwrap();
            prop_assert!(count <= digits.most());
            if count > 0 {
                prop_assert!(!digits.fingerprint(a, count).covers_scaled(b));
            }
            if count > 1 {
                prop_assert!(digits.fingerprint(a, count - 1).covers_scaled(b));
            }
            prop_assert_eq!(digits.to_tell_apart(a, a), None);
        }
    }

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
