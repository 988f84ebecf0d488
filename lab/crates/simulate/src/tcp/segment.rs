//! Segments and their sequence numbers.

use std::ops::{Add, Sub};

/// A sequence number: 32 bits that wrap (RFC 9293, section 3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sequence(pub u32);

impl Sequence {
    /// Whether this number comes before `other`, within half the number space.
    pub const fn is_before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// The later of the two.
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        if self.is_before(other) { other } else { self }
    }
}

impl Add<u32> for Sequence {
    type Output = Self;

    fn add(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

/// The distance from `earlier` to this number.
impl Sub for Sequence {
    type Output = u32;

    fn sub(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}

/// The control bits in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// No bit set.
    pub const NONE: Self = Self(0);
    /// Synchronize sequence numbers.
    pub const SYN: Self = Self(1);
    /// The acknowledgment number is valid.
    pub const ACK: Self = Self(2);
    /// No more data from the sender.
    pub const FIN: Self = Self(4);

    /// Both sets of bits.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all bits of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A TCP segment; payload is its length only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first payload byte, or of the SYN or FIN.
    pub sequence: Sequence,
    /// The next byte expected from the peer.
    pub acknowledgment: Sequence,
    /// Bytes beyond `acknowledgment` that the peer may send (window scaling already applied).
    pub window_bytes: u32,
    /// Payload.
    pub length_bytes: u16,
    /// Control bits.
    pub flags: Flags,
}

impl Segment {
    /// Sequence numbers it occupies: payload, SYN and FIN.
    pub const fn span(&self) -> u32 {
        self.length_bytes as u32
            + self.flags.has(Flags::SYN) as u32
            + self.flags.has(Flags::FIN) as u32
    }

    /// Bytes on the wire: the frame with its check sequence, the preamble and the inter-frame gap
    /// (IEEE 802.3).
    pub const fn wire_bytes(&self) -> u64 {
        8 + self.frame_bytes() + 4 + 12
    }

    /// Bytes of the frame in memory: Ethernet header, payload of at least 46 B (IEEE 802.3), with IP
    /// and TCP headers without options.
    pub const fn frame_bytes(&self) -> u64 {
        const ETHERNET: u64 = 14;
        const HEADERS: u64 = 20 + 20;
        const MINIMUM_PAYLOAD: u64 = 46;
        let packet = HEADERS + self.length_bytes as u64;
        ETHERNET
            + if packet < MINIMUM_PAYLOAD {
                MINIMUM_PAYLOAD
            } else {
                packet
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_wrap() {
        let last = Sequence(u32::MAX);
        assert!(last.is_before(last + 1));
        assert_eq!((last + 5) - last, 5);
        assert_eq!(last.max(last + 1), Sequence(0));
    }

    #[test]
    fn a_full_segment_is_a_1518_byte_frame() {
        let segment = Segment {
            sequence: Sequence(0),
            acknowledgment: Sequence(0),
            window_bytes: 0,
            length_bytes: 1460,
            flags: Flags::ACK,
        };
        assert_eq!(segment.wire_bytes(), 1518 + 8 + 12);
    }
}
