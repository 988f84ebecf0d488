//! The clients: functional, infinitely fast, each a slot that holds one connection after another.
//!
//! A slot asks for its session's requests one by one, and thinks before each. Clients with a
//! reading rate take at most a segment's worth ahead of that rate, so that a response takes its
//! size over the rate, as SPECweb99's do.

use perpacket_workload::{PlannedRequest, SessionSource, Sessions};
use rand_core::RngCore;
use rand_pcg::Pcg64Mcg;

use crate::tcp::{Reaction, Sequence};
use crate::time::{Span, Time};
use crate::world::{Event, Frame, World};

const NO_CONNECTION: u32 = u32::MAX;

/// One client.
pub struct Slot {
    connection: u32,
    pub requests: Vec<PlannedRequest>,
    /// The request being asked.
    pub next: usize,
    issued: Time,
    response_bytes: u32,
    received_bytes: u32,
    read_bytes: u32,
    /// An event will go on reading.
    reads_later: bool,
}

/// All clients.
pub struct Clients {
    pub slots: Vec<Slot>,
    /// None for the bulk sender, whose clients ask for nothing.
    source: Option<Sessions>,
    random: Pcg64Mcg,
    think_mean_ps: f64,
    /// They read at a set rate.
    is_paced: bool,
    opened: u32,
}

impl Clients {
    /// `slots` clients that take their sessions from `source`.
    pub fn new(
        slots: u32,
        source: Option<Sessions>,
        random: Pcg64Mcg,
        think_mean: Span,
        is_paced: bool,
    ) -> Self {
        let slot = || Slot {
            connection: NO_CONNECTION,
            requests: Vec::new(),
            next: 0,
            issued: Time::ZERO,
            response_bytes: 0,
            received_bytes: 0,
            read_bytes: 0,
            reads_later: false,
        };
        Self {
            slots: (0..slots).map(|_| slot()).collect(),
            source,
            random,
            think_mean_ps: think_mean.0 as f64,
            is_paced,
            opened: 0,
        }
    }

    fn think_time(&mut self) -> Span {
        if self.think_mean_ps == 0.0 {
            return Span::ZERO;
        }
        // Inversion with a logarithm in software: the same bits on every machine.
        Span((-libm::log(1.0 - uniform(&mut self.random)) * self.think_mean_ps) as u64)
    }

    /// The next session of a slot.
    fn next_session(&mut self, slot: u32) {
        let is_first = self.opened < self.slots.len() as u32;
        self.opened = self.opened.wrapping_add(1);
        let Some(source) = &mut self.source else {
            return;
        };
        let client = &mut self.slots[slot as usize];
        client.next = 0;
        source.next_session(&mut client.requests);
        if is_first && self.is_paced {
            self.begin_in_the_middle(slot);
        }
    }

    /// Begins as if the client had been at it for long: with a response chosen by the time it
    /// takes, of which a part is left.
    ///
    /// Large responses take paced clients many seconds. Were all to begin with a fresh one, it
    /// would take as long until the mix of small and large ones under way is the usual one.
    fn begin_in_the_middle(&mut self, slot: u32) {
        /// Requests among which one is chosen; the rarest SPECweb99 class is one in a hundred.
        const CANDIDATES: usize = 256;
        let mut session = Vec::new();
        let mut chosen = Vec::new();
        let (mut seen, mut bytes_seen) = (0, 0.0);
        while seen < CANDIDATES {
            let Some(source) = &mut self.source else {
                return;
            };
            source.next_session(&mut session);
            seen += session.len();
            for (index, request) in session.iter().enumerate() {
                let bytes = f64::from(request.response_bytes.max(1));
                bytes_seen += bytes;
                if uniform(&mut self.random) * bytes_seen < bytes {
                    chosen.clear();
                    chosen.extend_from_slice(&session[index..]);
                }
            }
        }
        let left = uniform(&mut self.random);
        if let Some(first) = chosen.first_mut() {
            first.response_bytes = (f64::from(first.response_bytes) * left) as u32;
            self.slots[slot as usize].requests = chosen;
        }
    }
}

/// From 0 up to but not including 1.
fn uniform(random: &mut Pcg64Mcg) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

impl World {
    /// Lets every client begin, spread evenly over `spread`.
    pub fn start_clients(&mut self, spread: Span) {
        let slots = self.clients.slots.len() as u64;
        for slot in 0..slots {
            let delay = Span(spread.0 / slots * slot);
            self.after(delay, Event::ClientReady(slot as u32));
        }
    }

    /// The client has thought: it sends its next request or, its session over, closes its
    /// connection and opens the next.
    pub fn client_ready(&mut self, slot: u32) {
        let client = &mut self.clients.slots[slot as usize];
        let connection = client.connection;
        if connection == NO_CONNECTION {
            return self.client_opens(slot);
        }
        if client.next < client.requests.len() {
            self.client_asks(connection);
        } else {
            self.connections[connection].client.close();
            self.client_transmits(connection);
            self.client_opens(slot);
        }
        self.release(connection);
    }

    fn client_opens(&mut self, slot: u32) {
        self.clients.next_session(slot);
        let clients = &mut self.clients;
        // Initial sequence numbers differ, so that some connections pass the wrap.
        let initial = Sequence(clients.opened.wrapping_mul(0x9E37_79B1));
        let connection = self.connections.open(&self.settings.tcp, slot, initial);
        clients.slots[slot as usize].connection = connection;
        self.hold(connection);
        self.client_transmits(connection);
        self.release(connection);
    }

