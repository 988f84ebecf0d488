//! Transport streams made from a seed: valid, of exactly constant rate, and known byte for byte.
//!
//! Every packet is a function of the seed, the file's number, the rate and the packet's index, so a
//! receiver checks any packet without having the file. Every media packet holds one whole PES
//! packet of private data that begins with those four numbers: a receiver learns from the first one
//! what it is being sent, and a stray packet says where it came from.
//!
//! The tables come about every 0.4 s and the clock about every 40 ms, within the limits of ISO/IEC
//! 13818-1 (0.1 s between clock references) for rates from 46 kb/s up.

use crate::wire::transport_stream::{CLOCK_HZ, PACKET_BYTES, PACKETS_PER_RTP, SYNC, clock_field};

/// The PID of the program map table.
const TABLE_PID: u16 = 0x1000;
/// The PID of the data, and of the program's clock.
const DATA_PID: u16 = 0x0100;
/// PES packets with private data (ISO/IEC 13818-1, table 2-34).
const STREAM_TYPE: u8 = 0x06;
/// `private_stream_1` (table 2-22).
const STREAM_ID: u8 = 0xbd;
/// Bytes before the data in a PES packet with a time stamp.
const PES_HEADER_BYTES: usize = 14;
/// Bytes of an adaptation field with nothing but a clock reference.
const CLOCK_BYTES: usize = 8;
/// Bytes of the numbers at the beginning of the data.
const IDENTITY_BYTES: usize = 28;
/// Data are presented this long after they come, in 90 kHz ticks: 0.5 s.
const PRESENTATION_DELAY_TICKS: u64 = 45_000;
/// Bits of a packet.
const PACKET_BITS: u64 = 8 * PACKET_BYTES as u64;

/// Rates that can be made, in bits a second.
pub const RATES_BPS: std::ops::RangeInclusive<u64> = 8_000..=1_000_000_000;

/// A stream that can be made or checked from any packet on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// What all files of one making share.
    pub seed: u64,
    /// Number of the file.
    pub file: u32,
    /// Bits of transport stream a second.
    pub rate_bps: u64,
}

/// One packet of a transport stream.
pub type Packet = [u8; PACKET_BYTES];

