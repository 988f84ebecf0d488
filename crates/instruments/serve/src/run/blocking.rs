//! A thread or process of a pool: one connection at a time, with blocking calls.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, Shutdown, SocketFlags, recv, shutdown};

use super::listener::{ReserveDescriptor, accept, has_unread_bytes, reject_client};
use super::tls::TlsSession;
use crate::error::ServeError;
use crate::http_state::HttpState;
use crate::send_queue::{SendQueue, SendStatus};
use crate::worker::{BatchEnd, Worker};
use perpacket_http::status::Status;

/// Longest time that a call blocks. Deadlines and the stop flag are checked between calls.
const TICK: Duration = Duration::from_millis(500);

/// Size of the input buffer without the room for a partial head.
const BUFFER_BYTES: usize = 16_384;

/// Maximum number of reads of input to discard while lingering.
const DISCARDED_READS: usize = 64;

/// Makes a listener blocking. A call on it then waits for at most [`TICK`].
pub fn prepare(listener: &OwnedFd) -> Result<(), ServeError> {
    rustix::io::ioctl_fionbio(listener, false)
        .and_then(|()| set_socket_timeout(listener, Timeout::Recv, Some(TICK)))
        .map_err(ServeError::system("making the listener blocking"))
}

/// Serves connections one after the other until `halt`.
pub fn run(
    worker: Worker,
    listener: &OwnedFd,
    tls: Option<&Arc<rustls::ServerConfig>>,
    halt: &AtomicBool,
) -> io::Result<()> {
    let spec = &worker.site.spec;
    let buffer_bytes = BUFFER_BYTES + spec.max_header_bytes();
    let mut server = Blocking {
        idle_ms: spec.idle_ms(),
        request_ms: spec.request_ms(),
        worker,
        buffer: Vec::with_capacity(buffer_bytes),
        input: Vec::new(),
        out: SendQueue::default(),
        halt,
    };
    let mut reserve = ReserveDescriptor::new();
    while !halt.load(Ordering::Relaxed) {
        let accepted = accept(listener, SocketFlags::empty());
        server.worker.clock.tick();
        match accepted {
            Ok((socket, peer)) => server.serve(&socket, peer, tls),
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                let mut answer = Vec::new();
                server
                    .worker
                    .write_rejection(Status::ServiceUnavailable, &mut answer);
                if reserve.reject_next(listener.as_fd(), &answer) {
                    server.worker.counters().shed.add(1);
                } else {
                    std::thread::sleep(TICK);
                }
            }
            // No connection arrived within a tick, or the client has closed its connection already.
            Err(_) => {}
        }
    }
    Ok(())
}

struct Blocking<'a> {
    worker: Worker,
    buffer: Vec<u8>,
    input: Vec<u8>,
    out: SendQueue,
    halt: &'a AtomicBool,
    idle_ms: u64,
    request_ms: u64,
}

