//! RTCP: sender reports, receiver reports, source descriptions and goodbyes (RFC 3550, section 6).

use crate::wire::header::VERSION;

/// Packet types of RFC 3550, section 12.1.
const SENDER_REPORT: u8 = 200;
const RECEIVER_REPORT: u8 = 201;
const SOURCE_DESCRIPTION: u8 = 202;
const GOODBYE: u8 = 203;

/// The item of a source description that every report must have (RFC 3550, section 6.5.1).
const CNAME: u8 = 1;

/// Seconds from 1900, the epoch of NTP, to 1970, the epoch of Unix (RFC 868).
const NTP_TO_UNIX_S: u64 = 2_208_988_800;

/// A sender's report on its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderReport {
    /// The stream.
    pub ssrc: u32,
    /// Wall-clock time of `timestamp`: seconds since 1900 in the high 32 bits, 2^-32 s in the
    /// low 32 bits.
    pub ntp: u64,
    /// The same time in ticks of the media clock.
    pub timestamp: u32,
    /// Packets sent so far, modulo 2^32.
    pub packets: u32,
    /// Payload bytes sent so far, modulo 2^32.
    pub payload_bytes: u32,
}

/// A receiver's report on one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportBlock {
    /// The stream.
    pub ssrc: u32,
    /// Share of packets lost since the last report, in 256ths.
    pub fraction_lost: u8,
    /// Packets lost since the start, in 24 bits, negative when duplicates outnumber losses.
    pub lost: i32,
    /// Extended sequence number of the newest packet.
    pub extended_highest: u32,
    /// Interarrival jitter in ticks of the media clock.
    pub jitter_ticks: u32,
    /// Middle 32 bits of the NTP time of the last sender report.
    pub last_report: u32,
    /// Time since that report arrived, in 2^-16 s.
    pub delay: u32,
}

/// One packet of a compound packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// A sender report without its report blocks.
    Sender(SenderReport),
    /// A receiver report.
    Receiver {
        /// The receiver.
        ssrc: u32,
        /// One block for each stream that the receiver receives.
        blocks: Vec<ReportBlock>,
    },
    /// The end of a stream.
    Goodbye {
        /// The stream.
        ssrc: u32,
    },
    /// A well-formed packet of another type.
    Other { packet_type: u8 },
}

/// Converts nanoseconds since 1970 to an NTP timestamp.
pub fn ntp_from_unix_ns(unix_ns: u64) -> u64 {
    let seconds = unix_ns / 1_000_000_000 + NTP_TO_UNIX_S;
    let fraction = ((unix_ns % 1_000_000_000) << 32) / 1_000_000_000;
    (seconds << 32) | fraction
}

impl SenderReport {
    /// The report and the sender's name, as a compound packet.
    pub fn to_bytes(self, name: &str) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        push_header(&mut bytes, 0, SENDER_REPORT, 6);
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
        push_name(&mut bytes, self.ssrc, name);
        bytes
    }
}

/// A receiver's report and the receiver's name, as a compound packet. `block` is `None` before the
/// first packet.
pub fn receiver_report(ssrc: u32, block: Option<&ReportBlock>, name: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64);
    let blocks = u8::from(block.is_some());
    push_header(
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
    push_name(&mut bytes, ssrc, name);
    bytes
}

/// The end of a stream as a compound packet: an empty report, the name, the goodbye.
pub fn goodbye(ssrc: u32, name: &str) -> Vec<u8> {
    let mut bytes = receiver_report(ssrc, None, name);
    push_header(&mut bytes, 1, GOODBYE, 1);
    bytes.extend(ssrc.to_be_bytes());
    bytes
}

fn push_header(bytes: &mut Vec<u8>, count: u8, packet_type: u8, words: u16) {
    bytes.extend([VERSION << 6 | count, packet_type]);
    bytes.extend(words.to_be_bytes());
}

fn push_name(bytes: &mut Vec<u8>, ssrc: u32, name: &str) {
    let name = &name.as_bytes()[..name.len().min(255)];
    // A description has the source, the item and at least one zero at the end. It is padded to
    // whole words.
    let words = 1 + (2 + name.len() + 1).div_ceil(4);
    push_header(bytes, 1, SOURCE_DESCRIPTION, words as u16);
    let end = bytes.len() + 4 * words;
    bytes.extend(ssrc.to_be_bytes());
    bytes.extend([CNAME, name.len() as u8]);
    bytes.extend(name);
    bytes.resize(end, 0);
}

/// The packets of a compound packet, up to the first malformed one.
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

fn parse(count: u8, packet_type: u8, body: &[u8]) -> Option<Packet> {
    let word = |place: usize| -> Option<u32> {
        let bytes = body.get(4 * place..4 * place + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    Some(match packet_type {
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
                    // The two shifts extend the sign of 24 bits.
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
        _ => Packet::Other { packet_type },
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
    fn a_written_sender_report_is_read_back() {
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
        let described = Packet::Other { packet_type: 202 };
        assert_eq!(read, [Packet::Sender(report), described]);
    }

    #[test]
    fn a_negative_loss_is_read_back_from_24_bits() {
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
    fn a_goodbye_names_its_stream() {
        let bytes = goodbye(77, "perpacket");
        assert_eq!(packets(&bytes).last(), Some(Packet::Goodbye { ssrc: 77 }));
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(compound: Vec<u8>) {
            prop_assert!(packets(&compound).count() <= compound.len() / 4);
        }
    }
}
