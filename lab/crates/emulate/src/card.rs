//! Reads the rings of a network card, to find the memory that the card wrote and the frames that it
//! moved.
//!
//! The card and its driver share descriptors of 16 bytes in memory. The layouts are those of Intel's
//! software developer's manual for the 8254x family (e1000), section 3, and of the datasheet of the
//! 82576 (igb), sections 7.1 and 7.2. Both have their first ring at the same registers.

/// Bytes of a descriptor.
const DESCRIPTOR_BYTES: u64 = 16;

/// Offsets of registers.
const RECEIVE: RingRegisters = RingRegisters {
    base_low: 0x2800,
    base_high: 0x2804,
    length: 0x2808,
    head: 0x2810,
    tail: 0x2818,
};
const SEND: RingRegisters = RingRegisters {
    base_low: 0x3800,
    base_high: 0x3804,
    length: 0x3808,
    head: 0x3810,
    tail: 0x3818,
};
/// Distance of the registers of two queues. The first four queues of an igb card have them here too.
const QUEUE_BYTES: u64 = 0x100;

/// Bit of a descriptor's status: the card has written it.
const DONE: u8 = 1;
/// A bit of a received descriptor's status: the descriptor is the last of its frame.
const RECEIVED_END: u8 = 2;

/// Bits of a descriptor to send, in its byte of commands.
const SEND_END: u8 = 1;
const REPORTS_STATUS: u8 = 1 << 3;
const EXTENDED: u8 = 1 << 5;

struct RingRegisters {
    base_low: u64,
    base_high: u64,
    length: u64,
    head: u64,
    /// The register that the driver writes to pass descriptors to the card.
    tail: u64,
}

/// The kind of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// One queue.
    E1000,
    /// The number of queues. Its descriptors are the advanced ones of the 82576.
    Igb(usize),
}

impl Family {
    const fn queues(self) -> usize {
        match self {
            Self::E1000 => 1,
            Self::Igb(queues) => queues,
        }
    }

    /// The type of an extended descriptor that has no data.
    const fn context_type(self) -> u8 {
        match self {
            Self::E1000 => 0,
            Self::Igb(_) => 2,
        }
    }

    /// The bit of the commands that divides data into segments.
    const fn segments(self) -> u8 {
        match self {
            Self::E1000 => 1 << 2,
            Self::Igb(_) => 1 << 7,
        }
    }
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

    /// A queue of the card moved frames.
    fn moved(&mut self, queue: usize, sent: u64, received: u64);
}

/// A ring of descriptors, and the first descriptor that has not been read here.
#[derive(Clone, Copy, Debug)]
struct Ring {
    base: u64,
    descriptors: u64,
    next: u64,
}

impl Ring {
    fn read(bus: &impl Bus, registers: &RingRegisters, queue: usize) -> Option<Self> {
        let register = |offset| u64::from(bus.register(offset + queue as u64 * QUEUE_BYTES));
        let base = register(registers.base_high) << 32 | register(registers.base_low);
        let descriptors = register(registers.length) / DESCRIPTOR_BYTES;
        let next = register(registers.head);
        (base != 0 && next < descriptors && descriptors <= 4096).then_some(Self {
            base,
            descriptors,
            next,
        })
    }

    const fn address(&self) -> u64 {
        self.at(self.next)
    }

    const fn at(&self, descriptor: u64) -> u64 {
        self.base + descriptor * DESCRIPTOR_BYTES
    }

    const fn after(&self, descriptor: u64) -> u64 {
        (descriptor + 1) % self.descriptors
    }

    const fn advance(&mut self) {
        self.next = self.after(self.next);
    }
}

/// The segmentation that the driver last requested.
#[derive(Clone, Copy, Debug, Default)]
struct Segmentation {
    payload_bytes: u64,
    segment_bytes: u64,
}

/// The descriptors that an igb card's driver has passed to it. The card overwrites the address in a
/// descriptor that it has used.
#[derive(Clone, Debug)]
struct Passed {
    /// The first descriptor that the driver has not passed.
    tail: u64,
    /// The address of the buffer by descriptor.
    buffers: Vec<u64>,
}

/// A part of a frame that the card has received.
struct ReceivedPart {
    buffer: u64,
    bytes: u64,
    is_last: bool,
}

/// The two rings of a queue.
#[derive(Clone, Debug)]
struct Queue {
    family: Family,
    receive: Ring,
    passed: Passed,
    send: Ring,
    segmentation: Segmentation,
    /// The first bytes of the frame whose descriptors are being read.
    head: Vec<u8>,
}

/// A card's rings.
#[derive(Clone, Debug)]
pub struct Card {
    queues: Vec<Queue>,
}

impl Card {
    /// The rings as the card's registers describe them; `None` if its driver has not set them.
    #[must_use]
    pub fn find(bus: &impl Bus, family: Family) -> Option<Self> {
        let queues = (0..family.queues()).map(|queue| Queue::find(bus, family, queue));
        Some(Self {
            queues: queues.collect::<Option<_>>()?,
        })
    }

