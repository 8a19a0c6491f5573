//! What follows a header, and what headers of all kinds say of it in the same places: the lines of
//! a table, and perhaps a secret.

use super::SnapshotError;
use super::describe::{SIZE, impossible};
use super::kind::Kind;
use crate::Secret;
use crate::bits::memory::{LINE, Lines, Source};
use crate::error::Invalid;
use std::io::Write;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The version that is written, and the only one that is read.
pub(super) const VERSION: u32 = 1;

/// Bytes of a secret section.
pub(super) const SECRET_SIZE: usize = LINE;

mod offset {
    pub(super) const VERSION: usize = 8;
    pub(super) const FLAGS: usize = 12;
    pub(super) const LINES: usize = 72;
    pub(super) const MARK: usize = 80;
    pub(super) const TABLE_CHECKSUM: usize = 116;
    pub(super) const SECRET_CHECKSUM: usize = 120;
    pub(super) const CHECKSUM: usize = 124;
}

/// Flags: whether there is a secret section.
const SECRET: u32 = 1;

/// What a snapshot tells of the secret.
#[derive(Clone, Copy)]
pub(crate) enum Telling<'a> {
    Nothing,
    /// A mark, by which a different secret is noticed.
    Mark(&'a Secret),
    /// The secret itself.
    All(&'a Secret),
}

/// Which secret a reader needs.
pub(crate) enum Need {
    /// None: what the snapshot tells of a secret is ignored.
    Nothing,
    /// The one in the snapshot.
    Own,
    /// This one, unless the snapshot has the mark of a different one.
    Given(Secret),
}

impl From<Option<Secret>> for Need {
    fn from(given: Option<Secret>) -> Self {
        given.map_or(Self::Own, Self::Given)
    }
}

/// What a snapshot says of its sections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sections {
    /// Lines of the table, without the one behind them.
    pub(super) lines: usize,
    /// The mark of the secret; 0 if it isn't known.
    pub(super) mark: u64,
    pub(super) table_checksum: u32,
    /// Of the secret section, if there is one.
    pub(super) secret_checksum: Option<u32>,
}

impl Sections {
    /// The sections of a table, and of what is told of the secret.
    pub(super) fn of(lines: &Lines, telling: Telling<'_>) -> Self {
        let (len, table_checksum) = (lines.len(), table_checksum(lines));
        Self { lines: len, mark: 0, table_checksum, secret_checksum: None }.telling(telling)
    }

    /// The same sections, except for what they tell of the secret.
    pub(super) fn telling(self, telling: Telling<'_>) -> Self {
        let mark = match telling {
            Telling::Nothing => 0,
            Telling::Mark(secret) | Telling::All(secret) => secret.mark(),
        };
        let secret_checksum = telling.section().map(|section| crc32fast::hash(&*section));
        Self { mark, secret_checksum, ..self }
    }

    /// The secret that a reader needs, where `own` is the one in the snapshot.
    pub(super) fn secret(
        &self,
        need: Need,
        own: impl FnOnce() -> Result<Option<Secret>, SnapshotError>,
    ) -> Result<Option<Secret>, SnapshotError> {
        match need {
            Need::Nothing => Ok(None),
            Need::Own => own()?.ok_or(SnapshotError::NoSecret).map(Some),
            Need::Given(secret) => check_mark(self.mark, &secret).map(|()| Some(secret)),
        }
    }

    /// Bytes of the table section.
    pub(super) fn table_size(&self) -> u64 {
        (self.lines as u64 + 1) * LINE as u64
    }

    /// Bytes of the whole snapshot.
    pub(super) fn total_size(&self) -> u64 {
        let secret = if self.secret_checksum.is_some() { SECRET_SIZE } else { 0 };
        (SIZE + secret) as u64 + self.table_size()
    }

