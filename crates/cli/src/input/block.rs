//! Blocks of lines.

/// A block of whole lines. Each line has a line ending, except perhaps the last line of a source.
pub(crate) struct Block {
    /// The buffer. Its first `len` bytes are the lines.
    pub(super) buffer: Vec<u8>,
    pub(super) len: usize,
    /// The number of the first line. The first line of a source has number 1.
    pub(super) first_line: u64,
}

impl Block {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// Iterates over the lines, without their endings (`\n` or `\r\n`).
    pub(crate) fn lines(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes();
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let line;
            (line, rest) = match memchr::memchr(b'\n', rest) {
                Some(end) => (&rest[..end], &rest[end + 1..]),
                None => (rest, &rest[rest.len()..]),
            };
            Some(line.strip_suffix(b"\r").unwrap_or(line))
        })
    }

    /// Iterates over the lines and their numbers.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (u64, &[u8])> {
        (self.first_line..).zip(self.lines())
    }

    /// Returns the number of lines with a line ending.
    pub(super) fn count(&self) -> u64 {
        memchr::memchr_iter(b'\n', self.bytes()).count() as u64
    }

    /// Returns the number of the line that contains this byte.
    pub(super) fn line_at(&self, byte: usize) -> u64 {
        self.first_line + memchr::memchr_iter(b'\n', &self.bytes()[..byte]).count() as u64
    }
}
