//! From numbers to keys.

/// A number among all others: a bijection, so that different numbers stay different, whose
/// results look random.
///
/// It is no secret: who sees a scattered number can compute the number.
pub const fn scatter(number: u64) -> u64 {
    // Two rounds of xor-shift and multiplication by odd constants, each of them invertible, on
    // a sum that keeps 0 from being its own image.
    let mut bits = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    bits = (bits ^ (bits >> 29)).wrapping_mul(0xA24B_AED4_963E_E407);
    bits ^ (bits >> 32)
}

/// The key of a number, `N` bytes long: the scattered number, and more that follows from it.
///
/// Different numbers have different keys, in no order that is of use. `N` must be at least 8.
pub const fn key<const N: usize>(number: u64) -> [u8; N] {
    const { assert!(N >= 8, "a key shorter than 8 bytes can't tell all numbers apart") };
    let mut key = [0; N];
    let mut bits = scatter(number);
    let mut at = 0;
    while at < N {
        key[at] = bits.to_be_bytes()[at % 8];
        at += 1;
        if at % 8 == 0 {
            bits = scatter(bits);
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn different_numbers_have_different_keys(a: u64, b: u64) {
            prop_assert_eq!(a == b, scatter(a) == scatter(b));
            prop_assert_eq!(a == b, key::<8>(a) == key::<8>(b));
            prop_assert_eq!(a == b, key::<13>(a) == key::<13>(b));
        }

        #[test]
        fn a_longer_key_begins_like_a_shorter_one(number: u64) {
            prop_assert_eq!(&key::<32>(number)[..13], &key::<13>(number)[..]);
        }
    }

    #[test]
    fn a_changed_bit_changes_half_of_the_bits() {
        for bit in 0..64 {
            let changed: u32 =
                (0..1000).map(|n| (scatter(n) ^ scatter(n ^ 1 << bit)).count_ones()).sum();
            let mean = f64::from(changed) / 1000.0;
            assert!((30.0..34.0).contains(&mean), "bit {bit} changes {mean} bits");
        }
    }

    #[test]
    fn keys_of_consecutive_numbers_are_all_over_the_place() {
        let first_bytes: HashSet<u8> = (0..4096).map(|number| key::<8>(number)[0]).collect();
        assert_eq!(first_bytes.len(), 256);
    }
}
