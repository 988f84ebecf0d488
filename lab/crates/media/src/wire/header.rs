//! The header of an RTP packet (RFC 3550, section 5.1).

use thiserror::Error;

/// Bytes of a header without contributing sources and without an extension. The packets sent here
/// have such headers.
pub const HEADER_BYTES: usize = 12;

/// The version of RTP that RFC 3550 defines, in the two highest bits of every packet.
pub(crate) const VERSION: u8 = 2;

/// The fields of an RTP header that a stored stream uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Marks an event that the RTP profile defines: in audio, the first packet after silence (RFC
    /// 3551, 4.1).
    pub marker: bool,
    /// Number of the payload's format (RFC 3551), below 128.
    pub payload_type: u8,
    /// Number of the packet. The first is random.
    pub sequence: u16,
    /// Time of the first byte in ticks of the media clock. The first is random.
    pub timestamp: u32,
    /// Synchronization source: the identifier of the stream.
    pub ssrc: u32,
}

/// The reason why bytes are not an RTP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    #[error("rtp packet of {bytes} bytes is too short for its header")]
    Short { bytes: usize },
    #[error("rtp version {version}, expected 2")]
    Version { version: u8 },
    #[error("rtp padding of {padding} bytes in a payload of {payload}")]
    Padding { padding: usize, payload: usize },
}

impl Header {
    /// The header in network byte order.
    #[inline]
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = VERSION << 6;
        bytes[1] = u8::from(self.marker) << 7 | self.payload_type & 0x7f;
        bytes[2..4].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.timestamp.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.ssrc.to_be_bytes());
        bytes
    }

    /// Splits a packet into its header and its payload. Skips contributing sources, the extension
    /// and padding.
    ///
    /// # Errors
    /// The packet is too short, has another version or too much padding.
    #[inline]
    pub fn split(packet: &[u8]) -> Result<(Self, &[u8]), HeaderError> {
        let short = HeaderError::Short {
            bytes: packet.len(),
        };
        let fixed: &[u8; HEADER_BYTES] = packet.first_chunk().ok_or(short)?;
        let version = fixed[0] >> 6;
        if version != VERSION {
            return Err(HeaderError::Version { version });
        }
        let mut start = HEADER_BYTES + 4 * usize::from(fixed[0] & 0x0f);
        if fixed[0] & 0x10 != 0 {
            let extension = packet.get(start..start + 4).ok_or(short)?;
            start += 4 + 4 * usize::from(u16::from_be_bytes([extension[2], extension[3]]));
        }
        let mut payload = packet.get(start..).ok_or(short)?;
        if fixed[0] & 0x20 != 0 {
            let padding = usize::from(payload.last().copied().unwrap_or(0));
            let length = payload.len().checked_sub(padding).filter(|_| padding > 0);
            payload = &payload[..length.ok_or(HeaderError::Padding {
                padding,
                payload: payload.len(),
            })?];
        }
        let header = Self {
            marker: fixed[1] & 0x80 != 0,
            payload_type: fixed[1] & 0x7f,
            sequence: u16::from_be_bytes([fixed[2], fixed[3]]),
            timestamp: u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
            ssrc: u32::from_be_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]),
        };
        Ok((header, payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn header_fields_have_the_positions_of_rfc_3550() {
        let header = Header {
            marker: true,
            payload_type: 33,
            sequence: 0x0102,
            timestamp: 0x0304_0506,
            ssrc: 0x0708_090a,
        };
        let expected = [0x80, 0xa1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
        assert_eq!(header.to_bytes(), expected);
    }

    #[test]
    fn split_skips_contributing_sources_extension_and_padding() {
        let mut packet = vec![0xb1, 33, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3];
        packet.extend([9; 4]); // a contributing source
        packet.extend([0, 0, 0, 1, 8, 8, 8, 8]); // an extension of one word
        packet.extend(*b"media");
        packet.extend([0, 0, 3]); // three bytes of padding
        assert_eq!(Header::split(&packet).unwrap().1, b"media");
        packet.truncate(20);
        assert!(Header::split(&packet).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_packet_or_an_error(packet: Vec<u8>) {
            if let Ok((_, payload)) = Header::split(&packet) {
                prop_assert!(payload.len() + HEADER_BYTES <= packet.len());
            }
        }

        #[test]
        fn a_written_header_is_read_back(
            marker: bool, payload_type in 0u8..128, sequence: u16, timestamp: u32, ssrc: u32,
        ) {
            let header = Header { marker, payload_type, sequence, timestamp, ssrc };
            let bytes = header.to_bytes();
            prop_assert_eq!(Header::split(&bytes), Ok((header, &[][..])));
        }
    }
}
