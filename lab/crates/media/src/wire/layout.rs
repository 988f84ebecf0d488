//! The layout of a stored file as a stream: the payload of its packets, and the due time of each
//! packet.
//!
//! Every file is sent at a constant rate: audio at its sample rate, a transport stream at the mean
//! rate between its first and last clock reference. The number of a packet then determines its
//! offset, its due time and its timestamp, so all clients share one copy of the file.

use thiserror::Error;

use crate::wire::transport_stream::{self as ts, PACKET_BYTES, PACKETS_PER_RTP};
use crate::wire::wav;

/// Duration of the audio in a packet (RFC 3551, section 4.2), unless the limit of bytes is reached
/// first.
const AUDIO_MS: u64 = 20;

/// A payload of up to this size fits an Ethernet frame with the headers of IPv6, UDP and RTP.
const PAYLOAD_LIMIT_BYTES: u64 = 1400;

/// The first payload type that a session description defines (RFC 3551, section 3).
const DYNAMIC_TYPE: u8 = 96;

/// Ticks of the 27 MHz clock per second and per millisecond.
const CLOCK_HZ: u64 = ts::CLOCK_HZ;
const CLOCK_TICKS_MS: u64 = ts::CLOCK_HZ / 1000;

/// Plausible rates of a transport stream, in bits a second.
const TRANSPORT_RATES_BPS: std::ops::RangeInclusive<u64> = 1_000..=10_000_000_000;

/// Number of bytes that detection reads from each end of a file, at most.
pub const PROBE_BYTES: usize = 512 * 1024;

/// The payload of a packet (RFC 3551).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Payload type in the RTP header.
    pub payload_type: u8,
    /// Name of the encoding in session descriptions.
    pub encoding: &'static str,
    /// Ticks of the timestamps a second.
    pub clock_hz: u32,
    /// Audio channels; 1 for video.
    pub channels: u8,
    /// Media type in session descriptions: `audio` or `video`.
    pub media_type: &'static str,
}

/// The division of a stored file into packets, and the due time of each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketLayout {
    /// The payload of its packets.
    pub payload: Payload,
    /// Offset of the first media byte in the file.
    pub offset: u64,
    /// Media bytes: whole packets, frames or samples.
    pub bytes: u64,
    /// Payload bytes of every packet but the last.
    pub packet_bytes: u32,
    /// Whether samples must be swapped: the file has 16-bit samples in little-endian order, and L16
    /// is big-endian.
    pub swaps_bytes: bool,
    /// Bytes that are due within [`Self::span_ticks`].
    span_bytes: u64,
    /// Ticks of 27 MHz for [`Self::span_bytes`].
    span_ticks: u64,
}

/// The reason why a file cannot be streamed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LayoutError {
    #[error("{name}: unknown format, expected a file .ts, .wav, .pcmu, .pcma, .g722 or .gsm")]
    Unknown { name: String },
    #[error("{name}: no media data in it")]
    Empty { name: String },
    #[error("{name}: the content is not a {expected}")]
    Mismatch {
        name: String,
        expected: &'static str,
    },
    #[error(
        "{name}: unknown rate, expected clock references of one program in the first and the last \
         512 KiB"
    )]
    NoClock { name: String },
    #[error("{name}: wav encoding {tag} with {bits} bits, expected 16-bit pcm, a-law or mu-law")]
    Encoding { name: String, tag: u16, bits: u16 },
}

