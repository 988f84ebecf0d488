//! The event loop: connections, RTCP reports, events of other threads, and timers.
//!
//! The loop checks the timers after at most [`EVENTS`] events, so many requests do not delay
//! streams that play. Connections are edge-triggered and read until they are empty, unless a request
//! waits for its medium.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::wire::rtcp::{self, Packet};
use crate::wire::rtsp::{Limits, MessageOrFrame, Request, Status, parse_next};
use perpacket_linux::clock::{monotonic_ns, realtime_ns};
use perpacket_linux::descriptors;
use perpacket_linux::epoll::{EDGES, Epoll, EventFlags};
use perpacket_timers::TimerWheel;

use socket2::SockAddr;

use super::counters::count;
use super::mailbox::{Event, Mailbox};
use super::outgoing::Outgoing;
use super::protocol::Reply;
use super::session::{Connection, Sender, State};
use super::sockets::{datagrams, listen, port_pair};
use super::stream::SendBuffers;
use super::{Error, Shared};
use perpacket_linux::mailbox::lock;

/// The number of descriptors that connections may have of this many. The others are for files.
const fn for_connections(descriptors: u64) -> u64 {
    const LEAST_FOR_FILES: u64 = 4;
    let for_files = descriptors / 50;
    let for_files = if for_files < LEAST_FOR_FILES {
        LEAST_FOR_FILES
    } else {
        for_files
    };
    descriptors.saturating_sub(for_files)
}

/// Tokens of descriptors that are not connections.
const LISTENER: u64 = u64::MAX;
const REPORTS: u64 = u64::MAX - 1;
const MAILBOX: u64 = u64::MAX - 2;

/// The maximum number of events between two checks of the timers.
const EVENTS: usize = 64;

/// The maximum number of connections accepted between two checks of the timers.
const ACCEPTS: usize = 32;

/// The maximum number of bytes read from a connection between two checks of the timers.
const READ_BYTES: usize = 64 * 1024;

/// Number of connections that the server accepts above the limit of sessions. They receive a
/// response with status 453.
const SPARE_CONNECTIONS: u64 = 4096;

/// Above this rate of packets a second, the loop sleeps at least [`MIN_SLEEP_NS`], so that one
/// wake-up serves several streams. Players do not notice a lateness of a quarter of a millisecond.
const MIN_SLEEP_FROM_RATE: f64 = 4_000.0;
const MIN_SLEEP_NS: u64 = 250_000;

/// The connections are divided into this many parts. Every [`CHECK_PART_NS`], the loop checks one
/// part for time-outs and due reports, so it checks each connection once a second.
const CHECK_PARTS: u64 = 16;
const CHECK_PART_NS: u64 = 1_000_000_000 / CHECK_PARTS;

/// Receive buffer of a stream's RTP socket, which the server never reads.
const UNREAD_BYTES: usize = 2048;

/// An event loop and everything it owns.
pub(super) struct EventLoop {
    pub(super) shared: Arc<Shared>,
    pub(super) mailbox: Arc<Mailbox>,
    /// The time of each stream's next send. A timer has the number of its connection.
    pub(super) timers: TimerWheel,
    pub(super) buffers: SendBuffers,
    /// The RTCP socket, on the port after [`Self::rtp_port`].
    pub(super) reports: UdpSocket,
    pub(super) rtp_port: u16,
    /// Packets a second of the playing streams.
    pub(super) packet_rate: f64,
    pub(super) runs: u64,
    pub(super) sources: HashMap<u32, u64>,
    poll: Epoll,
    listener: TcpListener,
    address: SocketAddr,
    /// The socket that reserves the RTP port. It also sends for streams without a socket of their
    /// own.
    rtp: Arc<UdpSocket>,
    /// While descriptor numbers are below this, a stream gets a socket of its own.
    descriptors_own: u64,
    /// While descriptor numbers are below this, connections are accepted.
    descriptors_all: u64,
    connections: Vec<Slot>,
    free: Vec<usize>,
    checked_parts: u64,
    next_check_ns: u64,
}

/// A slot for a connection. The generation distinguishes connections that use the same slot.
#[derive(Default)]
struct Slot {
    generation: u32,
    connection: Option<Box<Connection>>,
}

