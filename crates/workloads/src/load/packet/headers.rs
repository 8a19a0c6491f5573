//! Parses a packet's headers into its flow. Each step takes its bytes from the front. If bytes are
//! missing, there is no flow.
//!
//! The crate `etherparse` (0.21.0) was tried. Its lenient iterator over IPv6 extensions reads out
//! of bounds if a capture ends inside one; the fuzz target `pcap` found this within a second.

use std::net::IpAddr;

use super::Flow;

/// The link layer, which determines what a packet begins with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Link {
    Ethernet,
    /// No link header: an IPv4 or IPv6 packet.
    Raw,
}

impl Link {
    /// Returns the link layer that has this number in pcap files.
    pub(super) fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Ethernet),
            // Raw IP has several numbers: those of operating systems, the official one, and one per
            // IP version.
            12 | 14 | 101 | 228 | 229 => Some(Self::Raw),
            _ => None,
        }
    }

    /// Returns the flow of a packet, or `None` unless it is an IP packet with complete headers.
    pub(super) fn flow(self, packet: &[u8]) -> Option<Flow> {
        let packet = match self {
            Self::Ethernet => strip_ethernet(packet)?,
            Self::Raw => packet,
        };
        match packet.first()? >> 4 {
            4 => ipv4(packet),
            6 => ipv6(packet),
            _ => None,
        }
    }
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86DD;
/// VLAN tags, which precede the type; there can be several.
const TAGS: [u16; 3] = [0x8100, 0x88A8, 0x9100];

fn strip_ethernet(packet: &[u8]) -> Option<&[u8]> {
    let (_addresses, mut rest) = packet.split_at_checked(12)?;
    loop {
        let (kind, payload) = rest.split_first_chunk()?;
        match u16::from_be_bytes(*kind) {
            IPV4 | IPV6 => return Some(payload),
            tag if TAGS.contains(&tag) => rest = payload.get(2..)?,
            _ => return None,
        }
    }
}

fn ipv4(packet: &[u8]) -> Option<Flow> {
    let header: &[u8; 20] = packet.first_chunk()?;
    let length = usize::from(header[0] & 0xF) * 4;
    if length < header.len() {
        return None;
    }
    let source: [u8; 4] = *header[12..].first_chunk()?;
    let destination: [u8; 4] = *header[16..].first_chunk()?;
    let offset = u16::from_be_bytes([header[6], header[7]]) & 0x1FFF;
    let payload = if offset == 0 { Some(packet.get(length..)?) } else { None };
    with_ports(source.into(), destination.into(), header[9], payload)
}

fn ipv6(packet: &[u8]) -> Option<Flow> {
    let (header, mut rest): (&[u8; 40], _) = packet.split_first_chunk()?;
    let source: [u8; 16] = *header[8..].first_chunk()?;
    let destination: [u8; 16] = *header[24..].first_chunk()?;
    let mut next = header[6];
    let mut is_first = true;
    loop {
        // An extension's first byte is the type of the next header; most have their length in the
        // second.
        let length = match next {
            HOP_BY_HOP | ROUTING | DESTINATION => 8 + 8 * usize::from(*rest.get(1)?),
            AUTHENTICATION => 8 + 4 * usize::from(*rest.get(1)?),
            FRAGMENT => {
                let offset: [u8; 2] = *rest.get(2..)?.first_chunk()?;
                is_first &= u16::from_be_bytes(offset) & !7 == 0;
                8
            }
            _ => break,
        };
        next = *rest.first()?;
        rest = rest.get(length..)?;
        if !is_first {
            break;
        }
    }
    with_ports(source.into(), destination.into(), next, is_first.then_some(rest))
}

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;

const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;

