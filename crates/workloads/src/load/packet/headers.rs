//! From the bytes of a packet to its flow.

use std::net::IpAddr;

use etherparse::{Ipv6ExtensionSlice, LaxNetSlice, LaxSlicedPacket, ip_number};

use super::Flow;

/// What a packet begins with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Link {
    Ethernet,
    /// An IP packet at once, of either version.
    Raw,
}

impl Link {
    /// By its number in files.
    pub(super) fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Ethernet),
            // What systems call it internally; in files; and one for each version.
            12 | 14 | 101 | 228 | 229 => Some(Self::Raw),
            _ => None,
        }
    }

    /// Returns the flow of a packet, if it is an IP packet with all of its headers up to the ports.
    /// Captures often end in the middle of what follows.
    pub(super) fn flow(self, packet: &[u8]) -> Option<Flow> {
        let packet = match self {
            Self::Ethernet => LaxSlicedPacket::from_ethernet(packet).ok()?,
            Self::Raw => LaxSlicedPacket::from_ip(packet).ok()?,
        };
        let net = packet.net?;
        let payload = net.ip_payload_ref()?;
        let (source, destination, is_first): (IpAddr, IpAddr, bool) = match &net {
            LaxNetSlice::Ipv4(ip) => {
                let header = ip.header();
                let is_first = header.fragments_offset().value() == 0;
                (header.source_addr().into(), header.destination_addr().into(), is_first)
            }
            LaxNetSlice::Ipv6(ip) => {
                let header = ip.header();
                let is_first = !ip.extensions().clone().into_iter().any(is_later_fragment);
                (header.source_addr().into(), header.destination_addr().into(), is_first)
            }
            LaxNetSlice::Arp(_) => return None,
        };
        let protocol = payload.ip_number;
        // Ports are what TCP, UDP and SCTP begin with; later fragments have no such beginning.
        let [a, b, c, d] = match protocol {
            ip_number::TCP | ip_number::UDP | ip_number::SCTP if is_first => {
                *payload.payload.first_chunk()?
            }
            // What follows this extension is cut off.
            ip_number::IPV6_HOP_BY_HOP
            | ip_number::IPV6_ROUTE
            | ip_number::IPV6_FRAG
            | ip_number::AUTH
            | ip_number::IPV6_DEST_OPTIONS
                if is_first =>
            {
                return None;
            }
            _ => [0; 4],
        };
        Some(Flow {
            source,
            destination,
            protocol: protocol.0,
            source_port: u16::from_be_bytes([a, b]),
            destination_port: u16::from_be_bytes([c, d]),
        })
    }
}

fn is_later_fragment(extension: Ipv6ExtensionSlice<'_>) -> bool {
    match extension {
        Ipv6ExtensionSlice::Fragment(fragment) => fragment.fragment_offset().value() > 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Flow;
    use super::super::samples::{ethernet, flow, ipv4, ipv6, tcp};
    use super::Link;

    const HOP_BY_HOP: u8 = 0;
    const TCP: u8 = 6;
    const FRAGMENT: u8 = 44;
    const AUTHENTICATION: u8 = 51;

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
    fn tags_options_and_extensions_are_skipped() {
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
        assert_eq!(fragment(1), Some(flow(V6, TCP, 5, 6)), "the first, with more to come");
        assert_eq!(fragment(8), Some(flow(V6, TCP, 0, 0)));
    }

    #[test]
    fn what_is_no_ip_packet_has_no_flow() {
        assert_eq!(Link::Ethernet.flow(&ethernet(&[0x0806], &[0; 28])), None, "ARP");
        assert_eq!(Link::Raw.flow(&[0x55; 60]), None);
        let mut short_header = ipv4(V4, TCP, &tcp(1, 2));
        short_header[0] = 0x44;
        assert_eq!(Link::Raw.flow(&short_header), None);
    }

    #[test]
    fn a_packet_that_is_cut_off_has_no_flow() {
        let packet = ethernet(&[0x8100, 1, 0x86DD], &ipv6(V6, TCP, &tcp(1, 2)));
        let needed = 12 + 6 + 40 + 4;
        for length in 0..packet.len() {
            let flow: Option<Flow> = Link::Ethernet.flow(&packet[..length]);
            assert_eq!(flow.is_some(), length >= needed, "{length}");
        }
    }

    #[test]
    fn a_packet_that_ends_in_an_extension_has_no_flow() {
        let packet = ipv6(V6, HOP_BY_HOP, &[TCP, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Link::Raw.flow(&packet), None);
        let encrypted = ipv6(V6, 50, &[0; 16]);
        assert_eq!(Link::Raw.flow(&encrypted), Some(flow(V6, 50, 0, 0)));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(mut bytes: Vec<u8>, version in prop_oneof![Just(0x45), Just(0x60)]) {
            let _ = Link::Ethernet.flow(&bytes);
            if let Some(first) = bytes.first_mut() {
                *first = version;
            }
            let _ = Link::Raw.flow(&bytes);
        }
    }
}
