//! An epoll loop: one thread with its own listener and its own cache.
//!
//! A request on an open connection costs three system calls: wait, read, send. Connections are
//! registered once, edge-triggered, for reading and writing. A loop serves all ready connections
//! together, in three steps: it reads the requests and answers those whose files are cached, then
//! sends, then answers the others. So the kernel runs its receive code for all connections and then
//! its send code for all, each from the processor's nearest cache. A long response does not delay a
//! short one. A loop that is faster than its clients finds only one or two ready connections each
//! time it wakes, and each time pays for a wait and often for a wakeup. With `--coalesce` it waits
//! until more are ready. [`super::handler`] has the steps for a ready connection. This file has the
//! events, the accepts and the time-outs.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use perpacket_linux::epoll::{EDGES, Epoll, Event, EventFlags};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use rustix::thread::set_current_timer_slack;

use super::connection::{Connection, Connections};
use super::handler::{ConnectionHandler, ConnectionStatus, DEFERRED_TIME};
use super::listener::{ReserveDescriptor, accept, reject_client};
use super::tls::TlsSession;
use crate::files::helper_threads::{JobResults, JobSender};
use crate::worker::Worker;

/// Tokens that belong to no connection.
const LISTENER: u64 = u64::MAX;
const WAKEUP: u64 = u64::MAX - 1;

/// Maximum number of events of one wait.
const EVENTS: usize = 256;

/// Maximum number of connections accepted for one event of the listener. More would delay the open
/// connections.
const ACCEPTS: usize = 64;

/// Pause in accepting, in milliseconds, when no descriptor is free even to reject a connection.
const PAUSE_MS: u64 = 100;

/// With this number of ready clients, a loop does not wait for more: the gain would be small.
const COALESCE_BELOW: usize = 32;

/// With fewer open connections, a loop does not wait for more ready clients: too few would come.
const COALESCE_CONNECTIONS: usize = 2 * COALESCE_BELOW;

/// Maximum delay of the kernel in waking a loop that waits for more ready clients, in nanoseconds.
/// The default of 50 microseconds is too coarse (prctl(2), PR_SET_TIMERSLACK).
const TIMER_SLACK_NS: NonZeroU64 = NonZeroU64::new(1000).unwrap();

struct Loop<'a> {
    handler: ConnectionHandler,
    connections: Connections,
    epoll: Epoll,
    listener: &'a OwnedFd,
    results: Arc<JobResults>,
    tls: Option<&'a Arc<rustls::ServerConfig>>,
    reserve: ReserveDescriptor,
    paused_until_ms: Option<u64>,
    /// Connections whose next request may take long.
    deferred: VecDeque<u64>,
    /// Results of jobs have arrived.
    has_results: bool,
}

/// Runs the loop until `halt` is true and `results` wakes it.
pub fn run(
    worker: Worker,
    listener: &OwnedFd,
    results: Arc<JobResults>,
    jobs: Option<JobSender>,
    tls: Option<&Arc<rustls::ServerConfig>>,
    halt: &AtomicBool,
) -> io::Result<()> {
    let mut this = Loop {
        handler: ConnectionHandler::new(worker, jobs),
        connections: Connections::default(),
        epoll: Epoll::new()?,
        listener,
        results,
        tls,
        reserve: ReserveDescriptor::new(),
        paused_until_ms: None,
        deferred: VecDeque::new(),
        has_results: false,
    };
    this.epoll
        .add(this.results.descriptor(), WAKEUP, EventFlags::IN)?;
    this.epoll.add(listener, LISTENER, EventFlags::IN)?;
    let coalesce = coalescing(this.handler.worker.site.spec.coalesce_us());
    let mut events = Vec::with_capacity(EVENTS);
    while !halt.load(Ordering::Relaxed) {
        events.clear();
        this.epoll.wait(&mut events, this.limit())?;
        let few = (1..COALESCE_BELOW).contains(&events.len()) && this.deferred.is_empty();
        if let Some(time) =
            coalesce.filter(|_| few && this.connections.len() >= COALESCE_CONNECTIONS)
        {
            thread::sleep(time);
            this.epoll.wait(&mut events, Some(Duration::ZERO))?;
        }
        this.run_once(&events)?;
    }
    Ok(())
}

/// How long to wait for more ready clients. Sets the timer slack of this thread for that wait.
fn coalescing(coalesce_us: u64) -> Option<Duration> {
    if coalesce_us == 0 {
        return None;
    }
    // If it fails, the loop waits longer than configured.
    let _ = set_current_timer_slack(Some(TIMER_SLACK_NS));
    Some(Duration::from_micros(coalesce_us))
}

