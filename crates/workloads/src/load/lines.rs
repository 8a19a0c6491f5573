use std::io::{BufRead, Read};
use std::path::Path;

use super::{LoadError, Source, open};

/// An iterator over the non-empty lines of a file of keys, without line endings.
///
/// Keys are bytes and needn't be UTF-8. Line endings are LF or CRLF.
#[derive(Debug)]
pub struct Lines<R> {
    /// `None` after an error.
    reader: Option<R>,
    line: u64,
}

/// Maximum length of a line.
const LIMIT: usize = 1 << 20;

impl Lines<Source> {
    /// Opens a file, compressed or not.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        Ok(Self::new(open(path)?))
    }
}

impl<R: BufRead> Lines<R> {
    /// Reads lines from `reader`.
    pub fn new(reader: R) -> Self {
        Self { reader: Some(reader), line: 0 }
    }

    /// Returns the number of the last line read, from 1, counting empty lines.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Returns the next line, which may be empty, or `None` at the end.
    fn read(&mut self) -> Result<Option<Vec<u8>>, LoadError> {
        let Some(reader) = &mut self.reader else { return Ok(None) };
        let mut bytes = Vec::new();
        if reader.take(LIMIT as u64 + 1).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(None);
        }
        self.line += 1;
        if bytes.len() > LIMIT {
            return Err(LoadError::LongLine { line: self.line, limit: LIMIT });
        }
        if bytes.pop_if(|byte| *byte == b'\n').is_some() {
            bytes.pop_if(|byte| *byte == b'\r');
        }
        Ok(Some(bytes))
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = Result<Vec<u8>, LoadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.read() {
                Ok(Some(line)) if line.is_empty() => {}
                Ok(line) => return line.map(Ok),
                Err(error) => {
                    self.reader = None;
                    return Some(Err(error));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{LIMIT, Lines};
    use crate::load::LoadError;

    fn lines(text: &[u8]) -> Vec<Vec<u8>> {
        Lines::new(text).map(Result::unwrap).collect()
    }

    #[test]
    fn line_endings_are_not_part_of_keys() {
        assert_eq!(lines(b"one\ntwo\r\n\n\r\nthree"), [&b"one"[..], b"two", b"three"]);
        assert_eq!(lines(b"\xFF \n\r"), [&b"\xFF "[..], b"\r"], "a key can be any bytes");
        assert!(lines(b"").is_empty());
    }

    #[test]
    fn overlong_line_is_an_error() {
        let bytes = vec![b'x'; 2 * LIMIT];
        let text = [b"a\n", &bytes[..]].concat();
        let mut lines = Lines::new(&text[..]);
        assert_eq!(lines.next().unwrap().unwrap(), b"a");
        assert!(matches!(lines.next(), Some(Err(LoadError::LongLine { line: 2, .. }))));
        assert!(lines.next().is_none());
    }

    #[test]
    fn compressed_file_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys.zst");
        std::fs::write(&path, zstd::encode_all(&b"one\ntwo\n"[..], 1).unwrap()).unwrap();
        let keys: Vec<Vec<u8>> = Lines::open(path).unwrap().map(Result::unwrap).collect();
        assert_eq!(keys, [b"one", b"two"]);
    }

    proptest! {
        #[test]
        fn every_written_key_is_read_back(
            keys in proptest::collection::vec("[^\r\n]{1,20}", 0..20),
            end in prop_oneof![Just("\n"), Just("\r\n")],
        ) {
            let text: String = keys.iter().flat_map(|key| [key, end]).collect();
            prop_assert_eq!(lines(text.as_bytes()), keys.iter().map(|key| key.as_bytes().to_vec()).collect::<Vec<_>>());
        }
    }
}
