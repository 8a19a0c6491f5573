//! Serialises filters of hashes as the bytes of their snapshots.

use super::stream::{Input, Stream};
use super::verbs::Snapshot;
use crate::{
    Concurrent, QuotientFilter, YesNoFilter,
    concurrent::PlainShard,
    telescoping::{CodedFilter, Scheme},
};
use core::fmt;
use core::marker::PhantomData;
use serde::de::{Error, SeqAccess, Visitor};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum number of bytes that a size hint may reserve.
const MAX_RESERVED: usize = 1 << 20;

macro_rules! serialise {
    ($filter:ty $(, $parameter:ident: $bound:ident)?) => {
        /// Serialises the bytes of a [snapshot](crate::snapshot), without the secret.
        impl $(<$parameter: $bound>)? Serialize for $filter {
            fn serialize<W: Serializer>(&self, serializer: W) -> Result<W::Ok, W::Error> {
                let mut bytes = Vec::new();
                self.write_to(&mut bytes).map_err(W::Error::custom)?;
                serializer.serialize_bytes(&bytes)
            }
        }

        /// Deserialises and validates the bytes of a [snapshot](crate::snapshot).
        impl<'de $(, $parameter: $bound)?> Deserialize<'de> for $filter {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_byte_buf(Bytes(PhantomData))
            }
        }
    };
}

serialise!(QuotientFilter);
serialise!(YesNoFilter);
serialise!(CodedFilter<S>, S: Scheme);
serialise!(Concurrent<F>, F: PlainShard);

struct Bytes<F>(PhantomData<F>);

impl<'de, F: Stream> Visitor<'de> for Bytes<F> {
    type Value = F;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes of a filter's snapshot")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<F, E> {
        Input::read_whole(bytes, |input| F::read(input)).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<F, A::Error> {
        let hint = numbers.size_hint().unwrap_or(0);
        let mut bytes = Vec::with_capacity(hint.min(MAX_RESERVED));
        while let Some(byte) = numbers.next_element()? {
            bytes.push(byte);
        }
        self.visit_bytes(&bytes)
    }
}
