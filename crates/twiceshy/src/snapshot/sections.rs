//! The sections that follow a header, a table and an optional secret, and the header fields that
//! describe them. These fields are the same for all kinds of filters.

use super::SnapshotError;
use super::describe::{SIZE, bad_header};
use super::kind::Kind;
use crate::Secret;
use crate::bits::memory::{LINE, Lines, Source};
use crate::error::Invalid;
use std::io::Write;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The format version that is written, and the only one that can be read.
pub(super) const VERSION: u32 = 1;

/// Size of a secret section in bytes.
pub(super) const SECRET_SIZE: usize = LINE;

mod offset {
    pub(super) const VERSION: usize = 8;
    pub(super) const FLAGS: usize = 12;
    pub(super) const LINES: usize = 72;
    pub(super) const MARK: usize = 80;
    pub(super) const TABLE_CHECKSUM: usize = 116;
    pub(super) const SECRET_CHECKSUM: usize = 120;
}

/// Flag of a header with a secret section.
const SECRET: u32 = 1;

/// The record of the secret in a snapshot: nothing, a mark, or the secret itself.
#[derive(Clone, Copy)]
pub(crate) enum SecretRecord<'a> {
    Nothing,
    /// A mark that reveals whether a reader has a different secret.
    Mark(&'a Secret),
    /// The secret and its mark.
    Full(&'a Secret),
}

/// Where a reader gets the secret from.
pub(crate) enum SecretSource {
    /// The reader needs no secret and ignores the one in the snapshot.
    Ignore,
    /// The snapshot must contain the secret.
    Snapshot,
    /// The caller passed the secret. The mark in the snapshot must match it.
    Caller(Secret),
}

impl From<Option<Secret>> for SecretSource {
    fn from(given: Option<Secret>) -> Self {
        given.map_or(Self::Snapshot, Self::Caller)
    }
}

/// The sizes and checksums of a snapshot's sections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sections {
    /// Lines of the table, without the line of zeros that follows them.
    pub(super) lines: usize,
    /// The mark of the secret, or 0 if the secret is unknown.
    pub(super) mark: u64,
    pub(super) table_checksum: u32,
    /// Checksum of the secret section, if there is one.
    pub(super) secret_checksum: Option<u32>,
}

impl Sections {
    pub(super) fn of(lines: &Lines, secret: SecretRecord<'_>) -> Self {
        let (len, table_checksum) = (lines.len(), table_checksum(lines));
        Self { lines: len, mark: 0, table_checksum, secret_checksum: None }.with_secret(secret)
    }

    /// Returns the same sections with this record of the secret.
    pub(super) fn with_secret(self, secret: SecretRecord<'_>) -> Self {
        let mark = match secret {
            SecretRecord::Nothing => 0,
            SecretRecord::Mark(secret) | SecretRecord::Full(secret) => secret.mark(),
        };
        let secret_checksum = secret.section().map(|section| crc32fast::hash(&*section));
        Self { mark, secret_checksum, ..self }
    }

    /// Returns the secret from `source`; `stored` reads the one in the snapshot.
    pub(super) fn secret(
        &self,
        source: SecretSource,
        stored: impl FnOnce() -> Result<Option<Secret>, SnapshotError>,
    ) -> Result<Option<Secret>, SnapshotError> {
        match source {
            SecretSource::Ignore => Ok(None),
            SecretSource::Snapshot => stored()?.ok_or(SnapshotError::NoSecret).map(Some),
            SecretSource::Caller(secret) => check_mark(self.mark, &secret).map(|()| Some(secret)),
        }
    }

    /// Returns the size of the table section in bytes.
    pub(super) fn table_size(&self) -> u64 {
        (self.lines as u64 + 1) * LINE as u64
    }

    /// Returns the size of the whole snapshot in bytes.
    pub(super) fn total_size(&self) -> u64 {
        let secret = if self.secret_checksum.is_some() { SECRET_SIZE } else { 0 };
        (SIZE + secret) as u64 + self.table_size()
    }

