//! Reads the rings of an e1000 network card, to find the memory that the card wrote and the frames
//! that it moved.
//!
//! The card and its driver share descriptors of 16 bytes in memory. The layouts are those of Intel's
//! software developer's manual for the 8254x family, section 3.

/// Bytes of a descriptor.
const DESCRIPTOR_BYTES: u64 = 16;

/// Offsets of registers.
const RECEIVE: RingRegisters = RingRegisters {
    base_low: 0x2800,
    base_high: 0x2804,
    length: 0x2808,
    head: 0x2810,
};
const SEND: RingRegisters = RingRegisters {
    base_low: 0x3800,
    base_high: 0x3804,
    length: 0x3808,
    head: 0x3810,
};
/// Offset of the register that the driver writes to pass frames to the card.
pub const SEND_TAIL: u64 = 0x3818;

/// Bit of a descriptor's status: the card has written it.
const DONE: u8 = 1;
/// A bit of a received descriptor's status: the descriptor is the last of its frame.
const RECEIVED_END: u8 = 2;

/// Bits of a descriptor to send, in its byte of commands.
const SEND_END: u8 = 1;
const SEGMENTS: u8 = 1 << 2;
const REPORTS_STATUS: u8 = 1 << 3;
const EXTENDED: u8 = 1 << 5;

struct RingRegisters {
    base_low: u64,
    base_high: u64,
    length: u64,
    head: u64,
}

/// Bytes of a frame that are examined: the headers of Ethernet, IP and TCP, and the first line of an
/// HTTP response.
const HEAD_BYTES: usize = 160;
/// Bytes of the header of Ethernet.
const ETHERNET_BYTES: usize = 14;
/// TCP's number in an IP header.
const TCP: u8 = 6;

/// The machine's memory and the card's registers.
pub trait Bus {
    /// Reads memory at a physical address.
    fn read(&self, address: u64, into: &mut [u8]);

    /// A descriptor at a physical address.
    fn descriptor(&self, address: u64) -> [u8; 16] {
        let mut bytes = [0; 16];
        self.read(address, &mut bytes);
        bytes
    }

    /// The card's register at an offset.
    fn register(&self, offset: u64) -> u32;
}

/// Receives the actions of the card.
pub trait CardEvents {
    /// The card wrote that many bytes at a physical address.
    fn wrote(&mut self, address: u64, bytes: u64);

    /// The card begins to send an HTTP response with this status. Its frames are reported after it.
    fn responds(&mut self, status: u16);

    /// The card moved frames.
    fn moved(&mut self, sent: u64, received: u64);
}

/// A ring of descriptors, and the first descriptor that has not been read here.
#[derive(Clone, Copy, Debug)]
struct Ring {
    base: u64,
    descriptors: u64,
    next: u64,
}

impl Ring {
    fn read(bus: &impl Bus, registers: &RingRegisters) -> Option<Self> {
        let high = u64::from(bus.register(registers.base_high));
        let base = high << 32 | u64::from(bus.register(registers.base_low));
        let descriptors = u64::from(bus.register(registers.length)) / DESCRIPTOR_BYTES;
        let next = u64::from(bus.register(registers.head));
        (base != 0 && next < descriptors && descriptors <= 4096).then_some(Self {
            base,
            descriptors,
            next,
        })
    }

    const fn address(&self) -> u64 {
        self.base + self.next * DESCRIPTOR_BYTES
    }

    const fn advance(&mut self) {
        self.next = (self.next + 1) % self.descriptors;
    }
}

/// The segmentation that the driver last requested.
#[derive(Clone, Copy, Debug, Default)]
struct Segmentation {
    payload_bytes: u64,
    segment_bytes: u64,
}

/// A card's rings.
#[derive(Clone, Debug)]
pub struct Card {
    receive: Ring,
    send: Ring,
    segmentation: Segmentation,
    /// The first bytes of the frame whose descriptors are being read.
    head: Vec<u8>,
}

