//! The header: read and written as the [module](super) says.

use super::SnapshotError;
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
}

impl Kind {
    pub(super) fn magic(self) -> [u8; 8] {
        match self {
            Self::Filter => *b"\x89TWSHY\r\n",
            Self::Shards => *b"\x89TWSHC\r\n",
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
        Err(match self {
            Self::Filter if begins_as(Self::Shards) => {
                SnapshotError::OtherKind { found: "a concurrent filter" }
            }
            Self::Shards if begins_as(Self::Filter) => {
                SnapshotError::OtherKind { found: "a filter that isn't concurrent" }
            }
            _ => SnapshotError::NotASnapshot,
        })
    }
}

/// Flags: whether there is a secret section.
const SECRET: u32 = 1;

/// Counts stay far from overflow, whatever is counted later.
const MOST: u64 = 1 << 62;

mod offset {
    pub(super) const VERSION: usize = 8;
    pub(super) const FLAGS: usize = 12;
    pub(super) const SLOTS: usize = 16;
    pub(super) const REMAINDER_BITS: usize = 24;
    pub(super) const SLOT_BITS: usize = 28;
    pub(super) const VALUE_BITS: usize = 32;
    pub(super) const HASH: usize = 36;
    pub(super) const LEN: usize = 40;
    pub(super) const EXTRA_SLOTS: usize = 48;
    pub(super) const USED: usize = 56;
    pub(super) const ADAPTATIONS: usize = 64;
    pub(super) const LINES: usize = 72;
    pub(super) const MARK: usize = 80;
    pub(super) const GROWTH: usize = 88;
    pub(super) const RESERVED: usize = 96;
    pub(super) const TABLE_CHECKSUM: usize = 116;
    pub(super) const SECRET_CHECKSUM: usize = 120;
    pub(super) const CHECKSUM: usize = 124;
}

/// What a snapshot says of itself.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Header {
    pub(super) parameters: Parameters,
    pub(super) tally: Tally,
    /// Lines of the table, without the one behind them.
    pub(super) lines: usize,
    /// The mark of the secret; 0 if it isn't known.
    pub(super) mark: u64,
    pub(super) table_checksum: u32,
    /// Of the secret section, if there is one.
    pub(super) secret_checksum: Option<u32>,
}

impl Header {
    /// Bytes of the table section.
    pub(super) fn table_size(&self) -> u64 {
        (self.lines as u64 + 1) * LINE as u64
    }

    /// Bytes of the whole snapshot.
    pub(super) fn total_size(&self) -> u64 {
        let secret = if self.secret_checksum.is_some() { SECRET_SIZE } else { 0 };
        (SIZE + secret) as u64 + self.table_size()
    }

    pub(super) fn to_bytes(&self) -> [u8; SIZE] {
        let Parameters { slots, remainder_bits, slot_bits, value_bits, hash } = self.parameters;
        let Tally { len, extra_slots, used, adaptations, growth } = self.tally;
        let mut bytes = [0; SIZE];
        bytes[..offset::VERSION].copy_from_slice(&Kind::Filter.magic());
        for (at, number) in [
            (offset::VERSION, VERSION),
            (offset::FLAGS, if self.secret_checksum.is_some() { SECRET } else { 0 }),
            (offset::REMAINDER_BITS, remainder_bits),
            (offset::SLOT_BITS, slot_bits),
            (offset::VALUE_BITS, value_bits),
            (offset::HASH, code_of(hash)),
            (offset::TABLE_CHECKSUM, self.table_checksum),
            (offset::SECRET_CHECKSUM, self.secret_checksum.unwrap_or(0)),
        ] {
            bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        for (at, number) in [
            (offset::SLOTS, slots),
            (offset::LEN, len),
            (offset::EXTRA_SLOTS, extra_slots),
            (offset::USED, used),
            (offset::ADAPTATIONS, adaptations),
            (offset::LINES, self.lines as u64),
            (offset::MARK, self.mark),
            (offset::GROWTH, growth.map_or(0, f64::to_bits)),
        ] {
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        let checksum = crc32fast::hash(&bytes[..offset::CHECKSUM]);
        bytes[offset::CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// What the last bytes of the header are: different headers seldom have the same. A checksum
    /// of whole headers would be no use, because behind its own checksum any header's is the same.
    pub(super) fn checksum(&self) -> u32 {
        number(&self.to_bytes()[offset::CHECKSUM..]) as u32
    }

    /// Reads the header of a snapshot that begins with these bytes: as many as there are,
    /// or [`SIZE`] and any others.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, SnapshotError> {
        Kind::Filter.check(bytes)?;
        // Before anything else, because another version may have another header.
        if let Some(version) = bytes.get(offset::VERSION..offset::FLAGS) {
            match number(version) as u32 {
                VERSION => {}
                found => return Err(SnapshotError::Version { found }),
            }
        }
        let found = bytes.len() as u64;
        let truncated = SnapshotError::Truncated { found, expected: SIZE as u64 };
        Self::of(bytes.first_chunk().ok_or(truncated)?)
    }

    fn of(bytes: &[u8; SIZE]) -> Result<Self, SnapshotError> {
        let long = |at| number(&bytes[at..at + 8]);
        let short = |at| number(&bytes[at..at + 4]) as u32;
        if short(offset::CHECKSUM) != crc32fast::hash(&bytes[..offset::CHECKSUM]) {
            return Err(SnapshotError::Checksum { section: "header" });
        }
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
        let reserved = &bytes[offset::RESERVED..offset::TABLE_CHECKSUM];
        let (flags, secret_checksum) = (short(offset::FLAGS), short(offset::SECRET_CHECKSUM));
        let has_secret = flags == SECRET;
        if flags & !SECRET != 0 || reserved.iter().any(|&byte| byte != 0) {
            return Err(impossible("it says what version 1 knows nothing of"));
        }
        if !has_secret && secret_checksum != 0 {
            return Err(impossible("there is a checksum of a secret, but none"));
        }
        if has_secret && long(offset::MARK) == 0 {
            return Err(impossible("there is a secret, but no mark of it"));
        }
        let stored = long(offset::LINES);
        let memory = || SnapshotError::Memory { bytes: stored.saturating_mul(LINE as u64) };
        let lines = AdaptiveQuotientFilter::lines_for(parameters).ok_or_else(memory)?;
        if stored != lines as u64 {
            return Err(SnapshotError::Header(format!(
                "{} slots of {} bits take {lines} lines, not {stored}",
                parameters.slots, parameters.slot_bits
            )));
        }
        Ok(Self {
            parameters,
            tally,
            lines,
            mark: long(offset::MARK),
            table_checksum: short(offset::TABLE_CHECKSUM),
            secret_checksum: has_secret.then_some(secret_checksum),
        })
    }
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
