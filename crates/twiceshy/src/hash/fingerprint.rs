//! Scaled hashes, and fingerprints, which are prefixes of scaled hashes.

use super::{Hash, Remainders};
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
///
/// A filter may replace the first 64 bits of the fraction: see [`Remainders`]. Two different hashes
/// with the same quotient still differ before the redundant bits. If their fractions differ in the
/// first 64 bits, so do the replaced bits, and none of these is redundant, because there are fewer
/// than 2^64 slots. Otherwise, the other 64 bits are at least `slots` apart, and are not replaced.
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

/// A scaled hash before the first bits of its fraction are replaced. Its quotient is final.
#[derive(Clone, Copy)]
pub(crate) struct Unmixed(Scaled);

impl Unmixed {
    #[inline(always)]
    pub(crate) fn quotient(self) -> u64 {
        self.0.quotient
    }
}

impl Remainders {
    /// Replaces the first 64 bits of a fraction.
    #[inline(always)]
    pub(crate) fn mix(self, fraction: u128) -> u128 {
        let first = ((fraction >> 64) as u64).wrapping_mul(self.a).wrapping_add(self.b);
        u128::from(first) << 64 | u128::from(fraction as u64)
    }

    /// Returns the fraction that [`mix`](Self::mix) maps to this one.
    pub(crate) fn unmix(self, mixed: u128) -> u128 {
        // An odd number is its own inverse modulo 8. Each step doubles the number of correct bits.
        let step = |x: u64| x.wrapping_mul(2u64.wrapping_sub(self.a.wrapping_mul(x)));
        let inverse = (0..5).fold(self.a, |x, _| step(x));
        let first = ((mixed >> 64) as u64).wrapping_sub(self.b).wrapping_mul(inverse);
        u128::from(first) << 64 | u128::from(mixed as u64)
    }
}

/// Returns the smallest hash whose scaled hash is at least `(quotient, fraction)`, if there is one.
/// It is `(quotient, fraction)` divided by `slots`, rounded up.
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
/// Fingerprints of one filter are ordered by quotient first, then by the stored bits. Hashes that
/// have the same fingerprint have the same quotient, but unless the filter's [`Remainders`] are
/// plain, hashes between them may have different fingerprints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fingerprint {
    // The order of the fields is the order of fingerprints.
    slots: u64,
    quotient: u64,
    /// The stored bits in the most significant places, followed by zeros.
    prefix: u128,
    bits: u32,
    remainders: Remainders,
}

impl Fingerprint {
    /// Returns the fingerprint made of the quotient and the first `bits` bits (at most 128) of a
    /// scaled hash. `slots` and `remainders` are those of the filter.
    #[inline(always)]
    pub(crate) fn of(scaled: Scaled, bits: u32, slots: u64, remainders: Remainders) -> Self {
        let bits = bits.min(128);
        let (quotient, prefix) = (scaled.quotient, scaled.truncated(bits));
        Self { slots, quotient, prefix, bits, remainders }
    }

    /// Returns the whole part of the scaled hash.
    pub const fn quotient(&self) -> u64 {
        self.quotient
    }

    /// Returns the stored bits: remainder and extension. They are the top [`bits`](Self::bits) bits
    /// of this number; the others are zero.
    pub const fn prefix(&self) -> u128 {
        self.prefix
    }

    /// Returns the number of stored bits.
    pub const fn bits(&self) -> u32 {
        self.bits
    }

    /// Returns the interval of hashes that have this fingerprint, which must have
    /// [plain](Remainders::PLAIN) remainders. At least one hash must have the fingerprint.
    pub(crate) fn hashes(&self) -> RangeInclusive<Hash> {
        self.checked_hashes().expect("a fingerprint of a hash")
    }

    /// Returns the interval of hashes that have this fingerprint, or `None` if no hash has it. It
    /// must have [plain](Remainders::PLAIN) remainders or at least 64 bits: only these are
    /// intervals.
    fn checked_hashes(&self) -> Option<RangeInclusive<Hash>> {
        debug_assert!(self.bits >= 64 || self.remainders.is_plain(), "no interval of hashes");
        let prefix = self.remainders.unmix(self.prefix);
        let first = first_hash_at(self.quotient, prefix, self.slots)?;
        let (next, carry) = match self.bits {
            0 => (0, true),
            bits => prefix.overflowing_add(1 << (128 - bits)),
        };
        let behind = first_hash_at(self.quotient + u64::from(carry), next, self.slots);
        let last = behind.map_or(Hash::MAX, |hash| Hash::from_u128(hash.as_u128() - 1));
        (first <= last).then_some(first..=last)
    }

    /// Returns whether any hash has this fingerprint. For short fingerprints this is always true,
    /// because there are more hashes than prefixes of that length. This also holds if remainders
    /// aren't plain: the first 64 bits of fractions are only permuted, and each value of them
    /// belongs to at least 2^64 / slots hashes.
    pub(crate) fn has_some_hash(&self) -> bool {
        let slot_bits = u64::BITS - (self.slots - 1).leading_zeros();
        self.quotient < self.slots
            && (self.bits + slot_bits <= 128 || self.checked_hashes().is_some())
    }

