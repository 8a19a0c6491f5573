//! Keys, and the keyed hash.

use super::{Hash, Secret};
#[cfg(target_arch = "x86_64")]
use crate::bits::AesRounds;
use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use core::fmt;
use siphasher::sip128::SipHasher13;
use zeroize::Zeroize;

/// A pseudo-random function from bytes to [`struct@Hash`], keyed with a [`Secret`].
///
/// It is safe against an attacker who chooses keys and sees answers. To anyone without the secret,
/// hashes look random, so an attacker can't prepare colliding keys offline, and learns nothing
/// about a hash from other hashes.
///
/// # The function
/// Three subkeys are derived from the secret `s`: `K = AES_s(0)`, `T = AES_s(1)` and
/// `L = AES_s(2)`. All integers are little-endian.
///
/// - A key of up to 15 bytes is padded to a block `b` with `0x80` and zeros. Its hash is
///   `AES_K(b)`.
/// - The hash of a 16-byte key `b` is `AES_K(b ⊕ T)`.
/// - The hash of a longer key is its 128-bit `SipHash-1-3_L`.
///
/// # Why it is safe
/// AES is a pseudo-random permutation: different blocks have different hashes, which otherwise
/// look random. The padding is injective: padding never makes two different short keys equal.
/// A 16-byte key collides with a shorter one only if their blocks differ by the secret `T`,
/// which has a chance of 2^-128 per pair. SipHash is a pseudo-random function designed for this
/// use. It has its own subkey, so its hashes equal the others only by chance.
///
/// # Why these functions
/// Fast unkeyed or seeded hashes have collisions that hold for every seed. One AES block is the
/// cheapest safe function. For longer keys, no safe function that we tried is faster than SipHash,
/// and AES without its instructions is far slower. `docs/security.md` has the measurements.
#[derive(Clone)]
pub struct KeyedHasher {
    block: Cipher,
    full_block_mask: u128,
    long: u128,
}

const BLOCK: usize = 16;

impl KeyedHasher {
    /// Creates a hasher that is keyed with `secret`.
    pub fn new(secret: &Secret) -> Self {
        Self::with_cipher(secret, Cipher::new)
    }

    fn with_cipher(secret: &Secret, cipher: fn(&[u8; 16]) -> Cipher) -> Self {
        let master = cipher(secret.expose());
        let mut subkey = master.encrypt(0).to_le_bytes();
        let block = cipher(&subkey);
        subkey.zeroize();
        Self { block, full_block_mask: master.encrypt(1), long: master.encrypt(2) }
    }

    /// Hashes a key.
    #[inline]
    pub fn hash<K: Key + ?Sized>(&self, key: &K) -> Hash {
        key.hash_with(self)
    }

    /// Hashes bytes.
    #[inline]
    pub fn hash_bytes(&self, bytes: &[u8]) -> Hash {
        match <[u8; BLOCK]>::try_from(bytes) {
            Ok(block) => self.hash_integer::<BLOCK>(u128::from_le_bytes(block)),
            Err(_) if bytes.len() < BLOCK => {
                Hash(self.block.encrypt(short_integer(bytes) | END_OF_KEY << (8 * bytes.len())))
            }
            Err(_) => self.hash_long(bytes),
        }
    }

    /// Hashes the `SIZE` low bytes of `value` as [`hash_bytes`](Self::hash_bytes) does.
    #[inline(always)]
    fn hash_integer<const SIZE: usize>(&self, value: u128) -> Hash {
        let padded = value | END_OF_KEY.unbounded_shl(8 * SIZE as u32);
        let block = if SIZE < BLOCK { padded } else { value ^ self.full_block_mask };
        Hash(self.block.encrypt(block))
    }

    fn hash_long(&self, bytes: &[u8]) -> Hash {
        let siphash = SipHasher13::new_with_keys(self.long as u64, (self.long >> 64) as u64);
        Hash(siphash.hash(bytes).as_u128())
    }
}

/// First padding byte of a key that doesn't fill its block.
const END_OF_KEY: u128 = 0x80;

