//! RTCP: sender reports, receiver reports, source descriptions and goodbyes (RFC 3550, section 6).

use crate::wire::header::VERSION;

/// Packet types of RFC 3550, section 12.1.
const SENDER_REPORT: u8 = 200;
const RECEIVER_REPORT: u8 = 201;
const SOURCE_DESCRIPTION: u8 = 202;
const GOODBYE: u8 = 203;

/// The item of a source description that every report must carry (RFC 3550, section 6.5.1).
const CNAME: u8 = 1;

/// Seconds from 1900, where NTP starts, to 1970, where Unix does (RFC 868).
const NTP_TO_UNIX_S: u64 = 2_208_988_800;

/// What a sender says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderReport {
    /// Its stream.
    pub ssrc: u32,
    /// Wall clock at which `timestamp` was due: seconds since 1900 in the high half, 2^-32 s in
    /// the low.
    pub ntp: u64,
    /// The same moment in ticks of the media's clock.
    pub timestamp: u32,
    /// Packets sent so far, modulo 2^32.
    pub packets: u32,
    /// Payload bytes sent so far, modulo 2^32.
    pub payload_bytes: u32,
}

/// What a receiver says of one sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportBlock {
    /// The sender's stream.
    pub ssrc: u32,
    /// Share of packets lost since the last report, in 256ths.
    pub fraction_lost: u8,
    /// Packets lost since the start, in 24 bits, negative when duplicates outnumber losses.
    pub lost: i32,
    /// Wraps and number of the newest packet.
    pub extended_highest: u32,
    /// Interarrival jitter in ticks of the media's clock.
    pub jitter_ticks: u32,
    /// Middle half of the NTP time of the last sender report.
    pub last_report: u32,
    /// Time since that report came, in 2^-16 s.
    pub delay: u32,
}

/// One packet of a compound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// From a sender.
    Sender(SenderReport),
    /// From a receiver; the blocks of a sender's own report are left out.
    Receiver {
        /// The receiver.
        ssrc: u32,
        /// One a sender it hears.
        blocks: Vec<ReportBlock>,
    },
    /// A stream ends.
    Goodbye {
        /// The stream.
        ssrc: u32,
    },
    /// Anything else that is well formed.
    Other {
        /// Its packet type.
        kind: u8,
    },
}

/// A wall-clock time in NTP's form, from nanoseconds since 1970.
#[must_use]
pub fn ntp_from_unix_ns(unix_ns: u64) -> u64 {
    let seconds = unix_ns / 1_000_000_000 + NTP_TO_UNIX_S;
    let fraction = ((unix_ns % 1_000_000_000) << 32) / 1_000_000_000;
    (seconds << 32) | fraction
}

impl SenderReport {
    /// A compound of the report and the name it must come with.
    #[must_use]
    pub fn to_bytes(self, name: &str) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        start(&mut bytes, 0, SENDER_REPORT, 6);
        for word in [
            self.ssrc,
            (self.ntp >> 32) as u32,
            self.ntp as u32,
            self.timestamp,
            self.packets,
            self.payload_bytes,
        ] {
            bytes.extend(word.to_be_bytes());
        }
        describe(&mut bytes, self.ssrc, name);
        bytes
    }
}

/// A receiver's compound: its report on one sender (none before the first packet) and its name.
#[must_use]
pub fn receiver_report(ssrc: u32, block: Option<&ReportBlock>, name: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64);
    let blocks = u8::from(block.is_some());
    start(
        &mut bytes,
        blocks,
        RECEIVER_REPORT,
        1 + 6 * u16::from(blocks),
    );
    bytes.extend(ssrc.to_be_bytes());
    if let Some(block) = block {
        bytes.extend(block.ssrc.to_be_bytes());
        let lost = block.lost.clamp(-0x80_0000, 0x7f_ffff) as u32 & 0xff_ffff;
        bytes.extend((u32::from(block.fraction_lost) << 24 | lost).to_be_bytes());
        bytes.extend(block.extended_highest.to_be_bytes());
        bytes.extend(block.jitter_ticks.to_be_bytes());
        bytes.extend(block.last_report.to_be_bytes());
        bytes.extend(block.delay.to_be_bytes());
    }
    describe(&mut bytes, ssrc, name);
    bytes
}

/// A compound that ends a stream: an empty report, the name, the goodbye.
#[must_use]
pub fn goodbye(ssrc: u32, name: &str) -> Vec<u8> {
    let mut bytes = receiver_report(ssrc, None, name);
    start(&mut bytes, 1, GOODBYE, 1);
    bytes.extend(ssrc.to_be_bytes());
    bytes
}

