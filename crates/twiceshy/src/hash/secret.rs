//! The secret that keys the hash.

use crate::bits::cipher::Cipher;
use crate::error::EntropyError;
use core::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// The 128-bit secret that a [`KeyedHasher`](super::KeyedHasher) is keyed with.
///
/// Whoever knows it can compute collisions offline, as with any unkeyed filter. It
/// is never shown by `Debug`, and wiped from memory on drop.
///
/// ```
/// use twiceshy::Secret;
/// let secret = Secret::generate()?;
/// assert_eq!(format!("{secret:?}"), "Secret(redacted)");
/// let same = Secret::from_bytes(*secret.expose());
/// # drop(same);
/// # Ok::<(), twiceshy::EntropyError>(())
/// ```
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Secret([u8; 16]);

impl Secret {
    /// A fresh secret from the operating system's entropy.
    ///
    /// # Errors
    /// If the operating system has no entropy to give.
    pub fn generate() -> Result<Self, EntropyError> {
        let mut secret = Self([0; 16]);
        getrandom::fill(&mut secret.0)?;
        Ok(secret)
    }

    /// A secret that was [exposed](Self::expose) before: to open a filter again, or
    /// for reproducible tests. The bytes must have come from good entropy.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// A number that tells this secret from others and tells nothing of it, nor of what is
    /// hashed with it: a value of the cipher that the [hasher](super::KeyedHasher) doesn't
    /// use. Never 0.
    pub(crate) fn mark(&self) -> u64 {
        (Cipher::new(&self.0).encrypt(3) as u64).max(1)
    }

    /// The secret itself, to be stored where only the filter's owner can read it.
    pub const fn expose(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_differ_and_survive_a_round_trip() {
        let (a, b) = (Secret::generate().unwrap(), Secret::generate().unwrap());
        assert_ne!(a.expose(), b.expose());
        assert_ne!(a.expose(), &[0; 16]);
        assert_eq!(Secret::from_bytes(*a.expose()).expose(), a.expose());
    }

    #[test]
    fn wiping_clears_the_bytes() {
        let mut secret = Secret::from_bytes([7; 16]);
        secret.zeroize();
        assert_eq!(secret.expose(), &[0; 16]);
    }
}