/// Reads fewer than 16 bytes as an integer, with two loads that may overlap.
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
        self.long.zeroize();
    }
}

impl fmt::Debug for KeyedHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyedHasher(redacted)")
    }
}

/// A type whose values can be hashed: bytes, strings, integers, and your own types.
///
/// Equal keys must have equal hashes. To implement `Key` for your own type, encode the value as
/// bytes such that different values have different encodings:
///
/// ```
/// use twiceshy::{Hash, Key, hash::KeyedHasher};
/// struct Block { volume: u32, number: u64 }
/// impl Key for Block {
///     fn hash_with(&self, hasher: &KeyedHasher) -> Hash {
///         let mut bytes = [0; 12];
///         bytes[..4].copy_from_slice(&self.volume.to_le_bytes());
///         bytes[4..].copy_from_slice(&self.number.to_le_bytes());
///         hasher.hash_bytes(&bytes)
///     }
/// }
/// ```
pub trait Key {
    /// Returns the hash of this key.
    fn hash_with(&self, hasher: &KeyedHasher) -> Hash;
}

/// Integers are hashed as their little-endian bytes.
macro_rules! integer_keys {
    ($($unsigned:ident $signed:ident)*) => {$(
        impl Key for $unsigned {
            #[inline]
            fn hash_with(&self, hasher: &KeyedHasher) -> Hash {
                hasher.hash_integer::<{ size_of::<Self>() }>((*self).into())
            }
        }
        impl Key for $signed {
            #[inline]
            fn hash_with(&self, hasher: &KeyedHasher) -> Hash {
                self.cast_unsigned().hash_with(hasher)
            }
        }
    )*};
}

integer_keys! { u8 i8 u16 i16 u32 i32 u64 i64 u128 i128 }

macro_rules! byte_keys {
    ($($key:ty),*) => {$(
        impl Key for $key {
            #[inline]
            fn hash_with(&self, hasher: &KeyedHasher) -> Hash {
                hasher.hash_bytes(self.as_ref())
            }
        }
    )*};
}

byte_keys! { [u8], Vec<u8>, str, String }

impl<const N: usize> Key for [u8; N] {
    #[inline]
    fn hash_with(&self, hasher: &KeyedHasher) -> Hash {
        hasher.hash_bytes(self)
    }
}

/// AES-128 with one key.
///
/// On x86-64 with AES instructions, this uses our own rounds, because they can be inlined into a
/// loop. Elsewhere, it uses the `aes` crate, which has constant-time software and supports the ARM
/// instructions. Both compute the function of FIPS-197, and both wipe their round keys on drop.
#[derive(Clone)]
pub(crate) enum Cipher {
    #[cfg(target_arch = "x86_64")]
    Instructions(AesRounds),
    Crate(Aes128),
}

