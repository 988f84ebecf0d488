//! An io_uring for each core: what waits, reads and sends is submitted and completes later.
//!
//! A loop makes one system call for all connections that are ready together. What takes longer than
//! a look into the cache is done when the others' answers are on their way. A connection has at
//! most one read and one send under way; the read takes its buffer from a pool when bytes arrive,
//! so an idle connection holds none. Who was answered before is expected to ask again: its read
//! stands, and its socket has a slot in the ring's table. What is answered, and when a client is too slow, is the
//! engine's, as for epoll. Files above `--sendfile-above` are read by the ring, in parts.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{Shutdown, getpeername, shutdown};

use super::connection::{Connection, Connections, Receiving, Waiting};
use super::engine::{DEFERRED_TIME, Engine};
use super::listener::{Reserve, has_unread_bytes, turn_away};
use crate::answer::Worker;
use crate::counters::Counters;
use crate::error::ServeError;
use crate::files::helpers::{HelperDesk, Mailbox};
use crate::outgoing::Outgoing;
use perpacket_linux::uring::{Completion, Ring};

/// Longest wait when no connection has a deadline.
const LONG_WAIT: Duration = Duration::from_secs(3600);

/// How long no client is taken when there is nothing to turn one away with.
const PAUSE_MS: u64 = 100;

/// Bytes of requests that wait for their turn, from which on a standing read is stopped until it
/// comes. What the kernel had read before it was told comes on top.
const HELD_BYTES: usize = 65_536;

/// Turns that a loop waits at its end for what is under way, of [`LAST_WAIT`] each.
const LAST_TURNS: usize = 20;
const LAST_WAIT: Duration = Duration::from_millis(20);

/// Whether this machine has what a loop needs.
pub fn probe() -> Result<(), ServeError> {
    Ring::<Outgoing>::new()
        .map(drop)
        .map_err(|error| ServeError::Lacking {
            what: "--architecture uring",
            problem: format!(
                "the kernel refuses an io_uring (Linux 6.1 or newer is needed): {error}"
            ),
        })
}

struct Loop<'a> {
    engine: Engine,
    connections: Connections,
    ring: Ring<Outgoing>,
    listener: &'a OwnedFd,
    mailbox: Arc<Mailbox>,
    reserve: Reserve,
    accept_again_ms: Option<u64>,
    /// Connections whose next request may take long.
    deferred: VecDeque<u64>,
    /// The helpers are done with something.
    has_outcomes: bool,
}

/// Runs the loop until `halt` is true and the mailbox rings.
pub fn run(
    worker: Worker,
    listener: &OwnedFd,
    mailbox: Arc<Mailbox>,
    desk: Option<HelperDesk>,
    halt: &AtomicBool,
) -> io::Result<()> {
    // A listener that does not block would complete at once with nothing.
    rustix::io::ioctl_fionbio(listener, false)?;
    let mut this = Loop {
        engine: Engine::new(worker, desk),
        connections: Connections::default(),
        ring: Ring::new()?,
        listener,
        mailbox,
        reserve: Reserve::new(),
        accept_again_ms: None,
        deferred: VecDeque::new(),
        has_outcomes: false,
    };
    this.ring.accept(listener.as_fd());
    this.ring.poll(this.mailbox.bell());
    while !halt.load(Ordering::Relaxed) {
        this.turn(this.limit())?;
    }
    this.end_all()
}

