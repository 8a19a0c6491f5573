//! The sections after a header (a table and an optional secret), and the parts of a header that are
//! the same for all kinds of filters.

use super::describe::{Header, SIZE, bad_header};
use super::kind::Kind;
use super::{SecretMode, SnapshotError};
use crate::Secret;
use crate::bits::memory::{LINE, Lines, Source};
use crate::error::Invalid;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The format version that is written, and the only one that can be read.
pub(super) const VERSION: u32 = 1;

/// The number of the only hash scheme, which is that of [`KeyedHasher`](crate::hash::KeyedHasher).
pub(super) const HASH_SCHEME: u32 = 1;

/// Size of a secret section in bytes.
pub(super) const SECRET_SIZE: usize = LINE;

/// Flag of a header with a secret section.
pub(super) const SECRET: u32 = 1;

/// The secret that a snapshot records. With [`SecretMode::Omit`], it records only a mark, which
/// shows whether a reader has the same secret.
pub(crate) type SecretRecord<'a> = Option<(&'a Secret, SecretMode)>;

/// The fields of a header that are about the secret.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    /// The mark of the secret, or 0 if the secret is unknown.
    pub(super) number: u64,
    /// Checksum of the secret section, if there is one.
    pub(super) secret_checksum: Option<u32>,
}

impl Mark {
    pub(super) fn of(secret: SecretRecord<'_>) -> Self {
        let secret_checksum = secret_section(secret).map(|section| crc32fast::hash(&*section));
        Self { number: secret.map_or(0, |(secret, _)| secret.mark()), secret_checksum }
    }

    /// Reads the fields of a header.
    pub(super) fn read(flags: u32, number: u64, checksum: u32) -> Result<Self, SnapshotError> {
        match (flags & SECRET != 0, number, checksum) {
            (false, _, 1..) => Err(bad_header("it has a checksum of a secret, but no secret")),
            (true, 0, _) => Err(bad_header("it has a secret, but no mark of it")),
            (has_secret, ..) => {
                Ok(Self { number, secret_checksum: has_secret.then_some(checksum) })
            }
        }
    }

    /// Returns the flag of a header with a secret section, or 0.
    pub(super) fn flags(self) -> u32 {
        if self.secret_checksum.is_some() { SECRET } else { 0 }
    }

    /// Returns the size of the secret section in bytes.
    pub(super) fn section_size(self) -> u64 {
        if self.secret_checksum.is_some() { SECRET_SIZE as u64 } else { 0 }
    }

    /// Returns the `given` secret, or else the one in the last section of `bytes`, if there is one.
    /// Checks both.
    pub(super) fn secret(
        self,
        given: Option<Secret>,
        bytes: &[u8],
    ) -> Result<Option<Secret>, SnapshotError> {
        let stored = match (self.secret_checksum, bytes.last_chunk::<SECRET_SIZE>()) {
            (None, _) => None,
            (Some(checksum), Some(section)) if crc32fast::hash(section) == checksum => {
                let (secret, rest) = section.split_first_chunk().expect("a secret is shorter");
                check_zeros(rest, "the bytes after the secret are not 0")?;
                Some(Secret::from_bytes(*secret))
            }
            _ => return Err(SnapshotError::Checksum { section: "secret" }),
        };
        // With a mark of 0, every secret is accepted.
        let is_other = |secret: &Secret| self.number != 0 && self.number != secret.mark();
        if stored.iter().chain(&given).any(is_other) {
            return Err(SnapshotError::OtherSecret);
        }
        Ok(given.or(stored))
    }
}

impl Header {
    /// Returns the size of the table section in bytes.
    fn table_size(&self) -> u64 {
        (self.lines as u64 + 1) * LINE as u64
    }

    /// Returns the size of the whole snapshot in bytes.
    pub(super) fn total_size(&self) -> u64 {
        SIZE as u64 + self.mark.section_size() + self.table_size()
    }

    /// Returns an error which says that there is not enough memory for the table.
    pub(super) fn out_of_memory(&self) -> SnapshotError {
        SnapshotError::Memory { bytes: self.table_size() }
    }

