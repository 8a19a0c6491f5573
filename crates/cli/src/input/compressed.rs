//! Compressed sources, known by their first bytes: the standard input has no name to go by.

use flate2::read::MultiGzDecoder;
use std::io::{self, Read};

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// The source itself, or what it is when it is decompressed.
pub(super) fn decompressed(mut reader: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let mut magic = Vec::new();
    reader.by_ref().take(ZSTD.len() as u64).read_to_end(&mut magic)?;
    let (is_gzip, is_zstd) = (magic.starts_with(GZIP), magic.starts_with(ZSTD));
    let whole = io::Cursor::new(magic).chain(reader);
    Ok(if is_gzip {
        Box::new(MultiGzDecoder::new(whole))
    } else if is_zstd {
        Box::new(zstd::Decoder::new(whole)?)
    } else {
        Box::new(whole)
    })
}
