//! The clients. Their computation takes no simulated time. A client, also called a slot, has one
//! connection after another.
//!
//! A slot sends its session's requests one by one, and thinks before each. A client with a reading
//! rate reads a segment, acknowledges it, and waits the time of this segment. If it does not
//! acknowledge reads, it waits until its mean rate since the request has fallen to the reading rate,
//! as SPECweb99's clients do. The first read does not wait, so small responses are not delayed.

use perpacket_workload::{PlannedRequest, SessionRequests, Sessions};
use rand_core::RngCore;
use rand_pcg::Pcg64Mcg;

use crate::connection::{ConnectionId, ConnectionTable, TimedEndpoint};
use crate::context::{Content, Context, Event, Frame, SlotId};
use crate::host::selection::Future;
use crate::settings::Settings;
use crate::tcp::{self, Endpoint, Reaction, Sequence};
use crate::time::{Span, Time};
use crate::wire::Link;

/// One client.
#[derive(Clone, Default)]
struct Slot {
    connection: Option<ConnectionId>,
    session: SessionRequests<PlannedRequest>,
    /// The request being answered.
    next: usize,
    /// The number of the first request, and what is left of its response. Both are 0 and `None` if the
    /// client begins with a session's first request.
    first: usize,
    left_bytes: Option<u32>,
    issued: Time,
    /// When the response time of the request begins.
    timed_from: Time,
    response_bytes: u32,
    received_bytes: u32,
    read_bytes: u32,
    /// Whether an event is scheduled that reads more.
    reads_later: bool,
    /// When it can read the next segment, if it acknowledges what it reads.
    next_read: Time,
    /// Bytes of the response that have arrived, if it acknowledges what it reads.
    arrived_bytes: u32,
    /// Whether it has closed its connection and waits for the server's close.
    is_closing: bool,
}

impl Slot {
    /// The request being answered and all after it.
    fn rest(&self) -> impl Iterator<Item = PlannedRequest> {
        let whole = self.session[self.next..].iter().copied();
        let left = self.left_bytes.filter(|_| self.next == self.first);
        whole.enumerate().map(move |(index, request)| match left {
            Some(response_bytes) if index == 0 => PlannedRequest {
                response_bytes,
                ..request
            },
            _ => request,
        })
    }
}

/// The client's end of a connection.
struct ClientEnd {
    slot: SlotId,
    end: TimedEndpoint,
    /// When its last frame reaches the server.
    last_arrival: Time,
    is_done: bool,
}

pub struct Clients {
    slots: Vec<Slot>,
    ends: ConnectionTable<ClientEnd>,
    to_server: Link,
    /// The greatest additional delay of a frame. The frames of a connection stay in order.
    jitter: Span,
    /// `None` for the bulk sender, whose clients request nothing.
    source: Option<Sessions>,
    random: Pcg64Mcg,
    jitter_random: Pcg64Mcg,
    opened: u32,
    tcp: tcp::Settings,
    think_mean_ps: f64,
    /// Reading rate; 0 for no limit.
    read_rate_bps: u64,
    /// Whether a client with a reading rate acknowledges a segment when it reads it.
    acknowledges_reads: bool,
    /// Maximum number of bytes that one read returns. The client does not wait after the last read
    /// of a response.
    read_chunk_bytes: u32,
    /// Whether a slot opens its next connection only after its last connection has ended.
    waits_for_fin: bool,
    /// Whether the response time of a connection's first request includes the handshake.
    times_connections: bool,
    request_bytes: u32,
    header_bytes: u32,
    /// Bytes of a file that the server enqueues at a time.
    enqueue_bytes: u32,
}

impl Clients {
    /// `slots` clients with sessions from `source`. `random` decides what clients do, `jitter_random`
    /// the delays of their frames.
    pub fn new(
        settings: &Settings,
        slots: u32,
        source: Option<Sessions>,
        random: Pcg64Mcg,
        jitter_random: Pcg64Mcg,
        to_server: Link,
    ) -> Self {
        Self {
            slots: vec![Slot::default(); slots as usize],
            ends: ConnectionTable::default(),
            to_server,
            jitter: Span::from_us(settings.machine.network.jitter_us.into()),
            source,
            random,
            jitter_random,
            opened: 0,
            tcp: settings.tcp,
            think_mean_ps: Span::from_ms(settings.client.think_time_ms).0 as f64,
            read_rate_bps: settings.client.read_rate_bps,
            acknowledges_reads: settings.client.acknowledges_reads,
            read_chunk_bytes: settings.client.read_chunk_bytes,
            waits_for_fin: settings.client.waits_for_fin,
            times_connections: settings.client.times_connections,
            request_bytes: settings.server.request_bytes,
            header_bytes: settings.server.header_bytes,
            enqueue_bytes: settings.server.sendfile_enqueue_bytes,
        }
    }

