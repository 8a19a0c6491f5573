//! The parts of a snapshot that depend on the kind of filter.

use super::SnapshotError;
use super::kind::Kind;
use super::sections::{SecretRecord, Sections, header_of, number, put};
use crate::bits::memory::{LINE, Lines};
use crate::error::Invalid;
use crate::{Secret, hash::HashScheme};
use core::fmt::Display;
use core::ops::RangeInclusive;
use std::io::Write;

/// Size of a header in bytes.
pub(super) const SIZE: usize = 2 * LINE;

/// Highest number of members or repairs in a header, so that counters can't overflow later. No
/// filter has more members; a filter with more repairs writes this number.
pub(super) const MAX_COUNT: u64 = 1 << 63;

/// Offsets of the [`Fields`] in a header; [`Sections`] has the other offsets.
mod offset {
    pub(super) const SIZE: usize = 16;
    pub(super) const BITS: usize = 24;
    pub(super) const HASH: usize = 36;
    pub(super) const COUNTS: usize = 40;
    pub(super) const EXTRA: usize = 88;
    pub(super) const RESERVED: usize = 96;
    pub(super) const RESERVED_END: usize = 116;
}

/// A filter that is saved as one header and one table.
pub(crate) trait Describe: Sized {
    const KIND: Kind;

    /// Flags that only headers of this kind have.
    const FLAGS: u32 = 0;

    /// Bits of [`Fields::extra`] that this kind uses.
    const EXTRA_BITS: u64 = 0;

    /// Whether files that contain the secret are meant for publication.
    const IS_PUBLISHED: bool = false;

    /// The meaning of the [`Fields`].
    type Header;

    /// Returns the fields that describe the filter.
    fn fields(&self) -> Fields;

    /// Returns the lines of the table.
    fn lines(&self) -> &Lines;

    /// Reads [`fields`](Self::fields), and checks all that can be checked without the table, for
    /// example the number of lines.
    fn decode(fields: &Fields, sections: &Sections) -> Result<Self::Header, SnapshotError>;

    /// Returns the filter of a [decoded](Self::decode) header. Nothing may change it before it is
    /// [checked](Self::checked). Range filters need the secret.
    fn assemble(
        header: Self::Header,
        lines: Lines,
        secret: Option<Secret>,
    ) -> Result<Self, SnapshotError>;

    /// Checks every invariant.
    fn check_all(&self) -> Result<(), Invalid>;

    /// Returns the filter if every invariant holds.
    fn checked(self) -> Result<Self, Invalid> {
        self.check_all()?;
        Ok(self)
    }
}

/// A filter that can be a shard.
pub(crate) trait ShardFormat: Describe {
    /// The kind of a concurrent filter with shards of this type.
    const SHARDS: Kind;

    /// Checks that a shard is compatible with the first one.
    fn check_compatible(_first: &Fields, _shard: &Fields) -> Result<(), SnapshotError> {
        Ok(())
    }
}

/// The numbers of a header whose meaning depends on the kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields {
    pub(crate) flags: u32,
    /// Slots or blocks.
    pub(crate) size: u64,
    pub(crate) bits: [u32; 3],
    pub(crate) hash: HashScheme,
    pub(crate) counts: [u64; 4],
    pub(crate) extra: u64,
}

/// The contents of a header.
pub(super) struct Contents {
    pub(super) kind: Kind,
    pub(super) fields: Fields,
    pub(super) sections: Sections,
}

impl Contents {
    fn to_bytes(&self) -> [u8; SIZE] {
        let Fields { flags, size, bits, hash, counts, extra } = self.fields;
        let mut bytes = [0; SIZE];
        put(&mut bytes, offset::SIZE, size.to_le_bytes());
        for (index, number) in bits.into_iter().chain([code_of(hash)]).enumerate() {
            put(&mut bytes, offset::BITS + 4 * index, number.to_le_bytes());
        }
        for (index, number) in counts.into_iter().enumerate() {
            put(&mut bytes, offset::COUNTS + 8 * index, number.to_le_bytes());
        }
        put(&mut bytes, offset::EXTRA, extra.to_le_bytes());
        self.sections.seal(self.kind, flags, &mut bytes);
        bytes
    }

    /// Reads the header of a snapshot that begins with these bytes. Bytes after the header are
    /// ignored.
    pub(super) fn read<F: Describe>(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let bytes = header_of(F::KIND, bytes)?;
        let long = |at| number(&bytes[at..at + 8]);
        let short = |at| number(&bytes[at..at + 4]) as u32;
        let hash = scheme_of(short(offset::HASH))?;
        let (sections, flags) = Sections::read(bytes)?;
        let fields = Fields {
            flags,
            size: long(offset::SIZE),
            bits: core::array::from_fn(|index| short(offset::BITS + 4 * index)),
            hash,
            counts: core::array::from_fn(|index| long(offset::COUNTS + 8 * index)),
            extra: long(offset::EXTRA),
        };
        let reserved = &bytes[offset::RESERVED..offset::RESERVED_END];
        if flags & !F::FLAGS != 0
            || fields.extra & !F::EXTRA_BITS != 0
            || reserved.iter().any(|&byte| byte != 0)
        {
            return Err(bad_header("reserved bits are not 0"));
        }
        F::decode(&fields, &sections)?;
        Ok(Self { kind: F::KIND, fields, sections })
    }

    /// Writes a snapshot, and returns the checksum of its header.
    pub(super) fn write(
        &self,
        lines: &Lines,
        secret: SecretRecord<'_>,
        writer: &mut impl Write,
    ) -> Result<u32, SnapshotError> {
        writer.write_all(&self.to_bytes())?;
        Sections::write(lines, secret, writer)?;
        Ok(self.checksum())
    }

    /// Returns the checksum of the header.
    pub(super) fn checksum(&self) -> u32 {
        number(&self.to_bytes()[SIZE - 4..]) as u32
    }

    /// Returns the filter, unchecked.
    pub(super) fn assemble<F: Describe>(
        &self,
        lines: Lines,
        secret: Option<Secret>,
    ) -> Result<F, SnapshotError> {
        F::assemble(F::decode(&self.fields, &self.sections)?, lines, secret)
    }
}

impl Sections {
    /// Checks that the number of lines is in `expected`, which is `None` if this machine can't
    /// address them. `what` describes the table in the error.
    pub(super) fn check_lines(
        &self,
        expected: Option<RangeInclusive<usize>>,
        what: impl Display,
    ) -> Result<(), SnapshotError> {
        let memory = SnapshotError::Memory { bytes: self.table_size() };
        let expected = expected.ok_or(memory)?;
        if expected.contains(&self.lines) {
            return Ok(());
        }
        let (least, most, found) = (expected.start(), expected.end(), self.lines);
        Err(SnapshotError::Header(if least == most {
            format!("{what} need {least} lines, not {found}")
        } else {
            format!("{what} need {least} to {most} lines, not {found}")
        }))
    }
}

pub(super) fn bad_header(reason: &str) -> SnapshotError {
    SnapshotError::Header(reason.into())
}

pub(super) fn code_of(scheme: HashScheme) -> u32 {
    match scheme {
        HashScheme::Aes128SipHash13 => 1,
    }
}

pub(super) fn scheme_of(code: u32) -> Result<HashScheme, SnapshotError> {
    match code {
        1 => Ok(HashScheme::Aes128SipHash13),
        other => Err(SnapshotError::Header(format!("hash scheme {other} is unknown"))),
    }
}