    /// Returns whether `hash` has this fingerprint.
    pub fn covers(&self, hash: Hash) -> bool {
        let Scaled { quotient, fraction } = Scaled::new(hash, self.slots);
        self.covers_scaled(Scaled { quotient, fraction: self.remainders.mix(fraction) })
    }

    /// Returns whether every hash that has the `other` fingerprint also has this one. Both must be
    /// fingerprints of the same filter.
    #[inline(always)]
    pub(crate) fn covers_all(&self, other: &Self) -> bool {
        let scaled = Scaled { quotient: other.quotient, fraction: other.prefix };
        self.bits <= other.bits && self.covers_scaled(scaled)
    }

    /// Returns whether every hash that has the `other` fingerprint also has this one, in filters
    /// that may differ in size. Both must have the same remainders. Unless the remainders are
    /// plain, both must also have the same number of slots.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        if self.slots == other.slots {
            return self.covers_all(other);
        }
        let (all, others) = (self.hashes(), other.hashes());
        all.contains(others.start()) && all.contains(others.end())
    }

    /// Returns the same fingerprint in a filter with 2^`doublings` times as many slots: `doublings`
    /// bits move from the fraction to the quotient. The fraction must have more bits than move.
    /// Remainders must be plain, unless `doublings` is 0.
    #[inline(always)]
    pub(crate) fn doubled(self, doublings: u32) -> Self {
        debug_assert!(doublings == 0 || self.remainders.is_plain(), "mixed bits can't move");
        let moved = self.prefix.unbounded_shr(128 - doublings) as u64;
        Self {
            slots: self.slots << doublings,
            quotient: self.quotient << doublings | moved,
            prefix: self.prefix << doublings,
            bits: self.bits - doublings,
            ..self
        }
    }

    /// Converts a shard's fingerprint to a fingerprint of the whole filter, which has 2^`bits`
    /// times as many slots. `part` is the number of the shard.
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
    pub(crate) remainders: Remainders,
}

impl Digits {
    /// Returns the digits of a filter with plain remainders.
    pub(crate) const fn plain(slots: u64, remainder: u32, width: u32) -> Self {
        Self { slots, remainder, width, remainders: Remainders::PLAIN }
    }

    /// Scales a hash, and replaces the first bits of its fraction. All operations of a filter see
    /// its hashes through this method or through its two halves.
    #[inline(always)]
    pub(crate) fn scale(self, hash: Hash) -> Scaled {
        self.mix(self.multiply(hash))
    }

    /// Multiplies a hash by the number of slots: the first half of [`scale`](Self::scale).
    #[inline(always)]
    pub(crate) fn multiply(self, hash: Hash) -> Unmixed {
        Unmixed(Scaled::new(hash, self.slots))
    }

