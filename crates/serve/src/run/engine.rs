//! What a loop does for a connection that is ready: send, answer, read, in turn, until one of
//! them has to wait. What is answered is left with the connection and sent in the next step, so
//! that a loop can first take in what all have asked for.
//!
//! Bytes are read into one buffer of the loop and answered there. A connection has memory of its
//! own only while a part of a request or a response is there, so that an idle one costs its slot
//! alone.

use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};

use super::connection::{Connection, Connections, Progress, Waiting};
use super::listener::turn_away;
use crate::answer::{Stop, Worker};
use crate::files::helpers::{HelperDesk, Job, Outcome};
use crate::outgoing::{Outgoing, Sent};
use perpacket_http::status::Status;
use perpacket_linux::tcp::TcpInfo;

/// Least size of the loop's buffer, in bytes: many pipelined requests are read at once.
const BUFFER_BYTES: usize = 65_536;

/// How often a loop looks at the progress of a client within the time-out of requests.
const PROGRESS_CHECKS: u64 = 4;

/// How long a connection lingers that was refused, in milliseconds.
const LINGER_MS: u64 = 2000;

/// Bytes thrown away at a time of a client that was refused, in reads of the buffer.
const THROWN_READS: usize = 16;

/// Outgoing buffers kept for use again: as many as a loop takes events at a time.
const SPARES: usize = 256;

/// How long a loop answers deferred requests before it looks for other clients.
pub const DEFERRED_TIME: Duration = Duration::from_millis(4);

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It waits for something.
    Stays,
    /// Its next request is not for now, see [`Worker::defers`].
    Later,
    /// It is to be closed.
    Ends,
}

/// One loop's buffers and its worker.
pub struct Engine {
    /// Answers.
    pub worker: Worker,
    /// The next time a connection may be overdue, in milliseconds of the worker's clock.
    pub next_deadline_ms: u64,
    desk: Option<HelperDesk>,
    buffer: Vec<u8>,
    out: Box<Outgoing>,
    #[expect(
        clippy::vec_box,
        reason = "a connection holds it boxed: moving it in or out is a pointer"
    )]
    spares: Vec<Box<Outgoing>>,
    idle_ms: u64,
    request_ms: u64,
}

impl Engine {
    /// An engine around a worker; cold files go to the desk, if there is one.
    pub fn new(mut worker: Worker, desk: Option<HelperDesk>) -> Self {
        worker.shares_thread = true;
        let settings = &worker.site.settings;
        // A partial head is moved to the front, and there must be room behind it.
        let buffer_bytes = BUFFER_BYTES.max(2 * settings.max_header_bytes);
        let milliseconds = |seconds: f64| (seconds * 1000.0) as u64;
        Self {
            next_deadline_ms: u64::MAX,
            desk,
            buffer: Vec::with_capacity(buffer_bytes),
            out: Box::default(),
            spares: Vec::new(),
            idle_ms: milliseconds(settings.idle_timeout_s),
            request_ms: milliseconds(settings.request_timeout_s),
            worker,
        }
    }

    /// Does for a connection what can be done now.
    #[inline]
    pub fn advance(&mut self, connection: &mut Connection, token: u64) -> Fate {
        let mut was_answered = false;
        loop {
            if connection.out.is_some() {
                match self.send_kept(connection, token) {
                    Ok(true) => {}
                    Ok(false) => return Fate::Stays,
                    Err(_) => return Fate::Ends,
                }
            }
            match connection.waiting {
                Waiting::Lingering => return self.throw_away(connection),
                Waiting::Helper => return Fate::Stays,
                Waiting::Idle | Waiting::Request | Waiting::Sending => {}
            }
            if let Some(job) = connection.job.take() {
                if self.send_job(connection, token, *job) {
                    return Fate::Stays;
                }
            } else if let Some(is_sending) = connection.ending {
                return self.end(connection, is_sending);
            } else if connection.is_deferred && (was_answered || self.worker.defers) {
                return Fate::Later;
            } else if connection.has_requests {
                self.answer_saved(connection);
                was_answered = true;
            } else if !connection.is_readable {
                return self.rest(connection);
            } else if self.read(connection) == Fate::Ends {
                return Fate::Ends;
            }
        }
    }