    fn think_time(&mut self) -> Span {
        if self.think_mean_ps == 0.0 {
            return Span::ZERO;
        }
        // Inverts the exponential distribution. The logarithm is computed in software, so that
        // every machine has the same bits.
        Span((-libm::log(1.0 - uniform(&mut self.random)) * self.think_mean_ps) as u64)
    }

    /// Starts the next session of a slot.
    fn next_session(&mut self, slot: SlotId) {
        let is_first = self.opened < self.slots.len() as u32;
        self.opened = self.opened.wrapping_add(1);
        let Some(source) = &mut self.source else {
            return;
        };
        let client = &mut self.slots[slot.0 as usize];
        (client.first, client.next, client.left_bytes) = (0, 0, None);
        source.next_shared(&mut client.session);
        if is_first && self.read_rate_bps > 0 {
            self.begin_in_the_middle(slot);
        }
    }

    /// Begins in the middle of a response, as if the client had run for a long time. The longer a
    /// response, the more likely it is chosen.
    ///
    /// Large responses to clients with a reading rate last many seconds. If all clients began with
    /// a new response, the usual mix of small and large responses would appear only after that
    /// time.
    fn begin_in_the_middle(&mut self, slot: SlotId) {
        /// Number of requests among which one is chosen. The rarest SPECweb99 class is one request
        /// in a hundred.
        const CANDIDATES: usize = 256;
        let mut session = SessionRequests::default();
        let mut middle = None;
        let (mut seen, mut bytes_seen) = (0, 0.0);
        while seen < CANDIDATES {
            let Some(source) = &mut self.source else {
                return;
            };
            source.next_shared(&mut session);
            seen += session.len();
            for (index, request) in session.iter().enumerate() {
                let bytes = f64::from(request.response_bytes.max(1));
                bytes_seen += bytes;
                if uniform(&mut self.random) * bytes_seen < bytes {
                    middle = Some((session.clone(), index));
                }
            }
        }
        let left = uniform(&mut self.random);
        if let Some((session, first)) = middle {
            let bytes = f64::from(session[first].response_bytes) * left;
            let client = &mut self.slots[slot.0 as usize];
            (client.first, client.next) = (first, first);
            client.left_bytes = Some(bytes as u32);
            client.session = session;
        }
    }

    /// Schedules the start of every client, spread evenly over `spread`.
    pub fn start(&self, spread: Span, context: &mut Context) {
        let slots = self.slots.len() as u64;
        for slot in 0..slots {
            let delay = Span(spread.0 / slots * slot);
            context.after(delay, Event::ClientReady(SlotId(slot as u32)));
        }
    }

    /// The client sends its next request or, after its session, closes its connection and opens
    /// the next.
    pub fn ready(&mut self, slot: SlotId, context: &mut Context) {
        let client = &self.slots[slot.0 as usize];
        let Some(id) = client.connection else {
            return self.open(slot, context);
        };
        if client.next < client.session.len() {
            self.request(id, context);
        } else {
            self.ends[id].end.tcp.close();
            self.transmit(id, context);
            if self.waits_for_fin {
                self.slots[slot.0 as usize].is_closing = true;
            } else {
                self.open(slot, context);
            }
        }
    }

    fn open(&mut self, slot: SlotId, context: &mut Context) {
        self.next_session(slot);
        // Initial sequence numbers differ, so that the numbers of some connections wrap around.
        let initial = Sequence(self.opened.wrapping_mul(0x9E37_79B1));
        let end = TimedEndpoint::new(Endpoint::connect(&self.tcp, initial));
        let id = context.connections.open();
        let client_end = ClientEnd {
            slot,
            end,
            last_arrival: Time::ZERO,
            is_done: false,
        };
        self.ends.insert(id, client_end);
        let client = &mut self.slots[slot.0 as usize];
        client.connection = Some(id);
        client.timed_from = context.now;
        let content = Content {
            request: None,
            future: Future::of_session(client.rest(), self.enqueue_bytes),
        };
        context.content.insert(id, content);
        self.transmit(id, context);
    }

