//! Loss, reordering and jitter of a stream, from sequence numbers, timestamps and arrival times.
//!
//! Loss follows RFC 3550, appendix A.3: packets expected less packets received. Jitter follows
//! appendix A.8. Isa (2003) measured jitter as the mean difference of consecutive inter-arrival
//! times. A [`Reception`] has both measures.

/// A forward jump of this many sequence numbers is a restart of the sender (RFC 3550, A.1).
const MAX_DROPOUT: u16 = 3000;

/// A backward jump of more than this many sequence numbers is a restart, not a late packet (RFC
/// 3550, A.1).
const MAX_MISORDER: u16 = 100;

/// Number of newest packets whose arrivals are stored, to recognize duplicates.
const WINDOW: u64 = 128;

/// The position of a packet relative to earlier packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Newer than all others.
    Next {
        /// Number of the packet, counted from the stream's first packet. It does not wrap.
        extended: u64,
    },
    /// Older than the newest, and received for the first time.
    Reordered {
        /// Number of the packet, counted from the stream's first packet. It does not wrap.
        extended: u64,
    },
    /// Received before.
    Duplicate,
    /// Too far from the others: the sender has restarted.
    Restarted,
}

/// Statistics of one received stream.
#[derive(Clone, Debug, Default)]
pub struct Reception {
    started: bool,
    first: u64,
    newest: u64,
    seen: u128,
    /// Packets received, without duplicates.
    pub received: u64,
    /// Packets received after a packet with a higher number.
    pub reordered: u64,
    /// Packets received more than once.
    pub duplicates: u64,
    jitter: Jitter,
    reported_expected: u64,
    reported_received: u64,
}

/// Both measures of jitter.
#[derive(Clone, Debug, Default)]
struct Jitter {
    last: Option<(f64, f64)>,
    last_gap: Option<f64>,
    ticks: f64,
    differences: f64,
    difference_count: u64,
}

impl Reception {
    /// Counts a packet that arrived at `arrival_ticks` of the media clock.
    pub fn packet(&mut self, sequence: u16, timestamp: u32, arrival_ticks: f64) -> Arrival {
        let arrival = self.classify(sequence);
        match arrival {
            Arrival::Duplicate => self.duplicates += 1,
            Arrival::Reordered { .. } => {
                self.received += 1;
                self.reordered += 1;
            }
            Arrival::Next { .. } | Arrival::Restarted => self.received += 1,
        }
        if arrival != Arrival::Duplicate {
            self.jitter.packet(timestamp, arrival_ticks);
        }
        arrival
    }

    fn classify(&mut self, sequence: u16) -> Arrival {
        if !self.started {
            *self = Self {
                started: true,
                first: u64::from(sequence),
                newest: u64::from(sequence),
                seen: 1,
                ..Self::default()
            };
            return Arrival::Next { extended: 0 };
        }
        let ahead = sequence.wrapping_sub(self.newest as u16);
        let behind = (self.newest as u16).wrapping_sub(sequence);
        if ahead != 0 && ahead < MAX_DROPOUT {
            self.newest += u64::from(ahead);
            self.seen = self.seen.checked_shl(u32::from(ahead)).unwrap_or(0) | 1;
            return Arrival::Next {
                extended: self.newest - self.first,
            };
        }
        if behind > MAX_MISORDER || self.newest - self.first < u64::from(behind) {
            // Packets lost before the restart still count as lost.
            let lost = self.lost();
            self.newest = u64::from(sequence) + (self.newest | 0xffff) + 1;
            self.first = (self.newest + 1).saturating_sub(self.received + 1 + lost);
            self.seen = 1;
            return Arrival::Restarted;
        }
        let bit = 1u128 << (u64::from(behind) % WINDOW);
        if self.seen & bit != 0 {
            return Arrival::Duplicate;
        }
        self.seen |= bit;
        Arrival::Reordered {
            extended: self.newest - self.first - u64::from(behind),
        }
    }

    /// Packets from the first to the newest, both included.
    pub fn expected(&self) -> u64 {
        if self.started {
            self.newest - self.first + 1
        } else {
            0
        }
    }

    /// Packets expected and not received.
    pub fn lost(&self) -> u64 {
        self.expected().saturating_sub(self.received)
    }

    /// Interarrival jitter in ticks of the media clock (RFC 3550, section 6.4.1).
    pub fn jitter_ticks(&self) -> f64 {
        self.jitter.ticks
    }

    /// Mean difference of consecutive inter-arrival times in ticks; `None` before the third packet.
    pub fn mean_gap_difference_ticks(&self) -> Option<f64> {
        let count = self.jitter.difference_count;
        (count > 0).then(|| self.jitter.differences / count as f64)
    }

    /// Starts a new measured window: resets the mean difference.
    pub fn restart_mean(&mut self) {
        self.jitter.differences = 0.0;
        self.jitter.difference_count = 0;
    }