    /// Gives a connection what a helper did for it; `false` if the connection is gone.
    pub fn take_outcome(
        &mut self,
        connections: &mut Connections,
        token: u64,
        outcome: Outcome,
    ) -> bool {
        let Some(connection) = connections.get(token) else {
            self.worker.keep(&outcome);
            return false;
        };
        connection.waiting = Waiting::Idle;
        match outcome {
            Outcome::Warmed => connection.is_warmed = true,
            outcome => self.worker.deliver(outcome),
        }
        true
    }

    /// Those who have waited too long. Who was in the middle of a request is told so.
    pub fn overdue(&mut self, connections: &mut Connections) -> Vec<u64> {
        let (mut tokens, next_ms) = connections.overdue(self.worker.clock.now_ms);
        self.next_deadline_ms = next_ms;
        tokens.retain(|&token| {
            let Some(connection) = connections.get(token) else {
                return false;
            };
            // It waits for this loop, not for its client.
            if connection.is_deferred
                || (connection.waiting == Waiting::Sending && self.has_progress(connection))
            {
                return false;
            }
            if connection.waiting != Waiting::Lingering {
                self.worker.counters().timed_out.add(1);
            }
            if connection.waiting == Waiting::Request && connection.tls.is_none() {
                turn_away(&connection.socket, &self.refusal(Status::RequestTimeout));
            }
            true
        });
        tokens
    }

    /// A response that says to come again later, for a client that is not taken.
    pub fn unavailable(&self) -> Vec<u8> {
        self.refusal(Status::ServiceUnavailable)
    }

    /// A response for a client that is turned away.
    pub fn refusal(&self, status: Status) -> Vec<u8> {
        let mut answer = Vec::new();
        self.worker.write_refusal(status, &mut answer);
        self.worker.counters().system_calls.add(3);
        answer
    }

    /// Lets a connection wait for its next request.
    fn wait_idle(&mut self, connection: &mut Connection) {
        self.wait(connection, Waiting::Idle, self.idle_ms);
    }

    /// Lets a connection wait for its client to take what is sent.
    pub fn wait_sending(&mut self, connection: &mut Connection) {
        connection.progress = None;
        self.wait(
            connection,
            Waiting::Sending,
            self.request_ms / PROGRESS_CHECKS,
        );
    }

    /// Whether a client still acknowledges bytes of a response; if so, sets the next deadline.
    ///
    /// What [`Self::send`] accepted says little: the kernel reports a socket as writable only when a
    /// third of its send buffer of up to 4 MiB is free, for which a slow client needs a minute.
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