    fn request(&mut self, id: ConnectionId, context: &mut Context) {
        let ClientEnd { slot, end, .. } = &mut self.ends[id];
        let client = &mut self.slots[slot.0 as usize];
        let Some(request) = client.rest().next() else {
            return;
        };
        client.response_bytes = self.header_bytes.saturating_add(request.response_bytes);
        client.received_bytes = 0;
        client.read_bytes = 0;
        client.arrived_bytes = 0;
        client.next_read = context.now;
        client.issued = context.now;
        if client.next > client.first || !self.times_connections {
            client.timed_from = context.now;
        }
        context.content[id].request = Some(request);
        // By now the client has read the last response to its end.
        end.tcp.read(&self.tcp, end.tcp.unread_bytes());
        end.tcp.enqueue(self.request_bytes, false);
        self.transmit(id, context);
    }

    /// Sends all segments that TCP allows.
    fn transmit(&mut self, id: ConnectionId, context: &mut Context) {
        let ClientEnd {
            end, last_arrival, ..
        } = &mut self.ends[id];
        while let Some(segment) = end.tcp.transmit(&self.tcp, context.now) {
            let mut arrival = self.to_server.send(&segment, context.now);
            if self.jitter > Span::ZERO {
                let share = uniform(&mut self.jitter_random);
                let delay = Span((share * self.jitter.0 as f64) as u64);
                arrival = (arrival + delay).max(*last_arrival);
                *last_arrival = arrival;
            }
            context.measure.frames.to_server.sent += 1;
            let frame = Frame {
                connection: id,
                segment,
            };
            context.at(arrival, Event::AtNic(frame));
        }
        context.measure.retransmissions += u64::from(end.tcp.take_retransmissions());
        end.arm(Event::ClientTimer(id), context);
    }

    /// A frame reaches the client. A client that acknowledges what it reads waits the time of each
    /// segment before it reads the next, but not until `read_chunk_bytes` of the response have
    /// arrived.
    pub fn arrive(&mut self, frame: Frame, context: &mut Context) {
        if self.read_rate_bps == 0 || !self.acknowledges_reads {
            return self.receive(frame, context);
        }
        let bytes = u32::from(frame.segment.length_bytes);
        let slot = self.ends[frame.connection].slot;
        let client = &mut self.slots[slot.0 as usize];
        let time = client.next_read.max(context.now);
        client.next_read = time;
        client.arrived_bytes += bytes;
        if client.arrived_bytes >= self.read_chunk_bytes {
            client.next_read = time + Span::of_bytes(u64::from(bytes), self.read_rate_bps);
        }
        if time > context.now {
            context.at(time, Event::ClientReadsFrame(frame));
        } else {
            self.receive(frame, context);
        }
    }

    /// The client's TCP processes a frame.
    pub fn receive(&mut self, frame: Frame, context: &mut Context) {
        let id = frame.connection;
        context.measure.frames.to_client.delivered += 1;
        let ClientEnd { end, is_done, .. } = &mut self.ends[id];
        let tcp = &mut end.tcp;
        let reaction = tcp.on_segment(&self.tcp, &frame.segment, context.now);
        if tcp.is_over() && !std::mem::replace(is_done, true) {
            context.connections.end_is_done(id);
        }
        if self.source.is_some() {
            self.react(id, reaction, context);
        } else {
            tcp.read(&self.tcp, reaction.received_bytes);
            context.measure.content_bytes += u64::from(reaction.received_bytes);
        }
        self.transmit(id, context);
        self.schedule_reading(id, context);
    }