impl Blocking<'_> {
    /// Serves one connection, or rejects it.
    fn serve(&mut self, socket: &OwnedFd, peer: IpAddr, tls: Option<&Arc<rustls::ServerConfig>>) {
        if !self.worker.site.reserve_connection() {
            let mut answer = Vec::new();
            self.worker
                .write_rejection(Status::ServiceUnavailable, &mut answer);
            reject_client(socket, &answer);
            self.worker.counters().shed.add(1);
            return;
        }
        self.worker.count_connection();
        self.input.clear();
        self.out.clear();
        if let Ok(session) = tls.map(TlsSession::new).transpose() {
            // An error only ends this connection.
            let _ = self.serve_requests(socket, peer, session);
        }
        self.worker.counters().closed.add(1);
        self.worker.site.release_connection();
    }

    fn serve_requests(
        &mut self,
        socket: &OwnedFd,
        peer: IpAddr,
        mut tls: Option<TlsSession>,
    ) -> io::Result<()> {
        set_socket_timeout(socket, Timeout::Recv, Some(TICK))?;
        set_socket_timeout(socket, Timeout::Send, Some(TICK))?;
        let mut http = HttpState::new(peer);
        let mut request_deadline_ms = None;
        loop {
            let is_within_request =
                http.is_within_request() || tls.as_ref().is_some_and(TlsSession::is_within_request);
            if !is_within_request {
                request_deadline_ms = None;
            } else if request_deadline_ms.is_none() {
                request_deadline_ms = Some(self.worker.clock.now_ms + self.request_ms);
            }
            if !self.read(socket, request_deadline_ms, &mut tls)? {
                return Ok(());
            }
            let before = http.answered;
            loop {
                let batch = self.worker.answer(&mut http, &self.input, &mut self.out);
                self.input.drain(..batch.used);
                self.send(socket, &mut tls)?;
                match batch.end {
                    BatchEnd::NeedsInput => {
                        if http.answered != before {
                            request_deadline_ms = None;
                        }
                        break;
                    }
                    BatchEnd::OutputFull => {}
                    // Only workers with helper threads return jobs, and only event loops defer
                    // requests.
                    BatchEnd::NeedsJob(_) | BatchEnd::Deferred => return Ok(()),
                    BatchEnd::Close(is_sending) => {
                        return self.finish(socket, &mut tls, is_sending);
                    }
                }
            }
        }
    }

    /// Waits for more input; `false` if there is none.
    fn read(
        &mut self,
        socket: &OwnedFd,
        request_deadline_ms: Option<u64>,
        tls: &mut Option<TlsSession>,
    ) -> io::Result<bool> {
        let idle_deadline_ms = self.worker.clock.now_ms + self.idle_ms;
        let deadline_ms = request_deadline_ms.unwrap_or(idle_deadline_ms);
        loop {
            // Check before each read, because a client that sends single bytes is slow too.
            if self.worker.clock.now_ms >= deadline_ms {
                self.worker.counters().timed_out.add(1);
                if request_deadline_ms.is_some() && tls.is_none() {
                    let mut answer = Vec::new();
                    self.worker
                        .write_rejection(Status::RequestTimeout, &mut answer);
                    reject_client(socket, &answer);
                }
                return Ok(false);
            }
            self.buffer.clear();
            let spare = spare_capacity(&mut self.buffer);
            let received = recv(socket, spare, RecvFlags::empty());
            self.worker.clock.tick();
            match received {
                Ok((_, 0)) => return Ok(false),
                Ok(_) => break,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if self.halt.load(Ordering::Relaxed) {
                return Ok(false);
            }
        }
        match tls {
            None => self.input.extend_from_slice(&self.buffer),
            Some(session) => {
                let result = session.receive(&self.buffer, &mut self.input);
                session.send(socket, &mut self.out, self.worker.counters())?;
                result?;
            }
        }
        Ok(true)
    }

    /// Sends all output, as long as the client makes progress.
    fn send(&mut self, socket: &OwnedFd, tls: &mut Option<TlsSession>) -> io::Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        let mut deadline_ms = self.worker.clock.now_ms + self.request_ms;
        let mut left_bytes = self.out.left_bytes();
        loop {
            let counters = self.worker.counters();
            let sent = match tls {
                None => self.out.send(socket, counters, false, false)?,
                Some(session) => session.send(socket, &mut self.out, counters)?,
            };
            if sent == SendStatus::Complete {
                return Ok(());
            }
            self.worker.clock.tick();
            let now_ms = self.worker.clock.now_ms;
            if self.out.left_bytes() < left_bytes {
                left_bytes = self.out.left_bytes();
                deadline_ms = now_ms + self.request_ms;
            }
            if now_ms >= deadline_ms || self.halt.load(Ordering::Relaxed) {
                self.worker.counters().timed_out.add(1);
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    fn finish(
        &mut self,
        socket: &OwnedFd,
        tls: &mut Option<TlsSession>,
        is_sending: bool,
    ) -> io::Result<()> {
        if let Some(session) = tls {
            session.end();
            session.send(socket, &mut self.out, self.worker.counters())?;
        }
        if !is_sending && self.input.is_empty() && !has_unread_bytes(socket) {
            return Ok(());
        }
        shutdown(socket, Shutdown::Write)?;
        for _ in 0..DISCARDED_READS {
            self.buffer.clear();
            let spare = spare_capacity(&mut self.buffer);
            match recv(socket, spare, RecvFlags::empty()) {
                Ok((_, 0)) | Err(_) => break,
                Ok(_) => {}
            }
        }
        Ok(())
    }
}
