//! Keyed 128-bit hashes of keys. A hash is read as a fraction in [0, 1).
//!
//! A [`KeyedHasher`], keyed with a [`Secret`], computes the [`struct@Hash`] of a [`Key`].

pub(crate) mod fingerprint;
mod keyed;
pub(crate) mod remainders;
mod secret;

pub(crate) use fingerprint::{Scaled, first_hash_at};
pub use keyed::{Key, KeyedHasher};
pub(crate) use remainders::Remainders;
pub use secret::{EntropyError, Secret};

use core::fmt;

/// A key's 128-bit hash, read as the fraction `value / 2^128`.
///
/// This is all that a filter knows about a key. If anyone else can choose keys, hash them with a
/// [`KeyedHasher`]. [`Hash::from_u128`] is for hashes that were stored, and for tests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, core::hash::Hash)]
pub struct Hash(u128);

impl Hash {
    /// The smallest hash.
    pub const MIN: Self = Self(0);
    /// The largest hash.
    pub const MAX: Self = Self(u128::MAX);

    /// Creates a hash from its value.
    pub const fn from_u128(value: u128) -> Self {
        Self(value)
    }

    /// Returns the value of the hash.
    pub const fn as_u128(self) -> u128 {
        self.0
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({:#034x})", self.0)
    }
}
