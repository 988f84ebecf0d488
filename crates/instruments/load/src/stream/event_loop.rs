//! The event loop of one thread with bulk connections. Both ends use it.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use perpacket_linux::epoll::{EDGES, Epoll, Event, EventFlags};
use perpacket_timers::TimerWheel;

use rustix::thread::set_current_timer_slack;
use socket2::{Domain, Protocol, Socket, Type};

use super::flow::{Flow, Role, SendState};
use super::greeting::Greeting;
use crate::error::LoadError;

const EVENTS: usize = 512;
/// Longest sleep: the delay after which a thread notices the stop flag.
const LONGEST_SLEEP_NS: u64 = 20_000_000;
/// Shortest sleep. The thread handles all timers that expire during a sleep together. With shorter
/// sleeps, each of thousands of slow connections would wake the thread.
const SHORTEST_SLEEP_NS: u64 = 250_000;
const BUFFER_BYTES: usize = 262_144;
/// Event data of the listener.
const LISTENER: u64 = u64::MAX;
/// Bytes of the TCP timestamp option in each segment (RFC 7323, appendix A).
const TIMESTAMP_BYTES: u32 = 12;
/// Largest value of `TCP_MAXSEG` (include/net/tcp.h, `MAX_TCP_WINDOW`).
const MAXSEG_LIMIT_BYTES: u32 = 32_767;

/// Counts of broken connections by kind.
pub(crate) type Errors = BTreeMap<&'static str, u64>;

/// The connections of one thread.
pub(crate) struct EventLoop {
    epoch: Instant,
    epoll: Epoll,
    pub flows: Vec<Option<Flow>>,
    free: Vec<u32>,
    timers: TimerWheel,
    /// Connections that send in the next round, and connections that send in this round.
    ready: Vec<u32>,
    sending: Vec<u32>,
    listener: Option<TcpListener>,
    buffer: Vec<u8>,
    events: Vec<Event>,
    fired: Vec<u32>,
    pub errors: Errors,
    pub connecting: u32,
    /// Connections accepted.
    pub accepted: u64,
    /// Bytes received on closed connections.
    pub closed_bytes: u64,
    /// Bytes sent on closed connections.
    pub closed_sent_bytes: u64,
    pub first_error: Option<io::Error>,
}

impl EventLoop {
    /// A loop with room for a number of connections. Only the far end has a listener.
    pub(crate) fn new(
        epoch: Instant,
        capacity: usize,
        listener: Option<TcpListener>,
    ) -> Result<Self, LoadError> {
        let failed = LoadError::system("epoll");
        let epoll = Epoll::new().map_err(&failed)?;
        if let Some(listener) = &listener {
            epoll
                .add(listener, LISTENER, EventFlags::IN)
                .map_err(failed)?;
        }
        Ok(Self {
            epoch,
            epoll,
            flows: (0..capacity).map(|_| None).collect(),
            free: (0..capacity as u32).rev().collect(),
            timers: TimerWheel::new(0, capacity),
            ready: Vec::with_capacity(capacity),
            sending: Vec::with_capacity(capacity),
            listener,
            buffer: vec![0; BUFFER_BYTES],
            events: Vec::with_capacity(EVENTS),
            fired: Vec::new(),
            errors: Errors::new(),
            connecting: 0,
            accepted: 0,
            closed_bytes: 0,
            closed_sent_bytes: 0,
            first_error: None,
        })
    }

    /// Sets the smallest timer slack of the calling thread.
    pub(crate) fn prepare_thread() -> Result<(), LoadError> {
        set_current_timer_slack(NonZeroU64::new(1))
            .map_err(|error| LoadError::system("timer slack")(error.into()))
    }

