//! Detects compression by a source's first bytes, because the standard input has no file name.

use flate2::read::MultiGzDecoder;
use std::io::{self, Read};

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// The mark that some editors write before UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Returns a reader of the decompressed source.
pub(super) fn decompressed(mut reader: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let mut magic = Vec::new();
    reader.by_ref().take(ZSTD.len() as u64).read_to_end(&mut magic)?;
    let is_gzip = magic.starts_with(GZIP);
    // A skippable frame can come first.
    let is_zstd = magic == ZSTD || matches!(magic[..], [0x50..=0x5f, 0x2a, 0x4d, 0x18]);
    let whole = io::Cursor::new(magic).chain(reader);
    Ok(if is_gzip {
        Box::new(MultiGzDecoder::new(whole))
    } else if is_zstd {
        Box::new(zstd::Decoder::new(whole)?)
    } else {
        Box::new(whole)
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
