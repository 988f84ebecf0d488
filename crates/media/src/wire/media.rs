//! What a stored file is, as a stream: its payload, and when each of its bytes is due.
//!
//! Every medium here is a constant-rate sequence of bytes: sound by definition, a transport stream
//! by its first and last clock reference (one whose rate varies is sent at its mean). A packet's
//! place in the file, its time and its timestamp then follow from its number alone, which lets any
//! number of clients share one copy, and lets a server compute absolute deadlines.

use thiserror::Error;

use crate::wire::transport_stream::{self as ts, PACKET_BYTES, PACKETS_PER_RTP};
use crate::wire::wav;

/// Sound is sent in packets of this time (RFC 3551, section 4.2), unless they would be too large.
const SOUND_MS: u64 = 20;

/// Payloads are kept below this, so that they fit an Ethernet frame with all headers of IPv6.
const PAYLOAD_LIMIT_BYTES: u64 = 1400;

/// The first payload number that is agreed on for each session (RFC 3551, section 3).
const DYNAMIC: u8 = 96;

/// Ticks of the 27 MHz clock, in which rates are kept, per second and per millisecond.
const CLOCK_HZ: u64 = ts::CLOCK_HZ;
const CLOCK_TICKS_MS: u64 = ts::CLOCK_HZ / 1000;

/// Rates that a transport stream may have in order to be believed, in bits a second.
const TRANSPORT_RATES_BPS: std::ops::RangeInclusive<u64> = 1_000..=10_000_000_000;

/// How much of each end of a file is looked at, in bytes.
pub const PROBE_BYTES: usize = 512 * 1024;

/// What the payload of a packet is (RFC 3551).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Its number in RTP's header.
    pub number: u8,
    /// Its name in session descriptions.
    pub encoding: &'static str,
    /// Ticks of its timestamps a second.
    pub clock_hz: u32,
    /// Channels of sound, or 1.
    pub channels: u8,
    /// The kind of media in session descriptions: `audio` or `video`.
    pub kind: &'static str,
}

/// A stored medium and when its bytes are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Media {
    /// What its packets hold.
    pub payload: Payload,
    /// Where its data start in the file, in bytes.
    pub offset: u64,
    /// How many bytes are sent: whole packets, frames or samples.
    pub bytes: u64,
    /// Bytes of every packet but the last.
    pub packet_bytes: u32,
    /// Samples of 16 bits stand in the file with the low byte first, and are sent high byte first.
    pub swaps_bytes: bool,
    /// So many bytes take [`Self::span_ticks`].
    span_bytes: u64,
    /// 27 MHz ticks that [`Self::span_bytes`] take.
    span_ticks: u64,
}

/// Why a file cannot be streamed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MediaError {
    /// Neither name nor content is of a kind that needs no codec.
    #[error(
        "{name}: not a medium that can be sent as it is, expected .ts, .wav, .pcmu, .pcma, .g722 \
         or .gsm"
    )]
    Unknown {
        /// The file.
        name: String,
    },
    /// It has no data.
    #[error("{name}: no media data in it")]
    Empty {
        /// The file.
        name: String,
    },
    /// The name says one thing and the content another.
    #[error("{name}: its content is no {expected}")]
    Mismatch {
        /// The file.
        name: String,
        /// What the name promises.
        expected: &'static str,
    },
    /// A transport stream without two clock references of one program.
    #[error("{name}: no two clock references that tell its rate in its first and last 512 KiB")]
    NoClock {
        /// The file.
        name: String,
    },
    /// A WAV file whose samples no static description fits.
    #[error("{name}: wav encoding {tag} with {bits} bits, expected 16-bit pcm, a-law or mu-law")]
    Encoding {
        /// The file.
        name: String,
        /// The registered number of the encoding.
        tag: u16,
        /// Bits of a sample.
        bits: u16,
    },
}

