//! The keyed hash.

use super::{Hash, Key, Secret};
use crate::bits::cipher::Cipher;
use core::fmt;
use zeroize::Zeroize;

/// Which function makes hashes of keys; recorded in a filter's parameters, because
/// a filter read with another function would have false negatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HashScheme {
    /// LightMAC over AES-128, as [`KeyedHasher`] describes it.
    LightMacAes128,
}

/// A pseudo-random function from bytes to [`Hash`], keyed with a [`Secret`].
///
/// It is sound against an adversary who chooses keys and sees answers: without the
/// secret its values can't be told from random ones, so no keys that collide can be
/// prepared offline, and nothing is learnt from some hashes about others.
///
/// # The function
/// LightMAC (Luykx, Preneel, Tischhauser and Yasuda, FSE 2016) over AES-128, with
/// CMAC's treatment of a full last block. From the secret `s` come three subkeys,
/// `K₁ = AES_s(0)`, `K₂ = AES_s(1)`, `T = AES_s(2)`. Let all integers be
/// little-endian.
///
/// 1. While more than 16 bytes are left, the next 12 bytes and a 32-bit counter from
///    1 make a block `c ‖ i`; the sum (xor) of all `AES_K₁(c ‖ i)` is `V`.
/// 2. The last 0 to 15 bytes are padded by `0x80` and zeros and added to `V`; a last
///    part of exactly 16 bytes is added as it is, and `T`, too.
/// 3. The hash is `AES_K₂(V)`.
///
/// A key of up to 16 bytes costs one AES block; longer ones cost one more for each
/// 12 bytes, which run side by side.
///
/// # Why it is sound
/// AES is a pseudo-random permutation. Different keys give different inputs to step
/// 3 but for a chance of about 2^-128 a pair: keys of different numbers of counted
/// blocks differ by the value of AES at an input that one of them alone has; so do
/// keys that differ in a counted block; keys that differ only in the last part differ
/// by an injective padding, or by the secret `T` when only one of them is a full
/// block. The last permutation hides the sums. The bound, about q²/2^128 for q keys,
/// doesn't depend on their lengths (up to 48 GiB, where the counter wraps).
///
/// # Why not another
/// Unkeyed and seeded fast hashes have collisions that hold for every seed.
/// SipHash-1-3 is sound and portable, but takes several times as long; POLYVAL with
/// AES is as sound, but no faster at the lengths that keys have, and needs a second
/// primitive. `cargo bench -p twiceshy --bench hash` measures all of them.
#[derive(Clone)]
pub struct KeyedHasher {
    counted: Cipher,
    last: Cipher,
    full_block_mask: u128,
}

/// Bytes of the key in one counted block.
const CHUNK: usize = 12;
const BLOCK: usize = 16;

impl KeyedHasher {
    /// The hasher of that secret.
    pub fn new(secret: &Secret) -> Self {
        Self::with_cipher(secret, Cipher::new)
    }

    fn with_cipher(secret: &Secret, cipher: fn(&[u8; 16]) -> Cipher) -> Self {
        let master = cipher(secret.expose());
        let subkey = |index| {
            let mut bytes = master.encrypt(index).to_le_bytes();
            let result = cipher(&bytes);
            bytes.zeroize();
            result
        };
        Self { counted: subkey(0), last: subkey(1), full_block_mask: master.encrypt(2) }
    }

    /// The function this hasher computes.
    pub const fn scheme(&self) -> HashScheme {
        HashScheme::LightMacAes128
    }

    /// The hash of a key.
    #[inline]
    pub fn hash<K: Key + ?Sized>(&self, key: &K) -> Hash {
        key.hash_with(self)
    }

    /// The hash of some bytes.
    #[inline]
    pub fn hash_bytes(&self, bytes: &[u8]) -> Hash {
        if bytes.len() < BLOCK {
            return Hash(self.last.encrypt(short_integer(bytes) | END_OF_KEY << (8 * bytes.len())));
        }
        let counted = (bytes.len() - BLOCK).div_ceil(CHUNK);
        let sum = if counted == 0 { 0 } else { self.sum_of_counted(bytes, counted) };
        let last_length = bytes.len() - CHUNK * counted;
        let last = load(bytes, bytes.len() - BLOCK) >> (8 * (BLOCK - last_length));
        let end = match last_length {
            BLOCK => self.full_block_mask,
            short => END_OF_KEY << (8 * short),
        };
        Hash(self.last.encrypt(sum ^ last ^ end))
    }

    fn sum_of_counted(&self, bytes: &[u8], counted: usize) -> u128 {
        self.counted.sum_of_encrypted((0..counted).map(|index| {
            let chunk = load(bytes, CHUNK * index) & (u128::MAX >> (8 * (BLOCK - CHUNK)));
            chunk | u128::from((index as u32).wrapping_add(1)) << (8 * CHUNK)
        }))
    }

    /// The hash of the `SIZE` low bytes of `value`, as [`hash_bytes`](Self::hash_bytes)
    /// of them; `SIZE` is less than 16.
    #[inline(always)]
    pub(super) fn hash_short<const SIZE: usize>(&self, value: u128) -> Hash {
        Hash(self.last.encrypt(value | END_OF_KEY << (8 * SIZE)))
    }

