//! Sample packets and pcap files for tests.

use std::net::IpAddr;

use super::Flow;

pub(super) fn flow(
    addresses: (&str, &str),
    protocol: u8,
    source_port: u16,
    destination_port: u16,
) -> Flow {
    let (source, destination) = (addresses.0.parse().unwrap(), addresses.1.parse().unwrap());
    Flow { source, destination, protocol, source_port, destination_port }
}

/// Returns a TCP header with only the ports set; UDP's ports are in the same place.
pub(super) fn tcp(source: u16, destination: u16) -> Vec<u8> {
    let mut bytes = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    bytes.resize(20, 0);
    bytes
}

fn octets(address: &str) -> Vec<u8> {
    match address.parse().unwrap() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

pub(super) fn ipv4(addresses: (&str, &str), protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
    bytes.extend(octets(addresses.0));
    bytes.extend(octets(addresses.1));
    bytes.extend(payload);
    bytes
}

pub(super) fn ipv6(addresses: (&str, &str), next: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0, 0, 0, next, 64];
    bytes.extend(octets(addresses.0));
    bytes.extend(octets(addresses.1));
    bytes.extend(payload);
    bytes
}

/// Returns an Ethernet frame with these types and tags.
pub(super) fn ethernet(types: &[u16], payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![2; 12];
    bytes.extend(types.iter().flat_map(|kind| kind.to_be_bytes()));
    bytes.extend(payload);
    bytes
}

/// The format variant of a pcap file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub(super) is_big_endian: bool,
    pub(super) has_nanoseconds: bool,
    pub(super) link_type: u32,
}

pub(super) fn pcap(style: Style, packets: &[(u32, u32, Vec<u8>)]) -> Vec<u8> {
    let word = |number: u32| {
        if style.is_big_endian { number.to_be_bytes() } else { number.to_le_bytes() }
    };
    let magic = if style.has_nanoseconds { 0xA1B2_3C4D } else { 0xA1B2_C3D4 };
    // The loader ignores the version and the three words after it.
    let mut bytes = [magic, 0, 0, 0, 65_535, style.link_type].map(word).concat();
    for (seconds, fraction, packet) in packets {
        let length = packet.len() as u32;
        bytes.extend([*seconds, *fraction, length, length + 1000].map(word).concat());
        bytes.extend(packet);
    }
    bytes
}