impl Cipher {
    pub(crate) fn new(key: &[u8; 16]) -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(rounds) = AesRounds::expand(key) {
            return Cipher::Instructions(rounds);
        }
        Self::by_crate(key)
    }

    /// Returns the fallback cipher, which works on every machine.
    pub(crate) fn by_crate(key: &[u8; 16]) -> Self {
        Cipher::Crate(Aes128::new(key.into()))
    }

    /// Encrypts a block given as a little-endian integer.
    #[inline(always)]
    pub(crate) fn encrypt(&self, block: u128) -> u128 {
        match self {
            #[cfg(target_arch = "x86_64")]
            Cipher::Instructions(rounds) => rounds.encrypt(block),
            Cipher::Crate(aes) => {
                let mut bytes = block.to_le_bytes().into();
                aes.encrypt_block(&mut bytes);
                u128::from_le_bytes(bytes.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use siphasher::sip128::Hasher128;
    use std::collections::HashMap;
    use std::hash::Hasher;

    fn secret() -> Secret {
        Secret::from_bytes(core::array::from_fn(|i| i as u8))
    }

    /// Computes a hash as the documentation defines it.
    fn by_definition(secret: &Secret, key: &[u8]) -> u128 {
        let master = Cipher::by_crate(secret.expose());
        let block = Cipher::by_crate(&master.encrypt(0).to_le_bytes());
        let mut padded = key.to_vec();
        match key.len() {
            0..16 => {
                padded.push(0x80);
                padded.resize(16, 0);
                block.encrypt(u128::from_le_bytes(padded.try_into().unwrap()))
            }
            16 => {
                block.encrypt(u128::from_le_bytes(padded.try_into().unwrap()) ^ master.encrypt(1))
            }
            _ => {
                let mut siphash = SipHasher13::new_with_key(&master.encrypt(2).to_le_bytes());
                for &byte in key {
                    siphash.write_u8(byte);
                }
                siphash.finish128().as_u128()
            }
        }
    }

    #[test]
    fn hashes_never_change() {
        // A different value would make every stored filter unreadable.
        let hasher = KeyedHasher::new(&secret());
        let long: Vec<u8> = (0..100).collect();
        for (length, value) in [
            (0, 0x33a0_2ef6_a94d_7a6f_7cc7_307e_d84d_3eac),
            (8, 0xb4bb_9b39_cc39_309d_c6e1_0ed8_ccee_dff6),
            (16, 0x8151_00d0_577a_963e_74fb_124f_74a0_fa77),
            (17, 0xed6a_f2f6_db0d_7bc2_c1e9_8585_7766_0a26),
            (100, 0xacbf_fdee_bece_6a51_970e_5100_7f3e_a390),
        ] {
            assert_eq!(hasher.hash_bytes(&long[..length]).0, value, "{length} bytes");
        }
    }

    #[test]
    fn padded_keys_do_not_collide() {
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
    fn debug_hides_the_secret() {
        let hasher = KeyedHasher::new(&secret());
        assert_eq!(format!("{hasher:?}"), "KeyedHasher(redacted)");
    }

    proptest! {
        #[test]
        fn hashes_match_the_definition_at_every_key_length(
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

    proptest! {
        #[test]
        fn integers_hash_as_their_little_endian_bytes(wide in any::<u128>()) {
            let hasher = KeyedHasher::new(&Secret::from_bytes([3; 16]));
            macro_rules! check {
                ($($unsigned:ident)*) => {$(
                    let key = wide as $unsigned;
                    let expected = hasher.hash_bytes(&key.to_le_bytes());
                    prop_assert_eq!(hasher.hash(&key), expected);
                    prop_assert_eq!(hasher.hash(&key.cast_signed()), expected);
                )*};
            }
            check!(u8 u16 u32 u64 u128);
        }

        #[test]
        fn strings_hash_as_their_bytes(text in ".*") {
            let hasher = KeyedHasher::new(&Secret::from_bytes([3; 16]));
            let expected = hasher.hash_bytes(text.as_bytes());
            prop_assert_eq!(hasher.hash(text.as_str()), expected);
            prop_assert_eq!(hasher.hash(text.as_bytes()), expected);
            prop_assert_eq!(hasher.hash(&text.clone().into_bytes()), expected);
            prop_assert_eq!(hasher.hash(&text), expected);
        }
    }

    #[test]
    fn ciphers_agree_with_fips_197_example() {
        let key: [u8; 16] = core::array::from_fn(|i| i as u8);
        let plain: [u8; 16] = core::array::from_fn(|i| (i * 0x11) as u8);
        let cipher = 0x69c4_e0d8_6a7b_0430_d8cd_b780_70b4_c55a_u128.swap_bytes();
        for aes in [Cipher::new(&key), Cipher::by_crate(&key)] {
            assert_eq!(aes.encrypt(u128::from_le_bytes(plain)), cipher);
        }
    }

    proptest! {
        #[test]
        fn aes_instructions_match_the_aes_crate(key in any::<[u8; 16]>(), block in any::<u128>()) {
            prop_assert_eq!(
                Cipher::new(&key).encrypt(block),
                Cipher::by_crate(&key).encrypt(block)
            );
        }
    }
}