impl Card {
    /// The rings as the card's registers describe them; `None` if its driver has not set them.
    #[must_use]
    pub fn find(bus: &impl Bus) -> Option<Self> {
        Some(Self {
            receive: Ring::read(bus, &RECEIVE)?,
            send: Ring::read(bus, &SEND)?,
            segmentation: Segmentation::default(),
            head: Vec::with_capacity(HEAD_BYTES),
        })
    }

    /// Reports the frames that the card has received since the last call.
    pub fn receive(&mut self, bus: &impl Bus, events: &mut impl CardEvents) {
        let mut received = 0;
        // At most one turn around the ring: the driver clears a descriptor before the card uses it
        // again.
        for _ in 0..self.receive.descriptors {
            let descriptor = bus.descriptor(self.receive.address());
            let status = descriptor[12];
            if status & DONE == 0 {
                break;
            }
            let buffer = u64::from_le_bytes(field(&descriptor, 0));
            let bytes = u16::from_le_bytes(field(&descriptor, 8));
            events.wrote(buffer, u64::from(bytes));
            events.wrote(self.receive.address(), DESCRIPTOR_BYTES);
            received += u64::from(status & RECEIVED_END != 0);
            self.receive.advance();
        }
        if received > 0 {
            events.moved(0, received);
        }
    }

    /// Reports the frames that the card has sent, after the driver stored `tail` in [`SEND_TAIL`].
    pub fn send(&mut self, tail: u64, bus: &impl Bus, events: &mut impl CardEvents) {
        let mut sent = 0;
        while tail < self.send.descriptors && self.send.next != tail {
            let descriptor = bus.descriptor(self.send.address());
            let commands = descriptor[11];
            let is_data = descriptor[10] & 0xF0 != 0;
            if commands & EXTENDED != 0 && !is_data {
                let low = u32::from_le_bytes(field(&descriptor, 8));
                let segment_bytes = u16::from_le_bytes(field(&descriptor, 14));
                self.segmentation = Segmentation {
                    payload_bytes: u64::from(low & 0xF_FFFF),
                    segment_bytes: u64::from(segment_bytes),
                };
            } else {
                self.read_head(&descriptor, bus);
                if commands & SEND_END != 0 {
                    sent += self.frames_of(commands);
                    if let Some(status) = status_of(&self.head) {
                        events.responds(status);
                    }
                    self.head.clear();
                }
            }
            if commands & REPORTS_STATUS != 0 {
                events.wrote(self.send.address(), DESCRIPTOR_BYTES);
            }
            self.send.advance();
        }
        if sent > 0 {
            events.moved(sent, 0);
        }
    }

    /// Reads the first bytes of a frame from the buffer of a descriptor.
    fn read_head(&mut self, descriptor: &[u8; 16], bus: &impl Bus) {
        let is_extended = descriptor[11] & EXTENDED != 0;
        let most = if is_extended { 0xF_FFFF } else { 0xFFFF };
        let bytes = u32::from_le_bytes(field(descriptor, 8)) & most;
        let begin = self.head.len();
        let end = HEAD_BYTES.min(begin + bytes as usize);
        self.head.resize(end, 0);
        let buffer = u64::from_le_bytes(field(descriptor, 0));
        bus.read(buffer, &mut self.head[begin..]);
    }

    /// Number of frames that the card sends for data whose last descriptor has these commands.
    const fn frames_of(&self, commands: u8) -> u64 {
        let Segmentation {
            payload_bytes,
            segment_bytes,
        } = self.segmentation;
        if commands & EXTENDED != 0 && commands & SEGMENTS != 0 && segment_bytes > 0 {
            payload_bytes.div_ceil(segment_bytes)
        } else {
            1
        }
    }
}

