//! Filters as the bytes of their snapshots.

use super::restore::read_whole;
use crate::AdaptiveQuotientFilter;
use core::fmt;
use serde::de::{Error, SeqAccess, Visitor};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How much is reserved for bytes on the word of whoever says how many will come.
const MOST_RESERVED: usize = 1 << 20;

/// As the bytes of a [snapshot](crate::snapshot), without the secret.
impl Serialize for AdaptiveQuotientFilter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::new();
        self.save(&mut bytes).map_err(S::Error::custom)?;
        serializer.serialize_bytes(&bytes)
    }
}

/// From the bytes of a [snapshot](crate::snapshot), checked as by
/// [`restore`](AdaptiveQuotientFilter::restore).
impl<'de> Deserialize<'de> for AdaptiveQuotientFilter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_byte_buf(Bytes)
    }
}

struct Bytes;

impl<'de> Visitor<'de> for Bytes {
    type Value = AdaptiveQuotientFilter;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes of a filter's snapshot")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        Ok(read_whole(bytes).map_err(E::custom)?.filter)
    }

    fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Self::Value, E> {
        self.visit_bytes(&bytes)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<Self::Value, A::Error> {
        let hint = numbers.size_hint().unwrap_or(0);
        let mut bytes = Vec::with_capacity(hint.min(MOST_RESERVED));
        while let Some(byte) = numbers.next_element()? {
            bytes.push(byte);
        }
        self.visit_bytes(&bytes)
    }
}
