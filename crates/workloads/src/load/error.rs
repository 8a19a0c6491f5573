use std::io;
use std::path::PathBuf;

/// An error while loading a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A file can't be opened, or a directory can't be listed.
    #[error("{} can't be opened", path.display())]
    Open {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Reading failed, or the compressed data is damaged.
    #[error("reading failed")]
    Read(#[from] io::Error),
    /// A line is longer than any key can be.
    #[error("line {line} is longer than {limit} bytes; is this a text file?")]
    LongLine {
        /// The line's number, from 1.
        line: u64,
        /// The maximum length.
        limit: usize,
    },
    /// The first line doesn't name a required column.
    #[error("the first line has no column {column:?}")]
    NoColumn {
        /// The column's name.
        column: &'static str,
    },
    /// A field is missing or isn't a number.
    #[error("line {line} has no number in its column {column:?}")]
    NoNumber {
        /// The line's number, from 1.
        line: u64,
        /// The column's name.
        column: &'static str,
    },
    /// The file isn't a pcap file.
    #[error("this is not a pcap file: it begins with {magic:02x?}")]
    NotPcap {
        /// The first bytes.
        magic: [u8; 4],
    },
    /// The link type isn't supported.
    #[error("link type {link_type} is not supported; only Ethernet and raw IP are")]
    LinkType {
        /// The link type's number.
        link_type: u32,
    },
    /// The file ends inside a packet.
    #[error("the file ends in the middle of packet {packet}")]
    CutOff {
        /// The packet's number, from 1.
        packet: u64,
    },
    /// A packet's length field is larger than any packet can be.
    #[error("packet {packet} claims to have {length} bytes; the file is damaged")]
    LongPacket {
        /// The packet's number, from 1.
        packet: u64,
        /// The length field.
        length: u32,
    },
}