    /// Completes a header: writes all fields that are the same for every kind. `flags` are the
    /// flags of its kind.
    pub(super) fn seal(&self, kind: Kind, flags: u32, bytes: &mut [u8; SIZE]) {
        let secret = if self.secret_checksum.is_some() { SECRET } else { 0 };
        put(bytes, 0, kind.magic());
        put(bytes, offset::VERSION, VERSION.to_le_bytes());
        put(bytes, offset::FLAGS, (flags | secret).to_le_bytes());
        put(bytes, offset::LINES, (self.lines as u64).to_le_bytes());
        put(bytes, offset::MARK, self.mark.to_le_bytes());
        put(bytes, offset::TABLE_CHECKSUM, self.table_checksum.to_le_bytes());
        put(bytes, offset::SECRET_CHECKSUM, self.secret_checksum.unwrap_or(0).to_le_bytes());
        seal(bytes);
    }

    /// Reads the sections from a header, and the flags of its kind. The caller checks the number
    /// of lines.
    pub(super) fn read(bytes: &[u8; SIZE]) -> Result<(Self, u32), SnapshotError> {
        let long = |at| number(&bytes[at..at + 8]);
        let short = |at| number(&bytes[at..at + 4]) as u32;
        let (flags, secret_checksum) = (short(offset::FLAGS), short(offset::SECRET_CHECKSUM));
        let has_secret = flags & SECRET != 0;
        if !has_secret && secret_checksum != 0 {
            return Err(bad_header("it has a checksum of a secret, but no secret"));
        }
        if has_secret && long(offset::MARK) == 0 {
            return Err(bad_header("it has a secret, but no mark of it"));
        }
        let lines = long(offset::LINES);
        let memory = SnapshotError::Memory { bytes: lines.saturating_mul(LINE as u64) };
        // The limit keeps sizes in bytes from overflowing.
        let lines = usize::try_from(lines).ok().filter(|&lines| lines < usize::MAX / LINE - 4);
        let sections = Self {
            lines: lines.ok_or(memory)?,
            mark: long(offset::MARK),
            table_checksum: short(offset::TABLE_CHECKSUM),
            secret_checksum: has_secret.then_some(secret_checksum),
        };
        Ok((sections, flags & !SECRET))
    }

    /// Writes the sections that follow a header.
    pub(super) fn write(
        lines: &Lines,
        secret: SecretRecord<'_>,
        writer: &mut impl Write,
    ) -> Result<(), SnapshotError> {
        writer.write_all(table_of(lines))?;
        writer.write_all(&[0; LINE])?;
        if let Some(section) = secret.section() {
            writer.write_all(&*section)?;
        }
        Ok(())
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

    /// Checks the sections of a snapshot in memory; `lines` is its table.
    pub(super) fn verify(&self, source: &dyn Source, lines: &Lines) -> Result<(), SnapshotError> {
        let section = lines.bytes();
        if crc32fast::hash(section) != self.table_checksum {
            return Err(SnapshotError::Checksum { section: "table" });
        }
        check_padding(&section[section.len() - LINE..])?;
        self.secret_in(source).map(drop)
    }

    /// Returns a copy of the table that can be changed, with the checks of
    /// [`verify`](Self::verify). It checks the copy, because the original may change meanwhile.
    pub(super) fn copied(
        &self,
        source: &dyn Source,
        lines: &Lines,
    ) -> Result<Lines, SnapshotError> {
        let memory = SnapshotError::Memory { bytes: self.table_size() };
        let lines = lines.copied().ok_or(memory)?;
        if table_checksum(&lines) != self.table_checksum {
            return Err(SnapshotError::Checksum { section: "table" });
        }
        self.secret_in(source)?;
        Ok(lines)
    }

    /// Returns the secret in a snapshot in memory, if there is one.
    pub(super) fn secret_in(&self, source: &dyn Source) -> Result<Option<Secret>, SnapshotError> {
        let Some(checksum) = self.secret_checksum else { return Ok(None) };
        let section = source.bytes().last_chunk();
        let section = section.ok_or(SnapshotError::Checksum { section: "secret" })?;
        checked_secret(section, checksum, self.mark).map(Some)
    }
}

impl SecretRecord<'_> {
    /// Returns the secret section, if there is one.
    fn section(self) -> Option<Zeroizing<[u8; SECRET_SIZE]>> {
        let Self::Full(secret) = self else { return None };
        let mut section = Zeroizing::new([0; SECRET_SIZE]);
        section[..secret.expose().len()].copy_from_slice(secret.expose());
        Some(section)
    }
}

