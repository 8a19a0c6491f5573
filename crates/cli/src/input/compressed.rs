//! Detects how a source is compressed. Looks at its first bytes, because standard input has no
//! file name.

use flate2::read::MultiGzDecoder;
use std::io::{self, Read};

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// The mark that some editors write before UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

enum Compression {
    Gzip,
    Zstd,
}

impl Compression {
    /// The number of bytes that show the compression.
    const MAGIC_BYTES: usize = ZSTD.len();

    /// Returns the compression of a source that begins with these bytes.
    fn of(start: &[u8]) -> Option<Self> {
        match start {
            start if start.starts_with(GZIP) => Some(Self::Gzip),
            start if start.starts_with(ZSTD) => Some(Self::Zstd),
            // A zstd file can begin with a skippable frame.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// Returns whether a source that begins with these bytes is plain text, read from its first byte
/// on.
pub(crate) fn begins_as_text(start: &[u8]) -> bool {
    Compression::of(start).is_none() && !start.starts_with(BYTE_ORDER_MARK)
}

/// Returns a reader of the decompressed source.
pub(super) fn decompressed(mut reader: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let mut magic = Vec::new();
    reader.by_ref().take(Compression::MAGIC_BYTES as u64).read_to_end(&mut magic)?;
    let compression = Compression::of(&magic);
    let whole = io::Cursor::new(magic).chain(reader);
    Ok(match compression {
        Some(Compression::Gzip) => Box::new(MultiGzDecoder::new(whole)),
        Some(Compression::Zstd) => Box::new(zstd::Decoder::new(whole)?),
        None => Box::new(whole),
    })
}

/// Skips the byte order mark, if there is one.
pub(super) fn unmarked(mut reader: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let mut mark = Vec::new();
    reader.by_ref().take(BYTE_ORDER_MARK.len() as u64).read_to_end(&mut mark)?;
    if mark == BYTE_ORDER_MARK {
        mark.clear();
    }
    Ok(Box::new(io::Cursor::new(mark).chain(reader)))
}
