//! The event loop: connections, reports, news from other threads, and the clock.
//!
//! Level and order matter for lateness: after every handful of events the timers are checked, so
//! that a crowd of requests does not delay streams that play. Sockets are watched edge-triggered
//! and read until they are empty, except while a connection waits for its medium.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use crate::wire::rtcp::{self, Packet};
use crate::wire::rtsp::{Limits, Request, Status, Unit, split};
use perpacket_timers::TimerWheel;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use socket2::SockAddr;

use super::blocks::{Mailbox, News};
use super::counters::count;
use super::outgoing::Outgoing;
use super::protocol::Reply;
use super::session::{Carrier, Connection, State};
use super::sockets::{datagrams, listen, port_pair};
use super::stream::{Scratch, lock};
use super::{Error, Shared};

/// Tokens of what is no connection.
const LISTENER: u64 = u64::MAX;
const REPORTS: u64 = u64::MAX - 1;
const MAILBOX: u64 = u64::MAX - 2;

/// Events handled between two checks of the timers.
const EVENTS: usize = 64;

/// Connections taken between two checks of the timers.
const ACCEPTS: usize = 32;

/// Bytes a connection may send between two checks of the timers.
const READ_BYTES: usize = 64 * 1024;

/// Connections beyond the sessions that are admitted: to be told so.
const SPARE_CONNECTIONS: u64 = 4096;

/// Above this rate, packets a second, the loop sleeps at least so long, which is far below the
/// lateness that matters.
const REST_FROM_RATE: f64 = 4_000.0;
const REST_NS: u64 = 250_000;

/// A round over all connections, for time-outs and reports, takes a second in so many parts.
const SWEEP_PARTS: u64 = 16;
const SWEEP_PART_NS: u64 = 1_000_000_000 / SWEEP_PARTS;

/// Room in the socket of a stream for what its client sends there, which nobody reads.
const UNREAD_BYTES: usize = 2048;

/// An event loop and everything it owns.
pub(super) struct Reactor {
    pub(super) shared: Arc<Shared>,
    pub(super) mailbox: Arc<Mailbox>,
    /// When a stream sends next, by the number of its connection.
    pub(super) timers: TimerWheel,
    pub(super) scratch: Scratch,
    /// Where reports come in and go out: the port after [`Self::rtp_port`].
    pub(super) reports: UdpSocket,
    pub(super) rtp_port: u16,
    /// Packets a second of the streams that play here: sets how many leave together.
    pub(super) packet_rate: f64,
    pub(super) runs: u64,
    pub(super) sources: HashMap<u32, u64>,
    poll: OwnedFd,
    listener: TcpListener,
    address: SocketAddr,
    /// Holds the RTP port, which the sockets of streams share, and sends for those without one.
    rtp: Arc<UdpSocket>,
    /// Streams get sockets of their own while descriptors are below this.
    descriptors_own: u64,
    /// Connections are taken while descriptors are below this.
    descriptors_all: u64,
    connections: Vec<Slot>,
    free: Vec<usize>,
    swept: u64,
    next_sweep_ns: u64,
}

/// Room for a connection; its generation tells it from those before it in the same room.
#[derive(Default)]
struct Slot {
    generation: u32,
    connection: Option<Box<Connection>>,
}