    fn client_asks(&mut self, number: u32) {
        let header_bytes = self.settings.server.header_bytes;
        let connection = &mut self.connections[number];
        let client = &mut self.clients.slots[connection.slot as usize];
        client.response_bytes =
            header_bytes.saturating_add(client.requests[client.next].response_bytes);
        client.received_bytes = 0;
        client.read_bytes = 0;
        client.issued = self.now;
        // By now the client has read the last response to its end.
        let unread = connection.client.unread_bytes();
        connection.client.read(&self.settings.tcp, unread);
        connection
            .client
            .enqueue(self.settings.server.request_bytes, false);
        self.client_transmits(number);
    }

    /// Sends all that the client's end may send.
    fn client_transmits(&mut self, number: u32) {
        let connection = &mut self.connections[number];
        while let Some(segment) = connection.client.transmit(&self.settings.tcp, self.now) {
            let arrival = self.to_server.send(&segment, self.now);
            connection.references += 1;
            self.measure.frames.to_server.sent += 1;
            let frame = Frame {
                connection: number,
                segment,
            };
            self.events.push(arrival, Event::AtNic(frame));
        }
        self.measure.retransmissions += u64::from(connection.client.take_retransmissions());
        self.arm_client(number);
    }

    /// A frame reaches the client.
    pub fn frame_at_client(&mut self, frame: Frame) {
        let number = frame.connection;
        self.measure.frames.to_client.delivered += 1;
        let connection = &mut self.connections[number];
        let reaction = connection
            .client
            .on_segment(&self.settings.tcp, &frame.segment, self.now);
        if self.clients.source.is_some() {
            self.client_reacts(number, reaction);
        } else {
            connection
                .client
                .read(&self.settings.tcp, reaction.received_bytes);
            self.measure.content_bytes += u64::from(reaction.received_bytes);
        }
        self.client_transmits(number);
        self.client_will_read(number);
        self.release(number);
    }

    fn client_reacts(&mut self, number: u32, reaction: Reaction) {
        if reaction.established {
            // The kernel answers the handshake before the client has a chance to write.
            self.client_transmits(number);
            self.client_asks(number);
        }
        if reaction.received_bytes == 0 {
            return;
        }
        let header_bytes = self.settings.server.header_bytes;
        let slot = self.connections[number].slot;
        let client = &mut self.clients.slots[slot as usize];
        let content_before = client.received_bytes.saturating_sub(header_bytes);
        client.received_bytes += reaction.received_bytes;
        let content = client.received_bytes.saturating_sub(header_bytes) - content_before;
        self.measure.content_bytes += u64::from(content);
        self.client_takes(number);
        let client = &self.clients.slots[slot as usize];
        if client.received_bytes >= client.response_bytes {
            let done = client.issued + self.paced(client.response_bytes);
            self.response_received(number, done.max(self.now));
        }
    }

    /// The least time in which a client at its reading rate takes `bytes`.
    fn paced(&self, bytes: u32) -> Span {
        match self.settings.client.read_rate_bps {
            0 => Span::ZERO,
            rate => Span::of_bytes(u64::from(bytes), rate),
        }
    }

    /// The client reads what its rate allows: the first segment at once.
    fn client_takes(&mut self, number: u32) {
        let (now, tcp) = (self.now, self.settings.tcp);
        let rate = self.settings.client.read_rate_bps;
        let connection = &mut self.connections[number];
        let client = &mut self.clients.slots[connection.slot as usize];
        let allowed = if rate == 0 {
            u32::MAX
        } else {
            let bits = now.since(client.issued).as_ns() as u128 * u128::from(rate) / 1_000_000_000;
            tcp.mss_bytes.saturating_add((bits / 8) as u32)
        };
        let bytes = client
            .received_bytes
            .min(allowed)
            .saturating_sub(client.read_bytes);
        client.read_bytes += bytes;
        connection.client.read(&tcp, bytes);
    }

    /// A paced client whose window is nearly shut goes on reading, a segment at a time, until it
    /// has told the server of new room.
    fn client_will_read(&mut self, number: u32) {
        let mss_bytes = self.settings.tcp.mss_bytes;
        let connection = &self.connections[number];
        let client = &self.clients.slots[connection.slot as usize];
        let is_shut = connection.client.advertised_window_bytes() < 2 * mss_bytes;
        let more_comes = client.received_bytes < client.response_bytes;
        let has_unread = client.read_bytes < client.received_bytes;
        let is_current = client.connection == number;
        if self.settings.client.read_rate_bps == 0
            || client.reads_later
            || !(is_shut && more_comes && has_unread && is_current)
        {
            return;
        }
        let time = client.issued + self.paced(client.read_bytes);
        self.clients.slots[self.connections[number].slot as usize].reads_later = true;
        self.hold(number);
        self.at(time, Event::ClientReads(number));
    }

    /// A paced client's reading has made room.
    pub fn client_reads(&mut self, number: u32) {
        let slot = self.connections[number].slot;
        self.clients.slots[slot as usize].reads_later = false;
        if self.clients.slots[slot as usize].connection == number {
            self.client_takes(number);
            self.client_transmits(number);
            self.client_will_read(number);
        }
        self.release(number);
    }

    fn response_received(&mut self, number: u32, done: Time) {
        let slot = self.connections[number].slot;
        let client = &mut self.clients.slots[slot as usize];
        self.measure.response(done.since(client.issued));
        client.next += 1;
        self.hold(number);
        let think = self.clients.think_time();
        self.at(done + think, Event::ClientReady(slot));
    }

    /// A TCP timer of a client's end.
    pub fn client_timer(&mut self, number: u32) {
        let connection = &mut self.connections[number];
        let deadline = connection.client.timer();
        if Self::is_due(&mut connection.client_timer, deadline, self.now) {
            let timed_out = connection.client.on_timer(&self.settings.tcp, self.now);
            self.measure.timeouts += u64::from(timed_out);
            self.client_transmits(number);
        } else {
            self.arm_client(number);
        }
        self.release(number);
    }
}
