//! The steps of both kinds of loop for a ready connection: send, answer and read, until a step has
//! to wait. Responses stay in the connection's queue until its next step, so that a loop first
//! reads the requests of all connections.
//!
//! Bytes are read into one buffer of the loop and answered there. A connection has memory of its own
//! only for a part of a request or response, so an idle connection costs only its slot.

use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};

use super::connection::{Connection, Connections, Progress, Waiting};
use super::listener::reject_client;
use crate::files::helper_threads::{Job, JobResult, JobSender};
use crate::send_queue::{SendQueue, SendStatus};
use crate::worker::{BatchEnd, Worker};
use perpacket_http::status::Status;
use perpacket_linux::tcp::TcpInfo;

/// Smallest buffer of the loop, in bytes: room for many pipelined requests.
const BUFFER_BYTES: usize = 65_536;

/// How often a loop checks the progress of a client within the time-out of requests.
const PROGRESS_CHECKS: u64 = 4;

/// How long a connection lingers, in milliseconds.
const LINGER_MS: u64 = 2000;

/// Maximum number of reads of discarded input before other connections are served.
const DISCARDED_READS: usize = 16;

/// Number of unused send queues that a loop stores: one for each event that it handles at a time.
const SPARES: usize = 256;

/// How long a loop answers deferred requests before it checks for events of other clients.
pub const DEFERRED_TIME: Duration = Duration::from_millis(4);

/// The next action of a loop for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionStatus {
    /// Wait for an event.
    Open,
    /// Answer its next request later, see [`Worker::defers`].
    Deferred,
    Closed,
}

/// The worker and the buffers of one loop.
pub struct ConnectionHandler {
    /// Answers requests.
    pub worker: Worker,
    /// The earliest deadline of a connection, in milliseconds of the worker's clock.
    pub next_deadline_ms: u64,
    jobs: Option<JobSender>,
    buffer: Vec<u8>,
    out: Box<SendQueue>,
    #[expect(
        clippy::vec_box,
        reason = "connections have their queues in boxes, so that moving a queue moves a pointer"
    )]
    spares: Vec<Box<SendQueue>>,
    idle_ms: u64,
    request_ms: u64,
}

impl ConnectionHandler {
    /// A handler around a worker. Without `jobs`, the loop reads files itself.
    pub fn new(mut worker: Worker, jobs: Option<JobSender>) -> Self {
        worker.shares_thread = true;
        let spec = &worker.site.spec;
        // A partial head is copied to the front and must leave room for more.
        let buffer_bytes = BUFFER_BYTES.max(2 * spec.max_header_bytes());
        Self {
            next_deadline_ms: u64::MAX,
            jobs,
            buffer: Vec::with_capacity(buffer_bytes),
            out: Box::default(),
            spares: Vec::new(),
            idle_ms: spec.idle_ms(),
            request_ms: spec.request_ms(),
            worker,
        }
    }

    /// Sends, answers and reads for a connection until a step has to wait.
    #[inline]
    pub fn advance(&mut self, connection: &mut Connection, token: u64) -> ConnectionStatus {
        let mut was_answered = false;
        loop {
            if connection.out.is_some() {
                match self.send_queued(connection, token) {
                    Ok(true) => {}
                    Ok(false) => return ConnectionStatus::Open,
                    Err(_) => return ConnectionStatus::Closed,
                }
            }
            match connection.waiting {
                Waiting::Lingering => return self.discard_input(connection),
                Waiting::Helper => return ConnectionStatus::Open,
                Waiting::Idle | Waiting::Request | Waiting::Sending => {}
            }
            if let Some(job) = connection.job.take() {
                if self.send_job(connection, token, *job) {
                    return ConnectionStatus::Open;
                }
            } else if let Some(is_sending) = connection.ending {
                return self.finish(connection, is_sending);
            } else if connection.is_deferred && (was_answered || self.worker.defers) {
                return ConnectionStatus::Deferred;
            } else if connection.has_requests {
                self.answer_buffered(connection);
                was_answered = true;
            } else if !connection.is_readable {
                return self.wait_for_input(connection);
            } else if self.read(connection) == ConnectionStatus::Closed {
                return ConnectionStatus::Closed;
            }
        }
    }

    /// Passes the result of a job to its connection. Returns `false` if the connection is closed.
    pub fn apply_job_result(
        &mut self,
        connections: &mut Connections,
        token: u64,
        result: JobResult,
    ) -> bool {
        let Some(connection) = connections.get(token) else {
            self.worker.cache_loaded(&result);
            return false;
        };
        connection.waiting = Waiting::Idle;
        match result {
            JobResult::Warmed => connection.is_warmed = true,
            result => self.worker.set_job_result(result),
        }
        true
    }

