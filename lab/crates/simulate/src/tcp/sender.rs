//! The sending half of TCP: the bytes that may be sent now, and the detection and repair of losses.
//!
//! Slow start, congestion avoidance (RFC 5681), fast retransmit and recovery with partial
//! acknowledgments (NewReno, RFC 6582), retransmission timeout (RFC 6298), zero-window probes and
//! the sender's part of silly-window avoidance (RFC 9293, sections 3.8.6.1 and 3.8.6.2.1).

use super::round_trip::RoundTrip;
use super::segment::{Segment, Sequence};
use super::{Flags, Settings};
use crate::time::Time;

const DUPLICATES_THAT_MEAN_LOSS: u32 = 3;

/// The next segment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub sequence: Sequence,
    pub length_bytes: u32,
    pub fin: bool,
}

/// Send sequence space and congestion state. Sequence numbers count the SYN and the FIN.
#[derive(Clone, Debug)]
pub struct Sender {
    /// The oldest number not acknowledged.
    pub una: Sequence,
    /// The next number to send; behind `max` after a timeout.
    pub nxt: Sequence,
    /// One past the highest number sent.
    pub max: Sequence,
    /// One past the last byte the application has queued; the FIN's number once the FIN is queued.
    pub data_end: Sequence,
    pub fin_queued: bool,
    /// Whether the application will queue more immediately; a partial segment then waits.
    pub more_to_come: bool,
    window_bytes: u32,
    largest_window_bytes: u32,
    congestion_window_bytes: u32,
    slow_start_threshold_bytes: u32,
    duplicates: u32,
    /// During recovery: the highest number sent when the loss was detected.
    recover: Option<Sequence>,
    /// No loss is inferred from duplicates below this number (RFC 6582, section 4.1).
    ignore_duplicates_until: Sequence,
    repair_first: bool,
    probe: bool,
    round_trip: RoundTrip,
    timed: Option<(Sequence, Time)>,
    pub deadline: Option<Time>,
    syn_acknowledged: bool,
    /// Segments sent again since they were last counted.
    pub retransmissions: u32,
}

impl Sender {
    pub fn new(settings: &Settings, initial: Sequence) -> Self {
        Self {
            una: initial,
            nxt: initial,
            max: initial,
            data_end: initial + 1,
            fin_queued: false,
            more_to_come: false,
            window_bytes: 0,
            largest_window_bytes: 0,
            congestion_window_bytes: settings.initial_window_segments * settings.mss_bytes,
            slow_start_threshold_bytes: u32::MAX,
            duplicates: 0,
            recover: None,
            ignore_duplicates_until: initial,
            repair_first: false,
            probe: false,
            round_trip: RoundTrip::default(),
            timed: None,
            deadline: None,
            syn_acknowledged: false,
            retransmissions: 0,
        }
    }

    /// The SYN is sent, or sent again.
    pub fn send_syn(&mut self, settings: &Settings, now: Time) -> Sequence {
        let again = self.max != self.una;
        self.retransmissions += u32::from(again);
        self.nxt = self.una + 1;
        self.max = self.nxt;
        self.timed = (!again).then_some((self.una, now));
        self.deadline = Some(now + self.round_trip.timeout(settings));
        self.una
    }

    /// Bytes queued by the application and not yet acknowledged.
    pub fn queued_bytes(&self) -> u32 {
        if self.una.is_before(self.data_end) {
            self.data_end - self.una
        } else {
            0
        }
    }

    pub fn update_window(&mut self, segment: &Segment) {
        self.window_bytes = segment.window_bytes;
        self.largest_window_bytes = self.largest_window_bytes.max(segment.window_bytes);
    }

    /// The next piece to send, if anything may be sent now.
    pub fn next_piece(&mut self, settings: &Settings, now: Time) -> Option<Piece> {
        if self.repair_first {
            self.repair_first = false;
            return Some(self.repair(settings, now));
        }
        let waiting = if self.nxt.is_before(self.data_end) {
            self.data_end - self.nxt
        } else {
            0
        };
        let fin_waits = self.fin_queued && !self.data_end.is_before(self.nxt);
        if waiting == 0 && !fin_waits {
            return None;
        }
        let usable = self.congestion_window_bytes.min(self.window_bytes);
        let room = usable.saturating_sub(self.nxt - self.una);
        let mut length = waiting.min(settings.mss_bytes).min(room);
        if self.probe {
            self.probe = false;
            length = length.max(1).min(waiting);
        } else if !self.is_worth_sending(length, waiting, settings) {
            if self.nxt == self.una && self.deadline.is_none() && !self.more_to_come {
                self.deadline = Some(now + self.round_trip.timeout(settings));
            }
            return None;
        }
        Some(self.send(length, fin_waits && length == waiting, settings, now))
    }

    fn is_worth_sending(&self, length: u32, waiting: u32, settings: &Settings) -> bool {
        if length == waiting {
            return length == settings.mss_bytes || self.fin_queued || !self.more_to_come;
        }
        length == settings.mss_bytes || (length > 0 && length >= self.largest_window_bytes / 2)
    }

    fn send(&mut self, length_bytes: u32, fin: bool, settings: &Settings, now: Time) -> Piece {
        let sequence = self.nxt;
        let again = sequence.is_before(self.max);
        let nothing_outstanding = self.una == self.max;
        self.retransmissions += u32::from(again);
        self.nxt = sequence + length_bytes + u32::from(fin);
        if self.timed.is_none() && !again {
            self.timed = Some((sequence, now));
        }
        self.max = self.max.max(self.nxt);
        // A deadline without outstanding data was for a window probe.
        if self.deadline.is_none() || nothing_outstanding {
            self.deadline = Some(now + self.round_trip.timeout(settings));
        }
        Piece {
            sequence,
            length_bytes,
            fin,
        }
    }

