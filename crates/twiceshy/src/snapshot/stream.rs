//! Reading and writing snapshots of any kind.

use super::SnapshotError;
use super::describe::{Contents, Describe, SIZE};
use super::sections::{Need, SECRET_SIZE, Sections, Telling, check_behind, checked_secret};
use crate::Secret;
use crate::bits::memory::{LINE, Lines};
use std::io::{ErrorKind, Read, Write};
use zeroize::Zeroizing;

/// How much is read at once: little enough to be in the cache when its checksum is computed.
const PIECE: usize = 1 << 18;

/// A filter of hashes that is written and read without a secret.
pub(crate) trait Stream: Sized {
    fn write(&self, writer: &mut impl Write) -> Result<(), SnapshotError>;

    fn read(input: &mut Input<impl Read>) -> Result<Self, SnapshotError>;
}

/// A filter that is written as one header and its sections, which may tell of a secret.
pub(crate) trait Table: Sized {
    /// Whether files with the secret are made to be published.
    const IS_PUBLISHED: bool;

    fn write_table(
        &self,
        telling: Telling<'_>,
        writer: &mut impl Write,
    ) -> Result<(), SnapshotError>;

    /// Returns the filter, and the secret if one is needed.
    fn read_table(
        input: &mut Input<impl Read>,
        need: Need,
    ) -> Result<(Self, Option<Secret>), SnapshotError>;
}

impl<F: Table> Stream for F {
    fn write(&self, writer: &mut impl Write) -> Result<(), SnapshotError> {
        self.write_table(Telling::Nothing, writer)
    }

    fn read(input: &mut Input<impl Read>) -> Result<Self, SnapshotError> {
        Ok(Self::read_table(input, Need::Nothing)?.0)
    }
}

impl<F: Describe> Table for F {
    const IS_PUBLISHED: bool = F::IS_PUBLISHED;

    fn write_table(
        &self,
        telling: Telling<'_>,
        writer: &mut impl Write,
    ) -> Result<(), SnapshotError> {
        let contents = Contents::<F>::of(self.header(), self.lines(), telling);
        contents.write(self.lines(), telling, writer).map(drop)
    }

    fn read_table(
        input: &mut Input<impl Read>,
        need: Need,
    ) -> Result<(Self, Option<Secret>), SnapshotError> {
        let contents = input.read_header::<F>()?.1;
        let (lines, own) = input.read_sections(&contents.sections)?;
        let secret = contents.sections.secret(need, || Ok(own))?;
        Ok((contents.checked(lines, secret.clone())?, secret))
    }
}

/// A reader, and how much was read from it.
pub(crate) struct Input<R> {
    reader: R,
    pub(super) found: u64,
}

impl<R: Read> Input<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, found: 0 }
    }

    /// Reads one thing that nothing may follow.
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

    /// Reads a header: its bytes, and what they say.
    pub(super) fn read_header<F: Describe>(
        &mut self,
    ) -> Result<([u8; SIZE], Contents<F>), SnapshotError> {
        let start = self.found;
        let mut bytes = [0; SIZE];
        let found = self.read_some(&mut bytes)?;
        let contents = Contents::read(&bytes[..found]).map_err(|error| error.behind(start))?;
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

    /// Where a snapshot ends whose header was just read.
    pub(super) fn end_of(&self, sections: &Sections) -> u64 {
        self.found - SIZE as u64 + sections.total_size()
    }

    /// Reads the lines of a table. However large the header says that it is, its memory is touched only as far
    /// as there are bytes to be written to it.
    fn read_lines(&mut self, sections: &Sections, expected: u64) -> Result<Lines, SnapshotError> {
        let memory = SnapshotError::Memory { bytes: sections.table_size() };
        let mut lines = Lines::zeroed(sections.lines).ok_or(memory)?;
        let mut checksum = crc32fast::Hasher::new();
        let mut behind = [0; LINE];
        for piece in lines.bytes_mut().chunks_mut(PIECE).chain([&mut behind[..]]) {
            self.fill(piece, expected)?;
            checksum.update(piece);
        }
        if checksum.finalize() != sections.table_checksum {
            return Err(SnapshotError::Checksum { section: "table" });
        }
        check_behind(&behind)?;
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

    /// Fills a buffer from a snapshot that is as long as `expected`.
    pub(super) fn fill(&mut self, buffer: &mut [u8], expected: u64) -> Result<(), SnapshotError> {
        if self.read_some(buffer)? < buffer.len() {
            return Err(SnapshotError::Truncated { found: self.found, expected });
        }
        Ok(())
    }

    /// Reads until the buffer is full or nothing is left, and returns how many bytes it read.
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
