use std::io;
use std::path::PathBuf;

/// Why something couldn't be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A file can't be opened, or a directory not be listed.
    #[error("{} can't be opened", path.display())]
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Reading failed, or what is compressed is damaged.
    #[error("reading failed")]
    Read(#[from] io::Error),
    /// A line is longer than any key could be.
    #[error("line {line} is longer than {limit} bytes; is this a text file?")]
    LongLine {
        /// Which, from 1.
        line: u64,
        /// What is allowed.
        limit: usize,
    },
    /// A table's first line doesn't name a column that is needed.
    #[error("there is no column {column:?} in the first line")]
    NoColumn {
        /// Which.
        column: &'static str,
    },
    /// A field of a table is missing or isn't a number.
    #[error("line {line} has no number in its column {column:?}")]
    NoNumber {
        /// Which line, from 1.
        line: u64,
        /// Which column.
        column: &'static str,
    },
    /// The first bytes aren't those of captured packets.
    #[error("this is no pcap file: it begins with {magic:02x?}")]
    NotPcap {
        /// The first bytes.
        magic: [u8; 4],
    },
    /// Packets are wrapped in a way that isn't known here.
    #[error("packets of link type {link_type} aren't understood; Ethernet and raw IP are")]
    LinkType {
        /// The type's number.
        link_type: u32,
    },
    /// The file ends within a packet.
    #[error("the file ends in the middle of packet {packet}")]
    CutOff {
        /// Which, from 1.
        packet: u64,
    },
    /// A packet claims to be longer than any can be.
    #[error("packet {packet} claims to have {length} bytes; the file is damaged")]
    LongPacket {
        /// Which, from 1.
        packet: u64,
        /// What it claims.
        length: u32,
    },
}