/// Writes the bytes of a number at an offset.
pub(super) fn put<const COUNT: usize>(bytes: &mut [u8], at: usize, number: [u8; COUNT]) {
    bytes[at..at + COUNT].copy_from_slice(&number);
}

/// Writes the checksum of all other bytes to the last four.
pub(super) fn seal(bytes: &mut [u8]) {
    let (others, checksum) = bytes.split_last_chunk_mut().expect("more than four bytes");
    *checksum = crc32fast::hash(others).to_le_bytes();
}

/// Checks the checksum in the last four bytes.
pub(super) fn check_seal(bytes: &[u8], section: &'static str) -> Result<(), SnapshotError> {
    match bytes.split_last_chunk() {
        Some((others, checksum)) if crc32fast::hash(others).to_le_bytes() == *checksum => Ok(()),
        _ => Err(SnapshotError::Checksum { section }),
    }
}

/// Returns the header of a snapshot of this kind that begins with these bytes, after checking its
/// checksum. Bytes after the header are ignored.
pub(super) fn header_of(kind: Kind, bytes: &[u8]) -> Result<&[u8; SIZE], SnapshotError> {
    let header = first_bytes(kind, bytes)?;
    check_seal(header, "header")?;
    Ok(header)
}

/// Returns the first bytes of a snapshot, after checking its kind and version.
pub(super) fn first_bytes<const COUNT: usize>(
    kind: Kind,
    bytes: &[u8],
) -> Result<&[u8; COUNT], SnapshotError> {
    kind.check(bytes)?;
    // Check the version first, because a different version may have a different header.
    if let Some(version) = bytes.get(offset::VERSION..offset::FLAGS) {
        match number(version) as u32 {
            VERSION => {}
            found => return Err(SnapshotError::Version { found }),
        }
    }
    let (found, expected) = (bytes.len() as u64, COUNT as u64);
    bytes.first_chunk().ok_or(SnapshotError::Truncated { found, expected })
}

/// Reads a little-endian number of at most 8 bytes.
pub(super) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Returns the secret in a section, after checking its checksum and mark.
pub(super) fn checked_secret(
    section: &[u8; SECRET_SIZE],
    checksum: u32,
    mark: u64,
) -> Result<Secret, SnapshotError> {
    if crc32fast::hash(section) != checksum {
        return Err(SnapshotError::Checksum { section: "secret" });
    }
    let (secret, padding) = section.split_first_chunk().expect("a section is longer than a secret");
    if padding.iter().any(|&byte| byte != 0) {
        return Err(Invalid("the bytes after the secret are not 0".into()).into());
    }
    let secret = Secret::from_bytes(*secret);
    check_mark(mark, &secret)?;
    Ok(secret)
}

/// Checks that a secret has this mark; 0 fits every secret.
fn check_mark(mark: u64, secret: &Secret) -> Result<(), SnapshotError> {
    if mark == 0 || mark == secret.mark() { Ok(()) } else { Err(SnapshotError::OtherSecret) }
}

/// Checks the line of zeros after a table.
pub(super) fn check_padding(line: &[u8]) -> Result<(), SnapshotError> {
    if line.iter().all(|&byte| byte == 0) {
        return Ok(());
    }
    Err(Invalid("the line after the table is not 0".into()).into())
}

/// Returns the bytes of a table, without the line of zeros that follows it.
fn table_of(lines: &Lines) -> &[u8] {
    &lines.bytes()[..lines.len() * LINE]
}

/// Returns the checksum of a table section: the lines of the table and a line of zeros.
fn table_checksum(lines: &Lines) -> u32 {
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(table_of(lines));
    checksum.update(&[0; LINE]);
    checksum.finalize()
}
