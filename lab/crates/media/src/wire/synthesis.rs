//! Synthesized transport streams: valid, of constant rate, and reproducible from a seed.
//!
//! Every packet is a function of the seed, the number of the file, the rate and the index of the
//! packet, so a receiver can check any packet without the file. Every data packet contains one PES
//! packet of private data that starts with these four numbers. From them, a receiver identifies the
//! stream and the position.
//!
//! Tables repeat about every 0.4 s and clock references about every 40 ms. ISO/IEC 13818-1 allows
//! at most 0.1 s between clock references. At rates from 46 kb/s, streams comply with this limit.

use crate::wire::transport_stream::{CLOCK_HZ, PACKET_BYTES, PACKETS_PER_RTP, SYNC, clock_field};

/// The PID of the program map table.
const TABLE_PID: u16 = 0x1000;
/// The PID of the data and of the clock references.
const DATA_PID: u16 = 0x0100;
/// PES packets with private data (ISO/IEC 13818-1, table 2-34).
const STREAM_TYPE: u8 = 0x06;
/// `private_stream_1` (table 2-22).
const STREAM_ID: u8 = 0xbd;
/// Header of a PES packet with a presentation time stamp.
const PES_HEADER_BYTES: usize = 14;
/// Bytes of an adaptation field with a clock reference only.
const CLOCK_BYTES: usize = 8;
/// Bytes of the four numbers that identify a packet.
const IDENTITY_BYTES: usize = 28;
/// Time from arrival to presentation in 90 kHz ticks: 0.5 s.
const PRESENTATION_DELAY_TICKS: u64 = 45_000;
const PACKET_BITS: u64 = 8 * PACKET_BYTES as u64;

/// Supported rates, in bits a second.
pub const RATES_BPS: std::ops::RangeInclusive<u64> = 8_000..=1_000_000_000;

/// The identity of a synthesized stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The seed of a set of files.
    pub seed: u64,
    /// Number of the file in the set.
    pub file: u32,
    /// Rate in bits a second.
    pub rate_bps: u64,
}

/// One packet of a transport stream.
pub type Packet = [u8; PACKET_BYTES];

impl Stream {
    /// The name of the file, with its number in five digits.
    pub fn file_name(&self) -> String {
        format!("stream-{:05}.ts", self.file)
    }

    /// Number of packets for at least `seconds`. It is a multiple of the number of packets in one
    /// RTP packet.
    pub fn packets_in(&self, seconds: f64) -> u64 {
        let packets = (self.rate_bps as f64 * seconds / PACKET_BITS as f64).ceil() as u64;
        packets.next_multiple_of(PACKETS_PER_RTP as u64)
    }

    /// The packet with an index from 0.
    pub fn packet(&self, index: u64) -> Packet {
        let period = self.table_period();
        let (cycle, position) = (index / period, index % period);
        match position {
            0 => association_table(cycle),
            1 => map_table(cycle),
            _ => self.data_packet(index, index - 2 * (cycle + 1)),
        }
    }

