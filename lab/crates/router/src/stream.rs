//! Frames of a generator, with the mark by which a receiver recognizes them.

use crate::error::RouterError;
use crate::frame::{CHECK_SEQUENCE_BYTES, ETHERNET_BYTES, IPV4_BYTES, UDP_BYTES, UdpFrame};

/// First bytes of the payload of every frame of a generator.
const MARK: [u8; 4] = *b"ppkt";

/// Offset of the mark in a frame without IP options.
pub(crate) const MARK_AT: usize = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES;

/// Offset of the frame's sequence number.
pub(crate) const SEQUENCE_AT: usize = MARK_AT + 8;

/// Bytes of mark, stream number and sequence number.
const MARKED_BYTES: usize = 16;

/// Range of frame lengths in bytes, with check sequence (RFC 2544, IEEE 802.3).
const FRAME_BYTES: std::ops::RangeInclusive<usize> = 64..=1518;

/// A stream of frames that differ only in their sequence number: one flow of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Addresses, ports and hops.
    pub headers: UdpFrame,
    /// Number of this stream, which differs from the numbers of other streams.
    pub number: u32,
    /// Bytes of each frame with its check sequence, from 64 to 1518.
    pub frame_bytes: usize,
}

impl Stream {
    /// The frame with sequence number 0, without check sequence.
    ///
    /// # Errors
    /// The size is out of range.
    pub fn frame(&self) -> Result<Vec<u8>, RouterError> {
        let wrong = || RouterError::Setting {
            name: "frame-size",
            value: self.frame_bytes.to_string(),
            expected: "64 to 1518 bytes with the check sequence",
        };
        if !FRAME_BYTES.contains(&self.frame_bytes) {
            return Err(wrong());
        }
        let mut payload = vec![0; self.frame_bytes - CHECK_SEQUENCE_BYTES - MARK_AT];
        payload[..8].copy_from_slice(&self.mark());
        self.headers.build(&payload).ok_or_else(wrong)
    }

    /// The mark and the stream's number: the same eight bytes in all frames of the stream.
    pub(crate) fn mark(&self) -> [u8; 8] {
        let mut mark = [0; 8];
        mark[..4].copy_from_slice(&MARK);
        mark[4..].copy_from_slice(&self.number.to_be_bytes());
        mark
    }

    /// The sequence number of a frame, if it is one of this stream.
    pub fn sequence(&self, frame: &[u8]) -> Option<u64> {
        let marked = frame.get(MARK_AT..MARK_AT + MARKED_BYTES)?;
        let (mark, number) = marked.split_first_chunk::<8>()?;
        let number = number.first_chunk::<8>()?;
        (*mark == self.mark()).then(|| u64::from_be_bytes(*number))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::frame::tests::example;

    pub(crate) fn stream(frame_bytes: usize) -> Stream {
        Stream {
            headers: UdpFrame {
                identification: 0,
                ..example()
            },
            number: 7,
            frame_bytes,
        }
    }

    #[test]
    fn frames_have_the_sizes_of_rfc_2544_less_the_check_sequence() {
        for bytes in crate::frame::RFC_2544_SIZES {
            let stream = stream(bytes);
            let frame = stream.frame().unwrap();
            assert_eq!(frame.len(), bytes - 4);
            assert_eq!(stream.sequence(&frame), Some(0));
        }
        assert!(stream(63).frame().is_err() && stream(1519).frame().is_err());
    }

    #[test]
    fn a_stream_does_not_recognize_the_frames_of_another() {
        let frame = stream(64).frame().unwrap();
        let other = Stream {
            number: 8,
            ..stream(64)
        };
        assert_eq!(other.sequence(&frame), None);
        assert_eq!(other.sequence(&frame[..40]), None);
    }
}
