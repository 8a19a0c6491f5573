use std::net::{IpAddr, Ipv6Addr};

use crate::key::scatter;

/// The five fields that identify the packets of one direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// The sender's address.
    pub source: IpAddr,
    /// The receiver's address.
    pub destination: IpAddr,
    /// The number of the protocol above IP: 6 is TCP, 17 is UDP.
    pub protocol: u8,
    /// The sender's port; 0 if the protocol has no ports, or in a fragment other than the first.
    pub source_port: u16,
    /// The receiver's port; 0 if the protocol has no ports, or in a fragment other than the first.
    pub destination_port: u16,
}

impl Flow {
    /// Returns the flow as a key: addresses (IPv4 mapped to IPv6), protocol and ports, big-endian.
    pub fn key(&self) -> [u8; 37] {
        let mut key = [0; 37];
        key[..16].copy_from_slice(&wide(self.source).octets());
        key[16..32].copy_from_slice(&wide(self.destination).octets());
        key[32] = self.protocol;
        key[33..35].copy_from_slice(&self.source_port.to_be_bytes());
        key[35..].copy_from_slice(&self.destination_port.to_be_bytes());
        key
    }

    /// Returns the flow as a number: a hash of the key. Two flows have the same number with a
    /// probability of 2^-64.
    pub fn number(&self) -> u64 {
        self.key().chunks(8).fold(0, |hash, chunk| {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            scatter(hash ^ u64::from_be_bytes(bytes))
        })
    }
}

/// Maps an IPv4 address to IPv6.
fn wide(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::Flow;

    #[test]
    fn different_flows_have_different_keys_and_numbers() {
        let flow = Flow {
            source: "10.0.0.1".parse().unwrap(),
            destination: "10.0.0.2".parse().unwrap(),
            protocol: 6,
            source_port: 1234,
            destination_port: 80,
        };
        let flows = [
            flow,
            Flow { source: "10.0.0.3".parse().unwrap(), ..flow },
            Flow { source: flow.destination, destination: flow.source, ..flow },
            Flow { destination: "::1".parse().unwrap(), ..flow },
            Flow { protocol: 17, ..flow },
            Flow { source_port: 1235, ..flow },
            Flow { destination_port: 81, ..flow },
            Flow { source_port: 80, destination_port: 1234, ..flow },
        ];
        let keys: HashSet<[u8; 37]> = flows.iter().map(Flow::key).collect();
        let numbers: HashSet<u64> = flows.iter().map(Flow::number).collect();
        assert_eq!((keys.len(), numbers.len()), (flows.len(), flows.len()));
        assert_eq!(flow.key()[10..16], [0xFF, 0xFF, 10, 0, 0, 1]);
    }
}