impl EventLoop {
    /// An event loop that listens on an address. Several loops can share the address.
    pub(super) fn new(shared: Arc<Shared>, address: SocketAddr) -> Result<Self, Error> {
        let listener = listen(address).map_err(|error| Error::Listen { address, error })?;
        let address = listener.local_addr()?;
        let (rtp, reports) = port_pair(address.ip())?;
        let rtp_port = rtp.local_addr()?.port();
        let poll = Epoll::new()?;
        let mailbox = Arc::new(Mailbox::new()?);
        poll.add(&listener, LISTENER, EventFlags::IN)?;
        poll.add(&reports, REPORTS, EventFlags::IN)?;
        poll.add(mailbox.descriptor(), MAILBOX, EventFlags::IN)?;
        let now_ns = monotonic_ns();
        let descriptors = descriptors::limit();
        Ok(Self {
            shared,
            mailbox,
            timers: TimerWheel::new(now_ns, 0),
            buffers: SendBuffers::default(),
            reports,
            rtp_port,
            packet_rate: 0.0,
            runs: 0,
            sources: HashMap::new(),
            poll,
            listener,
            address,
            rtp: Arc::new(rtp),
            // Above half of the limit, streams share one socket, so twice as many streams fit.
            descriptors_own: descriptors / 2,
            descriptors_all: for_connections(descriptors),
            connections: Vec::new(),
            free: Vec::new(),
            checked_parts: 0,
            next_check_ns: now_ns + CHECK_PART_NS,
        })
    }