impl Media {
    /// Tells what a file is from its name, its length and its two ends, [`PROBE_BYTES`] each or the
    /// whole file; `tail` are its last bytes.
    ///
    /// # Errors
    /// It is none of the media above, has no data, or is not what its name says.
    pub fn recognize(
        name: &str,
        length_bytes: u64,
        head: &[u8],
        tail: &[u8],
    ) -> Result<Self, MediaError> {
        let named = || name.to_owned();
        if length_bytes == 0 {
            return Err(MediaError::Empty { name: named() });
        }
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        match extension.to_ascii_lowercase().as_str() {
            "ts" | "mts" | "m2t" | "mpegts" if !ts::is_transport_stream(head) => {
                Err(MediaError::Mismatch {
                    name: named(),
                    expected: "mpeg transport stream",
                })
            }
            "wav" if !wav::is_wav(head) => Err(MediaError::Mismatch {
                name: named(),
                expected: "wav file",
            }),
            // The first four bits of every frame are a signature (RFC 3551, section 4.5.8.1).
            "gsm" if head.first().is_none_or(|byte| byte >> 4 != 0xd) => {
                Err(MediaError::Mismatch {
                    name: named(),
                    expected: "sequence of gsm 06.10 frames",
                })
            }
            _ if ts::is_transport_stream(head) => transport(name, length_bytes, head, tail),
            _ if wav::is_wav(head) => wave(name, length_bytes, head),
            "pcmu" | "ulaw" => sound(name, (0, "PCMU", 8000, 1), 8000, 1, 0, length_bytes),
            "pcma" | "alaw" => sound(name, (8, "PCMA", 8000, 1), 8000, 1, 0, length_bytes),
            // Its clock runs at half its sampling rate, by an old mistake (RFC 3551, 4.5.2).
            "g722" => sound(name, (9, "G722", 8000, 1), 8000, 1, 0, length_bytes),
            "gsm" => sound(name, (3, "GSM", 8000, 1), 1650, 33, 0, length_bytes),
            _ => Err(MediaError::Unknown { name: named() }),
        }
    }

    /// Packets that hold it all.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.bytes.div_ceil(u64::from(self.packet_bytes))
    }

    /// Where a packet's bytes start, counted from the first media byte.
    #[inline]
    #[must_use]
    pub fn position(&self, packet: u64) -> u64 {
        packet * u64::from(self.packet_bytes)
    }

    /// How many bytes a packet has; none beyond the end.
    #[inline]
    #[must_use]
    pub fn length(&self, packet: u64) -> usize {
        let left = self.bytes.saturating_sub(self.position(packet));
        left.min(u64::from(self.packet_bytes)) as usize
    }

    /// When a packet is due, in nanoseconds from the first.
    #[inline]
    #[must_use]
    pub fn time_ns(&self, packet: u64) -> u64 {
        let ticks = u128::from(self.position(packet)) * u128::from(self.span_ticks);
        (ticks * 1000 / (27 * u128::from(self.span_bytes))) as u64
    }

    /// When a packet is due, in ticks of its payload's clock from the first, wrapping.
    #[inline]
    #[must_use]
    pub fn timestamp(&self, packet: u64) -> u32 {
        let ticks = u128::from(self.position(packet)) * u128::from(self.span_ticks);
        let scaled = ticks * u128::from(self.payload.clock_hz);
        (scaled / (u128::from(CLOCK_HZ) * u128::from(self.span_bytes))) as u32
    }

    /// The first packet that is due at or after a time.
    #[must_use]
    pub fn packet_at(&self, time_ns: u64) -> u64 {
        let bytes = u128::from(time_ns) * 27 * u128::from(self.span_bytes);
        let place = bytes / (1000 * u128::from(self.span_ticks) * u128::from(self.packet_bytes));
        let packet = u64::try_from(place).unwrap_or(u64::MAX).min(self.packets());
        packet + u64::from(packet < self.packets() && self.time_ns(packet) < time_ns)
    }

    /// How long it lasts, in nanoseconds.
    #[must_use]
    pub fn duration_ns(&self) -> u64 {
        let ticks = u128::from(self.bytes) * u128::from(self.span_ticks);
        (ticks * 1000 / (27 * u128::from(self.span_bytes))) as u64
    }

    /// Payload bits a second.
    #[must_use]
    pub fn rate_bps(&self) -> u64 {
        let bits = u128::from(self.span_bytes) * 8 * u128::from(CLOCK_HZ);
        (bits / u128::from(self.span_ticks)) as u64
    }
}

