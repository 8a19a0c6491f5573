//! Turns numbers into keys.

/// Maps a number to a random-looking one. The mapping is a bijection: different numbers stay
/// different.
///
/// It is not secret: the original number can be computed from the result.
pub const fn scatter(number: u64) -> u64 {
    // Two rounds of xor-shift and multiplication by an odd constant; each step is invertible. The
    // addition keeps 0 from mapping to itself.
    let mut bits = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    bits = (bits ^ (bits >> 29)).wrapping_mul(0xA24B_AED4_963E_E407);
    bits ^ (bits >> 32)
}

/// Returns the key of a number, `N` bytes long: the scattered number, followed by bytes derived
/// from it.
///
/// Different numbers have different keys, in no particular order. `N` must be at least 8.
pub const fn key<const N: usize>(number: u64) -> [u8; N] {
    const { assert!(N >= 8, "a key needs at least 8 bytes to keep all numbers apart") };
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
        fn short_key_is_a_prefix_of_a_longer_key_of_the_same_number(number: u64) {
            prop_assert_eq!(&key::<32>(number)[..13], &key::<13>(number)[..]);
        }
    }

    #[test]
    fn one_input_bit_changes_half_the_output_bits() {
        for bit in 0..64 {
            let changed: u32 =
                (0..1000).map(|n| (scatter(n) ^ scatter(n ^ 1 << bit)).count_ones()).sum();
            let mean = f64::from(changed) / 1000.0;
            assert!((30.0..34.0).contains(&mean), "bit {bit} changes {mean} bits");
        }
    }

    #[test]
    fn keys_of_consecutive_numbers_spread_over_all_first_bytes() {
        let first_bytes: HashSet<u8> = (0..4096).map(|number| key::<8>(number)[0]).collect();
        assert_eq!(first_bytes.len(), 256);
    }
}