    /// Nanoseconds since the start.
    pub(crate) fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// Number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.flows.len() - self.free.len()
    }

    /// Adds a connection.
    pub(crate) fn add(&mut self, stream: TcpStream, role: Role) -> io::Result<()> {
        let Some(slot) = self.free.pop() else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        if let Err(error) = self.epoll.add(&stream, slot.into(), EDGES) {
            self.free.push(slot);
            return Err(error);
        }
        if role == Role::Waiting {
            self.connecting += 1;
        }
        self.flows[slot as usize] = Some(Flow::new(stream, role));
        Ok(())
    }

    /// Starts a connection.
    pub(crate) fn begin(&mut self, slot: u32, sends: bool, greeting: Greeting, phase: f64) {
        let now = self.now();
        if let Some(flow) = &mut self.flows[slot as usize] {
            flow.begin(sends, greeting, now, phase);
            if sends {
                self.send(slot, now);
            } else {
                // The peer may have closed right after its greeting.
                self.receive(slot, true);
            }
        }
    }

    /// Runs one round: expired timers, ready senders, events.
    pub(crate) fn run_once(&mut self) -> Result<(), LoadError> {
        let now = self.now();
        let mut fired = core::mem::take(&mut self.fired);
        self.timers.expire(now, &mut fired);
        for slot in fired.drain(..) {
            self.send(slot, self.now());
        }
        self.fired = fired;
        core::mem::swap(&mut self.ready, &mut self.sending);
        for at in 0..self.sending.len() {
            let slot = self.sending[at];
            if let Some(flow) = &mut self.flows[slot as usize] {
                flow.queued = false;
                self.send(slot, self.now());
            }
        }
        self.sending.clear();
        let sleep_ns = match (self.ready.is_empty(), self.timers.next_ns()) {
            (false, _) => 0,
            (true, None) => LONGEST_SLEEP_NS,
            (true, Some(due)) => due
                .saturating_sub(self.now())
                .clamp(SHORTEST_SLEEP_NS, LONGEST_SLEEP_NS),
        };
        let sleep = Duration::from_nanos(sleep_ns);
        let mut events = core::mem::take(&mut self.events);
        (self.epoll.wait(&mut events, Some(sleep))).map_err(LoadError::system("epoll"))?;
        for event in events.drain(..) {
            match event.data.u64() {
                LISTENER => self.accept(),
                slot => self.handle(slot as u32, event.flags),
            }
        }
        self.events = events;
        Ok(())
    }

    /// Accepts the waiting connections.
    fn accept(&mut self) {
        while let Some(listener) = &self.listener {
            let accepted = listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                Ok(stream)
            });
            match accepted {
                Ok(stream) => {
                    self.accepted += 1;
                    if self.add(stream, Role::Greeting(0)).is_err() {
                        self.count("no_room");
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.count("accept");
                    return;
                }
            }
        }
    }

    fn handle(&mut self, slot: u32, flags: EventFlags) {
        let Some(flow) = self.flows.get_mut(slot as usize).and_then(Option::as_mut) else {
            return;
        };
        match flow.role {
            Role::Waiting if !flow.connected => match flow.stream.take_error() {
                Ok(None) => {
                    flow.connected = true;
                    self.connecting -= 1;
                }
                Ok(Some(error)) | Err(error) => {
                    self.connecting -= 1;
                    self.drop_broken(slot, error);
                }
            },
            Role::Waiting => {
                if flags.intersects(EventFlags::HUP | EventFlags::RDHUP) {
                    self.drop_broken(slot, io::ErrorKind::UnexpectedEof.into());
                }
            }
            Role::Greeting(_) => match flow.greet() {
                Ok(None) => {}
                Ok(Some(greeting)) => self.begin(slot, greeting.far_end_sends, greeting, 0.0),
                Err(error) => self.drop_broken(slot, error),
            },
            Role::Sending => {
                if flags.intersects(EventFlags::HUP | EventFlags::ERR) {
                    let error = flow.stream.take_error().ok().flatten();
                    let error = error.unwrap_or_else(|| io::ErrorKind::ConnectionReset.into());
                    self.drop_broken(slot, error);
                } else if flags.contains(EventFlags::RDHUP) && self.listener.is_some() {
                    self.remove(slot);
                } else if flags.contains(EventFlags::OUT) && !flow.queued {
                    self.send(slot, self.now());
                }
            }
            Role::Receiving => {
                let ended = flags.intersects(EventFlags::HUP | EventFlags::RDHUP);
                self.receive(slot, ended);
            }
        }
    }

    /// Sends the due segments of a connection.
    fn send(&mut self, slot: u32, now: u64) {
        let Some(flow) = &mut self.flows[slot as usize] else {
            return;
        };
        if flow.role != Role::Sending {
            return;
        }
        match flow.send(&self.buffer, now) {
            Ok(SendState::Blocked) => {}
            Ok(SendState::Ready) => {
                if !flow.queued {
                    flow.queued = true;
                    self.ready.push(slot);
                }
            }
            Ok(SendState::Until(due)) => self.timers.set(slot, due),
            Err(error) => self.drop_broken(slot, error),
        }
    }

    /// Receives on a connection. See [`Flow::receive`] for `ended`.
    fn receive(&mut self, slot: u32, ended: bool) {
        let drops = self.listener.is_some();
        let Some(flow) = &mut self.flows[slot as usize] else {
            return;
        };
        match flow.receive(&mut self.buffer, drops, ended) {
            Ok(true) => {}
            Ok(false) if drops => self.remove(slot),
            Ok(false) => self.drop_broken(slot, io::ErrorKind::UnexpectedEof.into()),
            // At the end of its run, the near end closes the connection while data are in flight.
            // That is not an error.
            Err(_) if drops => self.remove(slot),
            Err(error) => self.drop_broken(slot, error),
        }
    }

    fn remove(&mut self, slot: u32) {
        self.timers.cancel(slot);
        if let Some(flow) = self.flows[slot as usize].take() {
            self.closed_bytes += flow.received_bytes;
            self.closed_sent_bytes += flow.sent_bytes;
            self.free.push(slot);
        }
    }

    fn drop_broken(&mut self, slot: u32, error: io::Error) {
        let is_closing_far_end = self.listener.is_some() && is_gone(&error);
        if !is_closing_far_end {
            self.count(kind(&error));
            self.first_error.get_or_insert(error);
        }
        self.remove(slot);
    }

    pub(crate) fn count(&mut self, kind: &'static str) {
        *self.errors.entry(kind).or_default() += 1;
    }
}

