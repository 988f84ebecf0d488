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
}

/// All clients.
pub struct Clients {
    pub slots: Vec<Slot>,
    /// None for the bulk sender, whose clients ask for nothing.
    source: Option<Sessions>,
    think: Pcg64Mcg,
    think_mean_ps: f64,
    opened: u32,
}

impl Clients {
    /// `slots` clients that take their sessions from `source`.
    pub fn new(slots: u32, source: Option<Sessions>, think: Pcg64Mcg, think_mean: Span) -> Self {
        let slot = || Slot {
            connection: NO_CONNECTION,
            requests: Vec::new(),
            next: 0,
            issued: Time::ZERO,
            response_bytes: 0,
            received_bytes: 0,
            read_bytes: 0,
        };
        Self {
            slots: (0..slots).map(|_| slot()).collect(),
            source,
            think,
            think_mean_ps: think_mean.0 as f64,
            opened: 0,
        }
    }

    fn think_time(&mut self) -> Span {
        if self.think_mean_ps == 0.0 {
            return Span::ZERO;
        }
        // Inversion with a logarithm in software: the same bits on every machine.
        let uniform = (self.think.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        Span((-libm::log(1.0 - uniform) * self.think_mean_ps) as u64)
    }
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
        let clients = &mut self.clients;
        clients.opened = clients.opened.wrapping_add(1);
        // Initial sequence numbers differ, so that some connections pass the wrap.
        let initial = Sequence(clients.opened.wrapping_mul(0x9E37_79B1));
        let client = &mut clients.slots[slot as usize];
        if let Some(source) = &mut clients.source {
            source.next_session(&mut client.requests);
            client.next = 0;
        }
        let connection = self.connections.open(&self.settings.tcp, slot, initial);
        client.connection = connection;
        self.hold(connection);
        self.client_transmits(connection);
        self.release(connection);
    }

    fn client_asks(&mut self, number: u32) {
        let header_bytes = self.settings.server.header_bytes;
        let connection = &mut self.connections[number];
        let client = &mut self.clients.slots[connection.slot as usize];
        client.response_bytes = header_bytes + client.requests[client.next].response_bytes;
        client.received_bytes = 0;
        client.read_bytes = 0;
        client.issued = self.now;
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
            connection.client.read(&self.settings.tcp, reaction.received_bytes);
            self.measure.content_bytes += u64::from(reaction.received_bytes);
        }
        self.client_transmits(number);
        self.release(number);
    }

    fn client_reacts(&mut self, number: u32, reaction: Reaction) {
        if reaction.established {
            self.client_asks(number);
        }
        if reaction.received_bytes == 0 {
            return;
        }
        let slot = self.connections[number].slot;
        self.clients.slots[slot as usize].received_bytes += reaction.received_bytes;
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

    /// The client reads what its rate allows; if that leaves the window nearly shut, it will read
    /// on later.
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
        let unread = client.received_bytes - client.read_bytes;
        let more_comes = client.received_bytes < client.response_bytes;
        if more_comes && unread + 2 * tcp.mss_bytes > tcp.receive_buffer_bytes {
            // The first segment is read at once.
            let wanted = client.read_bytes + tcp.mss_bytes;
            let time = client.issued + self.paced(wanted);
            self.hold(number);
            self.at(time, Event::ClientReads(number));
        }
    }

    /// A paced client's reading has made room.
    pub fn client_reads(&mut self, number: u32) {
        let connection = &self.connections[number];
        if self.clients.slots[connection.slot as usize].connection == number {
            self.client_takes(number);
            self.client_transmits(number);
        }
        self.release(number);
    }

    fn response_received(&mut self, number: u32, done: Time) {
        let slot = self.connections[number].slot;
        let client = &mut self.clients.slots[slot as usize];
        let content = client.requests[client.next].response_bytes;
        self.measure.response(done.since(client.issued), content);
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
