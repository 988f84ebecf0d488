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

/// The machine's memory and the card's registers.
pub trait Bus {
    /// Sixteen bytes of memory at a physical address.
    fn descriptor(&self, address: u64) -> [u8; 16];

    /// The card's register at an offset.
    fn register(&self, offset: u64) -> u32;
}

/// Receives the actions of the card.
pub trait CardEvents {
    /// The card wrote that many bytes at a physical address.
    fn wrote(&mut self, address: u64, bytes: u64);

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
}

impl Card {
    /// The rings as the card's registers describe them; `None` if its driver has not set them.
    #[must_use]
    pub fn find(bus: &impl Bus) -> Option<Self> {
        Some(Self {
            receive: Ring::read(bus, &RECEIVE)?,
            send: Ring::read(bus, &SEND)?,
            segmentation: Segmentation::default(),
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
            } else if commands & SEND_END != 0 {
                sent += self.frames_of(commands);
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

/// Bytes of a descriptor from an offset on.
fn field<const SIZE: usize>(descriptor: &[u8; 16], offset: usize) -> [u8; SIZE] {
    std::array::from_fn(|index| descriptor[offset + index])
}
