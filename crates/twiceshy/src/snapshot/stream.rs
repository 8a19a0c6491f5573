//! Reads and writes snapshots of any kind.

use super::SnapshotError;
use super::describe::{Contents, Describe, SIZE};
use super::sections::{
    SECRET_SIZE, SecretRecord, SecretSource, Sections, check_padding, checked_secret,
};
use crate::bits::memory::{LINE, Lines};
use crate::{Filter, Secret};
use std::io::{ErrorKind, Read, Write};
use zeroize::Zeroizing;

/// Bytes per read: few enough to be still in the cache when their checksum is computed.
const PIECE: usize = 1 << 18;

/// A filter that can be written and read without a secret.
pub(crate) trait Stream: Sized {
    fn write(&self, writer: &mut impl Write) -> Result<(), SnapshotError>;

    fn read(input: &mut Input<impl Read>) -> Result<Self, SnapshotError>;
}

/// A filter that is written as one header and its sections, which may contain a secret.
pub(crate) trait Table: Sized {
    /// Whether files that contain the secret are meant for publication.
    const IS_PUBLISHED: bool;

    fn write_table(
        &self,
        secret: SecretRecord<'_>,
        writer: &mut impl Write,
    ) -> Result<(), SnapshotError>;

    /// Returns the filter, and the secret, unless it is ignored.
    fn read_table(
        input: &mut Input<impl Read>,
        secret: SecretSource,
    ) -> Result<(Self, Option<Secret>), SnapshotError>;
}

impl<F: Table + Filter> Stream for F {
    fn write(&self, writer: &mut impl Write) -> Result<(), SnapshotError> {
        self.write_table(SecretRecord::Nothing, writer)
    }

    fn read(input: &mut Input<impl Read>) -> Result<Self, SnapshotError> {
        Ok(Self::read_table(input, SecretSource::Ignore)?.0)
    }
}

impl<F: Describe> Table for F {
    const IS_PUBLISHED: bool = F::IS_PUBLISHED;

    fn write_table(
        &self,
        secret: SecretRecord<'_>,
        writer: &mut impl Write,
    ) -> Result<(), SnapshotError> {
        let contents = Contents::<F>::of(self.header(), self.lines(), secret);
        contents.write(self.lines(), secret, writer).map(drop)
    }

    fn read_table(
        input: &mut Input<impl Read>,
        secret: SecretSource,
    ) -> Result<(Self, Option<Secret>), SnapshotError> {
        let contents = input.read_header::<F>()?.1;
        let (lines, stored) = input.read_sections(&contents.sections)?;
        let secret = contents.sections.secret(secret, || Ok(stored))?;
        Ok((contents.checked(lines, secret.clone())?, secret))
    }
}

/// A reader, and the number of bytes read from it.
pub(crate) struct Input<R> {
    reader: R,
    pub(super) found: u64,
}

impl<R: Read> Input<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, found: 0 }
    }

    /// Reads one snapshot, and checks that no bytes follow it.
    pub(super) fn read_whole<T>(
        reader: R,
        read: impl FnOnce(&mut Self) -> Result<T, SnapshotError>,
    ) -> Result<T, SnapshotError> {
        let mut input = Self::new(reader);
        let whole = read(&mut input)?;
        let expected = input.found;
        match input.read_some(&mut [0])? {
            0 => Ok(whole),
            _ => Err(SnapshotError::TooLong { expected }),
        }
    }

    /// Reads a header, and returns its bytes and its contents.
    pub(super) fn read_header<F: Describe>(
        &mut self,
    ) -> Result<([u8; SIZE], Contents<F>), SnapshotError> {
        let start = self.found;
        let mut bytes = [0; SIZE];
        let found = self.read_some(&mut bytes)?;
        let contents = Contents::read(&bytes[..found]).map_err(|error| error.shifted_by(start))?;
        Ok((bytes, contents))
    }

    /// Reads the sections that follow a header.
    pub(super) fn read_sections(
        &mut self,
        sections: &Sections,
    ) -> Result<(Lines, Option<Secret>), SnapshotError> {
        let expected = self.end_of(sections);
        let lines = self.read_lines(sections, expected)?;
        Ok((lines, self.read_secret(sections, expected)?))
    }

    /// Returns the position at which the snapshot ends whose header was just read.
    pub(super) fn end_of(&self, sections: &Sections) -> u64 {
        self.found - SIZE as u64 + sections.total_size()
    }

    /// Reads the lines of a table. Even if the header claims a huge size, this touches only as
    /// much memory as there are bytes to read.
    fn read_lines(&mut self, sections: &Sections, expected: u64) -> Result<Lines, SnapshotError> {
        let memory = SnapshotError::Memory { bytes: sections.table_size() };
        let mut lines = Lines::zeroed(sections.lines).ok_or(memory)?;
        let mut checksum = crc32fast::Hasher::new();
        let mut padding = [0; LINE];
        for piece in lines.bytes_mut().chunks_mut(PIECE).chain([&mut padding[..]]) {
            self.fill(piece, expected)?;
            checksum.update(piece);
        }
        if checksum.finalize() != sections.table_checksum {
            return Err(SnapshotError::Checksum { section: "table" });
        }
        check_padding(&padding)?;
        Ok(lines)
    }

    fn read_secret(
        &mut self,
        sections: &Sections,
        expected: u64,
    ) -> Result<Option<Secret>, SnapshotError> {
        let Some(checksum) = sections.secret_checksum else { return Ok(None) };
        let mut section = Zeroizing::new([0; SECRET_SIZE]);
        self.fill(&mut *section, expected)?;
        checked_secret(&section, checksum, sections.mark).map(Some)
    }

    /// Fills a buffer from a snapshot that ends at position `expected`.
    pub(super) fn fill(&mut self, buffer: &mut [u8], expected: u64) -> Result<(), SnapshotError> {
        if self.read_some(buffer)? < buffer.len() {
            return Err(SnapshotError::Truncated { found: self.found, expected });
        }
        Ok(())
    }

    /// Reads until the buffer is full or the input ends, and returns the number of bytes read.
    pub(super) fn read_some(&mut self, buffer: &mut [u8]) -> Result<usize, SnapshotError> {
        let mut done = 0;
        while done < buffer.len() {
            match self.reader.read(&mut buffer[done..]) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.found += done as u64;
        Ok(done)
    }
}