    /// Replaces the first bits of the fraction: the second half of [`scale`](Self::scale).
    #[inline(always)]
    pub(crate) fn mix(self, Unmixed(Scaled { quotient, fraction }): Unmixed) -> Scaled {
        Scaled { quotient, fraction: self.remainders.mix(fraction) }
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

    /// Returns the number of digits that `bits` bits need. It is at least 1.
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
        Fingerprint::of(scaled, self.bits(count), self.slots, self.remainders)
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

    /// Returns the number of digits that a fingerprint of `member` needs so that it doesn't cover
    /// `other`. The number is one more than the two hashes share.
    ///
    /// Returns 0 if the quotients differ, and `None` if the hashes are equal.
    pub(crate) fn to_tell_apart(self, member: Scaled, other: Scaled) -> Option<u32> {
        if member.quotient != other.quotient {
            return Some(0);
        }
        let shared = (member.fraction ^ other.fraction).leading_zeros();
        (shared < 128).then_some(self.holding(shared + 1))
    }

    /// Lengthens fingerprints until none is a prefix of a longer one. `items` are in order. Given
    /// an item, `parts` returns its scaled hash and the number of digits of its fingerprint.
    ///
    /// If a fingerprint is a prefix of a longer one, it is also a prefix of everything between them
    /// in order. So it is enough to compare neighbours, in one pass in each direction.
    #[cold]
    pub(crate) fn make_prefix_free<T>(
        self,
        items: &mut [T],
        parts: impl Fn(&mut T) -> (Scaled, &mut u32),
    ) {
        let pairs = items.len().saturating_sub(1);
        for index in (0..pairs).chain((0..pairs).rev().skip(1)) {
            let (before, after) = items.split_at_mut(index + 1);
            let (one, one_length) = parts(&mut before[index]);
            let (other, other_length) = parts(&mut after[0]);
            let apart = self.to_tell_apart(one, other).unwrap_or(u32::MAX);
            let longer = u32::max(*one_length, *other_length);
            let shorter = if *one_length < longer { one_length } else { other_length };
            *shorter = u32::max(*shorter, longer.min(apart));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn widths() -> impl Strategy<Value = (u32, u32)> {
        (1u32..=56).prop_flat_map(|width| (Just(width), 0..=width))
    }

    /// Generates remainders, half of them plain.
    fn remainders() -> impl Strategy<Value = Remainders> {
        prop_oneof![Just(Remainders::PLAIN), any::<[u8; 16]>().prop_map(Remainders::from_bytes)]
    }

    proptest! {
        #[test]
        fn hashes_returns_exactly_the_covered_range(
            hash in any::<u128>(), slots in 1u64..1 << 48, bits in 0u32..=128
        ) {
            let hash = Hash::from_u128(hash);
            let scaled = Scaled::new(hash, slots);
            let fingerprint = Fingerprint::of(scaled, bits, slots, Remainders::PLAIN);
            prop_assert!(fingerprint.covers(hash) && fingerprint.has_some_hash());
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
        fn has_some_hash_agrees_with_checked_hashes(
            quotient: u64, prefix: u128, slots in 1u64..1 << 48, bits in 0u32..=128
        ) {
            let prefix = prefix & high_bits_128(bits);
            let remainders = Remainders::PLAIN;
            let fingerprint =
                Fingerprint { slots, quotient: quotient % slots, prefix, bits, remainders };
            prop_assert_eq!(fingerprint.has_some_hash(), fingerprint.checked_hashes().is_some());
        }

        /// Tries one of the covered fractions: its bits after the prefix are ones up to the 64th
        /// bit, and zeros after that.
        #[test]
        fn has_some_hash_works_if_remainders_are_not_plain(
            quotient: u64, prefix: u128, slots in 1u64..1 << 60, bits in 0u32..=128, mixed: [u8; 16]
        ) {
            let remainders = Remainders::from_bytes(mixed);
            let (prefix, quotient) = (prefix & high_bits_128(bits), quotient % slots);
            let fingerprint = Fingerprint { slots, quotient, prefix, bits, remainders };
            let rest = u128::MAX.checked_shr(bits).unwrap_or(0);
            // If the fingerprint has fewer than 64 bits, fill up the first 64 bits with ones.
            let first = remainders.unmix(prefix | rest & u128::MAX << 64);
            let hash = first_hash_at(quotient, first, slots);
            let is_covered = hash.is_some_and(|hash| fingerprint.covers(hash));
            prop_assert_eq!(fingerprint.has_some_hash(), is_covered);
        }

        #[test]
        fn fingerprint_round_trips_through_its_digits(
            hash in any::<u128>(), slots in 1u64..1 << 48, (width, remainder) in widths(),
            count in any::<u32>(), remainders in remainders()
        ) {
            let digits = Digits { slots, remainder, width, remainders };
            let count = count % digits.most() + 1;
            let fingerprint = digits.fingerprint(digits.scale(Hash::from_u128(hash)), count);
            prop_assert_eq!(digits.count(&fingerprint), count);
            let spelt = digits.spell(fingerprint.quotient, digits.of(fingerprint));
            prop_assert_eq!(spelt, fingerprint);
        }

        #[test]
        fn different_hashes_can_always_be_told_apart(
            hash in any::<u128>(), bit in 0u32..128, slots in 1u64..1 << 48,
            (width, remainder) in widths(), remainders in remainders()
        ) {
            let digits = Digits { slots, remainder, width, remainders };
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
    fn scaling_by_a_power_of_two_shifts_the_hash() {
        let hash = Hash(0xabcd_ef01_2345_6789_abcd_ef01_2345_6789);
        let scaled = Scaled::new(hash, 1 << 12);
        assert_eq!(scaled.quotient, 0xabc);
        assert_eq!(scaled.fraction, hash.0 << 12);
        assert_eq!(scaled.leading(8), 0xde);
        assert_eq!(scaled.truncated(8), 0xde << 120);
    }

    proptest! {
        #[test]
        fn scaling_is_exact(hash in any::<u128>(), slots in 1u64..) {
            // Compute the same product from 32-bit limbs.
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
            // Round the product down to a prefix. The first hash at the prefix is at most `hash`,
            // and the hash before that one scales to less than the prefix.
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
        fn scaled_hashes_of_one_quotient_differ_before_the_redundant_bits(
            hash in any::<u128>(), step in 1u128..1000, shift in 0u32..118, slots in 1u64..,
            remainders in remainders()
        ) {
            let digits = Digits { slots, remainder: 1, width: 1, remainders };
            let other = hash.wrapping_add(step << shift);
            let (a, b) = (digits.scale(Hash(hash)), digits.scale(Hash(other)));
            prop_assume!(a.quotient == b.quotient);
            let fresh = 128 - slots.ilog2();
            prop_assert_ne!(a.truncated(fresh), b.truncated(fresh));
        }
    }
}
