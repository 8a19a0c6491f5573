//! The header of a range filter's snapshot.

use crate::range::RangeShape;
use crate::snapshot::SnapshotError;
use crate::snapshot::header::{
    Kind, MOST, SIZE, check_unknown, code_of, impossible, number, scheme_of,
};
use crate::snapshot::sections::{Sections, header_of, put};
use crate::{HashScheme, RangeKey};

/// Flags: whether there are ages.
const AGES: u32 = 2;

mod offset {
    pub(super) const SLOTS: usize = 16;
    pub(super) const REMAINDER_BITS: usize = 24;
    pub(super) const SLOT_BITS: usize = 28;
    pub(super) const MEMENTO_BITS: usize = 32;
    pub(super) const HASH: usize = 36;
    pub(super) const LEN: usize = 40;
    pub(super) const KEY_BITS: usize = 48;
    pub(super) const OLDEST: usize = 52;
    pub(super) const USED: usize = 56;
    pub(super) const ADAPTATIONS: usize = 64;
    pub(super) const RESERVED: usize = 88;
    pub(super) const BEHIND: usize = 116;
}

/// What a snapshot of a filter for ranges of these keys says of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Header {
    pub(super) shape: RangeShape,
    pub(super) sections: Sections,
}

impl Header {
    pub(super) fn to_bytes<K: RangeKey>(self) -> [u8; SIZE] {
        let Self { shape, sections } = self;
        let mut bytes = [0; SIZE];
        for (at, number) in [
            (offset::REMAINDER_BITS, shape.remainder_bits),
            (offset::SLOT_BITS, shape.slot_bits()),
            (offset::MEMENTO_BITS, shape.memento_bits),
            (offset::HASH, code_of(HashScheme::Aes128SipHash13)),
            (offset::KEY_BITS, K::BITS),
            (offset::OLDEST, shape.oldest),
        ] {
            put(&mut bytes, at, number.to_le_bytes());
        }
        for (at, number) in [
            (offset::SLOTS, shape.slots),
            (offset::LEN, shape.len),
            (offset::USED, shape.used),
            (offset::ADAPTATIONS, shape.adaptations.min(MOST)),
        ] {
            put(&mut bytes, at, number.to_le_bytes());
        }
        let flags = if shape.has_ages { AGES } else { 0 };
        sections.seal(Kind::Ranges, flags, &mut bytes);
        bytes
    }

    /// Reads the header of a snapshot that begins with these bytes: as many as there are,
    /// or [`SIZE`] and any others.
    pub(super) fn read<K: RangeKey>(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let bytes = header_of(Kind::Ranges, bytes)?;
        let long = |at| number(&bytes[at..at + 8]);
        let short = |at| number(&bytes[at..at + 4]) as u32;
        scheme_of(short(offset::HASH))?;
        let (sections, flags) = Sections::read(bytes)?;
        check_unknown(flags & !AGES, &bytes[offset::RESERVED..offset::BEHIND])?;
        let shape = RangeShape {
            slots: long(offset::SLOTS),
            remainder_bits: short(offset::REMAINDER_BITS),
            memento_bits: short(offset::MEMENTO_BITS),
            has_ages: flags & AGES != 0,
            oldest: short(offset::OLDEST),
            len: long(offset::LEN),
            used: long(offset::USED),
            adaptations: long(offset::ADAPTATIONS),
        };
        let key_bits = short(offset::KEY_BITS);
        if !shape.is_possible(key_bits) {
            return Err(impossible("there is no filter of such sizes"));
        }
        if shape.slot_bits() != short(offset::SLOT_BITS) {
            return Err(impossible("slots are not as wide as what is in them"));
        }
        if shape.len > MOST || shape.adaptations > MOST {
            return Err(impossible("more members or repairs than can be counted"));
        }
        let memory = || SnapshotError::Memory { bytes: sections.table_size() };
        let (lines, stored) = (shape.lines().ok_or_else(memory)?, sections.lines);
        if !lines.contains(&stored) {
            return Err(SnapshotError::Header(format!(
                "{} slots of {} bits take {} to {} lines, not {stored}",
                shape.slots,
                shape.slot_bits(),
                lines.start(),
                lines.end()
            )));
        }
        // Last: what else it says may be nonsense.
        if key_bits != K::BITS {
            return Err(SnapshotError::KeyBits { found: key_bits, expected: K::BITS });
        }
        Ok(Self { shape, sections })
    }
}
