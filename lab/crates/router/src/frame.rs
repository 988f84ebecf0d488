//! Ethernet frames with IPv4 packets: a parser, and a builder for the frames that a generator
//! sends.
//!
//! Frames have no check sequence, as in the kernel's interfaces: a frame of 64 bytes in RFC 2544 has
//! 60 bytes here.

use std::net::Ipv4Addr;

use thiserror::Error;

use crate::checksum::checksum;

/// An Ethernet address.
pub type Mac = [u8; 6];

/// Bytes of an Ethernet header.
pub const ETHERNET_BYTES: usize = 14;

/// Bytes of an IPv4 header without options.
pub const IPV4_BYTES: usize = 20;

/// Bytes of a UDP header.
pub const UDP_BYTES: usize = 8;

/// Bytes of the check sequence at the end of a frame. The device adds and removes it.
pub const CHECK_SEQUENCE_BYTES: usize = 4;

/// The frame sizes of RFC 2544, section 9.1, in bytes with the check sequence.
pub const RFC_2544_SIZES: [usize; 7] = [64, 128, 256, 512, 1024, 1280, 1518];

/// The type of Ethernet frames that carry IPv4.
pub const ETHERTYPE_IPV4: u16 = 0x0800;

/// The protocol number of ICMP.
pub const ICMP: u8 = 1;

/// The protocol number of UDP.
pub const UDP: u8 = 17;

/// The flag "don't fragment" in the word of flags and fragment offset.
const DONT_FRAGMENT: u16 = 0x4000;

/// The flag "more fragments" in the same word.
const MORE_FRAGMENTS: u16 = 0x2000;

/// The reason why a frame has no packet that a router may forward (RFC 1812, section 5.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    #[error("shorter than an Ethernet and an IPv4 header")]
    Short,
    #[error("not IPv4")]
    NotIpv4,
    #[error("header length out of range")]
    HeaderLength,
    #[error("total length out of range")]
    TotalLength,
    #[error("wrong header checksum")]
    Checksum,
}

/// A frame with a well-formed IPv4 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    frame: &'a [u8],
    header_bytes: usize,
    total_bytes: usize,
}

impl<'a> Packet<'a> {
    /// Parses a frame.
    ///
    /// # Errors
    /// The packet is malformed.
    pub fn parse(frame: &'a [u8]) -> Result<Self, Malformed> {
        if frame.len() < ETHERNET_BYTES + IPV4_BYTES {
            return Err(Malformed::Short);
        }
        let packet = &frame[ETHERNET_BYTES..];
        if read_u16(frame, 12) != ETHERTYPE_IPV4 || packet[0] >> 4 != 4 {
            return Err(Malformed::NotIpv4);
        }
        let header_bytes = usize::from(packet[0] & 0xf) * 4;
        if header_bytes < IPV4_BYTES || header_bytes > packet.len() {
            return Err(Malformed::HeaderLength);
        }
        let total_bytes = usize::from(read_u16(packet, 2));
        if total_bytes < header_bytes || total_bytes > packet.len() {
            return Err(Malformed::TotalLength);
        }
        if checksum(&packet[..header_bytes]) != 0 {
            return Err(Malformed::Checksum);
        }
        Ok(Self {
            frame,
            header_bytes,
            total_bytes,
        })
    }

    /// The frame's target address.
    pub fn target_mac(&self) -> Mac {
        mac(self.frame, 0)
    }

    /// The frame's source address.
    pub fn source_mac(&self) -> Mac {
        mac(self.frame, 6)
    }

    /// The packet, without the frame's padding.
    pub fn bytes(&self) -> &'a [u8] {
        &self.frame[ETHERNET_BYTES..ETHERNET_BYTES + self.total_bytes]
    }

    /// The packet's header, with options.
    pub fn header(&self) -> &'a [u8] {
        &self.bytes()[..self.header_bytes]
    }

    /// The bytes after the packet's header.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes()[self.header_bytes..]
    }

    /// Time to live: the number of hops left.
    pub fn ttl(&self) -> u8 {
        self.bytes()[8]
    }

    /// Number of the payload's protocol.
    pub fn protocol(&self) -> u8 {
        self.bytes()[9]
    }

    /// The packet's source address.
    pub fn source(&self) -> Ipv4Addr {
        address(self.bytes(), 12)
    }

    /// The packet's target address.
    pub fn target(&self) -> Ipv4Addr {
        address(self.bytes(), 16)
    }

    /// Whether routers must not fragment the packet.
    pub fn dont_fragment(&self) -> bool {
        read_u16(self.bytes(), 6) & DONT_FRAGMENT != 0
    }

    /// Whether more fragments follow this one.
    pub fn more_fragments(&self) -> bool {
        read_u16(self.bytes(), 6) & MORE_FRAGMENTS != 0
    }

    /// Offset of this fragment in the payload of the whole packet, in bytes.
    pub fn fragment_offset_bytes(&self) -> usize {
        usize::from(read_u16(self.bytes(), 6) & 0x1fff) * 8
    }
}

