//! A loop around an io_uring per core. The loop submits receive and send operations, which
//! complete later.
//!
//! One system call submits and waits for the operations of all connections. A request that is not
//! in the cache is answered after the responses to all others are submitted. A connection has at
//! most one receive and one send under way. A receive takes its buffer from a pool when bytes
//! arrive, so an idle connection has none. Connections that have already sent a request have a
//! multishot receive and a slot in the ring's table, because most of them send another.
//! [`super::handler`] answers and sets deadlines, as for epoll. The ring reads files above
//! `--sendfile-above` in parts, because it has no sendfile.

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
use super::handler::{ConnectionHandler, DEFERRED_TIME};
use super::listener::{ReserveDescriptor, has_unread_bytes, reject_client};
use crate::error::ServeError;
use crate::files::helper_threads::{JobResults, JobSender};
use crate::send_queue::SendQueue;
use crate::worker::Worker;
use perpacket_linux::uring::{Completion, Ring};

/// Longest wait, used if no connection has a deadline.
const LONG_WAIT: Duration = Duration::from_secs(3600);

/// Pause in accepting, in milliseconds, when no descriptor is free even to reject a connection.
const PAUSE_MS: u64 = 100;

/// When a connection has this many bytes of waiting requests, its multishot receive is cancelled.
/// The kernel may have received more bytes by then.
const MAX_WAITING_BYTES: usize = 65_536;

/// How many times the loop waits for operations under way when it ends, [`LAST_WAIT`] each time.
const LAST_WAITS: usize = 20;
const LAST_WAIT: Duration = Duration::from_millis(20);

/// Whether the kernel supports the loop.
pub fn probe() -> Result<(), ServeError> {
    Ring::<SendQueue>::new()
        .map(drop)
        .map_err(|error| ServeError::Lacking {
            what: "--architecture uring",
            problem: format!(
                "the kernel refuses an io_uring (Linux 6.1 or newer is needed): {error}"
            ),
        })
}

struct Loop<'a> {
    handler: ConnectionHandler,
    connections: Connections,
    ring: Ring<SendQueue>,
    listener: &'a OwnedFd,
    results: Arc<JobResults>,
    reserve: ReserveDescriptor,
    accept_again_ms: Option<u64>,
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
    halt: &AtomicBool,
) -> io::Result<()> {
    // If the listener did not block, the accept would complete at once with an error.
    rustix::io::ioctl_fionbio(listener, false)?;
    let mut this = Loop {
        handler: ConnectionHandler::new(worker, jobs),
        connections: Connections::default(),
        ring: Ring::new()?,
        listener,
        results,
        reserve: ReserveDescriptor::new(),
        accept_again_ms: None,
        deferred: VecDeque::new(),
        has_results: false,
    };
    this.ring.accept(listener.as_fd());
    this.ring.poll(this.results.descriptor());
    while !halt.load(Ordering::Relaxed) {
        this.run_once(this.limit())?;
    }
    this.close_all()
}