    /// Extended highest sequence number, as receiver reports contain it: 16 bits of wraps, then 16
    /// bits of sequence number.
    pub fn extended_highest(&self) -> u32 {
        self.newest as u32
    }

    /// Share of packets lost since the last call, in 256ths (RFC 3550, A.3).
    pub fn fraction_lost(&mut self) -> u8 {
        let expected = self.expected().saturating_sub(self.reported_expected);
        let received = self.received.saturating_sub(self.reported_received);
        self.reported_expected = self.expected();
        self.reported_received = self.received;
        let lost = expected.saturating_sub(received);
        let share = (lost * 256).checked_div(expected);
        share.map_or(0, |share| share.min(255) as u8)
    }
}

impl Jitter {
    fn packet(&mut self, timestamp: u32, arrival_ticks: f64) {
        if let Some((last_timestamp, last_arrival)) = self.last {
            let gap = arrival_ticks - last_arrival;
            // Timestamps wrap, so their difference is signed.
            let sent = f64::from(timestamp.wrapping_sub(last_timestamp as u32) as i32);
            self.ticks += ((gap - sent).abs() - self.ticks) / 16.0;
            if let Some(last_gap) = self.last_gap.replace(gap) {
                self.differences += (gap - last_gap).abs();
                self.difference_count += 1;
            }
        }
        self.last = Some((f64::from(timestamp), arrival_ticks));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn receive(sequences: &[u16]) -> Reception {
        let mut reception = Reception::default();
        for &sequence in sequences {
            reception.packet(
                sequence,
                u32::from(sequence) * 100,
                f64::from(sequence) * 100.0,
            );
        }
        reception
    }

    #[test]
    fn loss_is_expected_less_received_across_a_wrap() {
        let reception = receive(&[65534, 65535, 1, 2]);
        assert_eq!((reception.expected(), reception.lost()), (5, 1));
    }

    #[test]
    fn a_late_packet_is_reordered_and_a_second_copy_is_a_duplicate() {
        let reception = receive(&[10, 12, 11, 11, 12, 13]);
        assert_eq!(reception.lost(), 0);
        assert_eq!((reception.reordered, reception.duplicates), (1, 2));
    }

    #[test]
    fn a_jump_is_a_restart_and_does_not_change_the_loss() {
        let mut reception = receive(&[10, 12]);
        let arrival = reception.packet(30_000, 0, 0.0);
        reception.packet(30_001, 0, 0.0);
        assert_eq!((arrival, reception.lost()), (Arrival::Restarted, 1));
    }

    /// The packets arrive in bursts of B packets, and their timestamps are D apart. So the transit
    /// time falls by D for each of B - 1 packets of a burst, and rises by (B - 1) D between bursts.
    /// The mean of |difference| is 2D(B-1)/B, and the estimate converges to it.
    #[test]
    fn the_jitter_of_bursts_equals_the_closed_form() {
        for burst in [2u32, 5, 10] {
            let spacing = 3000u32;
            let mut reception = Reception::default();
            let mut settled = Vec::new();
            for packet in 0..burst * 400 {
                let arrival = f64::from(packet / burst * burst * spacing);
                reception.packet(packet as u16, packet * spacing, arrival);
                if packet >= burst * 300 {
                    settled.push(reception.jitter_ticks());
                }
            }
            let mean = settled.iter().sum::<f64>() / settled.len() as f64;
            let expected = 2.0 * f64::from(spacing) * f64::from(burst - 1) / f64::from(burst);
            assert!(
                (mean / expected - 1.0).abs() < 1e-3,
                "{burst}: {mean}, {expected}"
            );
        }
    }

    #[test]
    fn evenly_spaced_packets_have_no_jitter_and_no_gap_difference() {
        let reception = receive(&[1, 2, 3, 4, 5]);
        assert_eq!(reception.jitter_ticks(), 0.0);
        assert_eq!(reception.mean_gap_difference_ticks(), Some(0.0));
    }

    proptest! {
        #[test]
        fn counts_equal_the_numbers_of_sent_duplicated_and_dropped_packets(
            start: u16, actions in proptest::collection::vec(0u8..4, 20..400),
        ) {
            let mut reception = Reception::default();
            let (mut sent, mut doubled, mut dropped, mut pending) = (0u64, 0u64, 0u64, 0u64);
            for (index, action) in actions.iter().enumerate() {
                let sequence = start.wrapping_add(index as u16);
                let is_edge = index == 0 || index + 1 == actions.len();
                match action {
                    0 if !is_edge => pending += 1,
                    1 => {
                        reception.packet(sequence, 0, 0.0);
                        reception.packet(sequence, 0, 0.0);
                        (sent, doubled) = (sent + 1, doubled + 1);
                    }
                    _ => {
                        reception.packet(sequence, 0, 0.0);
                        sent += 1;
                    }
                }
                dropped += std::mem::take(&mut pending);
            }
            prop_assert_eq!(reception.received, sent);
            prop_assert_eq!(reception.duplicates, doubled);
            prop_assert_eq!(reception.lost(), dropped);
        }
    }
}
