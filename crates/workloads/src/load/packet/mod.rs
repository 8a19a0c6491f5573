//! Captured packets.

mod flow;
mod headers;
mod pcap;
#[cfg(test)]
mod samples;

pub use flow::Flow;
pub use pcap::{Packet, Packets};