    fn react(&mut self, id: ConnectionId, reaction: Reaction, context: &mut Context) {
        if reaction.established {
            // The kernel completes the handshake before the client writes.
            self.transmit(id, context);
            self.request(id, context);
        }
        let slot = self.ends[id].slot;
        let client = &mut self.slots[slot.0 as usize];
        if reaction.peer_finished
            && client.connection == Some(id)
            && std::mem::take(&mut client.is_closing)
        {
            client.connection = None;
            context.after(Span::ZERO, Event::ClientReady(slot));
        }
        if reaction.received_bytes == 0 {
            return;
        }
        let client = &mut self.slots[slot.0 as usize];
        let content_before = client.received_bytes.saturating_sub(self.header_bytes);
        client.received_bytes += reaction.received_bytes;
        let content = client.received_bytes.saturating_sub(self.header_bytes) - content_before;
        context.measure.content_bytes += u64::from(content);
        self.read_allowed(id, context.now);
        let client = &self.slots[slot.0 as usize];
        if client.received_bytes >= client.response_bytes {
            let paced_bytes = client.response_bytes.saturating_sub(self.read_chunk_bytes);
            let done = client.issued + self.paced(paced_bytes);
            self.response_received(slot, done.max(context.now), context);
        }
    }

    /// The reading rate that the receive window imposes on the server; 0 for none.
    const fn window_rate_bps(&self) -> u64 {
        if self.acknowledges_reads {
            0
        } else {
            self.read_rate_bps
        }
    }

    /// The shortest time in which a client with a reading rate reads `bytes`.
    fn paced(&self, bytes: u32) -> Span {
        match self.window_rate_bps() {
            0 => Span::ZERO,
            rate => Span::of_bytes(u64::from(bytes), rate),
        }
    }

    /// Reads what the reading rate allows: the first segment at once.
    fn read_allowed(&mut self, id: ConnectionId, now: Time) {
        let rate_bps = self.window_rate_bps();
        let ClientEnd { slot, end, .. } = &mut self.ends[id];
        let client = &mut self.slots[slot.0 as usize];
        let allowed = if rate_bps == 0 {
            u32::MAX
        } else {
            let elapsed_ns = u128::from(now.since(client.issued).as_ns());
            let bits = elapsed_ns * u128::from(rate_bps) / 1_000_000_000;
            let chunk = self.read_chunk_bytes.max(self.tcp.mss_bytes);
            chunk.saturating_add((bits / 8) as u32)
        };
        let bytes = client
            .received_bytes
            .min(allowed)
            .saturating_sub(client.read_bytes);
        client.read_bytes += bytes;
        end.tcp.read(&self.tcp, bytes);
    }

    /// If the window of a client with a reading rate is nearly shut, the client reads segments
    /// until it has reported an open window to the server.
    fn schedule_reading(&mut self, id: ConnectionId, context: &mut Context) {
        if self.window_rate_bps() == 0 {
            return;
        }
        let ClientEnd { slot, end, .. } = &self.ends[id];
        let client = &self.slots[slot.0 as usize];
        let is_shut = end.tcp.advertised_window_bytes() < 2 * self.tcp.mss_bytes;
        let more_comes = client.received_bytes < client.response_bytes;
        let has_unread = client.read_bytes < client.received_bytes;
        let is_current = client.connection == Some(id);
        if client.reads_later || !(is_shut && more_comes && has_unread && is_current) {
            return;
        }
        let time = client.issued + self.paced(client.read_bytes);
        self.slots[slot.0 as usize].reads_later = true;
        context.at(time, Event::ClientReads(id));
    }

    /// A client with a reading rate may read more.
    pub fn read_more(&mut self, id: ConnectionId, context: &mut Context) {
        let client = &mut self.slots[self.ends[id].slot.0 as usize];
        client.reads_later = false;
        if client.connection == Some(id) {
            self.read_allowed(id, context.now);
            self.transmit(id, context);
            self.schedule_reading(id, context);
        }
    }

    fn response_received(&mut self, slot: SlotId, done: Time, context: &mut Context) {
        let client = &mut self.slots[slot.0 as usize];
        context.measure.response(done.since(client.timed_from));
        client.next += 1;
        client.next_read = done;
        let think = self.think_time();
        context.at(done + think, Event::ClientReady(slot));
    }

    /// A TCP timer of a client's end.
    pub fn timer(&mut self, id: ConnectionId, context: &mut Context) {
        let end = &mut self.ends[id].end;
        if end.is_due(context.now) {
            let timed_out = end.tcp.on_timer(&self.tcp, context.now);
            context.measure.timeouts += u64::from(timed_out);
            self.transmit(id, context);
        } else {
            end.arm(Event::ClientTimer(id), context);
        }
    }
}

/// From 0 up to but not including 1.
fn uniform(random: &mut Pcg64Mcg) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}