    /// The hash of 16 bytes, as [`hash_bytes`](Self::hash_bytes) of them.
    #[inline(always)]
    pub(super) fn hash_block(&self, value: u128) -> Hash {
        Hash(self.last.encrypt(value ^ self.full_block_mask))
    }
}

/// What follows the last byte of a key that doesn't fill its last block.
const END_OF_KEY: u128 = 0x80;

/// The 16 bytes from `position` as an integer.
#[inline(always)]
fn load(bytes: &[u8], position: usize) -> u128 {
    let block: [u8; BLOCK] = bytes[position..position + BLOCK].try_into().expect("16 bytes");
    u128::from_le_bytes(block)
}

/// Fewer than 16 bytes as an integer, by two loads that may overlap.
#[inline(always)]
fn short_integer(bytes: &[u8]) -> u128 {
    let length = bytes.len();
    let two = |low: u64, high: u64, size: usize| {
        u128::from(low) | u128::from(high) << (8 * (length - size))
    };
    if let (Some(low), Some(high)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        two(u64::from_le_bytes(*low), u64::from_le_bytes(*high), 8)
    } else if let (Some(low), Some(high)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        two(u32::from_le_bytes(*low).into(), u32::from_le_bytes(*high).into(), 4)
    } else {
        bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u128::from(byte))
    }
}

impl Drop for KeyedHasher {
    fn drop(&mut self) {
        self.full_block_mask.zeroize();
    }
}

impl fmt::Debug for KeyedHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyedHasher(redacted)")
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn secret() -> Secret {
        Secret::from_bytes(core::array::from_fn(|i| i as u8))
    }

    /// The definition, written down as slowly as possible.
    fn by_definition(secret: &Secret, key: &[u8]) -> u128 {
        let master = Cipher::by_crate(secret.expose());
        let subkey = |i| Cipher::by_crate(&master.encrypt(i).to_le_bytes());
        let (first, second, mask) = (subkey(0), subkey(1), master.encrypt(2));
        let counted = if key.len() > 16 { (key.len() - 16).div_ceil(12) } else { 0 };
        let mut sum = 0;
        for i in 0..counted {
            let mut block = key[12 * i..12 * (i + 1)].to_vec();
            block.extend((i as u32 + 1).to_le_bytes());
            sum ^= first.encrypt(u128::from_le_bytes(block.try_into().unwrap()));
        }
        let mut last = key[12 * counted..].to_vec();
        if last.len() == 16 {
            sum ^= mask;
        } else {
            last.push(0x80);
            last.resize(16, 0);
        }
        second.encrypt(sum ^ u128::from_le_bytes(last.try_into().unwrap()))
    }

    #[test]
    fn values_are_fixed_for_ever() {
        // A change here makes every stored filter unreadable.
        let hasher = KeyedHasher::new(&secret());
        let long: Vec<u8> = (0..100).collect();
        for (length, value) in [
            (0, 0x2b03_fa20_25b6_aef7_f98d_d033_20c5_a2f3),
            (8, 0xae73_898e_00ee_f6cf_0ddd_2c40_729a_5383),
            (16, 0x66cf_f3b6_2be7_e43a_aac9_59ef_58b5_e510),
            (17, 0x879c_e23b_95d4_9eae_30cb_8f9b_0cdb_f524),
            (100, 0x01c5_44ec_5dfe_f140_4131_840a_e9d6_58c1),
        ] {
            assert_eq!(hasher.hash_bytes(&long[..length]).0, value, "{length} bytes");
        }
    }

    #[test]
    fn no_short_key_equals_another_padded() {
        let hasher = KeyedHasher::new(&secret());
        let mut seen = HashMap::new();
        for byte in [0u8, 0x80, 1, 0xff] {
            for length in 0..70 {
                let mut key = vec![byte; length];
                for tail in [None, Some(0x80), Some(0)] {
                    key.extend(tail);
                    let hash = hasher.hash_bytes(&key);
                    if let Some(other) = seen.insert(hash, key.clone()) {
                        assert_eq!(other, key);
                    }
                }
            }
        }
    }

    #[test]
    fn nothing_secret_is_shown() {
        let hasher = KeyedHasher::new(&secret());
        assert_eq!(format!("{hasher:?}"), "KeyedHasher(redacted)");
    }

    proptest! {
        #[test]
        fn every_path_computes_the_definition(
            bytes in any::<[u8; 16]>(), key in proptest::collection::vec(any::<u8>(), 200)
        ) {
            let secret = Secret::from_bytes(bytes);
            let hasher = KeyedHasher::new(&secret);
            let fallback = KeyedHasher::with_cipher(&secret, Cipher::by_crate);
            for length in 0..=key.len() {
                let expected = Hash(by_definition(&secret, &key[..length]));
                prop_assert_eq!(hasher.hash_bytes(&key[..length]), expected);
                prop_assert_eq!(fallback.hash_bytes(&key[..length]), expected);
            }
        }
    }
}