fn start(bytes: &mut Vec<u8>, count: u8, kind: u8, words: u16) {
    bytes.extend([VERSION << 6 | count, kind]);
    bytes.extend(words.to_be_bytes());
}

fn describe(bytes: &mut Vec<u8>, ssrc: u32, name: &str) {
    let name = &name.as_bytes()[..name.len().min(255)];
    // The source, the item, and at least one zero to end the list, filled up to whole words.
    let words = 1 + (2 + name.len() + 1).div_ceil(4);
    start(bytes, 1, SOURCE_DESCRIPTION, words as u16);
    let end = bytes.len() + 4 * words;
    bytes.extend(ssrc.to_be_bytes());
    bytes.extend([CNAME, name.len() as u8]);
    bytes.extend(name);
    bytes.resize(end, 0);
}

/// The packets of a compound, up to the first that is malformed.
pub fn packets(compound: &[u8]) -> impl Iterator<Item = Packet> + '_ {
    let mut rest = compound;
    std::iter::from_fn(move || {
        let head: &[u8; 4] = rest.first_chunk()?;
        let bytes = 4 * (1 + usize::from(u16::from_be_bytes([head[2], head[3]])));
        if head[0] >> 6 != VERSION || rest.len() < bytes {
            return None;
        }
        let (packet, after) = rest.split_at(bytes);
        rest = after;
        parse(head[0] & 0x1f, head[1], &packet[4..])
    })
}

fn parse(count: u8, kind: u8, body: &[u8]) -> Option<Packet> {
    let word = |place: usize| -> Option<u32> {
        let bytes = body.get(4 * place..4 * place + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    Some(match kind {
        SENDER_REPORT => Packet::Sender(SenderReport {
            ssrc: word(0)?,
            ntp: u64::from(word(1)?) << 32 | u64::from(word(2)?),
            timestamp: word(3)?,
            packets: word(4)?,
            payload_bytes: word(5)?,
        }),
        RECEIVER_REPORT => {
            let mut blocks = Vec::with_capacity(usize::from(count));
            for block in 0..usize::from(count) {
                let at = 1 + 6 * block;
                let loss = word(at + 1)?;
                blocks.push(ReportBlock {
                    ssrc: word(at)?,
                    fraction_lost: (loss >> 24) as u8,
                    // The shifts extend the sign of 24 bits.
                    lost: ((loss << 8) as i32) >> 8,
                    extended_highest: word(at + 2)?,
                    jitter_ticks: word(at + 3)?,
                    last_report: word(at + 4)?,
                    delay: word(at + 5)?,
                });
            }
            Packet::Receiver {
                ssrc: word(0)?,
                blocks,
            }
        }
        GOODBYE if count > 0 => Packet::Goodbye { ssrc: word(0)? },
        _ => Packet::Other { kind },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unix_and_ntp_time_are_seventy_years_apart() {
        assert_eq!(ntp_from_unix_ns(0) >> 32, 2_208_988_800);
        assert_eq!(ntp_from_unix_ns(500_000_000) as u32, 1 << 31);
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let report = SenderReport {
            ssrc: 1,
            ntp: 2 << 40,
            timestamp: 3,
            packets: 4,
            payload_bytes: 5,
        };
        let bytes = report.to_bytes("perpacket");
        assert_eq!(bytes.len() % 4, 0);
        let read: Vec<_> = packets(&bytes).collect();
        let described = Packet::Other { kind: 202 };
        assert_eq!(read, [Packet::Sender(report), described]);
    }

    #[test]
    fn a_negative_loss_survives_its_24_bits() {
        let block = ReportBlock {
            ssrc: 1,
            fraction_lost: 7,
            lost: -3,
            extended_highest: 9,
            jitter_ticks: 10,
            last_report: 11,
            delay: 12,
        };
        let bytes = receiver_report(5, Some(&block), "x");
        let first = packets(&bytes).next().unwrap();
        let expected = Packet::Receiver {
            ssrc: 5,
            blocks: vec![block],
        };
        assert_eq!(first, expected);
    }

    #[test]
    fn a_goodbye_names_the_stream_that_ends() {
        let bytes = goodbye(77, "perpacket");
        assert_eq!(packets(&bytes).last(), Some(Packet::Goodbye { ssrc: 77 }));
    }

    proptest! {
        #[test]
        fn any_bytes_end(compound: Vec<u8>) {
            prop_assert!(packets(&compound).count() <= compound.len() / 4);
        }
    }
}