impl PacketLayout {
    /// Detects the layout of a file from its name, its length and its two ends. `head` and `tail`
    /// are the first and last [`PROBE_BYTES`], or the whole file.
    ///
    /// # Errors
    /// The format is unknown, contradicts the name, or the file has no data.
    pub fn detect(
        name: &str,
        length_bytes: u64,
        head: &[u8],
        tail: &[u8],
    ) -> Result<Self, LayoutError> {
        let named = || name.to_owned();
        if length_bytes == 0 {
            return Err(LayoutError::Empty { name: named() });
        }
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        match extension.to_ascii_lowercase().as_str() {
            "ts" | "mts" | "m2t" | "mpegts" if !ts::is_transport_stream(head) => {
                Err(LayoutError::Mismatch {
                    name: named(),
                    expected: "MPEG transport stream",
                })
            }
            "wav" if !wav::is_wav(head) => Err(LayoutError::Mismatch {
                name: named(),
                expected: "WAV file",
            }),
            // Every frame starts with the signature 0xd in four bits (RFC 3551, 4.5.8.1).
            "gsm" if head.first().is_none_or(|byte| byte >> 4 != 0xd) => {
                Err(LayoutError::Mismatch {
                    name: named(),
                    expected: "sequence of GSM 06.10 frames",
                })
            }
            _ if ts::is_transport_stream(head) => transport(name, length_bytes, head, tail),
            _ if wav::is_wav(head) => wave(name, length_bytes, head),
            "pcmu" | "ulaw" => audio(name, (0, "PCMU", 8000, 1), 8000, 1, 0, length_bytes),
            "pcma" | "alaw" => audio(name, (8, "PCMA", 8000, 1), 8000, 1, 0, length_bytes),
            // An error in RFC 1890 set the clock to half the sampling rate (RFC 3551, 4.5.2).
            "g722" => audio(name, (9, "G722", 8000, 1), 8000, 1, 0, length_bytes),
            "gsm" => audio(name, (3, "GSM", 8000, 1), 1650, 33, 0, length_bytes),
            _ => Err(LayoutError::Unknown { name: named() }),
        }
    }

    pub fn packets(&self) -> u64 {
        self.bytes.div_ceil(u64::from(self.packet_bytes))
    }

    /// Offset of a packet from the first media byte.
    #[inline]
    pub fn offset_of(&self, packet: u64) -> u64 {
        packet * u64::from(self.packet_bytes)
    }

    /// Payload bytes of a packet; 0 beyond the end.
    #[inline]
    pub fn bytes_of(&self, packet: u64) -> usize {
        let left = self.bytes.saturating_sub(self.offset_of(packet));
        left.min(u64::from(self.packet_bytes)) as usize
    }

    /// Range of packets in the file: offset and length in bytes. The length is smaller at the end
    /// of the file.
    pub fn file_range(&self, first_packet: u64, packets: u64) -> (u64, u64) {
        let start = self.offset_of(first_packet);
        let length = packets * u64::from(self.packet_bytes);
        let available = self.bytes.saturating_sub(start);
        (self.offset + start, length.min(available))
    }

    /// Due time of a packet, in nanoseconds after the first.
    #[inline]
    pub fn time_ns(&self, packet: u64) -> u64 {
        let ticks = u128::from(self.offset_of(packet)) * u128::from(self.span_ticks);
        (ticks * 1000 / (27 * u128::from(self.span_bytes))) as u64
    }

    /// Due time of a packet after the first, in ticks of the media clock. The value wraps.
    #[inline]
    pub fn timestamp(&self, packet: u64) -> u32 {
        let ticks = u128::from(self.offset_of(packet)) * u128::from(self.span_ticks);
        let scaled = ticks * u128::from(self.payload.clock_hz);
        (scaled / (u128::from(CLOCK_HZ) * u128::from(self.span_bytes))) as u32
    }

    /// The first packet that is due at a time or later.
    pub fn packet_at(&self, time_ns: u64) -> u64 {
        let bytes = u128::from(time_ns) * 27 * u128::from(self.span_bytes);
        let place = bytes / (1000 * u128::from(self.span_ticks) * u128::from(self.packet_bytes));
        let packet = u64::try_from(place).unwrap_or(u64::MAX).min(self.packets());
        packet + u64::from(packet < self.packets() && self.time_ns(packet) < time_ns)
    }

    /// Duration in nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        let ticks = u128::from(self.bytes) * u128::from(self.span_ticks);
        (ticks * 1000 / (27 * u128::from(self.span_bytes))) as u64
    }

    /// Payload bits a second.
    pub fn rate_bps(&self) -> u64 {
        let bits = u128::from(self.span_bytes) * 8 * u128::from(CLOCK_HZ);
        (bits / u128::from(self.span_ticks)) as u64
    }
}

