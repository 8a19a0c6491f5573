//! Captured packets.
//!
//! This doesn't use the crate `pcap-parser`: the classic format is a header and records of a fixed
//! layout, so the parser combinators which that crate depends on would not make this shorter.

mod flow;
mod headers;
mod pcap;
#[cfg(test)]
mod samples;

pub use flow::Flow;
pub use pcap::{Packet, Packets};