/// The status of the HTTP response that begins in a frame, by the frame's first bytes.
///
/// A server sends a response after the last one's end was acknowledged, or on a connection without a
/// response before. So its first byte is the first one of a segment.
fn status_of(frame: &[u8]) -> Option<u16> {
    let ip = frame.get(ETHERNET_BYTES..)?;
    let (header_bytes, protocol) = match ip.first()? >> 4 {
        4 => (usize::from(ip[0] & 15) * 4, *ip.get(9)?),
        6 => (40, *ip.get(6)?),
        _ => return None,
    };
    let segment = ip.get(header_bytes..).filter(|_| protocol == TCP)?;
    let payload = segment.get(usize::from(segment.get(12)? >> 4) * 4..)?;
    let after = payload.strip_prefix(b"HTTP/1.")?.get(1..)?;
    let digits = after.strip_prefix(b" ")?.get(..3)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Bytes of a descriptor from an offset on.
fn field<const SIZE: usize>(descriptor: &[u8; 16], offset: usize) -> [u8; SIZE] {
    std::array::from_fn(|index| descriptor[offset + index])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Buffers by address, and a ring of descriptors at address 0x1000.
    #[derive(Default)]
    struct Memory(BTreeMap<u64, Vec<u8>>);

    impl Bus for Memory {
        fn read(&self, address: u64, into: &mut [u8]) {
            let (begin, bytes) = self.0.range(..=address).next_back().unwrap();
            let offset = (address - begin) as usize;
            into.copy_from_slice(&bytes[offset..offset + into.len()]);
        }

        fn register(&self, offset: u64) -> u32 {
            match offset {
                0x2800 | 0x3800 => 0x1000,
                0x2808 | 0x3808 => 8 * 16,
                _ => 0,
            }
        }
    }

    #[derive(Debug, Default, PartialEq)]
    struct Seen {
        sent: u64,
        statuses: Vec<u16>,
    }

    impl CardEvents for Seen {
        fn wrote(&mut self, _: u64, _: u64) {}

        fn responds(&mut self, status: u16) {
            self.statuses.push(status);
        }

        fn moved(&mut self, sent: u64, _: u64) {
            self.sent += sent;
        }
    }

    /// A frame of IPv4 and TCP with a timestamp option.
    fn frame(payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 14 + 20 + 32];
        (frame[14], frame[14 + 9], frame[14 + 20 + 12]) = (0x45, TCP, 0x80);
        frame.extend(payload);
        frame
    }

    #[test]
    fn responses_are_recognized_wherever_the_frame_is_divided() {
        let response = frame(b"HTTP/1.1 404 Not Found\r\n");
        for (bytes, expected) in [
            (response.clone(), Some(404)),
            (frame(b"HTTP/1.0 200 OK\r\n"), Some(200)),
            (frame(b"GET / HTTP/1.1\r\n"), None),
            (frame(b"-ERR unknown command\r\n"), None),
            (frame(b"HTTP/1."), None),
            (frame(b""), None),
            (response[..20].to_vec(), None),
        ] {
            for cut in [0, 10, 66, 80] {
                let cut = cut.min(bytes.len());
                let mut memory = Memory::default();
                let mut ring = vec![0; 8 * 16];
                let parts = [
                    (0x4000, &bytes[..cut], 0),
                    (0x8000, &bytes[cut..], SEND_END),
                ];
                for (index, (address, part, end)) in parts.into_iter().enumerate() {
                    let descriptor = &mut ring[index * 16..][..16];
                    descriptor[..8].copy_from_slice(&u64::to_le_bytes(address));
                    descriptor[8..10].copy_from_slice(&(part.len() as u16).to_le_bytes());
                    // A data descriptor, in the extended layout.
                    descriptor[10..12].copy_from_slice(&[0x10, EXTENDED | end]);
                    memory.0.insert(address, part.to_vec());
                }
                memory.0.insert(0x1000, ring);
                let mut seen = Seen::default();
                Card::find(&memory).unwrap().send(2, &memory, &mut seen);
                let statuses = Vec::from_iter(expected);
                assert_eq!(seen, Seen { sent: 1, statuses }, "{bytes:?} {cut}");
            }
        }
    }
}
