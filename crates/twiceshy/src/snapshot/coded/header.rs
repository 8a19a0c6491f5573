//! The header of a snapshot of a filter with codes.

use crate::bits::memory::Lines;
use crate::coded::{CodedParameters, CodedTally, Scheme};
use crate::snapshot::SnapshotError;
use crate::snapshot::header::{
    Kind, MOST, SIZE, check_unknown, code_of, impossible, number, scheme_of,
};
use crate::snapshot::sections::{Sections, Telling, checksum_of, header_of, put};
use crate::{CodedFilter, HashScheme};
use std::io::Write;

mod offset {
    pub(super) const SLOTS: usize = 16;
    pub(super) const REMAINDER_BITS: usize = 24;
    pub(super) const CODE_BITS: usize = 28;
    pub(super) const ODDS: usize = 32;
    pub(super) const HASH: usize = 36;
    pub(super) const LEN: usize = 40;
    pub(super) const FORGOTTEN: usize = 48;
    pub(super) const UNREPAIRED: usize = 56;
    pub(super) const ADAPTATIONS: usize = 64;
    pub(super) const RESERVED: usize = 88;
    pub(super) const BEHIND: usize = 116;
}

/// What a snapshot of a filter with codes says of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Header {
    pub(super) parameters: CodedParameters,
    pub(super) odds: u32,
    pub(super) tally: CodedTally,
    pub(super) sections: Sections,
}

impl Header {
    pub(super) fn of<S: Scheme>(filter: &CodedFilter<S>, telling: Telling<'_>) -> Self {
        Self {
            parameters: filter.parameters(),
            odds: filter.odds(),
            tally: filter.tally(),
            sections: Sections::of(filter.lines(), telling),
        }
    }

    /// Writes a snapshot of the filter whose lines these are; the last bytes of its header.
    pub(super) fn write<S: Scheme>(
        self,
        lines: &Lines,
        telling: Telling<'_>,
        writer: impl Write,
    ) -> Result<u32, SnapshotError> {
        let bytes = self.to_bytes::<S>();
        Sections::write(&bytes, lines, telling, writer)?;
        Ok(checksum_of(&bytes))
    }

    pub(super) fn checksum<S: Scheme>(self) -> u32 {
        checksum_of(&self.to_bytes::<S>())
    }

    fn to_bytes<S: Scheme>(self) -> [u8; SIZE] {
        let CodedParameters { slots, remainder_bits, code_bits } = self.parameters;
        let CodedTally { len, adaptations, forgotten, unrepaired } = self.tally;
        let mut bytes = [0; SIZE];
        for (at, number) in [
            (offset::REMAINDER_BITS, remainder_bits),
            (offset::CODE_BITS, code_bits),
            (offset::ODDS, self.odds),
            (offset::HASH, code_of(HashScheme::Aes128SipHash13)),
        ] {
            put(&mut bytes, at, number.to_le_bytes());
        }
        for (at, number) in [
            (offset::SLOTS, slots),
            (offset::LEN, len),
            (offset::FORGOTTEN, forgotten.min(MOST)),
            (offset::UNREPAIRED, unrepaired.min(MOST)),
            (offset::ADAPTATIONS, adaptations.min(MOST)),
        ] {
            put(&mut bytes, at, number.to_le_bytes());
        }
        self.sections.seal(kind::<S>(), 0, &mut bytes);
        bytes
    }

    /// Reads the header of a snapshot that begins with these bytes: as many as there are,
    /// or [`SIZE`] and any others.
    pub(super) fn read<S: Scheme>(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let bytes = header_of(kind::<S>(), bytes)?;
        let long = |at| number(&bytes[at..at + 8]);
        let short = |at| number(&bytes[at..at + 4]) as u32;
        scheme_of(short(offset::HASH))?;
        let (sections, flags) = Sections::read(bytes)?;
        check_unknown(flags, &bytes[offset::RESERVED..offset::BEHIND])?;
        let parameters = CodedParameters {
            slots: long(offset::SLOTS),
            remainder_bits: short(offset::REMAINDER_BITS),
            code_bits: short(offset::CODE_BITS),
        };
        parameters.check().map_err(|error| SnapshotError::Header(error.to_string()))?;
        let tally = CodedTally {
            len: long(offset::LEN),
            adaptations: long(offset::ADAPTATIONS),
            forgotten: long(offset::FORGOTTEN),
            unrepaired: long(offset::UNREPAIRED),
        };
        if tally.len > parameters.slots {
            return Err(impossible("more slots are used than there are"));
        }
        if [tally.adaptations, tally.forgotten, tally.unrepaired].iter().any(|&count| count > MOST)
        {
            return Err(impossible("more repairs than can be counted"));
        }
        let stored = sections.lines;
        let memory = || SnapshotError::Memory { bytes: sections.table_size() };
        let lines = parameters.lines().ok_or_else(memory)?;
        if stored != lines {
            return Err(SnapshotError::Header(format!(
                "{} slots of {} bits with codes of {} bits take {lines} lines, not {stored}",
                parameters.slots, parameters.remainder_bits, parameters.code_bits
            )));
        }
        Ok(Self { parameters, odds: short(offset::ODDS), tally, sections })
    }
}

fn kind<S: Scheme>() -> Kind {
    if S::MEMBERS_TO_FORGET { Kind::Telescoping } else { Kind::Extending }
}
