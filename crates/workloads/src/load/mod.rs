//! Loaders for real data. They stream, so files of any size need little memory.
//!
//! | loader | format |
//! | --- | --- |
//! | [`Lines`] | one key per line |
//! | [`Urls`] | lists of domains and URLs by category, such as Shalla's: a file or a directory tree |
//! | [`Trace`] | accesses to the blocks of a disk, as CSV |
//! | [`Packets`] | captured packets (pcap), such as CAIDA's, each with its [`Flow`] |
//!
//! All loaders detect gzip and Zstandard compression by the first bytes. Invalid data is an error
//! that says where it is, never a panic; the iteration ends after an error.

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