impl Loop<'_> {
    fn run_once(&mut self, limit: Duration) -> io::Result<()> {
        self.ring.wait(limit)?;
        self.handler.worker.clock.tick();
        self.handler.worker.defers = true;
        while let Some(completion) = self.ring.next_completion() {
            self.handle(completion);
        }
        self.handler.worker.defers = false;
        self.run_deferred()?;
        let now_ms = self.handler.worker.clock.now_ms;
        if now_ms >= self.handler.next_deadline_ms {
            self.close_overdue();
        }
        if self.accept_again_ms.is_some_and(|again| now_ms >= again) {
            self.accept_again_ms = None;
            self.ring.accept(self.listener.as_fd());
        }
        Ok(())
    }

    /// Applies results of jobs and answers deferred requests, after all other responses are submitted.
    fn run_deferred(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.has_results) {
            self.flush()?;
            self.apply_job_results();
            self.ring.poll(self.results.descriptor());
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
        self.ring.flush()
    }

    /// How long to wait: until the earliest deadline.
    fn limit(&self) -> Duration {
        if !self.deferred.is_empty() {
            return Duration::ZERO;
        }
        let again_ms = self.accept_again_ms.unwrap_or(u64::MAX);
        let until_ms = match self.connections.len() {
            0 => again_ms,
            _ => again_ms.min(self.handler.next_deadline_ms),
        };
        let left_ms = until_ms.saturating_sub(self.handler.worker.clock.now_ms);
        // The coarse clock may be a tick late. Without the added time the loop would wait twice.
        Duration::from_millis(left_ms.saturating_add(10)).min(LONG_WAIT)
    }

    fn handle(&mut self, completion: Completion<SendQueue>) {
        match completion {
            Completion::Readable => self.has_results = true,
            Completion::Accepted(result, more) => {
                match result {
                    Ok(socket) => self.add(socket),
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

    /// Adds a connection, or rejects it.
    fn add(&mut self, socket: OwnedFd) {
        if !self.handler.worker.site.reserve_connection() {
            reject_client(&socket, &self.handler.unavailable());
            self.handler.worker.counters().shed.add(1);
            return;
        }
        self.handler.worker.count_connection();
        let peer = getpeername(&socket)
            .ok()
            .flatten()
            .and_then(|address| SocketAddr::try_from(address).ok())
            .map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |address| address.ip());
        let mut connection = Connection::new(socket, peer, None);
        self.handler.wait_for_input(&mut connection);
        let token = self.connections.insert(connection);
        self.advance(token);
    }

    /// Rejects the next connection if an accept failed because descriptors or memory ran out.
    fn shed(&mut self, error: &io::Error) {
        let is_out = matches!(
            Errno::from_io_error(error),
            Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
        );
        if !is_out {
            return;
        }
        // The accept must not block now, because the client may have closed its connection.
        let answer = self.handler.unavailable();
        let shed = rustix::io::ioctl_fionbio(self.listener, true).is_ok()
            && self.reserve.reject_next(self.listener.as_fd(), &answer);
        let blocks = rustix::io::ioctl_fionbio(self.listener, false).is_ok();
        if shed && blocks {
            self.handler.worker.counters().shed.add(1);
        } else {
            self.accept_again_ms = Some(self.handler.worker.clock.now_ms + PAUSE_MS);
        }
    }

    fn received(&mut self, token: u64, result: io::Result<usize>, more: bool) {
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        if !more {
            connection.operations.receiving = Receiving::Idle;
        }
        match result {
            // All buffers were in use and are free again, or the receive was cancelled.
            Err(error)
                if matches!(
                    Errno::from_io_error(&error),
                    Some(Errno::NOBUFS | Errno::CANCELED)
                ) => {}
            Err(_) => connection.operations.is_closing = true,
            Ok(0) => connection.is_half_closed = true,
            Ok(_) if connection.waiting == Waiting::Lingering => {}
            Ok(_) => {
                let bytes = self.ring.received();
                if connection.input.is_empty() && connection.is_free() {
                    let used = self.handler.answer(connection, bytes);
                    connection.input.extend_from_slice(&bytes[used..]);
                } else {
                    connection.input.extend_from_slice(bytes);
                    connection.has_requests = true;
                }
                if let Receiving::Multishot(armed) = connection.operations.receiving
                    && connection.input.len() > MAX_WAITING_BYTES
                {
                    self.ring.stop(armed);
                }
            }
        }
        self.advance(token);
    }

    fn sent(&mut self, token: u64, mut out: Box<SendQueue>, result: io::Result<usize>) {
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        connection.operations.is_sending = false;
        match result {
            Ok(bytes) => {
                self.handler.worker.counters().bytes_sent.add(bytes as u64);
                out.advance(bytes as u64);
                if out.is_empty() {
                    out.clear();
                    self.handler.recycle(out);
                    connection.waiting = Waiting::Idle;
                } else {
                    connection.out = Some(out);
                    connection.waiting = Waiting::Idle;
                }
            }
            Err(_) => connection.operations.is_closing = true,
        }
        self.advance(token);
    }

    fn read(&mut self, token: u64, out: Box<SendQueue>, result: io::Result<Vec<u8>>) {
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        match result {
            Ok(bytes) if !bytes.is_empty() && !connection.operations.is_closing => {
                self.ring.send_part(token, connection.target(), out, bytes);
            }
            // The file became shorter than its `Content-Length`, or the disk failed.
            Ok(_) | Err(_) => {
                connection.operations.is_sending = false;
                connection.operations.is_closing = true;
                self.advance(token);
            }
        }
    }

    /// Submits the next operation of a connection, or closes it.
    fn advance(&mut self, token: u64) {
        let mut was_answered = false;
        loop {
            let Some(connection) = self.connections.get(token) else {
                return;
            };
            if connection.operations.is_closing {
                return self.close(token);
            }
            if connection.operations.is_sending || connection.waiting == Waiting::Helper {
                return;
            }
            if let Some(out) = connection.out.take() {
                connection.operations.is_sending = true;
                self.handler.wait_sending(connection);
                return self.ring.send(token, connection.target(), out);
            }
            if let Some(job) = connection.job.take() {
                self.handler.send_job(connection, token, *job);
            } else if let (Some(is_sending), false) =
                (connection.ending, connection.waiting == Waiting::Lingering)
            {
                let has_unread = is_sending
                    || !connection.input.is_empty()
                    || has_unread_bytes(&connection.socket);
                let lingers = has_unread && self.handler.linger(connection);
                connection.operations.is_closing = !lingers;
            } else if connection.is_deferred && (was_answered || self.handler.worker.defers) {
                if !std::mem::replace(&mut connection.is_queued, true) {
                    self.deferred.push_back(token);
                }
                return;
            } else if connection.has_requests {
                self.handler.answer_buffered(connection);
                was_answered = true;
            } else if connection.is_half_closed {
                connection.operations.is_closing = true;
            } else {
                if connection.waiting != Waiting::Lingering {
                    self.handler.wait_for_input(connection);
                }
                if connection.operations.receiving == Receiving::Idle {
                    connection.operations.receiving = receive(&mut self.ring, token, connection);
                }
                return;
            }
        }
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
            if let Some(connection) = self.connections.get(token) {
                connection.deadline_ms = u64::MAX;
                connection.operations.is_closing = true;
            }
            self.close(token);
        }
    }

    /// Closes a connection, now or after its operations have completed.
    fn close(&mut self, token: u64) {
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        if connection.operations.receiving != Receiving::Idle || connection.operations.is_sending {
            // A shutdown completes both operations. If it fails, the peer has closed the
            // connection, which completes them too.
            let _ = shutdown(&connection.socket, Shutdown::Both);
            return;
        }
        if let Some(registered) = connection.registered {
            self.ring.release(registered);
        }
        self.connections.remove(token);
        let counters = self.handler.worker.counters();
        counters.closed.add(1);
        self.handler.worker.site.release_connection();
    }

    /// Closes all connections and waits for their operations.
    fn close_all(&mut self) -> io::Result<()> {
        for token in self.connections.overdue(u64::MAX).0 {
            if let Some(connection) = self.connections.get(token) {
                connection.operations.is_closing = true;
            }
            self.close(token);
        }
        for _ in 0..LAST_WAITS {
            if self.connections.len() == 0 {
                break;
            }
            self.run_once(LAST_WAIT)?;
        }
        Ok(())
    }
}

/// Arms a receive. For the first request, this is a single receive. For later requests, it is a
/// multishot receive on a slot of the ring's table. On a connection with one request, multishot and
/// slot cost more than they save.
fn receive(ring: &mut Ring<SendQueue>, token: u64, connection: &mut Connection) -> Receiving {
    if connection.http.answered == 0 {
        ring.receive(token, connection.target());
        return Receiving::Single;
    }
    if connection.registered.is_none() {
        connection.registered = ring.register(connection.socket.as_fd());
    }
    Receiving::Multishot(ring.receive_always(token, connection.target()))
}
