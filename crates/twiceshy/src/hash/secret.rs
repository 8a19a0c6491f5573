//! The secret with which keys are hashed.

use super::keyed::Cipher;
use crate::sync::fill_randomly;
use core::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// The error when the operating system provides no entropy for a [`Secret`].
#[derive(Clone, Debug, thiserror::Error)]
#[error("the operating system gave no entropy for a secret; try again later")]
pub struct EntropyError(#[from] getrandom::Error);

/// The 128-bit secret that a [`KeyedHasher`](super::KeyedHasher) is keyed with.
///
/// An attacker who knows it can compute collisions offline, as with any unkeyed filter. `Debug`
/// never shows the secret, and dropping it wipes it from memory.
///
/// ```
/// use twiceshy::Secret;
/// let secret = Secret::generate()?;
/// assert_eq!(format!("{secret:?}"), "Secret(redacted)");
/// let same = Secret::from_bytes(*secret.expose());
/// # drop(same);
/// # Ok::<(), twiceshy::hash::EntropyError>(())
/// ```
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Secret([u8; 16]);

impl Secret {
    /// Generates a secret from the operating system's entropy.
    ///
    /// # Errors
    /// If the operating system can't provide entropy.
    pub fn generate() -> Result<Self, EntropyError> {
        let mut secret = Self([0; 16]);
        fill_randomly(&mut secret.0)?;
        Ok(secret)
    }

    /// Creates a secret from its bytes, for example those that [`expose`](Self::expose) returned.
    /// Except in tests, the bytes must be random and unpredictable.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns a number that distinguishes this secret from others without revealing anything about
    /// the secret or about hashes. It comes from a cipher block that the
    /// [hasher](super::KeyedHasher) doesn't use, and is never 0.
    pub(crate) fn mark(&self) -> u64 {
        (Cipher::new(&self.0).encrypt(3) as u64).max(1)
    }

    /// Returns the bytes of the secret. Store them where only the filter's owner can read them.
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
    fn zeroize_clears_the_secret() {
        let mut secret = Secret::from_bytes([7; 16]);
        secret.zeroize();
        assert_eq!(secret.expose(), &[0; 16]);
    }
}
