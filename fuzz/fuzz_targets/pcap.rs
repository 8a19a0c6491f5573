//! Reads the input as a packet capture, once as it is and once after a valid header. Each packet
//! must have a flow or be skipped. Reading must end at the first error.
#![no_main]

use twiceshy_workloads::load::Packets;

/// The header of a capture, without the link type. The first byte of the input chooses the link
/// type.
const HEADER: [u8; 20] = [0xD4, 0xC3, 0xB2, 0xA1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0];

fn read(bytes: &[u8]) {
    let Ok(mut packets) = Packets::new(bytes) else { return };
    let (mut flows, mut errors) = (0, 0);
    for packet in packets.by_ref() {
        match packet {
            Ok(packet) => {
                let has_ports = matches!(packet.flow.protocol, 6 | 17 | 132);
                assert!(has_ports || packet.flow.key()[33..] == [0; 4]);
                flows += 1;
            }
            Err(_) => errors += 1,
        }
    }
    // A packet's header is 16 bytes.
    assert!(errors <= 1 && (flows + packets.skipped()) * 16 <= bytes.len() as u64);
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    if let Some((first, rest)) = bytes.split_first() {
        let link_type = [if first % 2 == 0 { 1 } else { 101 }, 0, 0, 0];
        read(&[&HEADER, &link_type[..], rest].concat());
    }
});
