//! The statistics of a received stream: loss, lateness and content.
//!
//! The lateness of a packet is the time between the first packet and this one, less the difference
//! of their timestamps. A player without a buffer would pause for this time. Early packets have no
//! lateness. A late first packet makes all others look earlier.

use crate::wire::synthesis::Stream as Synthesized;
use crate::wire::{Arrival, Header, Reception};
use hdrhistogram::Histogram;

const PACKET_BYTES: usize = crate::wire::transport_stream::PACKET_BYTES;

/// Clock of payloads without a clock in the description. It is the clock of video.
const DEFAULT_CLOCK_HZ: u32 = 90_000;

/// The highest recorded lateness: ten minutes.
const LATENESS_LIMIT_US: u64 = 600_000_000;

/// The statistics of a received stream.
pub(super) struct ReceivedStream {
    pub(super) reception: Reception,
    pub(super) clock_hz: u32,
    /// Synchronization source, known from the first packet or from SETUP.
    pub(super) ssrc: Option<u32>,
    /// Lateness of the packets in microseconds.
    pub(super) lateness: Histogram<u32>,
    pub(super) bytes: u64,
    pub(super) content_errors: u64,
    /// Datagrams that are not RTP or have another source.
    pub(super) strangers: u64,
    pub(super) checked: u64,
    /// Arrival of the last packet.
    pub(super) last_ns: u64,
    due_times: Option<DueTimes>,
    content: Option<Content>,
    checks: bool,
    expected_file: Option<u32>,
    /// Counts at the start of the measured window.
    window_start: Counts,
}

/// Due times of packets, relative to the first packet.
#[derive(Clone, Copy)]
struct DueTimes {
    arrival_ns: u64,
    timestamp: u32,
    ticks: i64,
}

/// The expected content.
#[derive(Clone, Copy)]
struct Content {
    stream: Synthesized,
    /// Index of the first transport stream packet in the next RTP packet.
    index: u64,
    /// Extended sequence number of the next RTP packet.
    extended: u64,
}

/// Counts in the measured window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) packets: u64,
    pub(super) lost: u64,
    pub(super) reordered: u64,
    pub(super) duplicates: u64,
}

impl ReceivedStream {
    /// A stream without packets. With `checks`, packets are compared with a synthesized stream. If
    /// `expected_file` is known, only the stream of that file is correct.
    pub(super) fn new(checks: bool, expected_file: Option<u32>) -> Result<Self, super::Error> {
        Ok(Self {
            reception: Reception::default(),
            clock_hz: DEFAULT_CLOCK_HZ,
            ssrc: None,
            lateness: Histogram::new_with_bounds(1, LATENESS_LIMIT_US, 1)?,
            bytes: 0,
            content_errors: 0,
            strangers: 0,
            checked: 0,
            last_ns: 0,
            due_times: None,
            content: None,
            checks,
            expected_file,
            window_start: Counts::default(),
        })
    }

    /// Counts a packet. Returns its lateness in microseconds.
    pub(super) fn packet(&mut self, packet: &[u8], arrival_ns: u64) -> Option<u64> {
        let Ok((header, payload)) = Header::split(packet) else {
            self.strangers += 1;
            return None;
        };
        if *self.ssrc.get_or_insert(header.ssrc) != header.ssrc {
            self.strangers += 1;
            return None;
        }
        self.last_ns = arrival_ns;
        let ticks = arrival_ns as f64 * f64::from(self.clock_hz) / 1e9;
        let arrival = self
            .reception
            .packet(header.sequence, header.timestamp, ticks);
        match arrival {
            Arrival::Duplicate => return None,
            Arrival::Restarted => self.restart(),
            Arrival::Next { .. } | Arrival::Reordered { .. } => {}
        }
        self.bytes += payload.len() as u64;
        if self.checks {
            self.check(payload, arrival);
        }
        let late_us = self.late_us(header.timestamp, arrival_ns);
        self.lateness.saturating_record(late_us);
        Some(late_us)
    }

    /// Starts due times and content again, because the stream is played again.
    pub(super) fn restart(&mut self) {
        self.due_times = None;
        self.content = None;
    }

    /// Starts the measured window.
    pub(super) fn start_window(&mut self) {
        self.reception.restart_mean();
        self.window_start = self.all_counts();
        self.lateness.reset();
        self.bytes = 0;
    }

    /// The counts since the first packet.
    fn all_counts(&self) -> Counts {
        let reception = &self.reception;
        Counts {
            packets: reception.received,
            lost: reception.lost(),
            reordered: reception.reordered,
            duplicates: reception.duplicates,
        }
    }

    /// The counts in the measured window.
    pub(super) fn counts(&self) -> Counts {
        let (now, before) = (self.all_counts(), &self.window_start);
        Counts {
            packets: now.packets - before.packets,
            // A packet that was missing at the start of the window may arrive within the window.
            lost: now.lost.saturating_sub(before.lost),
            reordered: now.reordered - before.reordered,
            duplicates: now.duplicates - before.duplicates,
        }
    }

