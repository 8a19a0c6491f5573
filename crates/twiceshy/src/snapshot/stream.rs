//! Reads and writes snapshots of any kind.

use super::SnapshotError;
use super::describe::{Describe, Header, SIZE};
use super::kind::Kind;
use super::sections::{Mark, SECRET_SIZE, SecretRecord};
use crate::bits::memory::{LINE, Lines};
use crate::{Filter, Secret};
use std::io::{ErrorKind, Read, Write};
use zeroize::Zeroizing;

/// Number of bytes per read. It is so small that they are still in the cache when their checksum is
/// computed.
const PIECE: usize = 1 << 18;

/// A filter that can be written and read without a secret.
pub(crate) trait Stream: Sized {
    fn write(&self, writer: &mut impl Write) -> Result<(), SnapshotError>;

    fn read(input: &mut Input<impl Read>) -> Result<Self, SnapshotError>;
}

/// A filter whose snapshot consists of a header, a table and, optionally, a secret.
pub(crate) trait Table: Sized {
    const KIND: Kind;

    fn write_table(
        &self,
        secret: SecretRecord<'_>,
        writer: &mut impl Write,
    ) -> Result<(), SnapshotError>;

    /// Reads a filter. Also returns the given secret or, if there is none, the one in the snapshot.
    fn read_table(
        input: &mut Input<impl Read>,
        secret: Option<Secret>,
    ) -> Result<(Self, Option<Secret>), SnapshotError>;
}

impl<F: Table + Filter> Stream for F {
    fn write(&self, writer: &mut impl Write) -> Result<(), SnapshotError> {
        self.write_table(None, writer)
    }

    fn read(input: &mut Input<impl Read>) -> Result<Self, SnapshotError> {
        Ok(Self::read_table(input, None)?.0)
    }
}

impl<F: Describe> Table for F {
    const KIND: Kind = F::KIND;

    fn write_table(
        &self,
        secret: SecretRecord<'_>,
        writer: &mut impl Write,
    ) -> Result<(), SnapshotError> {
        let lines = self.lines()?;
        Header::new::<F>(self.fields(), &lines, secret).write(&lines, secret, writer)
    }

    fn read_table(
        input: &mut Input<impl Read>,
        secret: Option<Secret>,
    ) -> Result<(Self, Option<Secret>), SnapshotError> {
        let header = input.read_header::<F>()?.1;
        let (lines, secret) = input.read_sections(&header, secret)?;
        Ok((header.assemble::<F>(lines, secret.clone())?.checked()?, secret))
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

    /// Reads a header. Returns its bytes and the decoded header.
    pub(super) fn read_header<F: Describe>(
        &mut self,
    ) -> Result<([u8; SIZE], Header), SnapshotError> {
        let mut bytes = [0; SIZE];
        let found = self.read_some(&mut bytes)?;
        let header = Header::read::<F>(&bytes[..found]).map_err(|error| match error {
            SnapshotError::Truncated { found, expected } => {
                let expected = self.found - found + expected;
                SnapshotError::Truncated { found: self.found, expected }
            }
            other => other,
        });
        Ok((bytes, header?))
    }

    /// Returns the position at which a snapshot ends. `header` is its header, and was just read.
    pub(super) fn end_of(&self, header: &Header) -> u64 {
        self.found - SIZE as u64 + header.total_size()
    }

    /// Reads the sections that follow a header, and returns the table and the
    /// [secret](Mark::secret). Even if the header claims a huge size, this touches no more memory
    /// than there are bytes to read.
    pub(super) fn read_sections(
        &mut self,
        header: &Header,
        given: Option<Secret>,
    ) -> Result<(Lines, Option<Secret>), SnapshotError> {
        let expected = self.end_of(header);
        let mut lines = Lines::zeroed(header.lines).ok_or(header.out_of_memory())?;
        let mut checksum = crc32fast::Hasher::new();
        let mut end = [0; LINE];
        for piece in lines.bytes_mut().chunks_mut(PIECE).chain([&mut end[..]]) {
            self.fill(piece, expected)?;
            checksum.update(piece);
        }
        header.check_table(checksum.finalize(), &end)?;
        Ok((lines, self.read_secret(header.mark, given, expected)?))
    }

    /// Reads the secret section, if there is one, and returns the [secret](Mark::secret).
    pub(super) fn read_secret(
        &mut self,
        mark: Mark,
        given: Option<Secret>,
        expected: u64,
    ) -> Result<Option<Secret>, SnapshotError> {
        let mut section = Zeroizing::new([0; SECRET_SIZE]);
        let size = mark.section_size() as usize;
        self.fill(&mut section[..size], expected)?;
        mark.secret(given, &*section)
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
