//! Fingerprints: prefixes of scaled hashes.

use crate::Hash;
use crate::bits::word::high_bits_128;
use crate::hash::{Scaled, first_hash_at};
use core::ops::RangeInclusive;

/// What a filter keeps of a member: the quotient, and the first bits of the fraction,
/// of its scaled hash. In other words, an interval of hashes, the member's among them.
///
/// Fingerprints of one filter are ordered as the hashes they stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fingerprint {
    slots: u64,
    quotient: u64,
    /// The bits, at the top, then zeros.
    prefix: u128,
    bits: u32,
}

impl Fingerprint {
    /// The first `bits` bits of a hash scaled by `slots`; of 128, if there are more.
    #[inline(always)]
    pub(crate) fn of(scaled: Scaled, bits: u32, slots: u64) -> Self {
        let bits = bits.min(128);
        Self { slots, quotient: scaled.quotient, prefix: scaled.truncated(bits), bits }
    }

    /// The whole part of the scaled hash.
    pub const fn quotient(&self) -> u64 {
        self.quotient
    }

    /// The stored bits of the fraction: remainder and extension. They are the top
    /// [`bits`](Self::bits) bits of this number; the others are zero.
    pub const fn prefix(&self) -> u128 {
        self.prefix
    }

    /// How many bits of the fraction are stored.
    pub const fn bits(&self) -> u32 {
        self.bits
    }

    /// All hashes that have this fingerprint.
    ///
    /// # Panics
    /// Never, for a fingerprint of a valid filter: the member's hash is among them.
    pub fn hashes(&self) -> RangeInclusive<Hash> {
        self.checked_hashes().expect("a fingerprint of a hash")
    }

    /// All hashes that have this fingerprint, or `None` if it is no hash's.
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

    /// Whether it is a hash's. Short ones all are: there are more hashes than such prefixes.
    pub(crate) fn is_of_a_hash(&self) -> bool {
        let slot_bits = u64::BITS - (self.slots - 1).leading_zeros();
        self.quotient < self.slots
            && (self.bits + slot_bits <= 128 || self.checked_hashes().is_some())
    }

    /// Whether a hash has this fingerprint.
    pub fn covers(&self, hash: Hash) -> bool {
        self.covers_scaled(Scaled::new(hash, self.slots))
    }

    /// Whether all hashes that have the `other` fingerprint, of the same filter, have this
    /// one, too.
    #[inline(always)]
    pub(crate) fn covers_all(&self, other: &Self) -> bool {
        let scaled = Scaled { quotient: other.quotient, fraction: other.prefix };
        self.bits <= other.bits && self.covers_scaled(scaled)
    }

    /// The same fingerprint in a filter of 2^`doublings` times the slots: so many bits go
    /// from the fraction to the quotient. There must be more of them.
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

    /// The same fingerprint in a filter of 2^`bits` times the slots, of which this filter's
    /// are part number `part`.
    #[inline(always)]
    pub(crate) fn within(self, part: u64, bits: u32) -> Self {
        Self { slots: self.slots << bits, quotient: part * self.slots + self.quotient, ..self }
    }

    /// The same fingerprint in part number `part`, if [`within`](Self::within) the whole it is this
    /// one. Of any other's, no more is promised than that there is an answer.
    pub(crate) fn of_part(self, part: u64, bits: u32) -> Self {
        let slots = self.slots >> bits;
        let before = part.saturating_mul(slots);
        Self { slots, quotient: self.quotient.saturating_sub(before), ..self }
    }

    /// Its first bits.
    #[inline(always)]
    pub(crate) fn truncated(self, bits: u32) -> Self {
        Self { prefix: self.prefix & high_bits_128(bits), bits, ..self }
    }

    #[inline(always)]
    pub(crate) fn covers_scaled(&self, scaled: Scaled) -> bool {
        self.quotient == scaled.quotient && self.prefix == scaled.truncated(self.bits)
    }
}

/// Cuts fractions into digits: digit 0 is the remainder, the others, as wide as a slot,
/// are the extension. A digit that reaches past the last bit ends in zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digits {
    pub(crate) slots: u64,
    /// Bits of a remainder: as many as a slot has, or fewer, where a table was doubled; none, if
    /// that was done often.
    pub(crate) remainder: u32,
    /// Bits of a slot.
    pub(crate) width: u32,
}

impl Digits {
    #[inline(always)]
    pub(crate) fn scale(self, hash: Hash) -> Scaled {
        Scaled::new(hash, self.slots)
    }

    /// What [`with_width`](crate::table::with_width) makes a constant of: the bits of a
    /// slot, where they are those of a remainder, too; 0 where a table was doubled.
    pub(crate) fn constant(self) -> u32 {
        if self.remainder == self.width { self.width } else { 0 }
    }

    /// The bits of the first `count` digits, at least 1.
    #[inline(always)]
    fn bits(self, count: u32) -> u32 {
        self.remainder + (count - 1) * self.width
    }

    /// How many digits it takes to hold so many bits, at least 1.
    fn holding(self, bits: u32) -> u32 {
        1 + bits.saturating_sub(self.remainder).div_ceil(self.width)
    }

    /// Whether a fraction has a digit of that index, at least 1.
    #[inline(always)]
    pub(crate) fn has(self, index: u32) -> bool {
        self.bits(index) < u128::BITS
    }

    /// Digit `index` of a fraction, which [has](Self::has) it.
    #[inline(always)]
    pub(crate) fn digit(self, fraction: u128, index: u32) -> u64 {
        match index {
            0 => fraction.unbounded_shr(128 - self.remainder) as u64,
            _ => ((fraction << self.bits(index)) >> (128 - self.width)) as u64,
        }
    }

    /// The fingerprint of `count` digits of a hash.
    #[inline(always)]
    pub(crate) fn fingerprint(self, scaled: Scaled, count: u32) -> Fingerprint {
        Fingerprint::of(scaled, self.bits(count), self.slots)
    }

    /// The fingerprint that these digits spell; there is at least one.
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

    /// The digits of a fingerprint.
    pub(crate) fn of(self, fingerprint: Fingerprint) -> impl Iterator<Item = u64> {
        (0..self.count(&fingerprint)).map(move |index| self.digit(fingerprint.prefix, index))
    }

    /// The most digits that tell anything: after them all fresh bits are used, and
    /// only equal hashes have equal digits.
    pub(crate) fn most(self) -> u32 {
        self.holding(128 - self.slots.ilog2())
    }

    /// How many digits of `member` it takes for its fingerprint not to cover `other`:
    /// one more than they share. At least 1; 0 if not even the quotients are equal.
    /// `None` if the hashes are equal.
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
        fn hashes_are_exactly_the_covered_ones(
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
}