impl Stream {
    /// The name of a file: its number in five digits.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("stream-{:05}.ts", self.file)
    }

    /// Packets that last at least `seconds`, a multiple of what one RTP packet holds.
    #[must_use]
    pub fn packets_in(&self, seconds: f64) -> u64 {
        let packets = (self.rate_bps as f64 * seconds / PACKET_BITS as f64).ceil() as u64;
        packets.next_multiple_of(PACKETS_PER_RTP as u64)
    }

    /// The packet with that index, from 0.
    #[must_use]
    pub fn packet(&self, index: u64) -> Packet {
        let cycle = self.table_period();
        let (turn, place) = (index / cycle, index % cycle);
        match place {
            0 => association_table(turn),
            1 => map_table(turn),
            _ => self.data_packet(index, index - 2 * (turn + 1)),
        }
    }

    /// The stream and the index that a media packet names, if it looks like one of ours.
    #[must_use]
    pub fn identify(packet: &[u8]) -> Option<(Self, u64)> {
        let has_clock = *packet.get(3)? & 0x20 != 0;
        let data = 4 + PES_HEADER_BYTES + if has_clock { CLOCK_BYTES } else { 0 };
        let number = |at: usize| -> Option<u64> {
            let bytes = packet.get(data + at..data + at + 8)?;
            Some(u64::from_be_bytes(bytes.try_into().ok()?))
        };
        let file = packet.get(data + 24..data + IDENTITY_BYTES)?;
        let stream = Self {
            seed: number(0)?,
            rate_bps: number(8)?,
            file: u32::from_be_bytes(file.try_into().ok()?),
        };
        let index = number(16)?;
        let is_ours = RATES_BPS.contains(&stream.rate_bps) && stream.packet(index) == packet;
        is_ours.then_some((stream, index))
    }

    /// The packets' clock, in 27 MHz ticks.
    fn clock_ticks(&self, index: u64) -> u64 {
        let ticks = u128::from(index) * u128::from(PACKET_BITS) * u128::from(CLOCK_HZ);
        (ticks / u128::from(self.rate_bps)) as u64
    }

    /// Packets between two sets of tables: about 0.4 s.
    fn table_period(&self) -> u64 {
        (self.rate_bps * 2 / 5 / PACKET_BITS).max(4)
    }

    /// Packets between two clock references: about 40 ms.
    fn clock_period(&self) -> u64 {
        (self.rate_bps / 25 / PACKET_BITS).max(1)
    }

    fn data_packet(&self, index: u64, count: u64) -> Packet {
        let mut packet = [0; PACKET_BYTES];
        let has_clock = index.is_multiple_of(self.clock_period()) || index == 2;
        start(&mut packet, DATA_PID, count, has_clock);
        let clock = self.clock_ticks(index);
        let mut at = 4;
        if has_clock {
            packet[4..6].copy_from_slice(&[CLOCK_BYTES as u8 - 1, 0x10]);
            packet[6..12].copy_from_slice(&clock_field(clock));
            at += CLOCK_BYTES;
        }
        let length = (PACKET_BYTES - at - 6) as u8;
        packet[at..at + 9].copy_from_slice(&[0, 0, 1, STREAM_ID, 0, length, 0x84, 0x80, 5]);
        let presented = clock / 300 + PRESENTATION_DELAY_TICKS;
        packet[at + 9..at + PES_HEADER_BYTES].copy_from_slice(&time_stamp(presented));
        at += PES_HEADER_BYTES;
        packet[at..at + 8].copy_from_slice(&self.seed.to_be_bytes());
        packet[at + 8..at + 16].copy_from_slice(&self.rate_bps.to_be_bytes());
        packet[at + 16..at + 24].copy_from_slice(&index.to_be_bytes());
        packet[at + 24..at + IDENTITY_BYTES].copy_from_slice(&self.file.to_be_bytes());
        self.fill(index, &mut packet[at + IDENTITY_BYTES..]);
        packet
    }

    /// Numbers that no other packet has: `SplitMix64` from a state that seed, file and index make.
    fn fill(&self, index: u64, bytes: &mut [u8]) {
        let key = self.seed ^ u64::from(self.file) << 40 ^ self.rate_bps << 20;
        let mut state = mix(key).wrapping_add(mix(index ^ 0x5851_f42d_4c95_7f2d));
        for chunk in bytes.chunks_mut(8) {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            chunk.copy_from_slice(&mix(state).to_le_bytes()[..chunk.len()]);
        }
    }
}

/// The finalizer of `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014).
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The four bytes every packet begins with; each starts a section or a PES packet.
fn start(packet: &mut Packet, pid: u16, count: u64, has_adaptation: bool) {
    let [high, low] = pid.to_be_bytes();
    let control = if has_adaptation { 0x30 } else { 0x10 };
    packet[..4].copy_from_slice(&[SYNC, 0x40 | high, low, control | (count & 15) as u8]);
}

/// A presentation time stamp alone, in its five bytes (ISO/IEC 13818-1, section 2.4.3.7).
fn time_stamp(ticks: u64) -> [u8; 5] {
    let part = |shift: u32, bits: u32| ((ticks >> shift) & ((1 << bits) - 1)) as u8;
    [
        0x20 | part(30, 3) << 1 | 1,
        part(22, 8),
        part(15, 7) << 1 | 1,
        part(7, 8),
        part(0, 7) << 1 | 1,
    ]
}

/// The table that says where program 1 has its own.
fn association_table(turn: u64) -> Packet {
    let [high, low] = (0xe000 | TABLE_PID).to_be_bytes();
    section(
        0,
        turn,
        &[0x00, 0xb0, 13, 0, 1, 0xc1, 0, 0, 0, 1, high, low],
    )
}

/// The table that says what program 1 consists of.
fn map_table(turn: u64) -> Packet {
    let [high, low] = (0xe000 | DATA_PID).to_be_bytes();
    let program = [0x02, 0xb0, 18, 0, 1, 0xc1, 0, 0, high, low, 0xf0, 0];
    let streams = [STREAM_TYPE, high, low, 0xf0, 0];
    section(TABLE_PID, turn, &[&program[..], &streams].concat())
}

