//! What users have, read as streams: whatever their size, little of them is in memory at a time.
//!
//! | loader | format |
//! | --- | --- |
//! | [`Lines`] | a key a line |
//! | [`Urls`] | lists of domains and URLs by category, as Shalla's: a file or a tree of them |
//! | [`Trace`] | accesses to the blocks of a disk, as CSV |
//! | [`Packets`] | captured packets (pcap), as those of CAIDA, each by its [`Flow`] |
//!
//! All of them read plain files and those compressed by gzip or Zstandard; the first bytes tell.
//! Bytes that make no sense are an error that says where, never a panic; after an error, a
//! loader's iteration is over.

mod error;
mod lines;
mod packet;

mod source;
mod trace;
mod urls;

pub use error::LoadError;
pub use lines::Lines;
pub use packet::{Flow, Packet, Packets};
pub use source::{Source, open, unpack};
pub use trace::{Access, Trace};
pub use urls::{Entry, Kind, Urls};
