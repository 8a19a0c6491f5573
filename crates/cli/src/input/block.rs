//! Some lines, one behind the other.

/// Whole lines, of which only the last of a source may have no end.
pub(crate) struct Block {
    /// Its first bytes are the lines; the others were, or will be.
    pub(super) buffer: Vec<u8>,
    pub(super) len: usize,
    /// The number of the first, counted from 1.
    pub(super) first_line: u64,
}

impl Block {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// The lines without their endings, `\n` or `\r\n`.
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

    /// The lines with their numbers.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (u64, &[u8])> {
        (self.first_line..).zip(self.lines())
    }

    /// How many lines have ended; all, but for the last of a source.
    pub(super) fn count(&self) -> u64 {
        memchr::memchr_iter(b'\n', self.bytes()).count() as u64
    }

    /// The number of the line with that byte.
    pub(super) fn line_at(&self, byte: usize) -> u64 {
        self.first_line + memchr::memchr_iter(b'\n', &self.bytes()[..byte]).count() as u64
    }
}
