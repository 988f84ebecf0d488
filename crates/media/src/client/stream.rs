//! What a client knows of the stream it receives: what came, when it should have come, and whether
//! it is what it should be.
//!
//! A packet is late by how much later than the first it came than its timestamp says: what a player
//! that starts at once would have to bridge. Packets that come early are on time. A server whose
//! first packet was late looks better by that much, whichever server it is.

use crate::wire::synthesis::Stream as Synthesized;
use crate::wire::{Arrival, Header, Reception};
use hdrhistogram::Histogram;

/// Bytes of a transport stream's packet.
const PACKET_BYTES: usize = crate::wire::transport_stream::PACKET_BYTES;

/// Clock of payloads that nobody described: that of video.
const DEFAULT_CLOCK_HZ: u32 = 90_000;

/// Lateness is kept up to ten minutes.
const LATENESS_LIMIT_US: u64 = 600_000_000;

/// A stream as its receiver sees it.
pub(super) struct Reading {
    pub(super) reception: Reception,
    pub(super) clock_hz: u32,
    /// Source of the stream, once a packet came.
    pub(super) ssrc: Option<u32>,
    /// Late packets of this stream alone, in microseconds.
    pub(super) lateness: Histogram<u32>,
    pub(super) bytes: u64,
    pub(super) content_errors: u64,
    /// Packets that were no RTP.
    pub(super) strangers: u64,
    pub(super) checked: u64,
    /// When the last packet came.
    pub(super) last_ns: u64,
    schedule: Option<Schedule>,
    content: Option<Content>,
    checks: bool,
    expected_file: Option<u32>,
    before: Before,
}

/// When packets should come: the first came then.
#[derive(Clone, Copy)]
struct Schedule {
    arrival_ns: u64,
    timestamp: u32,
    ticks: i64,
}

/// What packets should hold.
#[derive(Clone, Copy)]
struct Content {
    stream: Synthesized,
    /// The packet of the transport stream that the next RTP packet begins with.
    index: u64,
    /// That packet's number.
    extended: u64,
}

/// Counts at the start of the window that is measured.
#[derive(Clone, Copy, Default)]
struct Before {
    received: u64,
    lost: u64,
    reordered: u64,
    duplicates: u64,
}

/// Counts of the window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) packets: u64,
    pub(super) lost: u64,
    pub(super) reordered: u64,
    pub(super) duplicates: u64,
}

impl Reading {
    /// Nothing received yet. With `checks`, packets must be those of a synthesized stream, of
    /// `expected_file` where that is known.
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
            schedule: None,
            content: None,
            checks,
            expected_file,
            before: Before::default(),
        })
    }

    /// Takes a packet that came at a time in nanoseconds; tells how late it was, in microseconds.
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
            Arrival::Restarted => self.begin_again(),
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

    /// The stream is played again from its start: schedule and content begin anew.
    pub(super) fn begin_again(&mut self) {
        self.schedule = None;
        self.content = None;
    }

    /// The window that is measured starts now.
    pub(super) fn start_window(&mut self) {
        let reception = &mut self.reception;
        reception.restart_mean();
        self.before = Before {
            received: reception.received(),
            lost: reception.lost(),
            reordered: reception.reordered(),
            duplicates: reception.duplicates(),
        };
        self.lateness.reset();
        self.bytes = 0;
    }

    /// What was counted in the window.
    pub(super) fn counts(&self) -> Counts {
        let (now, before) = (&self.reception, &self.before);
        Counts {
            packets: now.received() - before.received,
            // A packet that was missing when the window began may have come since.
            lost: now.lost().saturating_sub(before.lost),
            reordered: now.reordered() - before.reordered,
            duplicates: now.duplicates() - before.duplicates,
        }
    }

    fn late_us(&mut self, timestamp: u32, arrival_ns: u64) -> u64 {
        let schedule = self.schedule.get_or_insert(Schedule {
            arrival_ns,
            timestamp,
            ticks: 0,
        });
        // Timestamps wrap; two that follow each other are less than half a turn apart.
        schedule.ticks += i64::from(timestamp.wrapping_sub(schedule.timestamp) as i32);
        schedule.timestamp = timestamp;
        let due_ns = i128::from(schedule.ticks) * 1_000_000_000 / i128::from(self.clock_hz);
        let late_ns = i128::from(arrival_ns) - i128::from(schedule.arrival_ns) - due_ns;
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
            // After a gap the content says where it is; how much was in between, nobody knows.
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

    fn reading(file: Option<u32>) -> Reading {
        Reading::new(true, file).unwrap()
    }

    #[test]
    fn every_byte_is_checked_across_loss_reordering_and_the_wrap() {
        let mut reading = reading(Some(3));
        for number in [0, 1, 2, 4, 3, 6, 7, 8, 9] {
            reading.packet(&rtp(number, false), number * 35_093_333);
        }
        let counts = reading.counts();
        assert_eq!((reading.content_errors, reading.checked), (0, 9));
        assert_eq!((counts.packets, counts.lost, counts.reordered), (9, 1, 1));
        reading.packet(&rtp(10, true), 0);
        assert_eq!(reading.content_errors, 1);
    }

    #[test]
    fn content_out_of_its_place_and_another_file_are_errors() {
        let mut misplaced = reading(None);
        misplaced.packet(&rtp(0, false), 0);
        let mut packet = rtp(1, false);
        packet[12..].copy_from_slice(&rtp(2, false)[12..]);
        misplaced.packet(&packet, 1);
        assert_eq!(misplaced.content_errors, 1);
        let mut other = reading(Some(4));
        other.packet(&rtp(0, false), 0);
        assert_eq!(other.content_errors, 1);
    }

    #[test]
    fn lateness_is_measured_from_the_first_packet_and_early_is_on_time() {
        let mut reading = reading(None);
        assert_eq!(reading.packet(&rtp(0, false), 1_000_000), Some(0));
        let due_ns = 1_000_000 + 3158 * 1_000_000_000 / 90_000;
        assert_eq!(
            reading.packet(&rtp(1, false), due_ns + 2_000_000),
            Some(2000)
        );
        assert_eq!(reading.packet(&rtp(2, false), due_ns + 2_000_000), Some(0));
    }

    #[test]
    fn what_is_no_rtp_or_of_another_source_is_a_stranger() {
        let mut reading = reading(None);
        reading.packet(&rtp(0, false), 0);
        reading.packet(b"hello", 0);
        let mut other = rtp(1, false);
        other[11] = 6;
        reading.packet(&other, 0);
        assert_eq!((reading.strangers, reading.counts().packets), (2, 1));
    }
}