/// A packet with one section, its checksum added, filled with ones.
fn section(pid: u16, count: u64, table: &[u8]) -> Packet {
    let mut packet = [0xff; PACKET_BYTES];
    start(&mut packet, pid, count, false);
    packet[4] = 0;
    let end = 5 + table.len();
    packet[5..end].copy_from_slice(table);
    packet[end..end + 4].copy_from_slice(&checksum(table).to_be_bytes());
    packet
}

/// The CRC of sections (ISO/IEC 13818-1, annex A): polynomial 0x04c11db7, all ones to start with.
fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte) << 24, |crc, _| {
            crc << 1 ^ if crc >> 31 == 1 { 0x04c1_1db7 } else { 0 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::transport_stream::clock_references;

    const STREAM: Stream = Stream {
        seed: 1,
        file: 2,
        rate_bps: 300_000,
    };

    fn bytes(stream: Stream, packets: u64) -> Vec<u8> {
        (0..packets)
            .flat_map(|index| stream.packet(index))
            .collect()
    }

    #[test]
    fn the_checksum_is_the_one_of_the_standard() {
        // The check value of CRC-32/MPEG-2 in the catalogue of parametrised CRC algorithms.
        assert_eq!(checksum(b"123456789"), 0x0376_e6e7);
    }

    #[test]
    fn the_clock_says_exactly_the_rate() {
        for rate_bps in [56_000, 300_000, 8_000_000] {
            let stream = Stream { rate_bps, ..STREAM };
            let bytes = bytes(stream, 2000);
            for found in clock_references(&bytes) {
                let at_bits = found.offset as u128 * 8;
                assert_eq!(
                    u128::from(found.ticks),
                    at_bits * 27_000_000 / u128::from(rate_bps)
                );
            }
        }
    }

    #[test]
    fn clock_references_are_never_a_tenth_of_a_second_apart() {
        for rate_bps in [56_000, 300_000, 4_000_000] {
            let bytes = bytes(Stream { rate_bps, ..STREAM }, 3000);
            let ticks: Vec<u64> = clock_references(&bytes).map(|found| found.ticks).collect();
            let longest = ticks.windows(2).map(|pair| pair[1] - pair[0]).max();
            assert!(longest.unwrap() <= 2_700_000, "{rate_bps}: {longest:?}");
        }
    }

    #[test]
    fn continuity_counters_count_each_pid() {
        let mut last = std::collections::HashMap::new();
        for index in 0..5000 {
            let packet = STREAM.packet(index);
            let pid = u16::from_be_bytes([packet[1] & 0x1f, packet[2]]);
            let count = packet[3] & 15;
            if let Some(before) = last.insert(pid, count) {
                assert_eq!(count, (before + 1) & 15, "packet {index}, pid {pid}");
            }
        }
        assert_eq!(last.len(), 3);
    }

    #[test]
    fn a_packet_says_what_it_is_and_a_changed_one_does_not() {
        let mut packet = STREAM.packet(1234);
        assert_eq!(Stream::identify(&packet), Some((STREAM, 1234)));
        packet[187] ^= 1;
        assert_eq!(Stream::identify(&packet), None);
        assert_eq!(Stream::identify(&[0; 20]), None);
    }

    #[test]
    fn files_and_seeds_differ_and_the_same_seed_repeats() {
        let other_file = Stream { file: 3, ..STREAM };
        let other_seed = Stream { seed: 9, ..STREAM };
        assert_eq!(STREAM.packet(50), STREAM.packet(50));
        for other in [other_file, other_seed] {
            let (ours, theirs) = (STREAM.packet(50), other.packet(50));
            let equal = ours[60..].iter().zip(&theirs[60..]).filter(|(a, b)| a == b);
            assert!(equal.count() < 10);
        }
    }

    #[test]
    fn the_first_data_are_the_same_on_every_machine() {
        let packet = STREAM.packet(2);
        let expected: [u8; 8] = packet[54..62].try_into().unwrap();
        let mut again = [0; 8];
        STREAM.fill(2, &mut again);
        assert_eq!(expected, again);
        assert_eq!(packet[..6], [0x47, 0x41, 0x00, 0x30, 7, 0x10]);
    }
}
