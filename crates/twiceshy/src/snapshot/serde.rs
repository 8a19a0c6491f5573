//! Serialises filters of hashes as the bytes of their snapshots.

use super::stream::{Input, Stream};
use crate::telescoping::{CodedFilter, Scheme};
use crate::{AdaptiveBloomFilter, QuotientFilter, YesNoFilter, YesNoList};
use core::fmt;
use core::marker::PhantomData;
use serde::de::{Error, SeqAccess, Visitor};
use serde::ser::Error as _;
use serde::{Deserializer, Serializer};

/// Maximum number of bytes to reserve in advance, whatever the size hint says.
const MAX_RESERVED: usize = 1 << 20;

/// Implements the traits of `serde` for a filter with a [`Stream`].
macro_rules! serialise {
    ($filter:ty $(, $parameter:ident: $bound:ident)?) => {
        /// Serialises the bytes of a [snapshot](crate::snapshot), without the secret.
        impl $(<$parameter: $bound>)? ::serde::Serialize for $filter {
            fn serialize<W: ::serde::Serializer>(&self, serializer: W) -> Result<W::Ok, W::Error> {
                $crate::snapshot::serde::serialize(self, serializer)
            }
        }

        /// Deserialises and validates the bytes of a [snapshot](crate::snapshot).
        impl<'de $(, $parameter: $bound)?> ::serde::Deserialize<'de> for $filter {
            fn deserialize<D: ::serde::Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
                $crate::snapshot::serde::deserialize(source)
            }
        }
    };
}

pub(crate) use serialise;

serialise!(QuotientFilter);
serialise!(YesNoFilter);
serialise!(YesNoList);
serialise!(AdaptiveBloomFilter);
serialise!(CodedFilter<S>, S: Scheme);

pub(crate) fn serialize<W: Serializer>(
    filter: &impl Stream,
    serializer: W,
) -> Result<W::Ok, W::Error> {
    let mut bytes = Vec::new();
    filter.write(&mut bytes).map_err(W::Error::custom)?;
    serializer.serialize_bytes(&bytes)
}

pub(crate) fn deserialize<'de, F: Stream, D: Deserializer<'de>>(source: D) -> Result<F, D::Error> {
    source.deserialize_byte_buf(Bytes(PhantomData))
}

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
