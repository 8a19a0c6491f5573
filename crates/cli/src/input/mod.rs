//! Reads lines from files and standard input, plain or compressed.

mod block;
mod compressed;

pub(crate) use block::Block;
pub(crate) use compressed::begins_as_text;

use crate::progress::{Progress, Total};
use crate::session::Session;
use anyhow::{Context as _, Error, Result, anyhow, bail};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The size of a block in bytes. A block is large enough to be worth passing to another thread, and
/// small enough for a cache.
const BLOCK: usize = 1 << 18;

/// Lines of at least `LONGEST` bytes may be refused. A file with such a line is probably not a text
/// file.
pub(crate) const LONGEST: usize = 1 << 30;

/// Which bytes lines may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    /// Any bytes except line endings.
    Bytes,
}

impl Encoding {
    /// Returns the encoding for the option `--bytes`.
    pub(crate) fn from_option(bytes: bool) -> Self {
        if bytes { Self::Bytes } else { Self::Utf8 }
    }
}

/// A source of lines, which are read in blocks.
pub(crate) struct Lines {
    name: String,
    reader: Box<dyn Read + Send>,
    encoding: Encoding,
    block_size: usize,
    longest: usize,
    /// The beginning of a line whose end has not been read yet.
    begun: Vec<u8>,
    /// A buffer to reuse, because allocating a new one takes longer than reading the lines.
    spare: Vec<u8>,
    /// The number of lines read so far.
    count: u64,
    /// The error to return next. It is about the line after the last returned block.
    error: Option<Error>,
    /// The progress bar. It is shown until everything is read.
    progress: Option<Progress>,
}

/// Returns whether a path stands for standard input.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// Returns an error if `-`, standard input, occurs more than once.
pub(crate) fn check_stdin_once(paths: &[PathBuf]) -> Result<()> {
    match paths.iter().filter(|path| is_stdin(path)).count() {
        0 | 1 => Ok(()),
        _ => bail!("standard input can be read only once; give `-` once"),
    }
}

impl Lines {
    /// Opens a file, or standard input for `-`.
    pub(crate) fn open(path: &Path, encoding: Encoding, session: &Session) -> Result<Self> {
        const TASK: &str = "reading";
        if is_stdin(path) {
            let progress = session.progress(TASK, Total::UnknownBytes);
            return Self::new("standard input".into(), io::stdin(), encoding, Some(progress));
        }
        let name = path.display().to_string();
        let file = File::open(path).with_context(|| name.clone())?;
        let metadata = file.metadata().with_context(|| name.clone())?;
        let total =
            if metadata.is_file() { Total::Bytes(metadata.len()) } else { Total::UnknownBytes };
        Self::new(name, file, encoding, Some(session.progress(TASK, total)))
    }

    pub(crate) fn new(
        name: String,
        reader: impl Read + Send + 'static,
        encoding: Encoding,
        progress: Option<Progress>,
    ) -> Result<Self> {
        let reader: Box<dyn Read + Send> = match &progress {
            Some(progress) => Box::new(progress.bar().wrap_read(reader)),
            None => Box::new(reader),
        };
        let text = compressed::decompressed(reader);
        let text =
            if encoding == Encoding::Utf8 { text.and_then(compressed::unmarked) } else { text };
        let reader = text.with_context(|| name.clone())?;
        let (block_size, longest) = (BLOCK, LONGEST);
        let (begun, spare, count, error) = (Vec::new(), Vec::new(), 0, None);
        Ok(Self {
            name,
            reader,
            encoding,
            block_size,
            longest,
            begun,
            spare,
            count,
            error,
            progress,
        })
    }

