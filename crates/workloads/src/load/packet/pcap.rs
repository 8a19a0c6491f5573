use std::io::{ErrorKind, Read};
use std::path::Path;
use std::time::Duration;

use super::Flow;
use super::headers::Link;
use crate::load::{LoadError, Source, open};

/// A captured packet with a known flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// When the packet was captured, as the time since 1970.
    pub time: Duration,
    /// The packet's full length. Often only the beginning of a packet was captured.
    pub length: u32,
    /// The packet's flow.
    pub flow: Flow,
}

/// The packets of a pcap file in the classic format.
///
/// Supports both byte orders, microseconds and nanoseconds, Ethernet and raw IP.
/// [Skips](Self::skipped) packets that aren't IP, and packets whose captured part is too short to
/// show their flow.
///
/// ```text
/// ┌───────┬─────────┬───────────────┬─────────┬───────────┐ ┌─────────┬──────────┬──────────┬────────┬─────────┐
/// │ magic │ version │ zone, figures │ snaplen │ link type │ │ seconds │ fraction │ captured │ length │ packet… │ …
/// └───4───┴────4────┴───────8───────┴────4────┴─────4─────┘ └────4────┴────4─────┴────4─────┴───4────┴─captured┘
/// ```
#[derive(Debug)]
pub struct Packets<R> {
    reader: R,
    format: Format,
    /// The last packet; the buffer is reused.
    packet: Vec<u8>,
    read: u64,
    skipped: u64,
    is_over: bool,
}

#[derive(Clone, Copy, Debug)]
struct Format {
    is_big_endian: bool,
    /// Nanoseconds per unit of a time's fraction.
    unit: u64,
    link: Link,
}

/// Maximum number of bytes that programs capture per packet.
const LIMIT: u32 = 1 << 18;

impl Packets<Source> {
    /// Opens a file, compressed or not.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`open`] and [`Packets::new`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        Self::new(open(path)?)
    }
}

impl<R: Read> Packets<R> {
    /// Reads packets from `reader`. The reads are small, so `reader` should be buffered.
    ///
    /// # Errors
    ///
    /// If it isn't a pcap file, or the link type isn't supported.
    pub fn new(mut reader: R) -> Result<Self, LoadError> {
        let mut magic = [0; 4];
        if fill(&mut reader, &mut magic)? < magic.len() {
            return Err(LoadError::NotPcap { magic });
        }
        let (is_big_endian, unit) = match u32::from_be_bytes(magic) {
            0xA1B2_C3D4 => (true, 1000),
            0xA1B2_3C4D => (true, 1),
            0xD4C3_B2A1 => (false, 1000),
            0x4D3C_B2A1 => (false, 1),
            _ => return Err(LoadError::NotPcap { magic }),
        };
        let mut header = [0; 20];
        if fill(&mut reader, &mut header)? < header.len() {
            return Err(LoadError::NotPcap { magic });
        }
        // The upper half describes the padding of packets.
        let link_type = word(is_big_endian, &header, 4) & 0xFFFF;
        let link = Link::from_number(link_type).ok_or(LoadError::LinkType { link_type })?;
        let format = Format { is_big_endian, unit, link };
        Ok(Self { reader, format, packet: Vec::new(), read: 0, skipped: 0, is_over: false })
    }

    /// Returns the number of packets skipped so far because they had no flow.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Reads one packet; returns its time and length, or `None` at the end of the file.
    fn read(&mut self) -> Result<Option<(Duration, u32)>, LoadError> {
        let mut header = [0; 16];
        let got = fill(&mut self.reader, &mut header)?;
        if got == 0 {
            return Ok(None);
        }
        self.read += 1;
        if got < header.len() {
            return Err(LoadError::CutOff { packet: self.read });
        }
        let [seconds, fraction, captured, length] =
            [0, 1, 2, 3].map(|index| word(self.format.is_big_endian, &header, index));
        if captured > LIMIT {
            return Err(LoadError::LongPacket { packet: self.read, length: captured });
        }
        self.packet.resize(captured as usize, 0);
        if fill(&mut self.reader, &mut self.packet)? < self.packet.len() {
            return Err(LoadError::CutOff { packet: self.read });
        }
        let time = Duration::from_secs(seconds.into())
            + Duration::from_nanos(u64::from(fraction) * self.format.unit);
        Ok(Some((time, length)))
    }
}

/// Returns a 32-bit word of a header.
fn word(is_big_endian: bool, header: &[u8], index: usize) -> u32 {
    let (words, _) = header.as_chunks();
    if is_big_endian { u32::from_be_bytes(words[index]) } else { u32::from_le_bytes(words[index]) }
}

/// Reads until the buffer is full or the input ends; returns the number of bytes read.
fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> Result<usize, LoadError> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(filled)
}