/// The headers of a UDP frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpFrame {
    /// The sender's Ethernet address.
    pub source_mac: Mac,
    /// The next hop's Ethernet address.
    pub target_mac: Mac,
    /// The sender's IPv4 address.
    pub source: Ipv4Addr,
    /// The receiver's IPv4 address.
    pub target: Ipv4Addr,
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub target_port: u16,
    /// Time to live.
    pub ttl: u8,
    /// Identification, which all fragments of a packet share.
    pub identification: u16,
    /// Whether routers must not fragment the packet.
    pub dont_fragment: bool,
}

impl UdpFrame {
    /// The frame with a payload. It has no UDP checksum, as RFC 768 allows, so that a generator can
    /// change the payload. `None` if the packet would be longer than 65,535 bytes.
    pub fn build(&self, payload: &[u8]) -> Option<Vec<u8>> {
        let udp_bytes = u16::try_from(UDP_BYTES + payload.len()).ok()?;
        let total_bytes = u16::try_from(IPV4_BYTES + usize::from(udp_bytes)).ok()?;
        let flags = if self.dont_fragment { DONT_FRAGMENT } else { 0 };
        let mut frame = Vec::with_capacity(ETHERNET_BYTES + usize::from(total_bytes));
        frame.extend(self.target_mac);
        frame.extend(self.source_mac);
        frame.extend(ETHERTYPE_IPV4.to_be_bytes());
        frame.extend([0x45, 0]);
        frame.extend(total_bytes.to_be_bytes());
        frame.extend(self.identification.to_be_bytes());
        frame.extend(flags.to_be_bytes());
        frame.extend([self.ttl, UDP, 0, 0]);
        frame.extend(self.source.octets());
        frame.extend(self.target.octets());
        let sum = checksum(&frame[ETHERNET_BYTES..]);
        write_u16(&mut frame, ETHERNET_BYTES + 10, sum);
        frame.extend(self.source_port.to_be_bytes());
        frame.extend(self.target_port.to_be_bytes());
        frame.extend(udp_bytes.to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(payload);
        Some(frame)
    }
}

/// The 16-bit number at an offset, in network order.
///
/// # Panics
/// `bytes` ends before the number does.
pub(crate) fn read_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Writes a 16-bit number at an offset, in network order.
pub(crate) fn write_u16(bytes: &mut [u8], at: usize, number: u16) {
    bytes[at..at + 2].copy_from_slice(&number.to_be_bytes());
}

fn mac(bytes: &[u8], at: usize) -> Mac {
    let mut mac = Mac::default();
    mac.copy_from_slice(&bytes[at..at + 6]);
    mac
}

fn address(bytes: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3])
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn example() -> UdpFrame {
        UdpFrame {
            source_mac: [2, 0, 0, 0, 0, 1],
            target_mac: [2, 0, 0, 0, 0, 2],
            source: Ipv4Addr::new(10, 0, 0, 2),
            target: Ipv4Addr::new(10, 0, 1, 2),
            source_port: 9,
            target_port: 9,
            ttl: 64,
            identification: 7,
            dont_fragment: true,
        }
    }

    #[test]
    fn a_built_frame_parses_to_the_same_fields() {
        let frame = example().build(b"discard").unwrap();
        let packet = Packet::parse(&frame).unwrap();
        assert_eq!(packet.target_mac(), [2, 0, 0, 0, 0, 2]);
        assert_eq!(packet.source(), Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!(packet.target(), Ipv4Addr::new(10, 0, 1, 2));
        assert_eq!((packet.ttl(), packet.protocol()), (64, UDP));
        assert!(packet.dont_fragment() && !packet.more_fragments());
        assert_eq!(&packet.payload()[UDP_BYTES..], b"discard");
    }

    #[test]
    fn a_packet_ends_before_the_padding() {
        let mut frame = example().build(b"x").unwrap();
        frame.resize(60, 0xaa);
        assert_eq!(
            Packet::parse(&frame).unwrap().payload().len(),
            UDP_BYTES + 1
        );
    }

    #[test]
    fn each_kind_of_damage_has_its_own_error() {
        let frame = example().build(b"").unwrap();
        let with = |at: usize, byte: u8| {
            let mut frame = frame.clone();
            frame[at] = byte;
            Packet::parse(&frame).map(|_| ()).unwrap_err()
        };
        assert_eq!(with(12, 0x86), Malformed::NotIpv4);
        assert_eq!(with(14, 0x65), Malformed::NotIpv4);
        assert_eq!(with(14, 0x44), Malformed::HeaderLength);
        assert_eq!(with(16, 0xff), Malformed::TotalLength);
        assert_eq!(with(22, 1), Malformed::Checksum);
        assert_eq!(Packet::parse(&frame[..33]), Err(Malformed::Short));
    }

    #[test]
    fn a_payload_that_is_too_long_for_ip_makes_no_frame() {
        assert!(example().build(&vec![0; 65_508]).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_a_panic(bytes: Vec<u8>) {
            let _ = Packet::parse(&bytes);
        }
    }
}