    /// The address for RTSP, with the actual port.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn mailbox(&self) -> Arc<Mailbox> {
        Arc::clone(&self.mailbox)
    }

    /// Runs until the server stops.
    pub(super) fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS);
        let mut due = Vec::new();
        while !self.shared.stopped.load(Relaxed) {
            let now = monotonic_ns();
            let until_check = self.next_check_ns.saturating_sub(now);
            let until_due = match self.timers.next_ns() {
                Some(due_ns) => due_ns.saturating_sub(now),
                None => u64::MAX,
            };
            let wait = until_due.max(self.min_sleep_ns()).min(until_check);
            events.clear();
            // An error has no events.
            let _ = self
                .poll
                .wait(&mut events, Some(Duration::from_nanos(wait)));
            for event in &events {
                let (token, flags) = (event.data.u64(), event.flags);
                match token {
                    LISTENER => self.accept(),
                    REPORTS => self.read_reports(),
                    MAILBOX => self.read_mailbox(),
                    token => self.serve(token, flags),
                }
            }
            let now = monotonic_ns();
            due.clear();
            self.timers.expire(now, &mut due);
            for &index in &due {
                let generation = self.connections[index as usize].generation;
                self.pace(u64::from(generation) << 32 | u64::from(index));
            }
            if now >= self.next_check_ns {
                self.check_connections(now);
            }
        }
        for index in 0..self.connections.len() {
            if let Some(connection) = self.connections[index].connection.take() {
                self.close(connection);
            }
        }
    }

    /// The shortest sleep.
    fn min_sleep_ns(&self) -> u64 {
        if self.packet_rate > MIN_SLEEP_FROM_RATE {
            MIN_SLEEP_NS
        } else {
            0
        }
    }

    /// Removes a connection from its slot, so that its handler can also change the loop.
    pub(super) fn remove(&mut self, token: u64) -> Option<Box<Connection>> {
        let slot = self.connections.get_mut(token as u32 as usize)?;
        if u64::from(slot.generation) != token >> 32 {
            return None;
        }
        slot.connection.take()
    }

    /// Puts a connection back into its slot.
    pub(super) fn put_back(&mut self, token: u64, connection: Box<Connection>) {
        self.connections[token as u32 as usize].connection = Some(connection);
    }

    /// Closes a connection that [`Self::remove`] removed.
    pub(super) fn discard(&mut self, token: u64, connection: Box<Connection>) {
        let index = token as u32 as usize;
        self.timers.cancel(token as u32);
        self.connections[index].generation += 1;
        self.free.push(index);
        self.close(connection);
    }

    fn close(&mut self, mut connection: Box<Connection>) {
        self.end_session(&mut connection);
        self.shared.counters.connections_open.fetch_sub(1, Relaxed);
    }

    fn accept(&mut self) {
        let counters = Arc::clone(&self.shared.counters);
        let limit = self
            .shared
            .spec
            .max_sessions
            .saturating_add(SPARE_CONNECTIONS);
        for _ in 0..ACCEPTS {
            let (socket, peer) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The peer has closed, or no descriptor is free. The loop tries again after the
                // timers.
                Err(_) => return count(&counters.connections_refused),
            };
            // The descriptors above `descriptors_all` are for files.
            let is_full = counters.connections_open.load(Relaxed) >= limit;
            if is_full || socket.as_raw_fd() as u64 > self.descriptors_all {
                count(&counters.connections_refused);
                continue;
            }
            if self.admit(socket, peer).is_err() {
                count(&counters.connections_refused);
            }
        }
    }

    fn admit(&mut self, socket: TcpStream, peer: SocketAddr) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let local = socket.local_addr()?;
        let socket = Arc::new(socket);
        let index = self.free.pop().unwrap_or_else(|| {
            self.connections.push(Slot::default());
            self.connections.len() - 1
        });
        let slot = &mut self.connections[index];
        let token = u64::from(slot.generation) << 32 | index as u64;
        slot.connection = Some(Box::new(Connection {
            outgoing: Arc::new(Mutex::new(Outgoing::new(Arc::clone(&socket)))),
            socket: Arc::clone(&socket),
            peer,
            local,
            incoming: Vec::new(),
            waiting: None,
            described: None,
            session: None,
            last_message_ns: monotonic_ns(),
        }));
        if let Err(error) = self.poll.add(&*socket, token, EDGES) {
            self.connections[index].connection = None;
            self.free.push(index);
            return Err(error);
        }
        count(&self.shared.counters.connections);
        count(&self.shared.counters.connections_open);
        Ok(())
    }

    /// Reads, handles and writes what is possible without waiting.
    fn serve(&mut self, token: u64, flags: EventFlags) {
        let Some(mut connection) = self.remove(token) else {
            return;
        };
        let is_broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        let is_open = !is_broken && self.read(token, &mut connection);
        if is_open && lock(&connection.outgoing).flush().is_ok() {
            self.put_back(token, connection);
        } else {
            self.discard(token, connection);
        }
    }

    /// Reads and handles input. Returns false when the connection is closed.
    fn read(&mut self, token: u64, connection: &mut Connection) -> bool {
        let mut read_bytes = 0;
        loop {
            if !self.handle_input(token, connection) {
                return false;
            }
            if connection.waiting.is_some() {
                return true;
            }
            if read_bytes >= READ_BYTES {
                // Let other connections run first. Edge-triggered polling would not report this
                // connection again.
                self.mailbox.post(Event::ReadAgain { token });
                return true;
            }
            let mut buffer = [0; 4096];
            match (&*connection.socket).read(&mut buffer) {
                Ok(0) => return false,
                Ok(bytes) => {
                    read_bytes += bytes;
                    connection.incoming.extend_from_slice(&buffer[..bytes]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }

    /// Handles all complete requests and frames. Returns false after malformed input.
    fn handle_input(&mut self, token: u64, connection: &mut Connection) -> bool {
        let mut used = 0;
        let mut is_valid = true;
        while is_valid && connection.waiting.is_none() {
            let element = match parse_next(&connection.incoming[used..], Limits::default()) {
                Ok(Some((element, bytes))) => {
                    used += bytes;
                    element
                }
                Ok(None) => break,
                Err(_) => {
                    is_valid = self.refuse_malformed(connection);
                    break;
                }
            };
            connection.last_message_ns = monotonic_ns();
            match element {
                MessageOrFrame::Frame(frame) => {
                    let start = used - (frame.data.end);
                    let data = start + frame.data.start..start + frame.data.end;
                    let bytes = connection.incoming[data].to_vec();
                    self.read_report(&bytes, connection);
                }
                MessageOrFrame::Message(message) => match Request::try_from(message) {
                    Ok(request) => self.handle(token, connection, request),
                    Err(_) => is_valid = self.refuse_malformed(connection),
                },
            }
        }
        connection.incoming.drain(..used);
        is_valid
    }

    fn refuse_malformed(&mut self, connection: &Connection) -> bool {
        count(&self.shared.counters.malformed);
        count(&self.shared.counters.errors);
        let mut outgoing = lock(&connection.outgoing);
        outgoing.push(&Reply::new(Status::BadRequest).to_bytes(None));
        // The connection is closed next, even if the response was not written.
        let _ = outgoing.flush();
        false
    }

    /// Handles the events of other threads.
    fn read_mailbox(&mut self) {
        for event in self.mailbox.drain() {
            match event {
                Event::Block {
                    token,
                    index,
                    block,
                } => self.receive_block(token, index, block),
                Event::Opened { token, result } => {
                    let Some(mut connection) = self.remove(token) else {
                        continue;
                    };
                    let request = connection.waiting.take();
                    if let Some(request) = request {
                        self.handle_opened(&mut connection, &request, result);
                    }
                    self.put_back(token, connection);
                    self.serve(token, EventFlags::empty());
                }
                Event::ReadAgain { token } => self.serve(token, EventFlags::empty()),
                Event::Ended { token, run, failed } => {
                    let Some(mut connection) = self.remove(token) else {
                        continue;
                    };
                    let session = connection.session.as_deref();
                    let is_current = session.is_some_and(|session| {
                        matches!(&session.sender, Sender::Threads { threads: Some(threads), .. }
                            if threads.run == run)
                    });
                    if is_current {
                        self.finish(&mut connection, failed);
                    }
                    self.put_back(token, connection);
                }
            }
        }
    }

    /// Reads RTCP datagrams.
    fn read_reports(&mut self) {
        let mut buffer = [0; 1500];
        for _ in 0..EVENTS {
            let (bytes, from) = match self.reports.recv_from(&mut buffer) {
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The error is an ICMP error: a report was sent to a closed port.
                Err(_) => continue,
            };
            let token = rtcp::packets(&buffer[..bytes]).find_map(|packet| match packet {
                Packet::Receiver { blocks, .. } => blocks
                    .iter()
                    .find_map(|block| self.sources.get(&block.ssrc).copied()),
                _ => None,
            });
            let Some((token, mut connection)) =
                token.and_then(|token| Some((token, self.remove(token)?)))
            else {
                continue;
            };
            // Anyone can send to this port. Only datagrams from the client's address count.
            if from.ip() == connection.peer.ip() {
                connection.last_message_ns = monotonic_ns();
                self.read_report(&buffer[..bytes], &mut connection);
            }
            self.put_back(token, connection);
        }
    }

    fn read_report(&mut self, bytes: &[u8], connection: &mut Connection) {
        let Some(session) = &mut connection.session else {
            return;
        };
        let counters = &self.shared.counters;
        for packet in rtcp::packets(bytes) {
            let Packet::Receiver { blocks, .. } = packet else {
                continue;
            };
            let ssrc = session.ssrc;
            for block in blocks.iter().filter(|block| block.ssrc == ssrc) {
                count(&counters.receiver_reports);
                let clock_hz = session.with(|stream| {
                    stream.reset_refusals();
                    stream.medium.layout.payload.clock_hz
                });
                let jitter_us = u64::from(block.jitter_ticks) * 1_000_000 / u64::from(clock_hz);
                counters.reported_jitter_us.fetch_max(jitter_us, Relaxed);
                let lost = block.lost.max(0) as u64;
                let before = std::mem::replace(&mut session.reported_lost, lost);
                counters
                    .reported_lost
                    .fetch_add(lost.saturating_sub(before), Relaxed);
            }
        }
    }

    /// Checks a part of the connections for time-outs and due reports.
    fn check_connections(&mut self, now: u64) {
        self.next_check_ns = now + CHECK_PART_NS;
        let part = self.checked_parts % CHECK_PARTS;
        self.checked_parts += 1;
        if part == 0 {
            let overload = self.shared.counters.lateness.read_overload();
            self.shared.overloaded.store(overload, Relaxed);
        }
        let timeout_ns = u64::try_from(self.shared.spec.session_timeout.0.as_nanos());
        let timeout_ns = timeout_ns.unwrap_or(u64::MAX);
        let unix_ns = realtime_ns();
        for index in (part as usize..self.connections.len()).step_by(CHECK_PARTS as usize) {
            let slot = &mut self.connections[index];
            let token = u64::from(slot.generation) << 32 | index as u64;
            let Some(connection) = &mut slot.connection else {
                continue;
            };
            if now.saturating_sub(connection.last_message_ns) >= timeout_ns {
                count(&self.shared.counters.timed_out);
                if let Some(connection) = self.remove(token) {
                    self.discard(token, connection);
                }
                continue;
            }
            if let Some(session) = &mut connection.session
                && session.state == State::Playing
                && now >= session.report_ns
            {
                session.with(|stream| stream.report(&self.reports, monotonic_ns(), unix_ns));
                session.report_ns = now + super::protocol::report_interval_ns();
            }
        }
    }

    /// A socket for packets from the RTP port to a client. The socket is connected to the client,
    /// which makes every send cheaper. When descriptors are scarce, the function returns the shared
    /// socket and the client's address instead.
    pub(super) fn connect(
        &self,
        local: IpAddr,
        client: SocketAddr,
    ) -> io::Result<(Arc<UdpSocket>, Option<SockAddr>)> {
        let common = || (Arc::clone(&self.rtp), Some(client.into()));
        let socket = match datagrams(SocketAddr::new(local, self.rtp_port)) {
            Ok(socket) => socket,
            Err(error) if error.raw_os_error() == Some(libc::EMFILE) => return Ok(common()),
            Err(error) => return Err(error),
        };
        // The kernel assigns the lowest free number, so the number shows how many descriptors are
        // in use.
        if socket.as_raw_fd() as u64 > self.descriptors_own {
            return Ok(common());
        }
        socket.connect(&client.into())?;
        // A small buffer limits the memory for datagrams that a client sends to the RTP port.
        socket.set_recv_buffer_size(UNREAD_BYTES)?;
        Ok((Arc::new(socket.into()), None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_descriptors_are_enough_for_some_connections() {
        assert_eq!(for_connections(1000), 980);
        assert_eq!(for_connections(99), 95);
        assert_eq!(for_connections(0), 0);
    }
}