    /// Reports the frames that the card has received since the last call.
    pub fn receive(&mut self, bus: &impl Bus, events: &mut impl CardEvents) {
        for (number, queue) in self.queues.iter_mut().enumerate() {
            let received = queue.receive(bus, events);
            if received > 0 {
                events.moved(number, 0, received);
            }
        }
    }

    /// The driver stored `value` in the register at `offset`. If it passed frames to the card, this
    /// reports those that the card has sent.
    pub fn stored(
        &mut self,
        offset: u64,
        value: u64,
        bus: &impl Bus,
        events: &mut impl CardEvents,
    ) {
        for (number, queue) in self.queues.iter_mut().enumerate() {
            match offset.wrapping_sub(number as u64 * QUEUE_BYTES) {
                register if register == SEND.tail => {
                    let sent = queue.send(value & 0xFFFF, bus, events);
                    if sent > 0 {
                        events.moved(number, sent, 0);
                    }
                }
                register if register == RECEIVE.tail => queue.pass(value & 0xFFFF, bus),
                _ => {}
            }
        }
    }
}

impl Queue {
    fn find(bus: &impl Bus, family: Family, number: usize) -> Option<Self> {
        let receive = Ring::read(bus, &RECEIVE, number)?;
        let mut queue = Self {
            family,
            passed: Passed {
                tail: receive.next,
                buffers: vec![0; receive.descriptors as usize],
            },
            receive,
            send: Ring::read(bus, &SEND, number)?,
            segmentation: Segmentation::default(),
            head: Vec::with_capacity(HEAD_BYTES),
        };
        let tail = bus.register(RECEIVE.tail + number as u64 * QUEUE_BYTES);
        queue.pass(u64::from(tail), bus);
        Some(queue)
    }

    /// The driver has passed the buffers up to `tail` to the card.
    fn pass(&mut self, tail: u64, bus: &impl Bus) {
        if self.family == Family::E1000 || tail >= self.receive.descriptors {
            return;
        }
        while self.passed.tail != tail {
            let descriptor = bus.descriptor(self.receive.at(self.passed.tail));
            // If frames waited for buffers, the card has used the descriptor already.
            let is_used = received_bytes(&descriptor) != 0;
            let buffer = u64::from_le_bytes(field(&descriptor, 0));
            self.passed.buffers[self.passed.tail as usize] = if is_used { 0 } else { buffer };
            self.passed.tail = self.receive.after(self.passed.tail);
        }
    }

    /// The part of a frame in the next descriptor, if the card has received one.
    fn received(&self, descriptor: &[u8; 16]) -> Option<ReceivedPart> {
        let status = descriptor[match self.family {
            Family::E1000 => 12,
            Family::Igb(_) => 8,
        }];
        let (is_done, buffer, bytes) = match self.family {
            Family::E1000 => (
                status & DONE != 0,
                u64::from_le_bytes(field(descriptor, 0)),
                u16::from_le_bytes(field(descriptor, 8)),
            ),
            // The driver clears the length, not the status.
            Family::Igb(_) => (
                self.receive.next != self.passed.tail && received_bytes(descriptor) != 0,
                self.passed.buffers[self.receive.next as usize],
                received_bytes(descriptor),
            ),
        };
        is_done.then_some(ReceivedPart {
            buffer,
            bytes: u64::from(bytes),
            is_last: status & RECEIVED_END != 0,
        })
    }

    /// Reports the memory of the frames that the card has received. Returns their number.
    fn receive(&mut self, bus: &impl Bus, events: &mut impl CardEvents) -> u64 {
        let mut received = 0;
        // At most one turn around the ring: the driver clears a descriptor before the card uses it
        // again.
        for _ in 0..self.receive.descriptors {
            let descriptor = bus.descriptor(self.receive.address());
            let Some(part) = self.received(&descriptor) else {
                break;
            };
            if part.buffer != 0 {
                events.wrote(part.buffer, part.bytes);
            }
            events.wrote(self.receive.address(), DESCRIPTOR_BYTES);
            received += u64::from(part.is_last);
            self.receive.advance();
        }
        received
    }

