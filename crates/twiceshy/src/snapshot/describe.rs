//! Headers of snapshots, and the parts of a snapshot that depend on the kind of filter.

use super::SnapshotError;
use super::kind::Kind;
use super::sections::{
    Bytes, HASH_SCHEME, Mark, SECRET, SecretRecord, VERSION, sealed, secret_section,
};
use crate::Secret;
use crate::bits::memory::{LINE, Lines};
use crate::error::Invalid;
use crate::hash::Remainders;
use core::array::from_fn;
use core::fmt::Display;
use core::ops::RangeInclusive;
use std::borrow::Cow;
use std::io::Write;

/// Size of a header in bytes.
pub(super) const SIZE: usize = 2 * LINE;

/// Highest number of members or repairs in a header, so that counters can't overflow later. No
/// filter has more members; a filter with more repairs writes this number.
pub(super) const MAX_COUNT: u64 = 1 << 63;

/// A function that makes a filter from its table and, if the filter needs one, its secret. Nothing
/// may change the filter before it is [checked](Describe::checked).
pub(super) type Assemble<F> = Box<dyn FnOnce(Lines, Option<Secret>) -> Result<F, SnapshotError>>;

/// A filter that is saved as one header and one table.
pub(crate) trait Describe: Sized {
    const KIND: Kind;

    /// Flags that only headers of this kind have.
    const FLAGS: u32 = 0;

    /// Bits of [`Fields::extra`] that this kind uses.
    const EXTRA_BITS: u64 = 0;

    /// Whether filters of this kind can have remainders that aren't plain.
    const MIXES: bool = false;

    /// Returns the fields that describe the filter.
    fn fields(&self) -> Fields;

    /// Returns the lines of the table. A filter of several parts packs them into new lines.
    fn lines(&self) -> Result<Cow<'_, Lines>, SnapshotError>;

    /// Reads the [fields](Self::fields) of a header, and checks everything that can be checked
    /// without the table, for example the number of lines.
    fn decode(header: &Header) -> Result<Assemble<Self>, SnapshotError>;

    /// Checks every invariant.
    fn check_all(&self) -> Result<(), Invalid>;

    /// Returns the filter if every invariant holds.
    fn checked(self) -> Result<Self, Invalid> {
        self.check_all()?;
        Ok(self)
    }

    /// Checks that a shard of a concurrent filter is compatible with the first one.
    fn check_compatible(_first: &Fields, _shard: &Fields) -> Result<(), SnapshotError> {
        Ok(())
    }
}

/// The numbers of a header whose meaning depends on the kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Fields {
    pub(crate) flags: u32,
    /// Number of slots or blocks.
    pub(crate) size: u64,
    pub(crate) bits: [u32; 3],
    pub(crate) counts: [u64; 4],
    pub(crate) extra: u64,
    pub(crate) remainders: Remainders,
}

/// The header of a snapshot.
pub(crate) struct Header {
    pub(super) kind: Kind,
    pub(super) fields: Fields,
    /// Number of lines in the table, not counting the line of zeros that follows them.
    pub(super) lines: usize,
    pub(super) mark: Mark,
    pub(super) table_checksum: u32,
}

impl Header {
    /// Returns the header of a filter with these fields and this table.
    pub(super) fn new<F: Describe>(
        fields: Fields,
        lines: &Lines,
        secret: SecretRecord<'_>,
    ) -> Self {
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(lines.as_ref());
        checksum.update(&[0; LINE]);
        let (lines, table_checksum) = (lines.len(), checksum.finalize());
        Self { kind: F::KIND, fields, lines, mark: Mark::of(secret), table_checksum }
    }

    /// Returns the same header with this record of the secret.
    pub(super) fn with_secret(&self, secret: SecretRecord<'_>) -> Self {
        Self { mark: Mark::of(secret), ..*self }
    }