    /// Returns the table of a snapshot in memory, whose size must match the header.
    pub(super) fn lines_in(&self, source: &Arc<dyn Source>) -> Result<Lines, SnapshotError> {
        let (found, expected) = (source.bytes().len() as u64, self.total_size());
        if found > expected {
            return Err(SnapshotError::TooLong { expected });
        }
        let lines = Lines::shared(Arc::clone(source), SIZE, self.lines);
        let lines = lines.filter(|_| found == expected);
        lines.ok_or(SnapshotError::Truncated { found, expected })
    }

    /// Checks the table `lines`, and the secret section of the snapshot in `source`.
    pub(super) fn verify(&self, source: &dyn Source, lines: &Lines) -> Result<(), SnapshotError> {
        let section = lines.bytes();
        self.check_table(crc32fast::hash(section), &section[section.len() - LINE..])?;
        self.mark.secret(None, source.bytes()).map(drop)
    }

    /// Checks the checksum of a table section, and the line of zeros at its end.
    pub(super) fn check_table(&self, checksum: u32, end: &[u8]) -> Result<(), SnapshotError> {
        if checksum != self.table_checksum {
            return Err(SnapshotError::Checksum { section: "table" });
        }
        check_zeros(end, "the line after the table is not 0")
    }
}

/// Returns the secret section, if there is one.
pub(super) fn secret_section(record: SecretRecord<'_>) -> Option<Zeroizing<[u8; SECRET_SIZE]>> {
    let Some((secret, SecretMode::Include)) = record else { return None };
    let mut section = Zeroizing::new([0; SECRET_SIZE]);
    section[..secret.expose().len()].copy_from_slice(secret.expose());
    Some(section)
}

/// Checks that unused bytes are 0, and returns the message `otherwise` if they are not.
pub(super) fn check_zeros(bytes: &[u8], otherwise: &str) -> Result<(), SnapshotError> {
    if bytes.iter().all(|&byte| byte == 0) {
        return Ok(());
    }
    Err(Invalid(otherwise.into()).into())
}

/// Concatenates `fields`, pads them with zeros, and stores the checksum of all other bytes in the
/// last four.
pub(super) fn sealed<const COUNT: usize>(fields: &[&[u8]]) -> [u8; COUNT] {
    let (mut bytes, fields) = ([0; COUNT], fields.concat());
    bytes[..fields.len()].copy_from_slice(&fields);
    let (others, checksum) = bytes.split_last_chunk_mut().expect("more than four bytes");
    *checksum = crc32fast::hash(others).to_le_bytes();
    bytes
}

/// Checks the checksum in the last four bytes.
pub(super) fn check_seal(bytes: &[u8], section: &'static str) -> Result<(), SnapshotError> {
    match bytes.split_last_chunk() {
        Some((others, checksum)) if crc32fast::hash(others).to_le_bytes() == *checksum => Ok(()),
        _ => Err(SnapshotError::Checksum { section }),
    }
}

/// Bytes whose fields are read one after another.
pub(super) struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// Returns the fields of a header, from the flags on, after checking the kind, the version and
    /// the checksum. The header is the first `COUNT` bytes; bytes after it are ignored.
    pub(super) fn header<const COUNT: usize>(
        kind: Kind,
        bytes: &'a [u8],
    ) -> Result<Self, SnapshotError> {
        kind.check(bytes)?;
        // Check the version first, because a different version may have a different header.
        if let Some(version) = bytes.get(8..12) {
            match Self(version).short() {
                VERSION => {}
                found => return Err(SnapshotError::Version { found }),
            }
        }
        let (found, expected) = (bytes.len() as u64, COUNT as u64);
        let header = bytes.get(..COUNT).ok_or(SnapshotError::Truncated { found, expected })?;
        check_seal(header, "header")?;
        Ok(Self(&header[12..]))
    }

    /// Takes the next bytes.
    pub(super) fn take<const COUNT: usize>(&mut self) -> [u8; COUNT] {
        let (first, rest) = self.0.split_first_chunk().expect("the fields fit");
        self.0 = rest;
        *first
    }

    pub(super) fn short(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    pub(super) fn long(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    pub(super) fn check_hash_scheme(&mut self) -> Result<(), SnapshotError> {
        match self.short() {
            HASH_SCHEME => Ok(()),
            other => Err(SnapshotError::Header(format!("hash scheme {other} is unknown"))),
        }
    }
}
