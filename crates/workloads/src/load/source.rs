use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::LoadError;

/// A reader of decompressed bytes.
pub type Source = Box<dyn BufRead + Send>;

const GZIP: [u8; 2] = [0x1F, 0x8B];
const ZSTANDARD: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// Opens a file, compressed or not.
///
/// # Errors
///
/// If it can't be opened, or its first bytes can't be read.
pub fn open(path: impl AsRef<Path>) -> Result<Source, LoadError> {
    let path = path.as_ref();
    let file =
        File::open(path).map_err(|source| LoadError::Open { path: path.to_owned(), source })?;
    unpack(file)
}

/// Decompresses gzip and Zstandard, and passes everything else through.
///
/// # Errors
///
/// If the first bytes can't be read.
pub fn unpack(mut reader: impl Read + Send + 'static) -> Result<Source, LoadError> {
    let mut start = Vec::new();
    reader.by_ref().take(ZSTANDARD.len() as u64).read_to_end(&mut start)?;
    let is_gzip = start.starts_with(&GZIP);
    let is_zstandard = start == ZSTANDARD;
    let whole = Cursor::new(start).chain(BufReader::new(reader));
    Ok(if is_gzip {
        Box::new(BufReader::new(MultiGzDecoder::new(whole)))
    } else if is_zstandard {
        Box::new(BufReader::new(zstd::Decoder::with_buffer(whole)?))
    } else {
        Box::new(whole)
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read, Write};

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;

    use super::{open, unpack};
    use crate::load::LoadError;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn read(packed: Vec<u8>) -> Result<Vec<u8>, LoadError> {
        let mut bytes = Vec::new();
        unpack(Cursor::new(packed))?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    proptest! {
        #[test]
        fn compressed_and_plain_bytes_read_the_same(bytes: Vec<u8>) {
            prop_assume!(!bytes.starts_with(&[0x1F, 0x8B]) && !bytes.starts_with(&[0x28, 0xB5]));
            prop_assert_eq!(&read(gzip(&bytes)).unwrap(), &bytes);
            prop_assert_eq!(&read(zstd::encode_all(&bytes[..], 1).unwrap()).unwrap(), &bytes);
            prop_assert_eq!(&read(bytes.clone()).unwrap(), &bytes);
        }
    }

    #[test]
    fn concatenated_compressed_parts_are_all_read() {
        let packed = [gzip(b"one "), gzip(b"two")].concat();
        assert_eq!(read(packed).unwrap(), b"one two");
        let packed = [b"one ", b"two "].map(|part| zstd::encode_all(&part[..], 1).unwrap());
        assert_eq!(read(packed.concat()).unwrap(), b"one two ");
    }

    #[test]
    fn damaged_data_is_an_error() {
        let mut packed = gzip(&[7; 10_000]);
        packed.truncate(packed.len() - 9);
        assert!(matches!(read(packed), Err(LoadError::Read(_))));
        let mut packed = zstd::encode_all(&[7; 10_000][..], 1).unwrap();
        packed.truncate(packed.len() - 3);
        assert!(matches!(read(packed), Err(LoadError::Read(_))));
    }

    #[test]
    fn open_error_names_the_file() {
        let error = open("no/such/file").err().unwrap();
        assert_eq!(error.to_string(), "no/such/file can't be opened");
    }
}