    /// Completes a header of this kind, which has those flags of its own: all but what only its
    /// kind has.
    pub(super) fn seal(&self, kind: Kind, flags: u32, bytes: &mut [u8; SIZE]) {
        let secret = if self.secret_checksum.is_some() { SECRET } else { 0 };
        bytes[..offset::VERSION].copy_from_slice(&kind.magic());
        put(bytes, offset::VERSION, VERSION.to_le_bytes());
        put(bytes, offset::FLAGS, (flags | secret).to_le_bytes());
        put(bytes, offset::LINES, (self.lines as u64).to_le_bytes());
        put(bytes, offset::MARK, self.mark.to_le_bytes());
        put(bytes, offset::TABLE_CHECKSUM, self.table_checksum.to_le_bytes());
        put(bytes, offset::SECRET_CHECKSUM, self.secret_checksum.unwrap_or(0).to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..offset::CHECKSUM]);
        put(bytes, offset::CHECKSUM, checksum.to_le_bytes());
    }

    /// What a header says of them, and its flags of other things. How many lines there may be is
    /// for its kind to check.
    pub(super) fn read(bytes: &[u8; SIZE]) -> Result<(Self, u32), SnapshotError> {
        let long = |at| number(&bytes[at..at + 8]);
        let short = |at| number(&bytes[at..at + 4]) as u32;
        let (flags, secret_checksum) = (short(offset::FLAGS), short(offset::SECRET_CHECKSUM));
        let has_secret = flags & SECRET != 0;
        if !has_secret && secret_checksum != 0 {
            return Err(impossible("there is a checksum of a secret, but none"));
        }
        if has_secret && long(offset::MARK) == 0 {
            return Err(impossible("there is a secret, but no mark of it"));
        }
        let lines = long(offset::LINES);
        let memory = SnapshotError::Memory { bytes: lines.saturating_mul(LINE as u64) };
        // So that sizes in bytes can be counted.
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
        telling: Telling<'_>,
        writer: &mut impl Write,
    ) -> Result<(), SnapshotError> {
        writer.write_all(table_of(lines))?;
        writer.write_all(&[0; LINE])?;
        if let Some(secret) = telling.section() {
            writer.write_all(&*secret)?;
        }
        Ok(())
    }

    /// The lines of the table of a snapshot in memory, which must be as long as it says.
    pub(super) fn lines_in(&self, source: &Arc<dyn Source>) -> Result<Lines, SnapshotError> {
        let (found, expected) = (source.bytes().len() as u64, self.total_size());
        if found > expected {
            return Err(SnapshotError::TooLong { expected });
        }
        let lines = Lines::shared(Arc::clone(source), SIZE, self.lines);
        let lines = lines.filter(|_| found == expected);
        lines.ok_or(SnapshotError::Truncated { found, expected })
    }

    /// Checks the sections of a snapshot in memory, whose lines these are.
    pub(super) fn verify(&self, source: &dyn Source, lines: &Lines) -> Result<(), SnapshotError> {
        let section = lines.bytes();
        if crc32fast::hash(section) != self.table_checksum {
            return Err(SnapshotError::Checksum { section: "table" });
        }
        check_behind(&section[section.len() - LINE..])?;
        self.secret_in(source).map(drop)
    }

    /// A copy of those lines that can be changed, with the checks of [`verify`](Self::verify). It
    /// is the copy that is checked: the original could change in between.
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

    /// The secret in a snapshot in memory, if there is one.
    pub(super) fn secret_in(&self, source: &dyn Source) -> Result<Option<Secret>, SnapshotError> {
        let Some(checksum) = self.secret_checksum else { return Ok(None) };
        let section = source.bytes().last_chunk();
        let section = section.ok_or(SnapshotError::Checksum { section: "secret" })?;
        checked_secret(section, checksum, self.mark).map(Some)
    }
}

impl Telling<'_> {
    /// The secret section, if there is one.
    fn section(self) -> Option<Zeroizing<[u8; SECRET_SIZE]>> {
        let Self::All(secret) = self else { return None };
        let mut section = Zeroizing::new([0; SECRET_SIZE]);
        section[..secret.expose().len()].copy_from_slice(secret.expose());
        Some(section)
    }
}

/// Puts the bytes of a number where they belong.
pub(super) fn put<const COUNT: usize>(bytes: &mut [u8; SIZE], at: usize, number: [u8; COUNT]) {
    bytes[at..at + COUNT].copy_from_slice(&number);
}

/// The header of a snapshot of this kind, which begins with these bytes: as many as there are, or
/// [`SIZE`] and any others.
pub(super) fn header_of(kind: Kind, bytes: &[u8]) -> Result<&[u8; SIZE], SnapshotError> {
    let header = first_bytes(kind, bytes)?;
    let checksum = number(&header[offset::CHECKSUM..]) as u32;
    if checksum != crc32fast::hash(&header[..offset::CHECKSUM]) {
        return Err(SnapshotError::Checksum { section: "header" });
    }
    Ok(header)
}

/// The first bytes of a snapshot, which must be of this kind and of the version that is read.
pub(super) fn first_bytes<const COUNT: usize>(
    kind: Kind,
    bytes: &[u8],
) -> Result<&[u8; COUNT], SnapshotError> {
    kind.check(bytes)?;
    // Before anything else, because another version may have another header.
    if let Some(version) = bytes.get(offset::VERSION..offset::FLAGS) {
        match number(version) as u32 {
            VERSION => {}
            found => return Err(SnapshotError::Version { found }),
        }
    }
    let (found, expected) = (bytes.len() as u64, COUNT as u64);
    bytes.first_chunk().ok_or(SnapshotError::Truncated { found, expected })
}

/// A little-endian number of at most 8 bytes.
pub(super) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// The secret in a section, which has that checksum and that mark.
pub(super) fn checked_secret(
    section: &[u8; SECRET_SIZE],
    checksum: u32,
    mark: u64,
) -> Result<Secret, SnapshotError> {
    if crc32fast::hash(section) != checksum {
        return Err(SnapshotError::Checksum { section: "secret" });
    }
    let (secret, behind) = section.split_first_chunk().expect("more bytes than a secret's");
    if behind.iter().any(|&byte| byte != 0) {
        return Err(Invalid("the bytes behind the secret aren't zero".into()).into());
    }
    let secret = Secret::from_bytes(*secret);
    check_mark(mark, &secret)?;
    Ok(secret)
}

/// Whether a secret has that mark; 0 is anyone's.
fn check_mark(mark: u64, secret: &Secret) -> Result<(), SnapshotError> {
    if mark == 0 || mark == secret.mark() { Ok(()) } else { Err(SnapshotError::OtherSecret) }
}

/// Checks the line behind a table.
pub(super) fn check_behind(line: &[u8]) -> Result<(), SnapshotError> {
    if line.iter().all(|&byte| byte == 0) {
        return Ok(());
    }
    Err(Invalid("the line behind the table isn't zero".into()).into())
}

/// The lines of a table, without the one behind them.
fn table_of(lines: &Lines) -> &[u8] {
    &lines.bytes()[..lines.len() * LINE]
}

/// The checksum of the section of a table: its lines, and one of zeros.
fn table_checksum(lines: &Lines) -> u32 {
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(table_of(lines));
    checksum.update(&[0; LINE]);
    checksum.finalize()
}