    fn to_bytes(&self) -> [u8; SIZE] {
        let Fields { flags, size, bits, counts, extra, remainders } = self.fields;
        sealed(&[
            &self.kind.magic(),
            &VERSION.to_le_bytes(),
            &(flags | self.mark.flags()).to_le_bytes(),
            &size.to_le_bytes(),
            bits.map(u32::to_le_bytes).as_flattened(),
            &HASH_SCHEME.to_le_bytes(),
            counts.map(u64::to_le_bytes).as_flattened(),
            &(self.lines as u64).to_le_bytes(),
            &self.mark.number.to_le_bytes(),
            &extra.to_le_bytes(),
            remainders.to_fields().map(u64::to_le_bytes).as_flattened(),
            &[0; 4],
            &self.table_checksum.to_le_bytes(),
            &self.mark.secret_checksum.unwrap_or(0).to_le_bytes(),
        ])
    }

    /// Reads the header of a snapshot that begins with these bytes. Bytes after the header are
    /// ignored.
    pub(super) fn read<F: Describe>(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let mut bytes = Bytes::header::<SIZE>(F::KIND, bytes)?;
        let flags = bytes.short();
        let (size, bits) = (bytes.long(), from_fn(|_| bytes.short()));
        bytes.check_hash_scheme()?;
        let counts = from_fn(|_| bytes.long());
        let (lines, mark, extra) = (bytes.long(), bytes.long(), bytes.long());
        let remainders = from_fn(|_| bytes.long());
        let reserved: [u8; 4] = bytes.take();
        let (table_checksum, secret_checksum) = (bytes.short(), bytes.short());
        let mark = Mark::read(flags, mark, secret_checksum)?;
        let memory = SnapshotError::Memory { bytes: lines.saturating_mul(LINE as u64) };
        // The limit keeps sizes in bytes from overflowing.
        let lines = usize::try_from(lines).ok().filter(|&lines| lines < usize::MAX / LINE - 4);
        let lines = lines.ok_or(memory)?;
        let flags = flags & !SECRET;
        let is_mixed = remainders != [0, 0];
        if flags & !F::FLAGS != 0
            || extra & !F::EXTRA_BITS != 0
            || reserved != [0; 4]
            || is_mixed && !F::MIXES
        {
            return Err(bad_header("reserved bits are not 0"));
        }
        let remainders = Remainders::of_fields(remainders).ok_or_else(|| {
            bad_header("remainders must be made with an odd number, and plain ones are stored as 0")
        })?;
        let fields = Fields { flags, size, bits, counts, extra, remainders };
        let header = Self { kind: F::KIND, fields, lines, mark, table_checksum };
        F::decode(&header).map(drop)?;
        Ok(header)
    }

    /// Writes a snapshot: the header, the table, and the secret if it is recorded.
    pub(super) fn write(
        &self,
        lines: &Lines,
        secret: SecretRecord<'_>,
        writer: &mut impl Write,
    ) -> Result<(), SnapshotError> {
        writer.write_all(&self.to_bytes())?;
        writer.write_all(lines.as_ref())?;
        writer.write_all(&[0; LINE])?;
        if let Some(section) = secret_section(secret) {
            writer.write_all(&*section)?;
        }
        Ok(())
    }

    /// Returns the checksum of the header, which is its last four bytes.
    pub(super) fn checksum(&self) -> [u8; 4] {
        *self.to_bytes().last_chunk().expect("a header has more bytes")
    }

    /// Assembles the filter without checking it.
    pub(super) fn assemble<F: Describe>(
        &self,
        lines: Lines,
        secret: Option<Secret>,
    ) -> Result<F, SnapshotError> {
        F::decode(self)?(lines, secret)
    }

    /// Checks that the number of lines is in `expected`, which is `None` if this machine can't
    /// address that many lines. `what` describes the table in the error.
    pub(super) fn check_lines(
        &self,
        expected: Option<RangeInclusive<usize>>,
        what: impl Display,
    ) -> Result<(), SnapshotError> {
        let expected = expected.ok_or(self.out_of_memory())?;
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
