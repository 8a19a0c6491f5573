//! The header: read and written as the [module](super) says.

use super::SnapshotError;
use super::sections::{Sections, checksum_of, header_of, put};
use crate::bits::memory::LINE;
use crate::quotient::{GROWTH_LOADS, Tally};
use crate::{AdaptiveQuotientFilter, HashScheme, Parameters};

/// The version that is written, and the only one that is read.
pub(super) const VERSION: u32 = 1;

/// Bytes of a header.
pub(super) const SIZE: usize = 2 * LINE;

/// Bytes of a secret section.
pub(super) const SECRET_SIZE: usize = LINE;

/// What a snapshot is of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Filter,
    /// A concurrent filter.
    Shards,
    /// A filter for ranges.
    Ranges,
    /// A filter of yes and no lists.
    Lists,
    /// A telescoping filter.
    Telescoping,
    /// An extension filter.
    Extending,
    /// A concurrent filter of either.
    TelescopingShards,
    ExtendingShards,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Filter,
        Self::Shards,
        Self::Ranges,
        Self::Lists,
        Self::Telescoping,
        Self::Extending,
        Self::TelescopingShards,
        Self::ExtendingShards,
    ];

    pub(super) fn magic(self) -> [u8; 8] {
        match self {
            Self::Filter => *b"\x89TWSHY\r\n",
            Self::Shards => *b"\x89TWSHC\r\n",
            Self::Ranges => *b"\x89TWSHR\r\n",
            Self::Lists => *b"\x89TWSHL\r\n",
            Self::Telescoping => *b"\x89TWSHT\r\n",
            Self::Extending => *b"\x89TWSHE\r\n",
            Self::TelescopingShards => *b"\x89TWSHt\r\n",
            Self::ExtendingShards => *b"\x89TWSHe\r\n",
        }
    }

    /// Checks that the first bytes of a snapshot are of this kind.
    pub(super) fn check(self, bytes: &[u8]) -> Result<(), SnapshotError> {
        let begins_as = |kind: Self| {
            let magic = kind.magic();
            let common = bytes.len().min(magic.len());
            bytes[..common] == magic[..common]
        };
        if begins_as(self) {
            return Ok(());
        }
        let other = Self::ALL.into_iter().find(|&kind| begins_as(kind));
        Err(other.map_or(SnapshotError::NotASnapshot, |kind| SnapshotError::OtherKind {
            found: kind.name(self),
        }))
    }

    /// What it is called by who has expected another kind.
    fn name(self, expected: Self) -> &'static str {
        match (self, expected) {
            (Self::Filter, Self::Shards) => "a filter that isn't concurrent",
            (Self::Filter, Self::Ranges) => "a filter for single keys",
            (Self::Filter, _) => "an adaptive quotient filter",
            (Self::Shards, _) => "a concurrent filter",
            (Self::Ranges, _) => "a filter for ranges",
            (Self::Lists, _) => "a filter of yes and no lists",
            (Self::Telescoping, _) => "a telescoping filter",
            (Self::Extending, _) => "an extension filter",
            (Self::TelescopingShards, _) => "a concurrent telescoping filter",
            (Self::ExtendingShards, _) => "a concurrent extension filter",
        }
    }
}

/// The most members or repairs of a snapshot: so few that no count overflows, whatever is counted
/// later. No filter has more members. Of repairs that are more, this is what its snapshot says.
pub(super) const MOST: u64 = 1 << 63;

mod offset {
    pub(super) const SLOTS: usize = 16;
    pub(super) const REMAINDER_BITS: usize = 24;
    pub(super) const SLOT_BITS: usize = 28;
    pub(super) const VALUE_BITS: usize = 32;
    pub(super) const HASH: usize = 36;
    pub(super) const LEN: usize = 40;
    pub(super) const EXTRA_SLOTS: usize = 48;
    pub(super) const USED: usize = 56;
    pub(super) const ADAPTATIONS: usize = 64;
    pub(super) const GROWTH: usize = 88;
    pub(super) const RESERVED: usize = 96;
    pub(super) const BEHIND: usize = 116;
}