impl<R: Read> Iterator for Packets<R> {
    type Item = Result<Packet, LoadError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_over {
            match self.read() {
                Ok(Some((time, length))) => match self.format.link.flow(&self.packet) {
                    Some(flow) => return Some(Ok(Packet { time, length, flow })),
                    None => self.skipped += 1,
                },
                Ok(None) => self.is_over = true,
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::super::samples::{Style, ethernet, flow, ipv4, ipv6, pcap, tcp};
    use super::{LIMIT, Packet, Packets};
    use crate::load::LoadError;

    const V4: (&str, &str) = ("192.0.2.1", "198.51.100.7");
    const V6: (&str, &str) = ("2001:db8::1", "2001:db8::2");
    const RAW: Style = Style { is_big_endian: false, has_nanoseconds: false, link_type: 101 };

    fn sample() -> Vec<(u32, u32, Vec<u8>)> {
        vec![
            (10, 1, ethernet(&[0x0800], &ipv4(V4, 6, &tcp(1234, 443)))),
            (10, 2, ethernet(&[0x0806], &[0; 28])),
            (11, 0, ethernet(&[0x86DD], &ipv6(V6, 17, &tcp(53, 5353)))),
        ]
    }

    #[test]
    fn files_of_both_byte_orders_and_time_units_are_read() {
        for (is_big_endian, has_nanoseconds) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            // The upper half describes padding and is ignored.
            let style = Style { is_big_endian, has_nanoseconds, link_type: 0x5400_0001 };
            let file = pcap(style, &sample());
            let mut packets = Packets::new(&file[..]).unwrap();
            let nanoseconds = if has_nanoseconds { 1 } else { 1000 };
            let first = Packet {
                time: Duration::new(10, nanoseconds),
                length: 1054,
                flow: flow(V4, 6, 1234, 443),
            };
            assert_eq!(packets.next().unwrap().unwrap(), first, "{style:?}");
            assert_eq!(packets.skipped(), 0);
            assert_eq!(packets.next().unwrap().unwrap().flow, flow(V6, 17, 53, 5353));
            assert!(packets.next().is_none());
            assert_eq!(packets.skipped(), 1);
        }
    }

    #[test]
    fn compressed_raw_ip_file_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("equinix.pcap.zst");
        let file = pcap(RAW, &[(1, 1, ipv4(V4, 6, &tcp(1, 2))), (1, 2, ipv6(V6, 6, &tcp(3, 4)))]);
        std::fs::write(&path, zstd::encode_all(&file[..], 1).unwrap()).unwrap();
        let flows: Vec<_> = Packets::open(path).unwrap().map(|p| p.unwrap().flow).collect();
        assert_eq!(flows, [flow(V4, 6, 1, 2), flow(V6, 6, 3, 4)]);
    }

    #[test]
    fn damaged_file_is_an_error_with_a_position() {
        let refusal = |bytes: &[u8]| Packets::new(bytes).unwrap_err();
        assert!(matches!(refusal(b""), LoadError::NotPcap { .. }));
        assert!(matches!(refusal(b"GET / HTTP/1.1\r\n\r\n     "), LoadError::NotPcap { .. }));
        assert!(matches!(refusal(&pcap(RAW, &[])[..23]), LoadError::NotPcap { .. }));
        let wifi = pcap(Style { link_type: 105, ..RAW }, &[]);
        assert!(matches!(refusal(&wifi), LoadError::LinkType { link_type: 105 }));

        let file = pcap(RAW, &[(1, 1, ipv4(V4, 6, &tcp(1, 2))), (1, 2, vec![0; 100])]);
        for cut in [50, 115] {
            let mut packets = Packets::new(&file[..file.len() - cut]).unwrap();
            assert!(packets.next().unwrap().is_ok());
            assert!(matches!(packets.next(), Some(Err(LoadError::CutOff { packet: 2 }))));
            assert!(packets.next().is_none());
        }
        let mut file = pcap(RAW, &[(1, 1, vec![0; 100])]);
        file[32..36].copy_from_slice(&(LIMIT + 1).to_le_bytes());
        let error = Packets::new(&file[..]).unwrap().next().unwrap().unwrap_err();
        assert!(error.to_string().contains("packet 1 claims to have 262145 bytes"), "{error}");
    }

    proptest! {
        #[test]
        fn damaged_bytes_never_panic(
            is_big_endian: bool,
            has_nanoseconds: bool,
            link_type in prop_oneof![Just(1), Just(101)],
            changes in proptest::collection::vec((24_usize..400, any::<u8>()), 0..20),
        ) {
            let style = Style { is_big_endian, has_nanoseconds, link_type };
            let mut file = pcap(style, &sample());
            for (at, byte) in changes {
                if let Some(place) = file.get_mut(at) {
                    *place = byte;
                }
            }
            let mut packets = Packets::new(&file[..]).unwrap();
            let failures = packets.by_ref().filter(Result::is_err).count();
            prop_assert!(failures <= 1);
        }
    }
}