    fn late_us(&mut self, timestamp: u32, arrival_ns: u64) -> u64 {
        let due_times = self.due_times.get_or_insert(DueTimes {
            arrival_ns,
            timestamp,
            ticks: 0,
        });
        // Timestamps wrap, so their difference is signed.
        due_times.ticks += i64::from(timestamp.wrapping_sub(due_times.timestamp) as i32);
        due_times.timestamp = timestamp;
        let due_ns = i128::from(due_times.ticks) * 1_000_000_000 / i128::from(self.clock_hz);
        let late_ns = i128::from(arrival_ns) - i128::from(due_times.arrival_ns) - due_ns;
        (late_ns.max(0) / 1000) as u64
    }

    fn check(&mut self, payload: &[u8], arrival: Arrival) {
        let (Arrival::Next { extended, .. } | Arrival::Reordered { extended }) = arrival else {
            return;
        };
        self.checked += 1;
        let chunks = || payload.chunks_exact(PACKET_BYTES);
        let place = match self.content {
            Some(content) if content.extended == extended => Some((content.stream, content.index)),
            // After a gap, the content of the packet identifies its position.
            _ => chunks().enumerate().find_map(|(place, packet)| {
                let (stream, index) = Synthesized::identify(packet)?;
                Some((stream, index.checked_sub(place as u64)?))
            }),
        };
        let expected = self.content.map(|content| content.stream);
        let Some((stream, first)) = place.filter(|(stream, _)| {
            expected.is_none_or(|expected| expected == *stream)
                && self.expected_file.is_none_or(|file| file == stream.file)
        }) else {
            self.content_errors += 1;
            return;
        };
        let is_whole = !payload.is_empty() && payload.len().is_multiple_of(PACKET_BYTES);
        let is_right = is_whole
            && (first..)
                .zip(chunks())
                .all(|(index, packet)| stream.packet(index) == packet);
        if !is_right {
            self.content_errors += 1;
        }
        if self
            .content
            .is_none_or(|content| extended >= content.extended)
        {
            self.content = Some(Content {
                stream,
                index: first + (payload.len() / PACKET_BYTES) as u64,
                extended: extended + 1,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: Synthesized = Synthesized {
        seed: 7,
        file: 3,
        rate_bps: 300_000,
    };

    fn rtp(number: u64, spoil: bool) -> Vec<u8> {
        let header = Header {
            marker: false,
            payload_type: 33,
            sequence: 65_530u16.wrapping_add(number as u16),
            timestamp: (number * 3158) as u32,
            ssrc: 5,
        };
        let mut packet = header.to_bytes().to_vec();
        packet.extend((number * 7..number * 7 + 7).flat_map(|index| STREAM.packet(index)));
        if spoil {
            packet[700] ^= 4;
        }
        packet
    }

    fn received(file: Option<u32>) -> ReceivedStream {
        ReceivedStream::new(true, file).unwrap()
    }

    #[test]
    fn every_byte_is_checked_across_loss_reordering_and_a_wrap() {
        let mut received = received(Some(3));
        for number in [0, 1, 2, 4, 3, 6, 7, 8, 9] {
            received.packet(&rtp(number, false), number * 35_093_333);
        }
        let counts = received.counts();
        assert_eq!((received.content_errors, received.checked), (0, 9));
        assert_eq!((counts.packets, counts.lost, counts.reordered), (9, 1, 1));
        received.packet(&rtp(10, true), 0);
        assert_eq!(received.content_errors, 1);
    }

    #[test]
    fn misplaced_content_and_another_file_are_errors() {
        let mut misplaced = received(None);
        misplaced.packet(&rtp(0, false), 0);
        let mut packet = rtp(1, false);
        packet[12..].copy_from_slice(&rtp(2, false)[12..]);
        misplaced.packet(&packet, 1);
        assert_eq!(misplaced.content_errors, 1);
        let mut other = received(Some(4));
        other.packet(&rtp(0, false), 0);
        assert_eq!(other.content_errors, 1);
    }

    #[test]
    fn lateness_is_relative_to_the_first_packet_and_never_negative() {
        let mut received = received(None);
        assert_eq!(received.packet(&rtp(0, false), 1_000_000), Some(0));
        let due_ns = 1_000_000 + 3158 * 1_000_000_000 / 90_000;
        assert_eq!(
            received.packet(&rtp(1, false), due_ns + 2_000_000),
            Some(2000)
        );
        assert_eq!(received.packet(&rtp(2, false), due_ns + 2_000_000), Some(0));
    }

    #[test]
    fn datagrams_that_are_not_rtp_or_of_another_source_are_counted_apart() {
        let mut received = received(None);
        received.packet(&rtp(0, false), 0);
        received.packet(b"hello", 0);
        let mut other = rtp(1, false);
        other[11] = 6;
        received.packet(&other, 0);
        assert_eq!((received.strangers, received.counts().packets), (2, 1));
    }
}
