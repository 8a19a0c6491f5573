//! Snapshots of filters that don't answer from one table: their parts are packed into one.

use super::SnapshotError;
use super::describe::{Assemble, Describe, Fields, Header};
use super::kind::Kind;
use super::sections::SecretRecord;
use super::stream::{Input, Table};
use crate::bits::memory::{LINE, Lines};
use crate::error::Invalid;
use crate::members::OrderedHashes;
use crate::{Hash, Secret};
use core::marker::PhantomData;
use std::io::{Read, Write};
use std::sync::Arc;

/// A filter whose parts are packed into one table when it is saved.
pub(super) trait Pack: Sized {
    const KIND: Kind;

    /// Bits of [`Fields::extra`] that this kind uses.
    const EXTRA_BITS: u64 = 0;

    /// Returns the fields of the header, and all parts.
    fn pack(&self) -> (Fields, Vec<u8>);

    /// Makes the filter from its parts, and checks every invariant. `parts` may be followed by
    /// zeros.
    fn unpack(fields: &Fields, parts: &[u8]) -> Result<Self, SnapshotError>;
}

/// The header and the table of a packed filter.
pub(super) struct Packed<F> {
    fields: Fields,
    lines: Lines,
    filter: PhantomData<F>,
}

impl<F: Pack> Packed<F> {
    pub(super) fn new(filter: &F) -> Self {
        let (fields, mut parts) = filter.pack();
        let lines = parts.len().div_ceil(LINE);
        parts.resize((lines + 1) * LINE, 0);
        let lines = Lines::shared(Arc::new(parts), 0, lines).expect("as many lines as that");
        Self { fields, lines, filter: PhantomData }
    }
}

impl<F: Pack> Describe for Packed<F> {
    const KIND: Kind = F::KIND;
    const EXTRA_BITS: u64 = F::EXTRA_BITS;

    fn fields(&self) -> Fields {
        self.fields
    }

    fn lines(&self) -> &Lines {
        &self.lines
    }

    fn decode(header: &Header) -> Result<Assemble<Self>, SnapshotError> {
        let fields = header.fields;
        Ok(Box::new(move |lines, _| Ok(Self { fields, lines, filter: PhantomData })))
    }

    /// The filter is checked when it is unpacked.
    fn check_all(&self) -> Result<(), Invalid> {
        Ok(())
    }
}

pub(super) fn write<F: Pack>(
    filter: &F,
    secret: SecretRecord<'_>,
    writer: &mut impl Write,
) -> Result<(), SnapshotError> {
    Packed::new(filter).write_table(secret, writer)
}

pub(super) fn read<F: Pack>(
    input: &mut Input<impl Read>,
    secret: Option<Secret>,
) -> Result<(F, Option<Secret>), SnapshotError> {
    let (packed, secret) = Packed::<F>::read_table(input, secret)?;
    let table = packed.lines.as_ref();
    let filter = F::unpack(&packed.fields, table)?;
    // There is only one way to pack a filter.
    let (fields, parts) = filter.pack();
    let (same, rest) = table.split_at_checked(parts.len()).unwrap_or_default();
    let is_same = fields == packed.fields && same == parts;
    if !is_same || rest.len() >= LINE || rest.iter().any(|&byte| byte != 0) {
        return Err(Invalid("the table is not what this filter is saved as".into()).into());
    }
    Ok((filter, secret))
}

/// Implements [`Table`] for filters that are packed.
macro_rules! packed_tables {
    ($($filter:ty),+) => {$(
        impl $crate::snapshot::stream::Table for $filter {
            const KIND: $crate::snapshot::kind::Kind = <Self as Pack>::KIND;

            fn write_table(
                &self,
                secret: $crate::snapshot::sections::SecretRecord<'_>,
                writer: &mut impl std::io::Write,
            ) -> Result<(), SnapshotError> {
                $crate::snapshot::packed::write(self, secret, writer)
            }

            fn read_table(
                input: &mut $crate::snapshot::stream::Input<impl std::io::Read>,
                secret: Option<$crate::Secret>,
            ) -> Result<(Self, Option<$crate::Secret>), SnapshotError> {
                $crate::snapshot::packed::read(input, secret)
            }
        }
    )+};
}

pub(super) use packed_tables;

/// Takes numbers from the front of the parts.
pub(super) struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    pub(super) fn new(parts: &'a [u8]) -> Self {
        Self(parts)
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// If there are fewer.
    pub(super) fn bytes(&mut self, count: u64) -> Result<&'a [u8], Invalid> {
        let count = usize::try_from(count).ok();
        let first = count.and_then(|count| self.0.split_off(..count));
        first.ok_or_else(|| Invalid("the table is too short for its parts".into()))
    }

    pub(super) fn numbers<const COUNT: usize>(&mut self) -> Result<[u64; COUNT], Invalid> {
        let mut numbers = [0; COUNT];
        for number in &mut numbers {
            *number = u64::from_le_bytes(self.bytes(8)?.try_into().expect("8 bytes"));
        }
        Ok(numbers)
    }

    pub(super) fn long_number(&mut self) -> Result<u128, Invalid> {
        Ok(u128::from_le_bytes(self.bytes(16)?.try_into().expect("16 bytes")))
    }

    /// Takes hashes, which must be in order and all different.
    pub(super) fn hashes(&mut self, count: u64) -> Result<OrderedHashes, Invalid> {
        let bytes = self.bytes(count.saturating_mul(16))?;
        let hash = |bytes: &[u8; 16]| Hash::from_u128(u128::from_le_bytes(*bytes));
        let hashes: Vec<_> = bytes.as_chunks().0.iter().map(hash).collect();
        if !hashes.is_sorted_by(|a, b| a < b) {
            return Err(Invalid("hashes are out of order".into()));
        }
        Ok(hashes.into_iter().collect())
    }
}

/// Appends hashes to the parts.
pub(super) fn push_hashes(parts: &mut Vec<u8>, hashes: &OrderedHashes) {
    for hash in hashes.iter() {
        parts.extend(hash.as_u128().to_le_bytes());
    }
}