impl Loop<'_> {
    fn turn(&mut self, limit: Duration) -> io::Result<()> {
        self.engine.worker.counters().system_calls.add(1);
        self.ring.wait(limit)?;
        self.engine.worker.clock.tick();
        self.engine.worker.defers = true;
        while let Some(completion) = self.ring.next_completion() {
            self.react(completion);
        }
        self.engine.worker.defers = false;
        self.go_on()?;
        let now_ms = self.engine.worker.clock.now_ms;
        if now_ms >= self.engine.next_deadline_ms {
            self.sweep();
        }
        if self.accept_again_ms.is_some_and(|again| now_ms >= again) {
            self.accept_again_ms = None;
            self.ring.accept(self.listener.as_fd());
        }
        Ok(())
    }

    /// Does what may take longer, when what is done before is on its way.
    fn go_on(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.has_outcomes) {
            self.flush()?;
            self.take_outcomes();
            self.ring.poll(self.mailbox.bell());
        }
        let begin = Instant::now();
        for _ in 0..self.deferred.len() {
            let Some(token) = self.deferred.pop_front() else {
                break;
            };
            self.flush()?;
            if let Some(connection) = self.connections.get(token) {
                connection.is_queued = false;
            }
            self.advance(token);
            if begin.elapsed() >= DEFERRED_TIME {
                break;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.engine.worker.counters().system_calls.add(1);
        self.ring.flush()
    }

    /// How long to wait: until a connection may be overdue.
    fn limit(&self) -> Duration {
        if !self.deferred.is_empty() {
            return Duration::ZERO;
        }
        let again_ms = self.accept_again_ms.unwrap_or(u64::MAX);
        let until_ms = match self.connections.len() {
            0 => again_ms,
            _ => again_ms.min(self.engine.next_deadline_ms),
        };
        let left_ms = until_ms.saturating_sub(self.engine.worker.clock.now_ms);
        // The coarse clock may be a tick behind: without some more the loop would wait twice.
        Duration::from_millis(left_ms.saturating_add(10)).min(LONG_WAIT)
    }

    fn react(&mut self, completion: Completion<Outgoing>) {
        match completion {
            Completion::Readable => self.has_outcomes = true,
            Completion::Accepted(result, more) => {
                match result {
                    Ok(socket) => self.enter(socket),
                    Err(error) => self.shed(&error),
                }
                if !more && self.accept_again_ms.is_none() {
                    self.ring.accept(self.listener.as_fd());
                }
            }
            Completion::Received(token, result, more) => self.received(token, result, more),
            Completion::Sent(token, out, result) => self.sent(token, out, result),
            Completion::Read(token, out, result) => self.read(token, out, result),
        }
    }

    /// Adds a client, or turns it away.
    fn enter(&mut self, socket: OwnedFd) {
        if !self.engine.worker.site.enter() {
            turn_away(&socket, &self.engine.unavailable());
            self.engine.worker.counters().shed.add(1);
            return;
        }
        self.engine.worker.welcome();
        self.engine.worker.counters().system_calls.add(1);
        let peer = getpeername(&socket)
            .ok()
            .flatten()
            .and_then(|address| SocketAddr::try_from(address).ok())
            .map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |address| address.ip());
        let mut connection = Connection::new(socket, peer, None);
        self.engine.rest(&mut connection);
        let token = self.connections.insert(connection);
        self.advance(token);
    }

    /// No client could be taken: if descriptors are out, the next one is turned away.
    fn shed(&mut self, error: &io::Error) {
        let is_out = matches!(
            Errno::from_io_error(error),
            Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
        );
        if !is_out {
            return;
        }
        // Only this moment the listener must not block: the client may be gone.
        let answer = self.engine.unavailable();
        let shed = rustix::io::ioctl_fionbio(self.listener, true).is_ok()
            && self.reserve.shed(self.listener.as_fd(), &answer);
        let blocks = rustix::io::ioctl_fionbio(self.listener, false).is_ok();
        if shed && blocks {
            self.engine.worker.counters().shed.add(1);
        } else {
            self.accept_again_ms = Some(self.engine.worker.clock.now_ms + PAUSE_MS);
        }
    }

    fn received(&mut self, token: u64, result: io::Result<usize>, more: bool) {
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        if !more {
            connection.flight.receiving = Receiving::Not;
        }
        match result {
            // All buffers were in use, and are back by now; or it was stopped.
            Err(error)
                if matches!(
                    Errno::from_io_error(&error),
                    Some(Errno::NOBUFS | Errno::CANCELED)
                ) => {}
            Err(_) => connection.flight.is_closing = true,
            Ok(0) => connection.is_half_closed = true,
            Ok(_) if connection.waiting == Waiting::Lingering => {}
            Ok(_) => {
                let bytes = self.ring.received();
                if connection.input.is_empty() && connection.is_free() {
                    let used = self.engine.answer(connection, bytes);
                    connection.input.extend_from_slice(&bytes[used..]);
                } else {
                    connection.input.extend_from_slice(bytes);
                    connection.has_requests = true;
                }
                if let Receiving::Always(standing) = connection.flight.receiving
                    && connection.input.len() > HELD_BYTES
                {
                    self.ring.stop(standing);
                }
            }
        }
        self.advance(token);
    }

    fn sent(&mut self, token: u64, mut out: Box<Outgoing>, result: io::Result<usize>) {
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        connection.flight.is_sending = false;
        match result {
            Ok(bytes) => {
                self.engine.worker.counters().bytes_sent.add(bytes as u64);
                out.advance(bytes as u64);
                if out.is_empty() {
                    out.clear();
                    self.engine.give_back(out);
                    connection.waiting = Waiting::Idle;
                } else {
                    connection.out = Some(out);
                    connection.waiting = Waiting::Idle;
                }
            }
            Err(_) => connection.flight.is_closing = true,
        }
        self.advance(token);
    }

    fn read(&mut self, token: u64, out: Box<Outgoing>, result: io::Result<Vec<u8>>) {
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        match result {
            Ok(bytes) if !bytes.is_empty() && !connection.flight.is_closing => {
                self.ring.send_part(token, connection.target(), out, bytes);
            }
            // The file became shorter than promised, or the disk failed.
            Ok(_) | Err(_) => {
                connection.flight.is_sending = false;
                connection.flight.is_closing = true;
                self.advance(token);
            }
        }
    }

    /// Submits what a connection needs next, or ends it.
    fn advance(&mut self, token: u64) {
        let mut was_answered = false;
        loop {
            let Some(connection) = self.connections.get(token) else {
                return;
            };
            if connection.flight.is_closing {
                return self.close(token);
            }
            if connection.flight.is_sending || connection.waiting == Waiting::Helper {
                return;
            }
            if let Some(out) = connection.out.take() {
                connection.flight.is_sending = true;
                self.engine.wait_sending(connection);
                return self.ring.send(token, connection.target(), out);
            }
            if let Some(job) = connection.job.take() {
                self.engine.send_job(connection, token, *job);
            } else if let (Some(is_sending), false) =
                (connection.ending, connection.waiting == Waiting::Lingering)
            {
                let has_unread = is_sending
                    || !connection.input.is_empty()
                    || has_unread_bytes(&connection.socket);
                let lingers = has_unread && self.engine.linger(connection);
                connection.flight.is_closing = !lingers;
            } else if connection.is_deferred && (was_answered || self.engine.worker.defers) {
                if !std::mem::replace(&mut connection.is_queued, true) {
                    self.deferred.push_back(token);
                }
                return;
            } else if connection.has_requests {
                self.engine.answer_saved(connection);
                was_answered = true;
            } else if connection.is_half_closed {
                connection.flight.is_closing = true;
            } else {
                if connection.waiting != Waiting::Lingering {
                    self.engine.rest(connection);
                }
                if connection.flight.receiving == Receiving::Not {
                    let counters = self.engine.worker.counters();
                    connection.flight.receiving =
                        receive(&mut self.ring, token, connection, counters);
                }
                return;
            }
        }
    }

    /// Gives connections what the helpers did for them.
    fn take_outcomes(&mut self) {
        for (token, outcome) in self.mailbox.take() {
            self.engine
                .take_outcome(&mut self.connections, token, outcome);
            self.advance(token);
        }
    }

    /// Ends those who have waited too long.
    fn sweep(&mut self) {
        for token in self.engine.overdue(&mut self.connections) {
            if let Some(connection) = self.connections.get(token) {
                connection.deadline_ms = u64::MAX;
                connection.flight.is_closing = true;
            }
            self.close(token);
        }
    }

    /// Ends a connection: at once if nothing is under way, or when that has completed.
    fn close(&mut self, token: u64) {
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        if connection.flight.receiving != Receiving::Not || connection.flight.is_sending {
            // Makes both complete; a peer that is gone already does so too.
            let _ = shutdown(&connection.socket, Shutdown::Both);
            self.engine.worker.counters().system_calls.add(1);
            return;
        }
        if let Some(registered) = connection.registered {
            self.ring.release(registered);
        }
        self.connections.remove(token);
        let counters = self.engine.worker.counters();
        counters.system_calls.add(1);
        counters.closed.add(1);
        self.engine.worker.site.leave();
    }

    /// Ends all connections and waits for what is under way.
    fn end_all(&mut self) -> io::Result<()> {
        for token in self.connections.overdue(u64::MAX).0 {
            if let Some(connection) = self.connections.get(token) {
                connection.flight.is_closing = true;
            }
            self.close(token);
        }
        for _ in 0..LAST_TURNS {
            if self.connections.len() == 0 {
                break;
            }
            self.turn(LAST_WAIT)?;
        }
        Ok(())
    }
}

/// Reads what a client sends next. Who was answered before will go on: for it a read stands, and its
/// socket gets a slot, which would be too much for who asks but once.
fn receive(
    ring: &mut Ring<Outgoing>,
    token: u64,
    connection: &mut Connection,
    counters: &Counters,
) -> Receiving {
    if connection.talk.answered == 0 {
        ring.receive(token, connection.target());
        return Receiving::Once;
    }
    if connection.registered.is_none() {
        connection.registered = ring.register(connection.socket.as_fd());
        counters
            .system_calls
            .add(connection.registered.is_some().into());
    }
    Receiving::Always(ring.receive_always(token, connection.target()))
}
