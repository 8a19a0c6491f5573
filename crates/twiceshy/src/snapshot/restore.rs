//! Reading a snapshot into a filter that can be changed.

use super::error::{SnapshotError, at};
use super::header::{Header, SECRET_SIZE, SIZE};
use super::sections::{Sections, check_behind, checked_secret};
use crate::bits::memory::{LINE, Lines};
use crate::{AdaptiveQuotientFilter, Secret};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use zeroize::Zeroizing;

/// How much is read at once: little enough to be in the cache when it is summed up.
const PIECE: usize = 1 << 18;

/// What a snapshot holds.
pub(super) struct Loaded {
    pub(super) filter: AdaptiveQuotientFilter,
    /// The mark of the secret; 0 if it isn't known.
    pub(super) mark: u64,
    pub(super) secret: Option<Secret>,
}

impl AdaptiveQuotientFilter {
    /// Reads a [snapshot](crate::snapshot), all of it and not a byte more. Its checksums and
    /// all invariants are checked.
    ///
    /// A filter of hashes knows nothing of secrets: one that is in the snapshot, or the mark of
    /// one, is passed over, and no longer there when the filter is saved again. Where there are
    /// keys, restore with the secret, as [`Keyed::restore`](crate::Keyed::restore) does.
    ///
    /// The filter is another one than the one that was saved: claims of that one are stale.
    ///
    /// # Errors
    /// If reading fails, or if it is no snapshot of a valid filter.
    pub fn restore(reader: impl Read) -> Result<Self, SnapshotError> {
        Ok(read(reader)?.filter)
    }

    /// As [`restore`](Self::restore), of a file that holds nothing else.
    ///
    /// # Errors
    /// As [`restore`](Self::restore), or if the file can't be opened or is too long.
    pub fn restore_from(path: impl AsRef<Path>) -> Result<Self, SnapshotError> {
        Ok(read_from(path.as_ref())?.filter)
    }
}

/// Reads a snapshot from a file.
pub(super) fn read_from(path: &Path) -> Result<Loaded, SnapshotError> {
    at(path, |path| read_whole(File::open(path)?))
}

/// Reads a snapshot behind which nothing may follow.
pub(super) fn read_whole(mut reader: impl Read) -> Result<Loaded, SnapshotError> {
    let mut input = Input::new(&mut reader);
    let loaded = input.read()?;
    input.end()?;
    Ok(loaded)
}

/// Reads a snapshot.
pub(super) fn read(reader: impl Read) -> Result<Loaded, SnapshotError> {
    Input::new(reader).read()
}

/// What is read, and how much of it was.
pub(super) struct Input<R> {
    reader: R,
    pub(super) found: u64,
}

impl<R: Read> Input<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, found: 0 }
    }

    fn read(&mut self) -> Result<Loaded, SnapshotError> {
        let header = self.read_header()?;
        self.read_behind(&header)
    }

    /// Checks that nothing follows.
    pub(super) fn end(&mut self) -> Result<(), SnapshotError> {
        let expected = self.found;
        match self.read_some(&mut [0])? {
            0 => Ok(()),
            _ => Err(SnapshotError::TooLong { expected }),
        }
    }

    pub(super) fn read_header(&mut self) -> Result<Header, SnapshotError> {
        self.read_header_by(Header::read)
    }

    /// Reads a header of any kind.
    pub(super) fn read_header_by<H>(
        &mut self,
        read: impl FnOnce(&[u8]) -> Result<H, SnapshotError>,
    ) -> Result<H, SnapshotError> {
        let start = self.found;
        let mut bytes = [0; SIZE];
        let found = self.read_some(&mut bytes)?;
        read(&bytes[..found]).map_err(|error| error.behind(start))
    }

    /// Reads what follows a header.
    pub(super) fn read_behind(&mut self, header: &Header) -> Result<Loaded, SnapshotError> {
        let (lines, secret) = self.read_sections(&header.sections)?;
        let filter = validated(header, lines)?;
        Ok(Loaded { filter, mark: header.sections.mark, secret })
    }

    /// Reads the sections that follow a header of any kind.
    pub(super) fn read_sections(
        &mut self,
        sections: &Sections,
    ) -> Result<(Lines, Option<Secret>), SnapshotError> {
        let expected = self.found - SIZE as u64 + sections.total_size();
        let lines = self.read_table(sections, expected)?;
        Ok((lines, self.read_secret(sections, expected)?))
    }

    /// However large the header says that the table is, its memory is touched only as far
    /// as there is something to be written to it.
    fn read_table(&mut self, sections: &Sections, expected: u64) -> Result<Lines, SnapshotError> {
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

    /// Reads until the buffer is full or nothing is left; how much.
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

/// The filter of a header and lines, all invariants checked.
pub(super) fn validated(
    header: &Header,
    lines: Lines,
) -> Result<AdaptiveQuotientFilter, SnapshotError> {
    let filter = AdaptiveQuotientFilter::from_parts(header.parameters, header.tally, lines);
    let filter = filter.expect("as many lines as the header says");
    Ok(filter.validated()?)
}