/// Whether an error means that the peer has closed.
fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof
    )
}

/// The name of an error in reports.
fn kind(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "refused",
        io::ErrorKind::TimedOut => "timed_out",
        io::ErrorKind::UnexpectedEof => "closed",
        io::ErrorKind::InvalidData => "bad_greeting",
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::AddrInUse => "no_port",
        _ if is_gone(error) => "reset",
        _ => "other",
    }
}

/// A socket with the options of both ends: segment size, no Nagle delay, congestion control.
pub(crate) fn socket(
    address: SocketAddr,
    segment_bytes: Option<u32>,
    congestion: Option<&str>,
) -> Result<Socket, LoadError> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM.nonblocking().cloexec(),
        Some(Protocol::TCP),
    )
    .map_err(LoadError::system("socket"))?;
    socket
        .set_tcp_nodelay(true)
        .map_err(LoadError::system("TCP_NODELAY"))?;
    if let Some(bytes) = segment_bytes.filter(|bytes| bytes + TIMESTAMP_BYTES <= MAXSEG_LIMIT_BYTES)
    {
        // The kernel ignores a size below its minimum. The report prints the actual size.
        let _ = socket.set_tcp_mss(bytes + TIMESTAMP_BYTES);
    }
    if let Some(name) = congestion {
        socket
            .set_tcp_congestion(name.as_bytes())
            .map_err(|source| {
                LoadError::Usage(format!(
                    "congestion: {name}: {source}; the kernel offers those of \
                 /proc/sys/net/ipv4/tcp_available_congestion_control"
                ))
            })?;
    }
    Ok(socket)
}
