//! One end of a connection: the state diagram of RFC 9293 around a sender and a receiver.

use super::Settings;
use super::receiver::Receiver;
use super::segment::{Flags, Segment, Sequence};
use super::sender::Sender;
use crate::time::Time;

/// The states of RFC 9293, section 3.3.2, that a connection passes through here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    Closing,
    TimeWait,
    CloseWait,
    LastAck,
    Closed,
}

/// The effect of a segment on the application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaction {
    /// The connection has just been established.
    pub established: bool,
    /// Payload bytes of this end that the peer has now acknowledged.
    pub acknowledged_bytes: u32,
    /// Payload bytes newly in order for the application.
    pub received_bytes: u32,
    /// The peer has just finished sending.
    pub peer_finished: bool,
}

/// One end of a connection.
#[derive(Clone, Debug)]
pub struct Endpoint {
    state: State,
    sender: Sender,
    receiver: Receiver,
    /// In order, but not yet read by the application.
    unread_bytes: u32,
    advertised_window_bytes: u32,
    acknowledge_now: bool,
    acknowledge_by: Option<Time>,
    peer_fin: Option<Sequence>,
}

impl Endpoint {
    /// An active open: [`transmit`](Self::transmit) yields the SYN.
    pub fn connect(settings: &Settings, initial: Sequence) -> Self {
        Self {
            state: State::SynSent,
            sender: Sender::new(settings, initial),
            receiver: Receiver::default(),
            unread_bytes: 0,
            advertised_window_bytes: 0,
            acknowledge_now: false,
            acknowledge_by: None,
            peer_fin: None,
        }
    }

    /// A passive open on a received SYN: [`transmit`](Self::transmit) yields the SYN and ACK.
    pub fn accept(settings: &Settings, initial: Sequence, syn: &Segment) -> Self {
        let mut endpoint = Self::connect(settings, initial);
        endpoint.state = State::SynReceived;
        endpoint.receiver.expect(syn.sequence + 1);
        endpoint.sender.update_window(syn);
        endpoint
    }

    /// The state of the connection.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Bytes the application may queue now.
    pub fn send_room_bytes(&self, settings: &Settings) -> u32 {
        settings
            .send_buffer_bytes
            .saturating_sub(self.sender.queued_bytes())
    }

    /// Bytes queued and not acknowledged.
    pub fn queued_bytes(&self) -> u32 {
        self.sender.queued_bytes()
    }

    /// Bytes that the peer has not acknowledged and that come before a segment's.
    pub fn bytes_before(&self, segment: &Segment) -> u32 {
        if self.sender.una.is_before(segment.sequence) {
            segment.sequence - self.sender.una
        } else {
            0
        }
    }

    /// Bytes in order that the application has not read.
    pub const fn unread_bytes(&self) -> u32 {
        self.unread_bytes
    }

    /// The window last reported to the peer.
    pub const fn advertised_window_bytes(&self) -> u32 {
        self.advertised_window_bytes
    }

    /// The application queues `bytes`; with `more_to_come` a partial segment waits.
    pub fn enqueue(&mut self, bytes: u32, more_to_come: bool) {
        debug_assert!(!self.sender.fin_queued, "queued after close");
        self.sender.data_end = self.sender.data_end + bytes;
        self.sender.more_to_come = more_to_come;
    }

    /// The application reads `bytes`. Reports the window to the peer if it was nearly shut and has
    /// opened by two segments (RFC 9293, section 3.8.6.2.2).
    pub fn read(&mut self, settings: &Settings, bytes: u32) {
        self.unread_bytes = self.unread_bytes.saturating_sub(bytes);
        let window = self.window_bytes(settings);
        if self.advertised_window_bytes < 2 * settings.mss_bytes
            && window >= self.advertised_window_bytes + 2 * settings.mss_bytes
            && matches!(
                self.state,
                State::Established | State::FinWait1 | State::FinWait2
            )
        {
            self.acknowledge_now = true;
        }
    }

    /// The application has nothing more to send.
    pub fn close(&mut self) {
        self.state = match self.state {
            State::Established | State::SynReceived => State::FinWait1,
            State::CloseWait => State::LastAck,
            other => return self.state = other,
        };
        self.sender.fin_queued = true;
    }

    /// The interface dropped a segment: shrink the congestion window (`tcp_quench` of 4.4BSD).
    pub const fn quench(&mut self, settings: &Settings) {
        self.sender.quench(settings);
    }

    /// Segments sent again since the last call.
    pub const fn take_retransmissions(&mut self) -> u32 {
        std::mem::replace(&mut self.sender.retransmissions, 0)
    }

    /// When [`on_timer`](Self::on_timer) is due.
    pub fn timer(&self) -> Option<Time> {
        match (self.sender.deadline, self.acknowledge_by) {
            (Some(left), Some(right)) => Some(left.min(right)),
            (first, second) => first.or(second),
        }
    }

    /// Whether the connection is over on this side and needs no timer.
    pub const fn is_over(&self) -> bool {
        matches!(self.state, State::Closed | State::TimeWait)
    }

    /// Acts on deadlines that have passed; returns whether one was a retransmission timeout.
    pub fn on_timer(&mut self, settings: &Settings, now: Time) -> bool {
        if self.state == State::Closed {
            self.sender.deadline = None;
            self.acknowledge_by = None;
            return false;
        }
        if self.acknowledge_by.is_some_and(|time| time <= now) {
            self.acknowledge_by = None;
            self.acknowledge_now = true;
        }
        self.sender.deadline.is_some_and(|time| time <= now) && self.sender.time_out(settings, now)
    }