    /// Identifies the stream and the index of a data packet. `None` if any byte differs from the
    /// packet that this stream has at this index.
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
        let is_synthesized = RATES_BPS.contains(&stream.rate_bps) && stream.packet(index) == packet;
        is_synthesized.then_some((stream, index))
    }

    /// Due time of a packet in 27 MHz ticks.
    fn clock_ticks(&self, index: u64) -> u64 {
        let ticks = u128::from(index) * u128::from(PACKET_BITS) * u128::from(CLOCK_HZ);
        (ticks / u128::from(self.rate_bps)) as u64
    }

    /// Packets from one pair of tables to the next: about 0.4 s.
    fn table_period(&self) -> u64 {
        (self.rate_bps * 2 / 5 / PACKET_BITS).max(4)
    }

    /// Packets from one clock reference to the next: about 40 ms.
    fn clock_period(&self) -> u64 {
        (self.rate_bps / 25 / PACKET_BITS).max(1)
    }

    fn data_packet(&self, index: u64, count: u64) -> Packet {
        let mut packet = [0; PACKET_BYTES];
        let has_clock = index.is_multiple_of(self.clock_period()) || index == 2;
        write_header(&mut packet, DATA_PID, count, has_clock);
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

    /// Fills `bytes` with the output of `SplitMix64`. Seed, rate, file and index determine its
    /// state.
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
fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Writes the header of four bytes. Every packet starts a section or a PES packet.
fn write_header(packet: &mut Packet, pid: u16, count: u64, has_adaptation: bool) {
    let [high, low] = pid.to_be_bytes();
    let control = if has_adaptation { 0x30 } else { 0x10 };
    packet[..4].copy_from_slice(&[SYNC, 0x40 | high, low, control | (count & 15) as u8]);
}

/// Encodes a presentation time stamp (ISO/IEC 13818-1, section 2.4.3.7).
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

/// The program association table: program 1 has its map table at [`TABLE_PID`].
fn association_table(count: u64) -> Packet {
    let [high, low] = (0xe000 | TABLE_PID).to_be_bytes();
    section(
        0,
        count,
        &[0x00, 0xb0, 13, 0, 1, 0xc1, 0, 0, 0, 1, high, low],
    )
}

/// The program map table: program 1 consists of the data.
fn map_table(count: u64) -> Packet {
    let [high, low] = (0xe000 | DATA_PID).to_be_bytes();
    let program = [0x02, 0xb0, 18, 0, 1, 0xc1, 0, 0, high, low, 0xf0, 0];
    let streams = [STREAM_TYPE, high, low, 0xf0, 0];
    section(TABLE_PID, count, &[&program[..], &streams].concat())
}

/// A packet with one section and its checksum, padded with bytes of 0xff.
fn section(pid: u16, count: u64, table: &[u8]) -> Packet {
    let mut packet = [0xff; PACKET_BYTES];
    write_header(&mut packet, pid, count, false);
    packet[4] = 0;
    let end = 5 + table.len();
    packet[5..end].copy_from_slice(table);
    packet[end..end + 4].copy_from_slice(&checksum(table).to_be_bytes());
    packet
}

/// The CRC of a section (ISO/IEC 13818-1, annex A): polynomial 0x04c11db7, initial value all ones.
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
    fn the_checksum_has_the_catalogued_check_value() {
        // CRC-32/MPEG-2 in the catalogue of parametrised CRC algorithms.
        assert_eq!(checksum(b"123456789"), 0x0376_e6e7);
    }

    #[test]
    fn clock_references_equal_the_rate() {
        for rate_bps in [56_000, 300_000, 8_000_000] {
            let stream = Stream { rate_bps, ..STREAM };
            let bytes = bytes(stream, 2000);
            for reference in clock_references(&bytes) {
                let at_bits = reference.offset as u128 * 8;
                assert_eq!(
                    u128::from(reference.ticks),
                    at_bits * 27_000_000 / u128::from(rate_bps)
                );
            }
        }
    }

    #[test]
    fn clock_references_are_at_most_a_tenth_of_a_second_apart() {
        for rate_bps in [56_000, 300_000, 4_000_000] {
            let bytes = bytes(Stream { rate_bps, ..STREAM }, 3000);
            let ticks: Vec<u64> = clock_references(&bytes)
                .map(|reference| reference.ticks)
                .collect();
            let longest = ticks.windows(2).map(|pair| pair[1] - pair[0]).max();
            assert!(longest.unwrap() <= 2_700_000, "{rate_bps}: {longest:?}");
        }
    }

    #[test]
    fn continuity_counters_increase_for_each_pid() {
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
    fn a_packet_is_identified_and_a_changed_one_is_not() {
        let mut packet = STREAM.packet(1234);
        assert_eq!(Stream::identify(&packet), Some((STREAM, 1234)));
        packet[187] ^= 1;
        assert_eq!(Stream::identify(&packet), None);
        assert_eq!(Stream::identify(&[0; 20]), None);
    }

    #[test]
    fn files_and_seeds_differ() {
        let other_file = Stream { file: 3, ..STREAM };
        let other_seed = Stream { seed: 9, ..STREAM };
        for other in [other_file, other_seed] {
            let (ours, theirs) = (STREAM.packet(50), other.packet(50));
            let equal = ours[60..].iter().zip(&theirs[60..]).filter(|(a, b)| a == b);
            assert!(equal.count() < 10);
        }
    }

    #[test]
    fn the_content_is_the_same_on_every_machine() {
        let packet = STREAM.packet(2);
        assert_eq!(packet[180..], [21, 158, 173, 112, 123, 29, 228, 187]);
        assert_eq!(packet[..6], [0x47, 0x41, 0x00, 0x30, 7, 0x10]);
    }
}
