//! The types that can be keys.

use super::{Hash, KeyedHasher};

/// A type whose values can be hashed: bytes, strings, integers, and your own types.
///
/// Equal keys must have equal hashes. To implement it for your own type, encode the value as
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
    ($($unsigned:ident $signed:ident $size:literal)*) => {$(
        impl Key for $unsigned {
            #[inline]
            fn hash_with(&self, hasher: &KeyedHasher) -> Hash {
                hasher.hash_short::<$size>(u128::from(*self))
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

integer_keys! { u8 i8 1 u16 i16 2 u32 i32 4 u64 i64 8 }

impl Key for u128 {
    #[inline]
    fn hash_with(&self, hasher: &KeyedHasher) -> Hash {
        hasher.hash_block(*self)
    }
}

impl Key for i128 {
    #[inline]
    fn hash_with(&self, hasher: &KeyedHasher) -> Hash {
        self.cast_unsigned().hash_with(hasher)
    }
}

impl Key for [u8] {
    #[inline]
    fn hash_with(&self, hasher: &KeyedHasher) -> Hash {
        hasher.hash_bytes(self)
    }
}

impl<const N: usize> Key for [u8; N] {
    #[inline]
    fn hash_with(&self, hasher: &KeyedHasher) -> Hash {
        hasher.hash_bytes(self)
    }
}

impl Key for Vec<u8> {
    #[inline]
    fn hash_with(&self, hasher: &KeyedHasher) -> Hash {
        hasher.hash_bytes(self)
    }
}

impl Key for str {
    #[inline]
    fn hash_with(&self, hasher: &KeyedHasher) -> Hash {
        hasher.hash_bytes(self.as_bytes())
    }
}

impl Key for String {
    #[inline]
    fn hash_with(&self, hasher: &KeyedHasher) -> Hash {
        hasher.hash_bytes(self.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;
    use proptest::prelude::*;

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
}