    /// Returns the name of the source, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the next block of lines, or `None` at the end.
    pub(crate) fn next_block(&mut self) -> Result<Option<Block>> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let mut buffer = std::mem::take(&mut self.spare);
        let len = self.read_lines(&mut buffer)?;
        if len == 0 {
            self.progress = None;
            return Ok(None);
        }
        let mut block = Block { buffer, len, first_line: self.count + 1 };
        if self.encoding == Encoding::Utf8
            && let Err(error) = std::str::from_utf8(block.bytes())
        {
            let valid = error.valid_up_to();
            let (name, line) = (&self.name, block.line_at(valid));
            let error =
                anyhow!("{name}: line {line} is not UTF-8; use --bytes to accept any bytes");
            // Return the lines before the bad line first.
            block.len = memchr::memrchr(b'\n', &block.bytes()[..valid]).map_or(0, |end| end + 1);
            if block.len == 0 {
                return Err(error);
            }
            self.error = Some(error);
        }
        self.count += block.count();
        Ok(Some(block))
    }

    /// Takes a block back to reuse its buffer.
    pub(crate) fn reuse(&mut self, block: Block) {
        self.spare = block.buffer;
    }

    /// Reads whole lines until the buffer is full or the source ends. If a line is longer than the
    /// buffer, the buffer grows. Returns the number of bytes.
    fn read_lines(&mut self, buffer: &mut Vec<u8>) -> Result<usize> {
        let mut filled = self.begun.len();
        self.grow(buffer, buffer.len().max(self.block_size).max(2 * filled))?;
        buffer[..filled].copy_from_slice(&self.begun);
        self.begun.clear();
        loop {
            let searched = filled;
            filled += self.fill(&mut buffer[searched..])?;
            if filled < buffer.len() {
                return Ok(filled);
            }
            if let Some(end) = memchr::memrchr(b'\n', &buffer[searched..]) {
                let end = searched + end + 1;
                self.begun.extend_from_slice(&buffer[end..]);
                return Ok(end);
            }
            if filled >= self.longest {
                bail!("{}: line {} is longer than {filled} bytes", self.name, self.count + 1);
            }
            // Double the buffer, so that the time stays linear in the length of the line.
            self.grow(buffer, 2 * filled)?;
        }
    }

    fn grow(&self, buffer: &mut Vec<u8>, len: usize) -> Result<()> {
        let grown = buffer.try_reserve_exact(len - buffer.len());
        grown.with_context(|| format!("{}: line {}", self.name, self.count + 1))?;
        buffer.resize(len, 0);
        Ok(())
    }

    /// Reads until the source ends or the buffer is full. Returns the number of bytes.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.reader.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).with_context(|| self.name.clone()),
            }
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &'static [u8], block_size: usize, encoding: Encoding) -> Lines {
        let lines = Lines::new("test".into(), bytes, encoding, None).unwrap();
        Lines { block_size, longest: 64, ..lines }
    }

    fn all(mut lines: Lines) -> Result<Vec<(u64, Vec<u8>)>> {
        let mut all = Vec::new();
        while let Some(block) = lines.next_block()? {
            all.extend(block.numbered().map(|(number, line)| (number, line.to_vec())));
        }
        Ok(all)
    }

    #[test]
    fn block_size_does_not_change_lines() {
        let bytes = b"one\ntwo\r\n\nfour is longer than a block\n\r\nsix\rstill six\nno end";
        let expected: Vec<_> = [
            &b"one"[..],
            b"two",
            b"",
            b"four is longer than a block",
            b"",
            b"six\rstill six",
            b"no end",
        ]
        .iter()
        .zip(1..)
        .map(|(line, number)| (number, line.to_vec()))
        .collect();
        for block_size in 1..=bytes.len() + 1 {
            assert_eq!(all(lines(bytes, block_size, Encoding::Utf8)).unwrap(), expected);
        }
        assert!(all(lines(b"", 4, Encoding::Utf8)).unwrap().is_empty());
    }

    #[test]
    fn error_names_line_that_is_not_utf8() {
        for block_size in 1..=20 {
            let read = |encoding| all(lines(b"one\ntwo\nt\xffree\nfour\n", block_size, encoding));
            let error = read(Encoding::Utf8).unwrap_err().to_string();
            assert!(error.starts_with("test: line 3 is not UTF-8"), "{error}");
            assert_eq!(read(Encoding::Bytes).unwrap().len(), 4);
        }
    }

    #[test]
    fn overlong_line_is_an_error() {
        let read = all(lines(&[b'x'; 200], 8, Encoding::Utf8));
        assert_eq!(read.unwrap_err().to_string(), "test: line 1 is longer than 64 bytes");
    }
}