    /// Connections to close because their time-out has passed. A client in the middle of a request gets
    /// a 408 first.
    pub fn overdue(&mut self, connections: &mut Connections) -> Vec<u64> {
        let (mut tokens, next_ms) = connections.overdue(self.worker.clock.now_ms);
        self.next_deadline_ms = next_ms;
        tokens.retain(|&token| {
            let Some(connection) = connections.get(token) else {
                return false;
            };
            // The connection's next request waits for this loop, not for its client.
            if connection.is_deferred
                || (connection.waiting == Waiting::Sending && self.has_progress(connection))
            {
                return false;
            }
            if connection.waiting != Waiting::Lingering {
                self.worker.counters().timed_out.add(1);
            }
            if connection.waiting == Waiting::Request && connection.tls.is_none() {
                reject_client(&connection.socket, &self.rejection(Status::RequestTimeout));
            }
            true
        });
        tokens
    }

    /// A 503 response for a client that is rejected.
    pub fn unavailable(&self) -> Vec<u8> {
        self.rejection(Status::ServiceUnavailable)
    }

    /// A response for a client that is rejected.
    pub fn rejection(&self, status: Status) -> Vec<u8> {
        let mut answer = Vec::new();
        self.worker.write_rejection(status, &mut answer);
        answer
    }

    /// Waits for the next request, up to the idle time-out.
    fn wait_idle(&mut self, connection: &mut Connection) {
        self.wait(connection, Waiting::Idle, self.idle_ms);
    }

    /// Waits for the client to read a response.
    pub fn wait_sending(&mut self, connection: &mut Connection) {
        connection.progress = None;
        self.wait(
            connection,
            Waiting::Sending,
            self.request_ms / PROGRESS_CHECKS,
        );
    }

    /// Whether a client still acknowledges bytes of a response. If so, sets the next deadline.
    ///
    /// The bytes that [`Self::send`] wrote are no measure of progress. The kernel reports a socket
    /// as writable only when a third of its send buffer of up to 4 MiB is free. A slow client may
    /// need a minute to free that much.
    fn has_progress(&mut self, connection: &mut Connection) -> bool {
        let Ok(info) = TcpInfo::of(&connection.socket) else {
            return false;
        };
        let now_ms = self.worker.clock.now_ms;
        match connection.progress {
            Some(last) if last.acknowledged_bytes == info.acknowledged_bytes => {
                if now_ms - last.since_ms >= self.request_ms {
                    return false;
                }
            }
            _ => {
                connection.progress = Some(Progress {
                    acknowledged_bytes: info.acknowledged_bytes,
                    since_ms: now_ms,
                });
            }
        }
        self.wait(
            connection,
            Waiting::Sending,
            self.request_ms / PROGRESS_CHECKS,
        );
        true
    }

    /// Stores a send queue for reuse.
    pub fn recycle(&mut self, mut out: Box<SendQueue>) {
        if self.spares.len() < SPARES {
            out.trim();
            self.spares.push(out);
        }
    }

    fn wait(&mut self, connection: &mut Connection, waiting: Waiting, limit_ms: u64) {
        connection.waiting = waiting;
        connection.deadline_ms = self.worker.clock.now_ms.saturating_add(limit_ms);
        self.next_deadline_ms = self.next_deadline_ms.min(connection.deadline_ms);
    }

    /// Sends the connection's output. Returns `Ok(true)` if all of it was sent.
    fn send_queued(&mut self, connection: &mut Connection, token: u64) -> std::io::Result<bool> {
        if connection.waiting == Waiting::Helper {
            return Ok(false);
        }
        let Some(mut out) = connection.out.take() else {
            return Ok(true);
        };
        loop {
            let left_bytes = out.left_bytes();
            match self.send(connection, &mut out)? {
                SendStatus::Complete => {
                    // A request that has begun keeps its deadline.
                    if connection.waiting == Waiting::Sending {
                        connection.waiting = Waiting::Idle;
                    }
                    self.recycle(out);
                    return Ok(true);
                }
                SendStatus::Blocked => {
                    if connection.waiting != Waiting::Sending || out.left_bytes() < left_bytes {
                        self.wait_sending(connection);
                    }
                    connection.out = Some(out);
                    return Ok(false);
                }
                SendStatus::Cold => {
                    let part = out.next_file_part();
                    let (Some((file, offset, length)), Some(jobs)) = (part, &self.jobs) else {
                        connection.is_warmed = true;
                        continue;
                    };
                    let job = Job::Warm {
                        file,
                        offset,
                        length,
                    };
                    if jobs.send(token, job) {
                        connection.waiting = Waiting::Helper;
                        connection.deadline_ms = u64::MAX;
                        connection.out = Some(out);
                        return Ok(false);
                    }
                    connection.is_warmed = true;
                }
            }
        }
    }