/// Nanoseconds of the monotonic clock.
#[inline]
pub(super) fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds since 1970.
pub(super) fn unix_ns() -> u64 {
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Binds the calling thread, and those it will start, to a CPU.
pub(super) fn bind_to(core: usize) -> io::Result<()> {
    if core >= CpuSet::MAX_CPU {
        return Err(ErrorKind::InvalidInput.into());
    }
    let mut cpus = CpuSet::new();
    cpus.set(core);
    Ok(sched_setaffinity(None, &cpus)?)
}

impl Reactor {
    /// A loop that listens on an address; several may share it.
    pub(super) fn new(shared: Arc<Shared>, address: SocketAddr) -> Result<Self, Error> {
        let listener = listen(address).map_err(|error| Error::Listen { address, error })?;
        let address = listener.local_addr()?;
        let (rtp, reports) = port_pair(address.ip())?;
        let rtp_port = rtp.local_addr()?.port();
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from)?;
        let mailbox = Arc::new(Mailbox::new()?);
        let level = epoll::EventFlags::IN;
        let watch =
            |source, token| epoll::add(&poll, source, epoll::EventData::new_u64(token), level);
        watch(rustix::fd::AsFd::as_fd(&listener), LISTENER).map_err(io::Error::from)?;
        watch(rustix::fd::AsFd::as_fd(&reports), REPORTS).map_err(io::Error::from)?;
        let descriptor = mailbox.descriptor();
        watch(rustix::fd::AsFd::as_fd(&descriptor), MAILBOX).map_err(io::Error::from)?;
        drop(descriptor);
        let now_ns = now_ns();
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Ok(Self {
            shared,
            mailbox,
            timers: TimerWheel::new(now_ns, 0),
            scratch: Scratch::default(),
            reports,
            rtp_port,
            packet_rate: 0.0,
            runs: 0,
            sources: HashMap::new(),
            poll,
            listener,
            address,
            rtp: Arc::new(rtp),
            // The other half carries twice as many streams as it would with a socket for each.
            descriptors_own: descriptors / 2,
            descriptors_all: descriptors / 100 * 98,
            connections: Vec::new(),
            free: Vec::new(),
            swept: 0,
            next_sweep_ns: now_ns + SWEEP_PART_NS,
        })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where to leave news for it.
    pub(super) fn mailbox(&self) -> Arc<Mailbox> {
        Arc::clone(&self.mailbox)
    }

    /// Runs until the server is stopped.
    pub(super) fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS);
        let mut due = Vec::new();
        while !self.shared.stopped.load(Relaxed) {
            let now = now_ns();
            let until_sweep = self.next_sweep_ns.saturating_sub(now);
            let until_due = match self.timers.next_ns() {
                Some(due_ns) => due_ns.saturating_sub(now),
                None => u64::MAX,
            };
            let wait = until_due.max(self.rest_ns()).min(until_sweep);
            let timeout = Timespec {
                tv_sec: (wait / 1_000_000_000) as i64,
                tv_nsec: (wait % 1_000_000_000) as i64,
            };
            events.clear();
            // An interrupted wait has no events; nothing else can go wrong with our own epoll.
            let _ = epoll::wait(&self.poll, spare_capacity(&mut events), Some(&timeout));
            for event in &events {
                let (token, flags) = (event.data.u64(), event.flags);
                match token {
                    LISTENER => self.accept(),
                    REPORTS => self.read_reports(),
                    MAILBOX => self.read_news(),
                    token => self.progress(token, flags),
                }
            }
            let now = now_ns();
            due.clear();
            self.timers.expire(now, &mut due);
            for &index in &due {
                let generation = self.connections[index as usize].generation;
                self.pace(u64::from(generation) << 32 | u64::from(index));
            }
            if now >= self.next_sweep_ns {
                self.sweep(now);
            }
        }
        for index in 0..self.connections.len() {
            if let Some(connection) = self.connections[index].connection.take() {
                self.close(connection);
            }
        }
    }

    /// How long to sleep at least: with many streams one wake-up serves several.
    fn rest_ns(&self) -> u64 {
        if self.packet_rate > REST_FROM_RATE {
            REST_NS
        } else {
            0
        }
    }

    /// Takes a connection out of its room, to work on it and on the loop at once.
    pub(super) fn take(&mut self, token: u64) -> Option<Box<Connection>> {
        let slot = self.connections.get_mut(token as u32 as usize)?;
        if u64::from(slot.generation) != token >> 32 {
            return None;
        }
        slot.connection.take()
    }

    /// Puts a connection back into its room.
    pub(super) fn put(&mut self, token: u64, connection: Box<Connection>) {
        self.connections[token as u32 as usize].connection = Some(connection);
    }

    /// Closes a connection that was taken out of its room.
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
            .options
            .max_sessions
            .saturating_add(SPARE_CONNECTIONS);
        for _ in 0..ACCEPTS {
            let (socket, peer) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The peer gave up, or descriptors ran out: then the next look comes with the next
                // event, after streams had their turn.
                Err(_) => return count(&counters.connections_refused),
            };
            // Descriptors are kept for files; without any, accepting would fail for ever.
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
            heard_ns: now_ns(),
        }));
        let flags = epoll::EventFlags::IN
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::ET;
        if let Err(error) = epoll::add(
            &self.poll,
            &*socket,
            epoll::EventData::new_u64(token),
            flags,
        ) {
            self.connections[index].connection = None;
            self.free.push(index);
            return Err(error.into());
        }
        count(&self.shared.counters.connections);
        count(&self.shared.counters.connections_open);
        Ok(())
    }

    /// Reads, answers and writes as far as a connection goes.
    fn progress(&mut self, token: u64, flags: epoll::EventFlags) {
        let Some(mut connection) = self.take(token) else {
            return;
        };
        let is_broken = flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP);
        let goes_on = !is_broken && self.work(token, &mut connection);
        if goes_on && lock(&connection.outgoing).flush().is_ok() {
            self.put(token, connection);
        } else {
            self.discard(token, connection);
        }
    }

    /// Works on what came; false when the connection is over.
    fn work(&mut self, token: u64, connection: &mut Connection) -> bool {
        let mut taken = 0;
        loop {
            if !self.understand(token, connection) {
                return false;
            }
            if connection.waiting.is_some() {
                return true;
            }
            if taken >= READ_BYTES {
                // Others first: the loop comes back to this one by itself.
                self.mailbox.leave(News::Again { token });
                return true;
            }
            let mut buffer = [0; 4096];
            match (&*connection.socket).read(&mut buffer) {
                Ok(0) => return false,
                Ok(bytes) => {
                    taken += bytes;
                    connection.incoming.extend_from_slice(&buffer[..bytes]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }

    /// Handles all whole requests and frames that have come; false when something else has.
    fn understand(&mut self, token: u64, connection: &mut Connection) -> bool {
        let mut used = 0;
        let mut goes_on = true;
        while goes_on && connection.waiting.is_none() {
            let unit = match split(&connection.incoming[used..], Limits::default()) {
                Ok(Some((unit, bytes))) => {
                    used += bytes;
                    unit
                }
                Ok(None) => break,
                Err(_) => {
                    goes_on = self.refuse_malformed(connection);
                    break;
                }
            };
            connection.heard_ns = now_ns();
            match unit {
                Unit::Frame(frame) => {
                    let start = used - (frame.data.end);
                    let data = start + frame.data.start..start + frame.data.end;
                    let bytes = connection.incoming[data].to_vec();
                    self.read_report(&bytes, connection);
                }
                Unit::Message(message) => match Request::try_from(message) {
                    Ok(request) => self.handle(token, connection, request),
                    Err(_) => goes_on = self.refuse_malformed(connection),
                },
            }
        }
        connection.incoming.drain(..used);
        goes_on
    }

    fn refuse_malformed(&mut self, connection: &Connection) -> bool {
        count(&self.shared.counters.malformed);
        count(&self.shared.counters.errors);
        let mut outgoing = lock(&connection.outgoing);
        outgoing.push(&Reply::new(Status::BadRequest).to_bytes(None));
        // The connection is closed next, whether or not the answer got through.
        let _ = outgoing.flush();
        false
    }

    /// Takes what other threads left.
    fn read_news(&mut self) {
        for news in self.mailbox.take() {
            match news {
                News::Block {
                    token,
                    index,
                    block,
                } => self.take_block(token, index, block),
                News::Opened { token, result } => {
                    let Some(mut connection) = self.take(token) else {
                        continue;
                    };
                    let request = connection.waiting.take();
                    if let Some(request) = request {
                        self.handle_opened(&mut connection, &request, result);
                    }
                    self.put(token, connection);
                    self.progress(token, epoll::EventFlags::empty());
                }
                News::Again { token } => self.progress(token, epoll::EventFlags::empty()),
                News::Ended { token, run, failed } => {
                    let Some(mut connection) = self.take(token) else {
                        continue;
                    };
                    let session = connection.session.as_deref();
                    let is_current = session.is_some_and(|session| {
                        matches!(&session.carrier, Carrier::Threads { runner: Some(runner), .. }
                            if runner.run == run)
                    });
                    if is_current {
                        self.finish(&mut connection, failed);
                    }
                    self.put(token, connection);
                }
            }
        }
    }

    /// Reads reports that came in datagrams.
    fn read_reports(&mut self) {
        let mut buffer = [0; 1500];
        for _ in 0..EVENTS {
            let (bytes, from) = match self.reports.recv_from(&mut buffer) {
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The answer to a report of ours to a port that is closed.
                Err(_) => continue,
            };
            let token = rtcp::packets(&buffer[..bytes]).find_map(|packet| match packet {
                Packet::Receiver { blocks, .. } => blocks
                    .iter()
                    .find_map(|block| self.sources.get(&block.ssrc).copied()),
                _ => None,
            });
            let Some((token, mut connection)) =
                token.and_then(|token| Some((token, self.take(token)?)))
            else {
                continue;
            };
            // Anybody could send these: only the client's own address counts.
            if from.ip() == connection.peer.ip() {
                connection.heard_ns = now_ns();
                self.read_report(&buffer[..bytes], &mut connection);
            }
            self.put(token, connection);
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
                    stream.heard();
                    stream.medium.media.payload.clock_hz
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

    /// Looks at some of the connections: reports that are due, and time-outs.
    fn sweep(&mut self, now: u64) {
        self.next_sweep_ns = now + SWEEP_PART_NS;
        let part = self.swept % SWEEP_PARTS;
        self.swept += 1;
        if part == 0 {
            let overload = self.shared.counters.lateness.take_overload();
            self.shared.overloaded.store(overload, Relaxed);
        }
        let timeout_ns = u64::try_from(self.shared.options.session_timeout.as_nanos());
        let timeout_ns = timeout_ns.unwrap_or(u64::MAX);
        let unix_ns = unix_ns();
        for index in (part as usize..self.connections.len()).step_by(SWEEP_PARTS as usize) {
            let slot = &mut self.connections[index];
            let token = u64::from(slot.generation) << 32 | index as u64;
            let Some(connection) = &mut slot.connection else {
                continue;
            };
            if now.saturating_sub(connection.heard_ns) >= timeout_ns {
                count(&self.shared.counters.timed_out);
                if let Some(connection) = self.take(token) {
                    self.discard(token, connection);
                }
                continue;
            }
            if let Some(session) = &mut connection.session
                && session.state == State::Playing
                && now >= session.report_ns
            {
                session.with(|stream| stream.report(&self.reports, now_ns(), unix_ns));
                session.report_ns = now + super::protocol::report_interval_ns();
            }
        }
    }

    /// A socket for one client's packets, from the RTP port to its port: connected to it, which
    /// makes every send cheaper, unless descriptors are scarce; then the common one, which must be
    /// told the address.
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
        // Descriptors are given out from the lowest: this one's number says how many are in use.
        if socket.as_raw_fd() as u64 > self.descriptors_own {
            return Ok(common());
        }
        socket.connect(&client.into())?;
        // What a client sends to the RTP port is never read, and must not take memory.
        socket.set_recv_buffer_size(UNREAD_BYTES)?;
        Ok((Arc::new(socket.into()), None))
    }
}