    /// Takes a buffer back for use again.
    pub fn give_back(&mut self, mut out: Box<Outgoing>) {
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

    /// Sends what there is to send; `Ok(true)` if it is all sent.
    fn send_kept(&mut self, connection: &mut Connection, token: u64) -> std::io::Result<bool> {
        if connection.waiting == Waiting::Helper {
            return Ok(false);
        }
        let Some(mut out) = connection.out.take() else {
            return Ok(true);
        };
        loop {
            let left_bytes = out.left_bytes();
            match self.send(connection, &mut out)? {
                Sent::All => {
                    // Who waits for a request that began earlier waits no longer for it than before.
                    if connection.waiting == Waiting::Sending {
                        connection.waiting = Waiting::Idle;
                    }
                    self.give_back(out);
                    return Ok(true);
                }
                Sent::Blocked => {
                    if connection.waiting != Waiting::Sending || out.left_bytes() < left_bytes {
                        self.wait_sending(connection);
                    }
                    connection.out = Some(out);
                    return Ok(false);
                }
                Sent::Cold => {
                    let part = out.next_file_part();
                    let (Some((file, offset, length)), Some(desk)) = (part, &self.desk) else {
                        connection.is_warmed = true;
                        continue;
                    };
                    let job = Job::Warm {
                        file,
                        offset,
                        length,
                    };
                    if desk.send(token, job) {
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

    /// One attempt to send.
    #[inline]
    fn send(&self, connection: &mut Connection, out: &mut Outgoing) -> std::io::Result<Sent> {
        let counters = self.worker.counters();
        match &mut connection.tls {
            None => {
                let is_warmed = std::mem::take(&mut connection.is_warmed);
                let asks = self.desk.is_some();
                out.send(&connection.socket, counters, asks, is_warmed)
            }
            Some(tls) => tls.send(&connection.socket, out, counters),
        }
    }

    /// Gives a job to the helpers; `false` if they have too many, and the client was told.
    pub fn send_job(&mut self, connection: &mut Connection, token: u64, job: Job) -> bool {
        if self.desk.as_ref().is_some_and(|desk| desk.send(token, job)) {
            connection.waiting = Waiting::Helper;
            connection.deadline_ms = u64::MAX;
            connection.has_requests = true;
            return true;
        }
        let stop = self
            .worker
            .refuse(Status::ServiceUnavailable, &mut self.out);
        self.follow(connection, &stop);
        self.keep(connection);
        false
    }

    /// Reads and answers, if the connection waits for nothing else. What is to be sent is for
    /// [`Self::advance`]; TLS, whose handshakes take long, is all for it.
    #[inline]
    pub fn take_in(&mut self, connection: &mut Connection) -> Fate {
        let asks = connection.is_readable
            && connection.tls.is_none()
            && connection.is_free()
            && !connection.has_requests
            && connection.waiting != Waiting::Lingering;
        if !asks {
            return Fate::Stays;
        }
        self.read(connection)
    }

    /// Reads once, and answers what came.
    #[inline]
    fn read(&mut self, connection: &mut Connection) -> Fate {
        if connection.tls.is_some() {
            return self.read_tls(connection);
        }
        self.buffer.clear();
        if !connection.input.is_empty() {
            self.buffer.extend_from_slice(&connection.input);
        }
        match self.receive(connection) {
            Err(_) => return Fate::Ends,
            Ok(0) => return Fate::Stays,
            Ok(_) => {}
        }
        connection.input = Vec::new();
        let buffer = std::mem::take(&mut self.buffer);
        let used = self.answer(connection, &buffer);
        if used < buffer.len() {
            connection.input.extend_from_slice(&buffer[used..]);
        }
        self.buffer = buffer;
        Fate::Stays
    }

    /// Reads behind what stands in the buffer; tells how many bytes came, none if there are none.
    fn receive(&mut self, connection: &mut Connection) -> Result<usize, Errno> {
        self.worker.counters().system_calls.add(1);
        let room = self.buffer.capacity() - self.buffer.len();
        let spare = spare_capacity(&mut self.buffer);
        match recv(&connection.socket, spare, RecvFlags::empty()) {
            Ok((_, 0)) => {
                connection.is_half_closed = true;
                connection.is_readable = false;
                Ok(0)
            }
            Ok((_, bytes)) => {
                // A short read took all there was: the next bytes come with the next edge.
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

    fn read_tls(&mut self, connection: &mut Connection) -> Fate {
        self.buffer.clear();
        let bytes = match self.receive(connection) {
            Err(_) => return Fate::Ends,
            Ok(bytes) => bytes,
        };
        let Some(tls) = &mut connection.tls else {
            return Fate::Ends;
        };
        let result = tls.receive(&self.buffer[..bytes], &mut connection.input);
        // A session may have to say something itself: its part of a handshake, or an alert.
        let sent = self.send_own(connection);
        if result.is_err() || sent.is_err() {
            return Fate::Ends;
        }
        connection.has_requests = !connection.input.is_empty() && bytes > 0;
        Fate::Stays
    }

    /// Sends what a TLS session says itself.
    fn send_own(&mut self, connection: &mut Connection) -> std::io::Result<()> {
        let mut out = std::mem::take(&mut self.out);
        let sent = self.send(connection, &mut out);
        if sent? == Sent::All {
            self.out = out;
        } else {
            connection.out = Some(out);
        }
        Ok(())
    }

    /// Answers what was read before.
    pub fn answer_saved(&mut self, connection: &mut Connection) {
        let input = std::mem::take(&mut connection.input);
        let used = self.answer(connection, &input);
        if used < input.len() {
            connection.input = input;
            connection.input.drain(..used);
        }
    }

    /// Answers; returns how much of the input is done with. What is to be sent is left with the
    /// connection.
    #[inline]
    pub fn answer(&mut self, connection: &mut Connection, input: &[u8]) -> usize {
        let before = connection.talk.answered;
        let turn = self
            .worker
            .answer(&mut connection.talk, input, &mut self.out);
        if connection.talk.answered != before {
            connection.waiting = Waiting::Idle;
        }
        self.follow(connection, &turn.stop);
        if let Stop::Job(job) = turn.stop {
            connection.job = Some(Box::new(job));
        }
        self.keep(connection);
        turn.used
    }

    fn follow(&self, connection: &mut Connection, stop: &Stop) {
        connection.has_requests = matches!(stop, Stop::Output | Stop::Job(_) | Stop::Later);
        connection.is_deferred = matches!(stop, Stop::Later);
        if let Stop::Close(is_sending) = stop {
            connection.ending = Some(*is_sending);
        }
    }

    /// Leaves what is to be sent with the connection.
    fn keep(&mut self, connection: &mut Connection) {
        if self.out.is_empty() {
            return;
        }
        let fresh = self.spares.pop().unwrap_or_default();
        connection.out = Some(std::mem::replace(&mut self.out, fresh));
    }

    /// Nothing to do until the client sends something.
    pub fn rest(&mut self, connection: &mut Connection) -> Fate {
        if connection.is_half_closed {
            return Fate::Ends;
        }
        let is_within_request = connection.talk.is_within_request()
            || (connection.tls.as_ref()).is_some_and(|tls| tls.is_within_request());
        if !is_within_request {
            self.wait_idle(connection);
        } else if connection.waiting != Waiting::Request {
            self.wait(connection, Waiting::Request, self.request_ms);
        }
        Fate::Stays
    }

    /// All is sent and the connection is over.
    fn end(&mut self, connection: &mut Connection, is_sending: bool) -> Fate {
        if let Some(tls) = &mut connection.tls {
            tls.end();
            // If the socket takes no more, the client has its answer all the same.
            let _ = tls.send(&connection.socket, &mut self.out, self.worker.counters());
        }
        if !is_sending && connection.input.is_empty() && !connection.is_readable {
            return Fate::Ends;
        }
        if !self.linger(connection) {
            return Fate::Ends;
        }
        connection.is_readable = true;
        self.throw_away(connection)
    }

    /// Says that no more is sent and lets the client read it; `false` if it is gone.
    pub fn linger(&mut self, connection: &mut Connection) -> bool {
        self.worker.counters().system_calls.add(1);
        if shutdown(&connection.socket, Shutdown::Write).is_err() {
            return false;
        }
        connection.input = Vec::new();
        connection.has_requests = false;
        self.wait(connection, Waiting::Lingering, LINGER_MS);
        true
    }

    /// Reads what a refused client still sends: closing a socket with unread bytes resets the
    /// connection, and the client would lose the answer (RFC 9112, section 9.6).
    fn throw_away(&mut self, connection: &mut Connection) -> Fate {
        for _ in 0..THROWN_READS {
            if !connection.is_readable {
                return Fate::Stays;
            }
            self.buffer.clear();
            match self.receive(connection) {
                Err(_) => return Fate::Ends,
                Ok(0) if !connection.is_readable && connection.is_half_closed => return Fate::Ends,
                Ok(_) => {}
            }
        }
        Fate::Ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::cache::{Cache, Shelf};
    use crate::settings::Settings;
    use crate::site::Site;
    use perpacket_linux::memory::SharedTable;
    use std::io::{Read, Write};
    use std::net::Ipv4Addr;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    /// An engine that serves a folder with one file.
    fn engine(folder: &std::path::Path) -> Engine {
        std::fs::write(folder.join("a.txt"), "short").unwrap();
        let settings = Settings {
            root: Some(folder.to_owned()),
            routes: true,
            ..Settings::default()
        };
        let counters = Arc::new(SharedTable::new(1).unwrap());
        let site = Site::new(settings, counters, 10).unwrap();
        let shelf = Shelf::Own(Box::new(Cache::new(1 << 20)));
        Engine::new(Worker::new(Arc::new(site), 0, shelf, false), None)
    }

    /// A connection on which a client has just asked for something.
    fn asking(path: &str) -> (UnixStream, Connection) {
        let (mut client, socket) = UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        write!(client, "GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        let mut connection = Connection::new(socket.into(), Ipv4Addr::LOCALHOST.into(), None);
        connection.is_readable = true;
        (client, connection)
    }

    /// The first line of an answer that is there.
    fn status_line(client: &mut UnixStream) -> String {
        let mut answer = [0; 4096];
        let count = client.read(&mut answer).unwrap();
        let text = String::from_utf8_lossy(&answer[..count]).into_owned();
        text.lines().next().unwrap_or_default().to_owned()
    }

    #[test]
    fn only_what_lies_in_the_cache_is_answered_before_others_have_their_answers() {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = engine(folder.path());
        let (mut client, mut first) = asking("/a.txt");
        engine.worker.defers = true;
        assert_eq!(engine.take_in(&mut first), Fate::Stays);
        assert!(first.out.is_none(), "the file has to be read first");
        assert_eq!(engine.advance(&mut first, 0), Fate::Later);
        engine.worker.defers = false;
        assert_eq!(engine.advance(&mut first, 0), Fate::Stays);
        assert_eq!(status_line(&mut client), "HTTP/1.1 200 OK");

        let (mut short_client, mut short) = asking("/a.txt");
        let (mut long_client, mut long) = asking("/work?us=1");
        engine.worker.defers = true;
        assert_eq!(engine.take_in(&mut short), Fate::Stays);
        assert_eq!(engine.take_in(&mut long), Fate::Stays);
        assert!(short.out.is_some(), "answered from the cache");
        assert!(long.out.is_none() && long.has_requests, "for later");
        assert_eq!(engine.advance(&mut short, 1), Fate::Stays);
        assert_eq!(status_line(&mut short_client), "HTTP/1.1 200 OK");
        assert_eq!(engine.advance(&mut long, 2), Fate::Later);
        engine.worker.defers = false;
        assert_eq!(engine.advance(&mut long, 2), Fate::Stays);
        assert_eq!(status_line(&mut long_client), "HTTP/1.1 200 OK");
        assert!(!long.has_requests && long.input.is_empty() && long.out.is_none());
    }

    #[test]
    fn a_client_that_is_told_to_go_on_has_no_more_time_for_its_request_than_others() {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = engine(folder.path());
        let (mut client, socket) = UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut connection = Connection::new(socket.into(), Ipv4Addr::LOCALHOST.into(), None);
        for part in [
            "POST /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n",
            "Expect: 100-continue\r\n\r\n",
        ] {
            client.write_all(part.as_bytes()).unwrap();
            connection.is_readable = true;
            assert_eq!(engine.advance(&mut connection, 0), Fate::Stays);
            engine.worker.clock.now_ms += 1000;
        }
        assert_eq!(status_line(&mut client), "HTTP/1.1 100 Continue");
        assert_eq!(connection.waiting, Waiting::Request);
        let since_ms = connection.deadline_ms - engine.request_ms;
        assert_eq!(
            since_ms,
            engine.worker.clock.now_ms - 2000,
            "since it began"
        );
    }

    #[test]
    fn a_body_that_is_here_is_not_lost_where_its_answer_is_for_later() {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = engine(folder.path());
        let (mut client, mut connection) = asking("/");
        write!(
            client,
            "POST /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc\
             GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n"
        )
        .unwrap();
        engine.worker.defers = true;
        assert_eq!(engine.take_in(&mut connection), Fate::Stays);
        assert_eq!(engine.advance(&mut connection, 0), Fate::Later);
        engine.worker.defers = false;
        assert_eq!(engine.advance(&mut connection, 0), Fate::Stays);
        let mut answers = [0; 65_536];
        let count = client.read(&mut answers).unwrap();
        let text = String::from_utf8_lossy(&answers[..count]).into_owned();
        let found: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("HTTP/"))
            .collect();
        assert_eq!(found.len(), 3, "{text}");
        assert!(
            found[1].contains(" 405 ") && found[2].contains(" 200 "),
            "{text}"
        );
    }
}