    /// Sends once.
    #[inline]
    fn send(
        &self,
        connection: &mut Connection,
        out: &mut SendQueue,
    ) -> std::io::Result<SendStatus> {
        let counters = self.worker.counters();
        match &mut connection.tls {
            None => {
                let is_warmed = std::mem::take(&mut connection.is_warmed);
                let checks_cache = self.jobs.is_some();
                out.send(&connection.socket, counters, checks_cache, is_warmed)
            }
            Some(tls) => tls.send(&connection.socket, out, counters),
        }
    }

    /// Passes a job to the helper threads. Returns `false` if their queue is full; the output is
    /// then a 503.
    pub fn send_job(&mut self, connection: &mut Connection, token: u64, job: Job) -> bool {
        if self.jobs.as_ref().is_some_and(|jobs| jobs.send(token, job)) {
            connection.waiting = Waiting::Helper;
            connection.deadline_ms = u64::MAX;
            connection.has_requests = true;
            return true;
        }
        let end = self
            .worker
            .reject(Status::ServiceUnavailable, &mut self.out);
        self.apply_end(connection, &end);
        self.queue_output(connection);
        false
    }

    /// Reads and answers, if the connection waits for nothing else. [`Self::advance`] sends. It
    /// also does all work of TLS connections, because handshakes take long.
    #[inline]
    pub fn read_and_answer(&mut self, connection: &mut Connection) -> ConnectionStatus {
        let is_ready = connection.is_readable
            && connection.tls.is_none()
            && connection.is_free()
            && !connection.has_requests
            && connection.waiting != Waiting::Lingering;
        if !is_ready {
            return ConnectionStatus::Open;
        }
        self.read(connection)
    }

    /// Reads once and answers.
    #[inline]
    fn read(&mut self, connection: &mut Connection) -> ConnectionStatus {
        if connection.tls.is_some() {
            return self.read_tls(connection);
        }
        self.buffer.clear();
        if !connection.input.is_empty() {
            self.buffer.extend_from_slice(&connection.input);
        }
        match self.receive(connection) {
            Err(_) => return ConnectionStatus::Closed,
            Ok(0) => return ConnectionStatus::Open,
            Ok(_) => {}
        }
        connection.input = Vec::new();
        let buffer = std::mem::take(&mut self.buffer);
        let used = self.answer(connection, &buffer);
        if used < buffer.len() {
            connection.input.extend_from_slice(&buffer[used..]);
        }
        self.buffer = buffer;
        ConnectionStatus::Open
    }

    /// Appends input to the buffer. Returns the number of bytes, or 0 if none have arrived.
    fn receive(&mut self, connection: &mut Connection) -> Result<usize, Errno> {
        let room = self.buffer.capacity() - self.buffer.len();
        let spare = spare_capacity(&mut self.buffer);
        match recv(&connection.socket, spare, RecvFlags::empty()) {
            Ok((_, 0)) => {
                connection.is_half_closed = true;
                connection.is_readable = false;
                Ok(0)
            }
            Ok((_, bytes)) => {
                // After a short read the socket is empty. More bytes trigger the next edge.
                connection.is_readable = bytes == room || connection.is_half_closed;
                Ok(bytes)
            }
            Err(Errno::AGAIN) => {
                connection.is_readable = false;
                Ok(0)
            }
            Err(Errno::INTR) => Ok(0),
            Err(error) => Err(error),
        }
    }

    fn read_tls(&mut self, connection: &mut Connection) -> ConnectionStatus {
        self.buffer.clear();
        let bytes = match self.receive(connection) {
            Err(_) => return ConnectionStatus::Closed,
            Ok(bytes) => bytes,
        };
        let Some(tls) = &mut connection.tls else {
            return ConnectionStatus::Closed;
        };
        let result = tls.receive(&self.buffer[..bytes], &mut connection.input);
        // The session may have to send its part of a handshake, or an alert.
        let sent = self.send_session_messages(connection);
        if result.is_err() || sent.is_err() {
            return ConnectionStatus::Closed;
        }
        connection.has_requests = !connection.input.is_empty() && bytes > 0;
        ConnectionStatus::Open
    }