/// What a snapshot of a filter says of itself.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Header {
    pub(super) parameters: Parameters,
    pub(super) tally: Tally,
    pub(super) sections: Sections,
}

impl Header {
    pub(super) fn to_bytes(&self) -> [u8; SIZE] {
        let Parameters { slots, remainder_bits, slot_bits, value_bits, hash } = self.parameters;
        let Tally { len, extra_slots, used, adaptations, growth } = self.tally;
        let mut bytes = [0; SIZE];
        for (at, number) in [
            (offset::REMAINDER_BITS, remainder_bits),
            (offset::SLOT_BITS, slot_bits),
            (offset::VALUE_BITS, value_bits),
            (offset::HASH, code_of(hash)),
        ] {
            put(&mut bytes, at, number.to_le_bytes());
        }
        for (at, number) in [
            (offset::SLOTS, slots),
            (offset::LEN, len),
            (offset::EXTRA_SLOTS, extra_slots),
            (offset::USED, used),
            (offset::ADAPTATIONS, adaptations.min(MOST)),
            (offset::GROWTH, growth.map_or(0, f64::to_bits)),
        ] {
            put(&mut bytes, at, number.to_le_bytes());
        }
        self.sections.seal(Kind::Filter, 0, &mut bytes);
        bytes
    }

    /// What the last bytes of the header are: different headers seldom have the same.
    pub(super) fn checksum(&self) -> u32 {
        checksum_of(&self.to_bytes())
    }

    /// Reads the header of a snapshot that begins with these bytes: as many as there are,
    /// or [`SIZE`] and any others.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let bytes = header_of(Kind::Filter, bytes)?;
        let long = |at| number(&bytes[at..at + 8]);
        let short = |at| number(&bytes[at..at + 4]) as u32;
        let parameters = Parameters {
            slots: long(offset::SLOTS),
            remainder_bits: short(offset::REMAINDER_BITS),
            slot_bits: short(offset::SLOT_BITS),
            value_bits: short(offset::VALUE_BITS),
            hash: scheme_of(short(offset::HASH))?,
        };
        parameters.check().map_err(|error| SnapshotError::Header(error.to_string()))?;
        let tally = Tally {
            len: long(offset::LEN),
            extra_slots: long(offset::EXTRA_SLOTS),
            used: long(offset::USED),
            adaptations: long(offset::ADAPTATIONS),
            growth: Some(long(offset::GROWTH)).filter(|&bits| bits != 0).map(f64::from_bits),
        };
        check_tally(tally, parameters.slots)?;
        let (sections, flags) = Sections::read(bytes)?;
        check_unknown(flags, &bytes[offset::RESERVED..offset::BEHIND])?;
        let stored = sections.lines;
        let memory = || SnapshotError::Memory { bytes: sections.table_size() };
        let lines = AdaptiveQuotientFilter::lines_for(parameters).ok_or_else(memory)?;
        if stored != lines {
            return Err(SnapshotError::Header(format!(
                "{} slots of {} bits take {lines} lines, not {stored}",
                parameters.slots, parameters.slot_bits
            )));
        }
        Ok(Self { parameters, tally, sections })
    }
}

/// Checks that nothing is said that this version doesn't know.
pub(super) fn check_unknown(flags: u32, reserved: &[u8]) -> Result<(), SnapshotError> {
    if flags == 0 && reserved.iter().all(|&byte| byte == 0) {
        return Ok(());
    }
    Err(impossible("it says what version 1 knows nothing of"))
}

/// A little-endian number of at most 8 bytes.
pub(super) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

pub(super) fn impossible(reason: &str) -> SnapshotError {
    SnapshotError::Header(reason.into())
}

/// Checks what needs no look at the table.
fn check_tally(tally: Tally, slots: u64) -> Result<(), SnapshotError> {
    let Tally { len, extra_slots, used, adaptations, growth } = tally;
    if extra_slots > used || used > slots {
        return Err(impossible("more slots are used than there are"));
    }
    if len > MOST || adaptations > MOST {
        return Err(impossible("more members or repairs than can be counted"));
    }
    if growth.is_some_and(|load| !GROWTH_LOADS.contains(&load)) {
        return Err(impossible("no filter grows at such a load"));
    }
    Ok(())
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