    /// Reports the responses among the frames that the card has sent up to `tail`. Returns their number.
    fn send(&mut self, tail: u64, bus: &impl Bus, events: &mut impl CardEvents) -> u64 {
        let mut sent = 0;
        while tail < self.send.descriptors && self.send.next != tail {
            let descriptor = bus.descriptor(self.send.address());
            let commands = descriptor[11];
            if commands & EXTENDED != 0 && descriptor[10] >> 4 == self.family.context_type() {
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
        sent
    }

    /// Reads the first bytes of a frame from the buffer of a descriptor.
    fn read_head(&mut self, descriptor: &[u8; 16], bus: &impl Bus) {
        let is_extended = descriptor[11] & EXTENDED != 0;
        let most = match self.family {
            Family::E1000 if is_extended => 0xF_FFFF,
            _ => 0xFFFF,
        };
        let bytes = u32::from_le_bytes(field(descriptor, 8)) & most;
        let begin = self.head.len();
        if begin == 0 && self.family != Family::E1000 {
            // The first descriptor of an igb card's frame has the bytes after its headers.
            self.segmentation.payload_bytes =
                u64::from(u32::from_le_bytes(field(descriptor, 12)) >> 14);
        }
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
        if commands & EXTENDED != 0 && commands & self.family.segments() != 0 && segment_bytes > 0 {
            payload_bytes.div_ceil(segment_bytes)
        } else {
            1
        }
    }
}

/// Bytes in a descriptor that an igb card has used; 0 if its driver has passed it and the card has not
/// used it.
fn received_bytes(descriptor: &[u8; 16]) -> u16 {
    u16::from_le_bytes(field(descriptor, 12))
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

    /// Buffers by address. Queue 0 has its rings at address 0x1000, queue 1 at 0x2000.
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
                0x2900 | 0x3900 => 0x2000,
                0x2808 | 0x3808 | 0x2908 | 0x3908 => 8 * 16,
                _ => 0,
            }
        }
    }

    #[derive(Debug, Default, PartialEq)]
    struct Seen {
        sent: u64,
        received: Vec<(usize, u64)>,
        wrote: Vec<(u64, u64)>,
        statuses: Vec<u16>,
    }

    impl CardEvents for Seen {
        fn wrote(&mut self, address: u64, bytes: u64) {
            self.wrote.push((address, bytes));
        }

        fn responds(&mut self, status: u16) {
            self.statuses.push(status);
        }

        fn moved(&mut self, queue: usize, sent: u64, received: u64) {
            self.sent += sent;
            if received > 0 {
                self.received.push((queue, received));
            }
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
            for (cut, family) in [0, 10, 66, 80]
                .into_iter()
                .flat_map(|cut| [Family::E1000, Family::Igb(1)].map(|family| (cut, family)))
            {
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
                    let data = (family.context_type() + 1) << 4;
                    descriptor[10..12].copy_from_slice(&[data, EXTENDED | end]);
                    memory.0.insert(address, part.to_vec());
                }
                memory.0.insert(0x1000, ring);
                let mut seen = Seen::default();
                let mut card = Card::find(&memory, family).unwrap();
                card.stored(0x3818, 2, &memory, &mut seen);
                let expected = (1, Vec::from_iter(expected));
                assert_eq!((seen.sent, seen.statuses), expected, "{bytes:?} {cut}");
            }
        }
    }

    #[test]
    fn a_large_send_of_an_igb_card_counts_as_its_frames() {
        let mut ring = vec![0; 8 * 16];
        // A context with segments of 1448 bytes, then 66 bytes of headers with 5000 of payload.
        ring[10] = 0x20;
        ring[11] = EXTENDED;
        ring[14..16].copy_from_slice(&1448_u16.to_le_bytes());
        ring[16 + 1] = 0x40;
        ring[16 + 8] = 66;
        ring[16 + 10] = 0x30;
        ring[16 + 11] = EXTENDED | 1 << 7 | SEND_END;
        ring[16 + 12..16 + 16].copy_from_slice(&(5000_u32 << 14).to_le_bytes());
        let memory = Memory([(0x1000, ring), (0x4000, frame(b""))].into());
        let mut seen = Seen::default();
        let mut card = Card::find(&memory, Family::Igb(1)).unwrap();
        card.stored(0x3818, 2, &memory, &mut seen);
        assert_eq!(seen.sent, 4);
    }

    #[test]
    fn an_igb_card_writes_to_the_buffers_that_its_driver_has_passed() {
        let mut ring = vec![0; 8 * 16];
        for (index, descriptor) in ring.chunks_exact_mut(16).enumerate() {
            descriptor[..8].copy_from_slice(&(0x10_0000 + index as u64 * 2048).to_le_bytes());
        }
        let empty = vec![0; 8 * 16];
        let mut memory = Memory([(0x1000, empty), (0x2000, ring)].into());
        let mut seen = Seen::default();
        let mut card = Card::find(&memory, Family::Igb(2)).unwrap();
        card.stored(0x2918, 3, &memory, &mut seen);
        card.receive(&memory, &mut seen);
        assert_eq!(seen, Seen::default());
        // The card writes two frames. The third descriptor waits, and the fourth, which the driver has
        // not passed, has the length of an earlier frame.
        for (descriptor, bytes) in [(0, 60_u16), (1, 1514), (3, 99)] {
            let ring = memory.0.get_mut(&0x2000).unwrap();
            let written = &mut ring[descriptor * 16..][..16];
            written.fill(0xAB);
            written[8] = DONE | RECEIVED_END;
            written[12..14].copy_from_slice(&bytes.to_le_bytes());
        }
        card.receive(&memory, &mut seen);
        card.receive(&memory, &mut seen);
        let wrote = [
            (0x10_0000, 60),
            (0x2000, 16),
            (0x10_0800, 1514),
            (0x2010, 16),
        ];
        assert_eq!((&seen.wrote[..], seen.received), (&wrote[..], vec![(1, 2)]));
    }
}
