//! Keys become 128-bit hashes; a hash is a fraction in [0, 1).
//!
//! [`struct@Hash`] is the fraction and [`Scaled`] the fraction times the number of slots;
//! [`Secret`] and [`KeyedHasher`] make hashes of keys, [`Key`] says which types are
//! keys.

mod key;
mod keyed;
mod scaled;
mod secret;

pub use key::Key;
pub use keyed::{HashScheme, KeyedHasher};
pub(crate) use scaled::{Scaled, first_hash_at};
pub use secret::Secret;

use core::fmt;

/// A key's 128-bit hash, read as the fraction `value / 2^128`.
///
/// Filters know nothing of a key but this. It must come from a [`KeyedHasher`]
/// wherever someone else chooses the keys; [`Hash::from_u128`] is for those who
/// store hashes and for tests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, core::hash::Hash)]
pub struct Hash(u128);

impl Hash {
    /// The smallest hash.
    pub const MIN: Self = Self(0);
    /// The largest hash.
    pub const MAX: Self = Self(u128::MAX);

    /// The hash of that value.
    pub const fn from_u128(value: u128) -> Self {
        Self(value)
    }

    /// The value of that hash.
    pub const fn as_u128(self) -> u128 {
        self.0
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({:#034x})", self.0)
    }
}