impl Loop<'_> {
    /// Handles events, deferred requests and time-outs.
    fn run_once(&mut self, events: &[Event]) -> io::Result<()> {
        self.handler.worker.clock.tick();
        self.handler.worker.defers = true;
        for event in events {
            let (token, flags) = (event.data.u64(), event.flags);
            match token {
                LISTENER => self.accept_some()?,
                WAKEUP => self.has_results = true,
                _ => self.read_and_answer(token, flags),
            }
        }
        for event in events {
            let token = event.data.u64();
            if !matches!(token, LISTENER | WAKEUP) {
                self.advance(token);
            }
        }
        self.handler.worker.defers = false;
        self.run_deferred();
        let now_ms = self.handler.worker.clock.now_ms;
        if now_ms >= self.handler.next_deadline_ms {
            self.close_overdue();
        }
        if self.paused_until_ms.is_some_and(|until| now_ms >= until) {
            self.paused_until_ms = None;
            self.set_listener_events(EventFlags::IN)?;
        }
        Ok(())
    }

    /// How long to wait: until the earliest deadline.
    fn limit(&self) -> Option<Duration> {
        if !self.deferred.is_empty() {
            return Some(Duration::ZERO);
        }
        let until_ms = match self.paused_until_ms {
            Some(pause_ms) => self.handler.next_deadline_ms.min(pause_ms),
            None if self.connections.len() == 0 => return None,
            None => self.handler.next_deadline_ms,
        };
        let left_ms = until_ms.saturating_sub(self.handler.worker.clock.now_ms);
        // The coarse clock may be a tick late. Without the added time the loop would wait twice.
        Some(Duration::from_millis(left_ms.min(3_600_000) + 10))
    }

    /// Handles an event of a connection: reads and answers.
    #[inline]
    fn read_and_answer(&mut self, token: u64, flags: EventFlags) {
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        if flags.intersects(EventFlags::ERR | EventFlags::HUP) {
            return self.close(token);
        }
        if flags.intersects(EventFlags::IN | EventFlags::RDHUP) {
            connection.is_readable = true;
            // The last bytes and the end of input may come with one edge. So after a short read,
            // read once more to find the end.
            connection.is_half_closed |= flags.contains(EventFlags::RDHUP);
        }
        if self.handler.read_and_answer(connection) == ConnectionStatus::Closed {
            self.close(token);
        }
    }

    /// Sends, answers and reads for a connection until it has to wait.
    #[inline]
    fn advance(&mut self, token: u64) {
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        match self.handler.advance(connection, token) {
            ConnectionStatus::Open => {}
            ConnectionStatus::Deferred => {
                if !std::mem::replace(&mut connection.is_queued, true) {
                    self.deferred.push_back(token);
                }
            }
            ConnectionStatus::Closed => self.close(token),
        }
    }

    /// Applies results of jobs and answers deferred requests, after all other responses are sent.
    fn run_deferred(&mut self) {
        if std::mem::take(&mut self.has_results) {
            self.apply_job_results();
        }
        let begin = Instant::now();
        for _ in 0..self.deferred.len() {
            let Some(token) = self.deferred.pop_front() else {
                return;
            };
            if let Some(connection) = self.connections.get(token) {
                connection.is_queued = false;
            }
            self.advance(token);
            if begin.elapsed() >= DEFERRED_TIME {
                return;
            }
        }
    }

    /// Accepts connections, up to [`ACCEPTS`].
    fn accept_some(&mut self) -> io::Result<()> {
        for _ in 0..ACCEPTS {
            match accept(self.listener, SocketFlags::NONBLOCK) {
                Ok((socket, peer)) => {
                    if !self.handler.worker.site.reserve_connection() {
                        reject_client(&socket, &self.handler.unavailable());
                        self.handler.worker.counters().shed.add(1);
                        continue;
                    }
                    self.handler.worker.count_connection();
                    let tls = match self.tls.map(TlsSession::new).transpose() {
                        Ok(tls) => tls.map(Box::new),
                        Err(_) => {
                            self.count_closed();
                            continue;
                        }
                    };
                    self.add(Connection::new(socket, peer, tls));
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    let answer = self.handler.unavailable();
                    if !self.reserve.reject_next(self.listener.as_fd(), &answer) {
                        let now_ms = self.handler.worker.clock.now_ms;
                        self.paused_until_ms = Some(now_ms + PAUSE_MS);
                        return self.set_listener_events(EventFlags::empty());
                    }
                    self.handler.worker.counters().shed.add(1);
                }
                // The client has closed its connection already, or the network reported an error
                // for it.
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Adds a connection. Its first event comes at once if the client has already sent something.
    fn add(&mut self, mut connection: Connection) {
        self.handler.wait_for_input(&mut connection);
        let token = self.connections.insert(connection);
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        if (self.epoll.add(&connection.socket, token, EDGES)).is_err() {
            self.handler.worker.counters().shed.add(1);
            self.close(token);
        }
    }

    /// Starts or stops accepting.
    fn set_listener_events(&self, flags: EventFlags) -> io::Result<()> {
        self.epoll.modify(self.listener, LISTENER, flags)
    }

    /// Passes results of jobs to their connections.
    fn apply_job_results(&mut self) {
        for (token, result) in self.results.drain() {
            self.handler
                .apply_job_result(&mut self.connections, token, result);
            self.advance(token);
        }
    }

    /// Closes connections whose time-out has passed.
    fn close_overdue(&mut self) {
        for token in self.handler.overdue(&mut self.connections) {
            self.close(token);
        }
    }

    fn close(&mut self, token: u64) {
        // Closing the socket removes it from epoll: it has no other descriptor.
        if self.connections.remove(token).is_some() {
            self.count_closed();
        }
    }

    fn count_closed(&self) {
        self.handler.worker.counters().closed.add(1);
        self.handler.worker.site.release_connection();
    }
}
