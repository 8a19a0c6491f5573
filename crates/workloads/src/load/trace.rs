use std::io::BufRead;
use std::path::Path;

use super::{Lines, LoadError, Source, open};

/// One access to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Time, in the trace's own unit.
    pub time: u64,
    /// The SCSI command: 0x28 reads, 0x2A writes.
    pub operation: u8,
    /// Number of bytes that were read or written.
    pub size: u64,
    /// The number of the first block.
    pub block: u64,
}

/// A trace of accesses to the blocks of a disk, as CSV. Like most real workloads, such a trace is
/// skewed, local and repetitive.
///
/// The first line names the columns. Reads the columns `time`, `op` (two hexadecimal digits),
/// `size` and `lbn`, in any order, and ignores others. Fields must not contain commas.
#[derive(Debug)]
pub struct Trace<R> {
    lines: Lines<R>,
    /// Indices of the columns, in the order of [`COLUMNS`].
    places: [usize; 4],
    is_over: bool,
}

const COLUMNS: [&str; 4] = ["time", "op", "size", "lbn"];

impl Trace<Source> {
    /// Opens a file, compressed or not.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`open`] and [`Trace::new`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        Self::new(open(path)?)
    }
}

impl<R: BufRead> Trace<R> {
    /// Reads a trace from `reader`.
    ///
    /// # Errors
    ///
    /// If the first line can't be read, or lacks a column.
    pub fn new(reader: R) -> Result<Self, LoadError> {
        let mut lines = Lines::new(reader);
        let header = lines.next().transpose()?.unwrap_or_default();
        let mut places = [0; 4];
        for (place, column) in places.iter_mut().zip(COLUMNS) {
            let mut names = header.split(|byte| *byte == b',');
            let found = names.position(|name| name.trim_ascii() == column.as_bytes());
            *place = found.ok_or(LoadError::NoColumn { column })?;
        }
        Ok(Self { lines, places, is_over: false })
    }

    fn access(&self, line: &[u8]) -> Result<Access, LoadError> {
        let number = |column: usize, radix| {
            let field = line.split(|byte| *byte == b',').nth(self.places[column]);
            field
                .and_then(|field| str::from_utf8(field.trim_ascii()).ok())
                .and_then(|field| u64::from_str_radix(field, radix).ok())
                .ok_or(LoadError::NoNumber { line: self.lines.line(), column: COLUMNS[column] })
        };
        let operation = u8::try_from(number(1, 16)?)
            .map_err(|_| LoadError::NoNumber { line: self.lines.line(), column: COLUMNS[1] })?;
        Ok(Access { time: number(0, 10)?, operation, size: number(2, 10)?, block: number(3, 10)? })
    }
}

impl<R: BufRead> Iterator for Trace<R> {
    type Item = Result<Access, LoadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let access = self.lines.next()?.and_then(|line| self.access(&line));
        self.is_over = access.is_err();
        Some(access)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Access, Trace};
    use crate::load::LoadError;

    #[test]
    fn columns_are_found_by_name() {
        let text = b"version,time,op,size,lbn\n1,5633,2a,512,42\n1,5634,28,4096,7\r\n";
        let accesses: Vec<Access> = Trace::new(&text[..]).unwrap().map(Result::unwrap).collect();
        let wanted = [
            Access { time: 5633, operation: 0x2A, size: 512, block: 42 },
            Access { time: 5634, operation: 0x28, size: 4096, block: 7 },
        ];
        assert_eq!(accesses, wanted);
        let text = b"lbn, size, op, time\n42,512,2A,5633";
        assert_eq!(Trace::new(&text[..]).unwrap().next().unwrap().unwrap(), wanted[0]);
    }

    #[test]
    fn error_names_column_and_line() {
        let no_column = Trace::new(&b"time,op,size\n"[..]).unwrap_err();
        assert_eq!(no_column.to_string(), r#"the first line has no column "lbn""#);
        assert!(Trace::new(&b""[..]).is_err());
        for bad in ["1,28,512,x", "1,28,512", "1,128,512,3", "-1,28,512,3", "1,28,\u{fffd},3"] {
            let text = format!("time,op,size,lbn\n1,28,512,3\n{bad}\n1,28,512,3\n");
            let mut trace = Trace::new(text.as_bytes()).unwrap();
            assert!(trace.next().unwrap().is_ok());
            let error = trace.next().unwrap().unwrap_err();
            assert!(matches!(error, LoadError::NoNumber { line: 3, .. }), "{error}");
            assert!(trace.next().is_none());
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let text = [b"time,op,size,lbn\n", &bytes[..]].concat();
            for access in Trace::new(&text[..]).unwrap() {
                let _ = access;
            }
        }
    }
}
