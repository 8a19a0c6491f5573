use std::io::{BufRead, Read};
use std::path::Path;

use super::{LoadError, Source, open};

/// The lines of a text, without their ends and without empty ones: a file of keys.
///
/// Keys are bytes; nobody knows whether they are UTF-8. Both kinds of line ends are understood.
#[derive(Debug)]
pub struct Lines<R> {
    /// Nothing after an error.
    reader: Option<R>,
    line: u64,
}

/// The longest line; what is longer is no text.
const LIMIT: usize = 1 << 20;

impl Lines<Source> {
    /// Opens a file, compressed or not.
    ///
    /// # Errors
    ///
    /// As [`open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        Ok(Self::new(open(path)?))
    }
}

impl<R: BufRead> Lines<R> {
    /// The lines of whatever can be read.
    pub fn new(reader: R) -> Self {
        Self { reader: Some(reader), line: 0 }
    }

    /// The number of the last line, from 1, empty ones included.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// The next line, also an empty one, or nothing at the end.
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
    fn ends_of_lines_are_no_part_of_keys() {
        assert_eq!(lines(b"one\ntwo\r\n\n\r\nthree"), [&b"one"[..], b"two", b"three"]);
        assert_eq!(lines(b"\xFF \n\r"), [&b"\xFF "[..], b"\r"], "a key can be anything");
        assert!(lines(b"").is_empty());
    }

    #[test]
    fn what_has_no_lines_is_refused() {
        let bytes = vec![b'x'; 2 * LIMIT];
        let text = [b"a\n", &bytes[..]].concat();
        let mut lines = Lines::new(&text[..]);
        assert_eq!(lines.next().unwrap().unwrap(), b"a");
        assert!(matches!(lines.next(), Some(Err(LoadError::LongLine { line: 2, .. }))));
        assert!(lines.next().is_none());
    }

    #[test]
    fn a_file_is_read_packed_too() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys.zst");
        std::fs::write(&path, zstd::encode_all(&b"one\ntwo\n"[..], 1).unwrap()).unwrap();
        let keys: Vec<Vec<u8>> = Lines::open(path).unwrap().map(Result::unwrap).collect();
        assert_eq!(keys, [b"one", b"two"]);
    }

    proptest! {
        #[test]
        fn all_keys_come_back(
            keys in proptest::collection::vec("[^\r\n]{1,20}", 0..20),
            end in prop_oneof![Just("\n"), Just("\r\n")],
        ) {
            let text: String = keys.iter().flat_map(|key| [key, end]).collect();
            prop_assert_eq!(lines(text.as_bytes()), keys.iter().map(|key| key.as_bytes().to_vec()).collect::<Vec<_>>());
        }
    }
}