/// Sound of `rate` bytes a second in units of `unit` bytes that are never divided.
fn sound(
    name: &str,
    (number, encoding, clock_hz, channels): (u8, &'static str, u32, u8),
    rate: u64,
    unit: u64,
    offset: u64,
    available: u64,
) -> Result<Media, MediaError> {
    let bytes = available / unit * unit;
    if bytes == 0 {
        return Err(MediaError::Empty {
            name: name.to_owned(),
        });
    }
    let wanted = (rate * SOUND_MS / 1000).min(PAYLOAD_LIMIT_BYTES) / unit * unit;
    Ok(Media {
        payload: Payload {
            number,
            encoding,
            clock_hz,
            channels,
            kind: "audio",
        },
        offset,
        bytes,
        packet_bytes: wanted.max(unit) as u32,
        swaps_bytes: encoding == "L16",
        span_bytes: rate,
        span_ticks: CLOCK_HZ,
    })
}

fn wave(name: &str, length_bytes: u64, head: &[u8]) -> Result<Media, MediaError> {
    let mismatch = MediaError::Mismatch {
        name: name.to_owned(),
        expected: "wav file with a format and samples",
    };
    let format = wav::parse(head).ok_or(mismatch.clone())?;
    let channels = u8::try_from(format.channels).unwrap_or(0);
    let (rate_hz, frame) = (format.sample_rate_hz, u64::from(format.frame_bytes));
    let (number, encoding) = match (format.tag, format.sample_bits, rate_hz, channels) {
        (1, 16, 44_100, 2) => (10, "L16"),
        (1, 16, 44_100, 1) => (11, "L16"),
        (1, 16, ..) => (DYNAMIC, "L16"),
        (6, 8, 8000, 1) => (8, "PCMA"),
        (6, 8, ..) => (DYNAMIC, "PCMA"),
        (7, 8, 8000, 1) => (0, "PCMU"),
        (7, 8, ..) => (DYNAMIC, "PCMU"),
        (tag, bits, ..) => {
            return Err(MediaError::Encoding {
                name: name.to_owned(),
                tag,
                bits,
            });
        }
    };
    let sample_bytes = u64::from(format.sample_bits / 8);
    let is_sound = (1..=64).contains(&channels) && (1000..=768_000).contains(&rate_hz);
    if !is_sound || frame != sample_bytes * u64::from(channels) {
        return Err(mismatch);
    }
    // A truncated file plays as far as it goes, whatever its header claims.
    let available = format
        .data_bytes
        .min(length_bytes.saturating_sub(format.data_offset));
    let rate = u64::from(rate_hz) * frame;
    let payload = (number, encoding, rate_hz, channels);
    sound(name, payload, rate, frame, format.data_offset, available)
}

fn transport(name: &str, length_bytes: u64, head: &[u8], tail: &[u8]) -> Result<Media, MediaError> {
    let packet = PACKET_BYTES as u64;
    let bytes = length_bytes / packet * packet;
    // The tail's first whole packet: packets are counted from the start of the file.
    let tail_start = (length_bytes - tail.len() as u64).next_multiple_of(packet);
    let skipped = (tail_start + tail.len() as u64 - length_bytes) as usize;
    let tail = tail.get(skipped..).unwrap_or_default();
    let no_clock = || MediaError::NoClock {
        name: name.to_owned(),
    };
    let first = ts::clock_references(head).next().ok_or_else(no_clock)?;
    let last = ts::clock_references(tail)
        .rfind(|found| found.pid == first.pid)
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
    Ok(Media {
        payload: Payload {
            number: 33,
            encoding: "MP2T",
            clock_hz: 90_000,
            channels: 1,
            kind: "video",
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

    fn recognize(name: &str, bytes: &[u8]) -> Result<Media, MediaError> {
        Media::recognize(name, bytes.len() as u64, bytes, bytes)
    }

    #[test]
    fn a_transport_stream_is_paced_by_its_clock() {
        let media = recognize("a.ts", &synthesized(300_000, 700)).unwrap();
        assert_eq!((media.packets(), media.packet_bytes), (100, 1316));
        // 1316 bytes at 300 kb/s: 35.093 ms, to within the clock's rounding.
        assert_eq!(media.time_ns(1) / 1000, 35_093);
        assert_eq!(media.timestamp(1), 3158);
        assert_eq!(media.rate_bps().abs_diff(300_000) / 10, 0);
    }

    #[test]
    fn a_tail_that_starts_within_a_packet_gives_the_same_rate() {
        let bytes = synthesized(300_000, 7000);
        let whole = recognize("a.ts", &bytes).unwrap();
        let (head, tail) = (&bytes[..50_000], &bytes[bytes.len() - 50_001..]);
        let ends = Media::recognize("a.ts", bytes.len() as u64, head, tail).unwrap();
        assert_eq!(whole, ends);
    }

    #[test]
    fn a_truncated_stream_plays_its_whole_packets() {
        let bytes = synthesized(300_000, 700);
        let media = recognize("a.ts", &bytes[..bytes.len() - 100]).unwrap();
        assert_eq!(media.bytes, 699 * 188);
        assert_eq!(media.length(99), 6 * 188);
        assert_eq!(media.length(100), 0);
    }

    #[test]
    fn what_is_not_what_its_name_says_is_refused() {
        for name in ["a.ts", "a.wav", "a.gsm", "a.txt"] {
            assert!(recognize(name, b"no media at all").is_err(), "{name}");
        }
        for name in ["a.ts", "a.wav", "a.pcmu"] {
            let empty = MediaError::Empty { name: name.into() };
            assert_eq!(recognize(name, b""), Err(empty));
        }
        let tables_only: Vec<u8> = synthesized(300_000, 2);
        assert!(matches!(
            recognize("a.ts", &tables_only),
            Err(MediaError::NoClock { .. })
        ));
    }

    #[test]
    fn telephone_sound_comes_in_packets_of_twenty_milliseconds() {
        let frames = [0xd0; 330];
        for (name, number, bytes) in [("a.pcmu", 0, 160), ("a.g722", 9, 160), ("a.gsm", 3, 33)] {
            let media = recognize(name, &frames).unwrap();
            assert_eq!((media.payload.number, media.packet_bytes), (number, bytes));
            assert_eq!(media.time_ns(1), 20_000_000);
            assert_eq!(media.timestamp(1), 160);
        }
    }

    #[test]
    fn compact_disc_sound_is_payload_ten_in_network_order() {
        let mut bytes = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x02\0".to_vec();
        bytes.extend([0x44, 0xac, 0, 0, 0x10, 0xb1, 2, 0, 4, 0, 16, 0]);
        bytes.extend(b"data\xff\xff\xff\xff");
        bytes.extend([0; 4403]);
        let media = recognize("a.wav", &bytes).unwrap();
        assert_eq!((media.payload.number, media.payload.encoding), (10, "L16"));
        assert!(media.swaps_bytes);
        assert_eq!((media.packet_bytes, media.bytes), (1400, 4400));
        assert_eq!(media.timestamp(1), 350);
    }

    proptest! {
        #[test]
        fn any_file_is_media_or_refused(name in "[a-z]{1,3}\\.(ts|wav|gsm|pcma|x)", bytes: Vec<u8>) {
            if let Ok(media) = recognize(&name, &bytes) {
                prop_assert!(media.offset + media.bytes <= bytes.len() as u64);
                prop_assert!(media.packets() > 0);
            }
        }

        #[test]
        fn the_packet_at_a_time_is_the_first_not_before_it(time_ns in 0u64..10_000_000_000) {
            let media = recognize("a.ts", &synthesized(300_000, 1400)).unwrap();
            let packet = media.packet_at(time_ns);
            prop_assert!(packet == media.packets() || media.time_ns(packet) >= time_ns);
            prop_assert!(packet == 0 || media.time_ns(packet - 1) < time_ns);
        }
    }
}
