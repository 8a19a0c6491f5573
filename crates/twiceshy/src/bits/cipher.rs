//! AES-128 of one block: the pseudo-random permutation that the keyed hash is built on.

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit};

/// AES-128 with one key.
///
/// On x86-64 with AES instructions, this uses our own rounds, because they can be inlined into a
/// loop. Elsewhere, it uses the `aes` crate, which has constant-time software and supports the ARM
/// instructions. Both compute the function of FIPS-197, and both wipe their round keys on drop.
#[derive(Clone)]
pub(crate) enum Cipher {
    #[cfg(target_arch = "x86_64")]
    Instructions(super::x86_64::AesRounds),
    Crate(Aes128),
}

impl Cipher {
    pub(crate) fn new(key: &[u8; 16]) -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(rounds) = super::x86_64::AesRounds::expand(key) {
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
        fn instructions_and_crate_agree(key in any::<[u8; 16]>(), block in any::<u128>()) {
            prop_assert_eq!(
                Cipher::new(&key).encrypt(block),
                Cipher::by_crate(&key).encrypt(block)
            );
        }
    }
}