/// Audio of `rate` bytes a second. A packet has whole units of `unit` bytes.
fn audio(
    name: &str,
    (payload_type, encoding, clock_hz, channels): (u8, &'static str, u32, u8),
    rate: u64,
    unit: u64,
    offset: u64,
    available: u64,
) -> Result<PacketLayout, LayoutError> {
    let bytes = available / unit * unit;
    if bytes == 0 {
        return Err(LayoutError::Empty {
            name: name.to_owned(),
        });
    }
    let wanted = (rate * AUDIO_MS / 1000).min(PAYLOAD_LIMIT_BYTES) / unit * unit;
    Ok(PacketLayout {
        payload: Payload {
            payload_type,
            encoding,
            clock_hz,
            channels,
            media_type: "audio",
        },
        offset,
        bytes,
        packet_bytes: wanted.max(unit) as u32,
        swaps_bytes: encoding == "L16",
        span_bytes: rate,
        span_ticks: CLOCK_HZ,
    })
}

fn wave(name: &str, length_bytes: u64, head: &[u8]) -> Result<PacketLayout, LayoutError> {
    let mismatch = LayoutError::Mismatch {
        name: name.to_owned(),
        expected: "WAV file with a format and samples",
    };
    let format = wav::parse(head).ok_or(mismatch.clone())?;
    let channels = u8::try_from(format.channels).unwrap_or(0);
    let (rate_hz, frame) = (format.sample_rate_hz, u64::from(format.frame_bytes));
    let (payload_type, encoding) = match (format.tag, format.sample_bits, rate_hz, channels) {
        (1, 16, 44_100, 2) => (10, "L16"),
        (1, 16, 44_100, 1) => (11, "L16"),
        (1, 16, ..) => (DYNAMIC_TYPE, "L16"),
        (6, 8, 8000, 1) => (8, "PCMA"),
        (6, 8, ..) => (DYNAMIC_TYPE, "PCMA"),
        (7, 8, 8000, 1) => (0, "PCMU"),
        (7, 8, ..) => (DYNAMIC_TYPE, "PCMU"),
        (tag, bits, ..) => {
            return Err(LayoutError::Encoding {
                name: name.to_owned(),
                tag,
                bits,
            });
        }
    };
    let sample_bytes = u64::from(format.sample_bits / 8);
    let is_audio = (1..=64).contains(&channels) && (1000..=768_000).contains(&rate_hz);
    if !is_audio || frame != sample_bytes * u64::from(channels) {
        return Err(mismatch);
    }
    // A truncated file has fewer samples than its header states.
    let available = format
        .data_bytes
        .min(length_bytes.saturating_sub(format.data_offset));
    let rate = u64::from(rate_hz) * frame;
    let payload = (payload_type, encoding, rate_hz, channels);
    audio(name, payload, rate, frame, format.data_offset, available)
}

fn transport(
    name: &str,
    length_bytes: u64,
    head: &[u8],
    tail: &[u8],
) -> Result<PacketLayout, LayoutError> {
    let packet = PACKET_BYTES as u64;
    let bytes = length_bytes / packet * packet;
    // Packets start at multiples of 188 bytes from the start of the file.
    let tail_start = (length_bytes - tail.len() as u64).next_multiple_of(packet);
    let skipped = (tail_start + tail.len() as u64 - length_bytes) as usize;
    let tail = tail.get(skipped..).unwrap_or_default();
    let no_clock = || LayoutError::NoClock {
        name: name.to_owned(),
    };
    let first = ts::clock_references(head).next().ok_or_else(no_clock)?;
    let last = ts::clock_references(tail)
        .rfind(|reference| reference.pid == first.pid)
        .ok_or_else(no_clock)?;
    let span_bytes = (tail_start + last.offset as u64).saturating_sub(first.offset as u64);
    let span_ticks = (last.ticks + ts::CLOCK_WRAP - first.ticks) % ts::CLOCK_WRAP;
    let rate_bps = u128::from(span_bytes) * 8 * u128::from(CLOCK_HZ)
        / u128::from(span_ticks.max(CLOCK_TICKS_MS));
    if span_ticks < CLOCK_TICKS_MS
        || !u64::try_from(rate_bps).is_ok_and(|rate| TRANSPORT_RATES_BPS.contains(&rate))
    {
        return Err(no_clock());
    }
    Ok(PacketLayout {
        payload: Payload {
            payload_type: 33,
            encoding: "MP2T",
            clock_hz: 90_000,
            channels: 1,
            media_type: "video",
        },
        offset: 0,
        bytes,
        packet_bytes: (PACKET_BYTES * PACKETS_PER_RTP) as u32,
        swaps_bytes: false,
        span_bytes,
        span_ticks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::synthesis::Stream;
    use proptest::prelude::*;

    fn synthesized(rate_bps: u64, packets: u64) -> Vec<u8> {
        let stream = Stream {
            seed: 1,
            file: 0,
            rate_bps,
        };
        (0..packets)
            .flat_map(|index| stream.packet(index))
            .collect()
    }

    fn detect(name: &str, bytes: &[u8]) -> Result<PacketLayout, LayoutError> {
        PacketLayout::detect(name, bytes.len() as u64, bytes, bytes)
    }

    #[test]
    fn the_clock_references_of_a_transport_stream_set_its_rate() {
        let layout = detect("a.ts", &synthesized(300_000, 700)).unwrap();
        assert_eq!((layout.packets(), layout.packet_bytes), (100, 1316));
        // 1316 bytes at 300 kb/s take 35.093 ms.
        assert_eq!(layout.time_ns(1) / 1000, 35_093);
        assert_eq!(layout.timestamp(1), 3158);
        assert_eq!(layout.rate_bps().abs_diff(300_000) / 10, 0);
    }

    #[test]
    fn a_tail_that_starts_within_a_packet_has_the_same_rate() {
        let bytes = synthesized(300_000, 7000);
        let whole = detect("a.ts", &bytes).unwrap();
        let (head, tail) = (&bytes[..50_000], &bytes[bytes.len() - 50_001..]);
        let ends = PacketLayout::detect("a.ts", bytes.len() as u64, head, tail).unwrap();
        assert_eq!(whole, ends);
    }

    #[test]
    fn a_truncated_stream_has_its_whole_packets() {
        let bytes = synthesized(300_000, 700);
        let layout = detect("a.ts", &bytes[..bytes.len() - 100]).unwrap();
        assert_eq!(layout.bytes, 699 * 188);
        assert_eq!(layout.bytes_of(99), 6 * 188);
        assert_eq!(layout.bytes_of(100), 0);
    }

    #[test]
    fn a_content_that_contradicts_the_name_is_an_error() {
        for name in ["a.ts", "a.wav", "a.gsm", "a.txt"] {
            assert!(detect(name, b"no media at all").is_err(), "{name}");
        }
        for name in ["a.ts", "a.wav", "a.pcmu"] {
            let empty = LayoutError::Empty { name: name.into() };
            assert_eq!(detect(name, b""), Err(empty));
        }
        let tables_only: Vec<u8> = synthesized(300_000, 2);
        assert!(matches!(
            detect("a.ts", &tables_only),
            Err(LayoutError::NoClock { .. })
        ));
    }

    #[test]
    fn telephone_audio_has_packets_of_20_milliseconds() {
        let frames = [0xd0; 330];
        for (name, number, bytes) in [("a.pcmu", 0, 160), ("a.g722", 9, 160), ("a.gsm", 3, 33)] {
            let layout = detect(name, &frames).unwrap();
            assert_eq!(
                (layout.payload.payload_type, layout.packet_bytes),
                (number, bytes)
            );
            assert_eq!(layout.time_ns(1), 20_000_000);
            assert_eq!(layout.timestamp(1), 160);
        }
    }

    #[test]
    fn compact_disc_audio_has_payload_type_10_in_network_order() {
        let mut bytes = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x02\0".to_vec();
        bytes.extend([0x44, 0xac, 0, 0, 0x10, 0xb1, 2, 0, 4, 0, 16, 0]);
        bytes.extend(b"data\xff\xff\xff\xff");
        bytes.extend([0; 4403]);
        let layout = detect("a.wav", &bytes).unwrap();
        assert_eq!(
            (layout.payload.payload_type, layout.payload.encoding),
            (10, "L16")
        );
        assert!(layout.swaps_bytes);
        assert_eq!((layout.packet_bytes, layout.bytes), (1400, 4400));
        assert_eq!(layout.timestamp(1), 350);
    }

    proptest! {
        #[test]
        fn any_file_has_a_layout_or_an_error(name in "[a-z]{1,3}\\.(ts|wav|gsm|pcma|x)", bytes: Vec<u8>) {
            if let Ok(layout) = detect(&name, &bytes) {
                prop_assert!(layout.offset + layout.bytes <= bytes.len() as u64);
                prop_assert!(layout.packets() > 0);
            }
        }

        #[test]
        fn the_packet_at_a_time_is_the_first_with_that_due_time_or_a_later_one(time_ns in 0u64..10_000_000_000) {
            let layout = detect("a.ts", &synthesized(300_000, 1400)).unwrap();
            let packet = layout.packet_at(time_ns);
            prop_assert!(packet == layout.packets() || layout.time_ns(packet) >= time_ns);
            prop_assert!(packet == 0 || layout.time_ns(packet - 1) < time_ns);
        }
    }
}
