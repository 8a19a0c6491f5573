//! What each filter says of its snapshots: all that differs from one kind to another.

use super::SnapshotError;
use super::kind::Kind;
use super::sections::{Sections, Telling, header_of, number, put};
use crate::bits::memory::{LINE, Lines};
use crate::error::Invalid;
use crate::{HashScheme, Secret};
use core::fmt::Display;
use core::ops::RangeInclusive;
use std::io::Write;

/// Bytes of a header.
pub(super) const SIZE: usize = 2 * LINE;

/// The most members or repairs that a header tells, so that no count overflows later. No filter
/// has more members; a filter with more repairs says this many.
pub(super) const MOST: u64 = 1 << 63;

/// Where the [`Fields`] are in a header; [`Sections`] has the other offsets.
mod offset {
    pub(super) const SIZE: usize = 16;
    pub(super) const BITS: usize = 24;
    pub(super) const HASH: usize = 36;
    pub(super) const COUNTS: usize = 40;
    pub(super) const LAST: usize = 88;
    pub(super) const RESERVED: usize = 96;
    pub(super) const RESERVED_END: usize = 116;
}

/// A filter that is saved as one header and one table.
pub(crate) trait Describe: Sized {
    const KIND: Kind;

    /// Flags that only headers of this kind have.
    const FLAGS: u32 = 0;

    /// Bits of [`Fields::last`] that this kind uses.
    const LAST: u64 = 0;

    /// Whether files with the secret are made to be published.
    const IS_PUBLISHED: bool = false;

    /// What the header says of a filter, besides the sections.
    type Header: Clone;

    fn header(&self) -> Self::Header;

    /// The lines of the table.
    fn lines(&self) -> &Lines;

    fn encode(header: &Self::Header) -> Fields;

    /// Reads what [`encode`](Self::encode) wrote, and checks what can be checked without the
    /// table; how many lines it has, for example.
    fn decode(fields: &Fields, sections: &Sections) -> Result<Self::Header, SnapshotError>;

    /// Returns the filter of a header that was [read](Self::decode), which must not be changed
    /// before it is [checked](Self::checked). Filters for keys need the secret.
    fn assemble(
        header: &Self::Header,
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

/// The numbers of a header that mean something different for each kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields {
    pub(crate) flags: u32,
    /// Slots or blocks.
    pub(crate) size: u64,
    pub(crate) bits: [u32; 3],
    pub(crate) hash: HashScheme,
    pub(crate) counts: [u64; 4],
    pub(crate) last: u64,
}

/// What the header of a snapshot says.
pub(super) struct Contents<F: Describe> {
    pub(super) header: F::Header,
    pub(super) sections: Sections,
}

impl<F: Describe> Contents<F> {
    /// What the header of a snapshot of `filter` will say.
    pub(super) fn of(header: F::Header, lines: &Lines, telling: Telling<'_>) -> Self {
        Self { header, sections: Sections::of(lines, telling) }
    }

    pub(super) fn hash(&self) -> HashScheme {
        F::encode(&self.header).hash
    }

    fn to_bytes(&self) -> [u8; SIZE] {
        let Fields { flags, size, bits, hash, counts, last } = F::encode(&self.header);
        let mut bytes = [0; SIZE];
        put(&mut bytes, offset::SIZE, size.to_le_bytes());
        for (index, number) in bits.into_iter().chain([code_of(hash)]).enumerate() {
            put(&mut bytes, offset::BITS + 4 * index, number.to_le_bytes());
        }
        for (index, number) in counts.into_iter().enumerate() {
            put(&mut bytes, offset::COUNTS + 8 * index, number.to_le_bytes());
        }
        put(&mut bytes, offset::LAST, last.to_le_bytes());
        self.sections.seal(F::KIND, flags, &mut bytes);
        bytes
    }

    /// Reads the header of a snapshot that begins with these bytes: as many as there are,
    /// or [`SIZE`] and any others.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, SnapshotError> {
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
            last: long(offset::LAST),
        };
        let reserved = &bytes[offset::RESERVED..offset::RESERVED_END];
        if flags & !F::FLAGS != 0
            || fields.last & !F::LAST != 0
            || reserved.iter().any(|&byte| byte != 0)
        {
            return Err(impossible("it says what version 1 knows nothing of"));
        }
        Ok(Self { header: F::decode(&fields, &sections)?, sections })
    }

    /// Writes a snapshot, and returns the last bytes of its header: different headers seldom
    /// have the same.
    pub(super) fn write(
        &self,
        lines: &Lines,
        telling: Telling<'_>,
        writer: &mut impl Write,
    ) -> Result<u32, SnapshotError> {
        let header = self.to_bytes();
        writer.write_all(&header)?;
        Sections::write(lines, telling, writer)?;
        Ok(self.checksum())
    }

    /// The last bytes of the header.
    pub(super) fn checksum(&self) -> u32 {
        number(&self.to_bytes()[SIZE - 4..]) as u32
    }

    /// Returns the filter, with every invariant checked.
    pub(super) fn checked(&self, lines: Lines, secret: Option<Secret>) -> Result<F, SnapshotError> {
        Ok(F::assemble(&self.header, lines, secret)?.checked()?)
    }
}

impl Sections {
    /// Checks that there are as many lines as `what` takes; `None` if there can't be so many on
    /// this machine.
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
            format!("{what} take {least} lines, not {found}")
        } else {
            format!("{what} take {least} to {most} lines, not {found}")
        }))
    }
}

pub(super) fn impossible(reason: &str) -> SnapshotError {
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