    /// The next segment to put on the wire, until there is none.
    pub fn transmit(&mut self, settings: &Settings, now: Time) -> Option<Segment> {
        match self.state {
            State::Closed => return None,
            State::SynSent | State::SynReceived => return self.transmit_syn(settings, now),
            _ => {}
        }
        if let Some(piece) = self.sender.next_piece(settings, now) {
            let flags = Sender::flags(&piece);
            return Some(self.segment(settings, piece.sequence, piece.length_bytes, flags));
        }
        self.acknowledge_now
            .then(|| self.segment(settings, self.sender.max, 0, Flags::ACK))
    }

    fn transmit_syn(&mut self, settings: &Settings, now: Time) -> Option<Segment> {
        if self.sender.nxt != self.sender.una {
            return None;
        }
        let sequence = self.sender.send_syn(settings, now);
        let flags = if self.state == State::SynSent {
            Flags::SYN
        } else {
            Flags::SYN.with(Flags::ACK)
        };
        Some(self.segment(settings, sequence, 0, flags))
    }

    fn window_bytes(&self, settings: &Settings) -> u32 {
        settings
            .receive_buffer_bytes
            .saturating_sub(self.unread_bytes)
    }

    fn segment(
        &mut self,
        settings: &Settings,
        sequence: Sequence,
        length_bytes: u32,
        flags: Flags,
    ) -> Segment {
        self.acknowledge_now = false;
        self.acknowledge_by = None;
        self.advertised_window_bytes = self.window_bytes(settings);
        Segment {
            sequence,
            acknowledgment: self.receiver.next(),
            window_bytes: self.advertised_window_bytes,
            length_bytes: length_bytes as u16,
            flags,
        }
    }

    /// Processes a segment from the peer.
    pub fn on_segment(&mut self, settings: &Settings, segment: &Segment, now: Time) -> Reaction {
        let mut reaction = Reaction::default();
        match self.state {
            State::Closed => return reaction,
            State::SynSent => {
                self.on_syn_ack(settings, segment, now, &mut reaction);
                return reaction;
            }
            _ => {}
        }
        if segment.flags.has(Flags::SYN) {
            // The peer did not get the answer: send it again.
            if self.state == State::SynReceived {
                self.sender.nxt = self.sender.una;
            } else {
                self.acknowledge_now = true;
            }
            return reaction;
        }
        if segment.flags.has(Flags::ACK) {
            self.on_acknowledgment(settings, segment, now, &mut reaction);
            if self.state == State::SynReceived {
                return reaction;
            }
        }
        if segment.span() > 0 {
            self.on_payload(settings, segment, now, &mut reaction);
        }
        reaction
    }

    fn on_syn_ack(
        &mut self,
        settings: &Settings,
        segment: &Segment,
        now: Time,
        reaction: &mut Reaction,
    ) {
        let wanted = Flags::SYN.with(Flags::ACK);
        if !segment.flags.has(wanted) || segment.acknowledgment != self.sender.una + 1 {
            return;
        }
        self.sender.acknowledge(segment, settings, now);
        self.receiver.expect(segment.sequence + 1);
        self.state = State::Established;
        self.acknowledge_now = true;
        reaction.established = true;
    }

    fn on_acknowledgment(
        &mut self,
        settings: &Settings,
        segment: &Segment,
        now: Time,
        reaction: &mut Reaction,
    ) {
        let syn_unacknowledged = self.state == State::SynReceived;
        let una = self.sender.una;
        let acknowledged = self.sender.acknowledge(segment, settings, now);
        if syn_unacknowledged {
            if self.sender.una == una {
                return;
            }
            // The first number acknowledged was the SYN's, not payload.
            self.state = State::Established;
            reaction.established = true;
            return;
        }
        reaction.acknowledged_bytes = acknowledged;
        if self.sender.fin_is_acknowledged() {
            self.state = match self.state {
                State::FinWait1 => State::FinWait2,
                State::Closing => State::TimeWait,
                State::LastAck => State::Closed,
                other => other,
            };
        }
    }

    fn on_payload(
        &mut self,
        settings: &Settings,
        segment: &Segment,
        now: Time,
        reaction: &mut Reaction,
    ) {
        let start = segment.sequence;
        let length = u32::from(segment.length_bytes);
        if segment.flags.has(Flags::FIN) {
            self.peer_fin = Some(start + length);
        }
        let mut in_order = 0;
        if length > 0 && self.window_bytes(settings) > 0 {
            in_order = self.receiver.receive(start, start + length);
            self.unread_bytes += in_order;
            reaction.received_bytes = in_order;
        }
        if let Some(fin) = self.peer_fin
            && fin == self.receiver.next()
        {
            self.receiver.receive(fin, fin + 1);
            reaction.peer_finished = true;
            self.state = match self.state {
                State::Established => State::CloseWait,
                State::FinWait1 => State::Closing,
                State::FinWait2 => State::TimeWait,
                other => other,
            };
        }
        let waits = settings.delayed_ack
            && in_order == length
            && !reaction.peer_finished
            && !self.receiver.has_gap()
            && self.acknowledge_by.is_none();
        if waits {
            self.acknowledge_by = Some(now + settings.ack_delay);
        } else {
            self.acknowledge_now = true;
        }
    }

    #[cfg(test)]
    pub(crate) const fn sender(&self) -> &Sender {
        &self.sender
    }
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