    /// Sends the first unacknowledged segment again.
    fn repair(&mut self, settings: &Settings, now: Time) -> Piece {
        self.timed = None;
        self.retransmissions += 1;
        self.deadline = Some(now + self.round_trip.timeout(settings));
        let sequence = self.una;
        let unacknowledged = if sequence.is_before(self.data_end) {
            self.data_end - sequence
        } else {
            0
        };
        let length_bytes = unacknowledged
            .min(settings.mss_bytes)
            .min(self.max - sequence);
        Piece {
            sequence,
            length_bytes,
            fin: self.fin_queued
                && sequence + length_bytes == self.data_end
                && self.data_end.is_before(self.max),
        }
    }

    /// Processes an acknowledgment; returns the payload bytes that it newly covers.
    pub fn acknowledge(&mut self, segment: &Segment, settings: &Settings, now: Time) -> u32 {
        let acknowledgment = segment.acknowledgment;
        if acknowledgment.is_before(self.una) || self.max.is_before(acknowledgment) {
            return 0;
        }
        let window_changed = segment.window_bytes != self.window_bytes;
        let opened = self.window_bytes == 0 && segment.window_bytes > 0;
        self.update_window(segment);
        if acknowledgment == self.una {
            if opened && self.syn_acknowledged {
                // The peer did not accept the probe of its shut window: send again from the first
                // byte of the probe.
                self.nxt = self.una;
                self.deadline = None;
            }
            if self.una != self.max && segment.span() == 0 && !window_changed {
                self.duplicate(settings);
            }
            return 0;
        }
        let covered = self.queued_bytes();
        let progress = acknowledgment - self.una;
        if let Some((sequence, sent)) = self.timed
            && sequence.is_before(acknowledgment)
        {
            self.round_trip.measure(sent, now);
            self.timed = None;
        }
        self.round_trip.progress();
        self.una = acknowledgment;
        self.nxt = self.nxt.max(acknowledgment);
        if self.syn_acknowledged {
            self.grow_or_recover(progress, settings);
        }
        // The handshake does not open the congestion window (RFC 5681, section 3.1).
        self.syn_acknowledged = true;
        self.deadline = (self.una != self.max).then(|| now + self.round_trip.timeout(settings));
        covered - self.queued_bytes()
    }

    fn duplicate(&mut self, settings: &Settings) {
        self.duplicates += 1;
        if self.recover.is_some() {
            self.congestion_window_bytes += settings.mss_bytes;
        } else if self.duplicates == DUPLICATES_THAT_MEAN_LOSS
            && !self.una.is_before(self.ignore_duplicates_until)
        {
            self.reduce_threshold(settings);
            self.congestion_window_bytes =
                self.slow_start_threshold_bytes + DUPLICATES_THAT_MEAN_LOSS * settings.mss_bytes;
            self.recover = Some(self.max);
            self.ignore_duplicates_until = self.max;
            self.repair_first = true;
        }
    }

    fn grow_or_recover(&mut self, progress: u32, settings: &Settings) {
        let mss = settings.mss_bytes;
        match self.recover {
            Some(recover) if self.una.is_before(recover) => {
                // A partial acknowledgment: the next segment was lost too.
                self.repair_first = true;
                let deflated = self.congestion_window_bytes.saturating_sub(progress) + mss;
                self.congestion_window_bytes = deflated.max(mss);
            }
            Some(_) => {
                self.recover = None;
                self.duplicates = 0;
                self.congestion_window_bytes = self.slow_start_threshold_bytes;
            }
            None => {
                self.duplicates = 0;
                let window = self.congestion_window_bytes;
                self.congestion_window_bytes = if window < self.slow_start_threshold_bytes {
                    window.saturating_add(mss)
                } else {
                    window.saturating_add((mss * mss / window.max(1)).max(1))
                }
                .min(1 << 30);
            }
        }
    }

    fn reduce_threshold(&mut self, settings: &Settings) {
        let flight = (self.max - self.una).min(self.window_bytes.max(settings.mss_bytes));
        self.slow_start_threshold_bytes = (flight / 2).max(2 * settings.mss_bytes);
    }

    /// The deadline has passed: go back to the first unacknowledged number, or probe a shut window.
    /// Returns whether this was a retransmission timeout.
    pub fn time_out(&mut self, settings: &Settings, now: Time) -> bool {
        self.round_trip.back_off();
        self.timed = None;
        if self.una == self.max || (self.window_bytes == 0 && self.syn_acknowledged) {
            self.nxt = self.una;
            self.probe = self.nxt.is_before(self.data_end);
            self.deadline = None;
            return false;
        }
        self.reduce_threshold(settings);
        self.congestion_window_bytes = settings.mss_bytes;
        self.recover = None;
        self.duplicates = 0;
        self.ignore_duplicates_until = self.max;
        self.repair_first = false;
        self.nxt = self.una;
        self.deadline = Some(now + self.round_trip.timeout(settings));
        true
    }

    /// The interface dropped a segment because its queue is full: 4.4BSD's `tcp_quench`.
    pub const fn quench(&mut self, settings: &Settings) {
        self.congestion_window_bytes = settings.mss_bytes;
    }

    pub fn fin_is_acknowledged(&self) -> bool {
        self.fin_queued && self.data_end.is_before(self.una)
    }

    pub const fn flags(piece: &Piece) -> Flags {
        if piece.fin {
            Flags::ACK.with(Flags::FIN)
        } else {
            Flags::ACK
        }
    }

    #[cfg(test)]
    pub const fn congestion_window_bytes(&self) -> u32 {
        self.congestion_window_bytes
    }
}