/// Reads the ports, which are the first bytes of TCP, UDP and SCTP headers. Only the first fragment
/// of a packet has them.
fn with_ports(
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    payload: Option<&[u8]>,
) -> Option<Flow> {
    let ports = match (protocol, payload) {
        (TCP | UDP | SCTP, Some(payload)) => *payload.first_chunk()?,
        _ => [0; 4],
    };
    let [a, b, c, d] = ports;
    let (source_port, destination_port) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    Some(Flow { source, destination, protocol, source_port, destination_port })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Flow;
    use super::super::samples::{ethernet, flow, ipv4, ipv6, tcp};
    use super::{AUTHENTICATION, FRAGMENT, HOP_BY_HOP, Link, TCP};

    const V4: (&str, &str) = ("192.0.2.1", "198.51.100.7");
    const V6: (&str, &str) = ("2001:db8::1", "2001:db8::2");

    #[test]
    fn flows_are_read_from_both_versions_of_ip() {
        let packet = ipv4(V4, TCP, &tcp(1234, 443));
        assert_eq!(Link::Raw.flow(&packet), Some(flow(V4, TCP, 1234, 443)));
        assert_eq!(
            Link::Ethernet.flow(&ethernet(&[0x0800], &packet)),
            Some(flow(V4, TCP, 1234, 443))
        );
        let packet = ipv6(V6, 17, &tcp(53, 5353));
        assert_eq!(Link::Raw.flow(&packet), Some(flow(V6, 17, 53, 5353)));
        assert_eq!(
            Link::Ethernet.flow(&ethernet(&[0x86DD], &packet)),
            Some(flow(V6, 17, 53, 5353))
        );
    }

    #[test]
    fn vlan_tags_and_ip_options_and_extension_headers_are_skipped() {
        let packet = ipv4(V4, TCP, &tcp(1, 2));
        let tagged = ethernet(&[0x88A8, 7, 0x8100, 8, 0x0800], &packet);
        assert_eq!(Link::Ethernet.flow(&tagged), Some(flow(V4, TCP, 1, 2)));
        let mut options = packet;
        options[0] = 0x46;
        options.splice(20..20, [1; 4]);
        assert_eq!(Link::Raw.flow(&options), Some(flow(V4, TCP, 1, 2)));
        let mut extended = vec![AUTHENTICATION, 1];
        extended.extend([0; 14]);
        extended.extend([TCP, 2]);
        extended.extend([0; 14]);
        extended.extend(tcp(3, 4));
        assert_eq!(Link::Raw.flow(&ipv6(V6, HOP_BY_HOP, &extended)), Some(flow(V6, TCP, 3, 4)));
    }

    #[test]
    fn later_fragments_and_other_protocols_have_no_ports() {
        let mut packet = ipv4(V4, TCP, &tcp(1, 2));
        packet[7] = 9;
        assert_eq!(Link::Raw.flow(&packet), Some(flow(V4, TCP, 0, 0)));
        assert_eq!(Link::Raw.flow(&ipv4(V4, 1, &[8])), Some(flow(V4, 1, 0, 0)));
        let fragment = |offset: u8| {
            let mut bytes = vec![TCP, 0, 0, offset, 0, 0, 0, 1];
            bytes.extend(tcp(5, 6));
            Link::Raw.flow(&ipv6(V6, FRAGMENT, &bytes))
        };
        assert_eq!(fragment(1), Some(flow(V6, TCP, 5, 6)), "the first fragment");
        assert_eq!(fragment(8), Some(flow(V6, TCP, 0, 0)));
    }

    #[test]
    fn packets_that_are_not_ip_have_no_flow() {
        assert_eq!(Link::Ethernet.flow(&ethernet(&[0x0806], &[0; 28])), None, "ARP");
        assert_eq!(Link::Raw.flow(&[0x55; 60]), None);
        let mut short_header = ipv4(V4, TCP, &tcp(1, 2));
        short_header[0] = 0x44;
        assert_eq!(Link::Raw.flow(&short_header), None);
    }

    #[test]
    fn truncated_packet_has_no_flow() {
        let packet = ethernet(&[0x8100, 1, 0x86DD], &ipv6(V6, TCP, &tcp(1, 2)));
        let needed = 12 + 6 + 40 + 4;
        for length in 0..packet.len() {
            let flow: Option<Flow> = Link::Ethernet.flow(&packet[..length]);
            assert_eq!(flow.is_some(), length >= needed, "{length}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(mut bytes: Vec<u8>, version in prop_oneof![Just(0x45), Just(0x60)]) {
            let _ = Link::Ethernet.flow(&bytes);
            if let Some(first) = bytes.first_mut() {
                *first = version;
            }
            let _ = Link::Raw.flow(&bytes);
        }
    }
}