    /// Sends the messages of the TLS session itself.
    fn send_session_messages(&mut self, connection: &mut Connection) -> std::io::Result<()> {
        let mut out = std::mem::take(&mut self.out);
        let sent = self.send(connection, &mut out);
        if sent? == SendStatus::Complete {
            self.out = out;
        } else {
            connection.out = Some(out);
        }
        Ok(())
    }

    /// Answers input that was read before.
    pub fn answer_buffered(&mut self, connection: &mut Connection) {
        let input = std::mem::take(&mut connection.input);
        let used = self.answer(connection, &input);
        if used < input.len() {
            connection.input = input;
            connection.input.drain(..used);
        }
    }

    /// Answers requests. Returns how many bytes of the input were consumed. The output stays with
    /// the connection.
    #[inline]
    pub fn answer(&mut self, connection: &mut Connection, input: &[u8]) -> usize {
        let before = connection.http.answered;
        let batch = self
            .worker
            .answer(&mut connection.http, input, &mut self.out);
        if connection.http.answered != before {
            connection.waiting = Waiting::Idle;
        }
        self.apply_end(connection, &batch.end);
        if let BatchEnd::NeedsJob(job) = batch.end {
            connection.job = Some(Box::new(job));
        }
        self.queue_output(connection);
        batch.used
    }

    fn apply_end(&self, connection: &mut Connection, end: &BatchEnd) {
        connection.has_requests = matches!(
            end,
            BatchEnd::OutputFull | BatchEnd::NeedsJob(_) | BatchEnd::Deferred
        );
        connection.is_deferred = matches!(end, BatchEnd::Deferred);
        if let BatchEnd::Close(is_sending) = end {
            connection.ending = Some(*is_sending);
        }
    }

    /// Moves the output to the connection.
    fn queue_output(&mut self, connection: &mut Connection) {
        if self.out.is_empty() {
            return;
        }
        let fresh = self.spares.pop().unwrap_or_default();
        connection.out = Some(std::mem::replace(&mut self.out, fresh));
    }

    /// Waits for input: for the rest of a request, or for the next one.
    pub fn wait_for_input(&mut self, connection: &mut Connection) -> ConnectionStatus {
        if connection.is_half_closed {
            return ConnectionStatus::Closed;
        }
        let is_within_request = connection.http.is_within_request()
            || (connection.tls.as_ref()).is_some_and(|tls| tls.is_within_request());
        if !is_within_request {
            self.wait_idle(connection);
        } else if connection.waiting != Waiting::Request {
            self.wait(connection, Waiting::Request, self.request_ms);
        }
        ConnectionStatus::Open
    }

    /// Closes a connection after its last response, or lingers.
    fn finish(&mut self, connection: &mut Connection, is_sending: bool) -> ConnectionStatus {
        if let Some(tls) = &mut connection.tls {
            tls.end();
            // An error here is ignored: the client has its response already.
            let _ = tls.send(&connection.socket, &mut self.out, self.worker.counters());
        }
        if !is_sending && connection.input.is_empty() && !connection.is_readable {
            return ConnectionStatus::Closed;
        }
        if !self.linger(connection) {
            return ConnectionStatus::Closed;
        }
        connection.is_readable = true;
        self.discard_input(connection)
    }

    /// Shuts down the sending side and waits for the client to close. Returns `false` if the client
    /// has closed already.
    pub fn linger(&mut self, connection: &mut Connection) -> bool {
        if shutdown(&connection.socket, Shutdown::Write).is_err() {
            return false;
        }
        connection.input = Vec::new();
        connection.has_requests = false;
        self.wait(connection, Waiting::Lingering, LINGER_MS);
        true
    }

    /// Reads and discards input. Closing a socket with unread bytes resets the connection, and the
    /// client would lose the response (RFC 9112, section 9.6).
    fn discard_input(&mut self, connection: &mut Connection) -> ConnectionStatus {
        for _ in 0..DISCARDED_READS {
            if !connection.is_readable {
                return ConnectionStatus::Open;
            }
            self.buffer.clear();
            match self.receive(connection) {
                Err(_) => return ConnectionStatus::Closed,
                Ok(0) if !connection.is_readable && connection.is_half_closed => {
                    return ConnectionStatus::Closed;
                }
                Ok(_) => {}
            }
        }
        ConnectionStatus::Closed
    }
}

#[cfg(test)]
mod tests;
