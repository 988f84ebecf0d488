//! One connection at a time, with blocking calls: what a thread or a process of a pool does.

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

use super::listener::{Reserve, accept, has_unread_bytes, turn_away};
use super::tls::TlsSession;
use crate::answer::{Stop, Worker};
use crate::error::ServeError;
use crate::outgoing::{Outgoing, Sent};
use crate::talk::Talk;
use perpacket_http::status::Status;

/// How long a call blocks at most: then deadlines and the flag to stop are looked at.
const TICK: Duration = Duration::from_millis(500);

/// Size of the input buffer, beside room for a partial head.
const BUFFER_BYTES: usize = 16_384;

/// Reads of what a refused client still sends.
const THROWN_READS: usize = 64;

/// Makes a listener block, for a tick at a time.
pub fn prepare(listener: &OwnedFd) -> Result<(), ServeError> {
    rustix::io::ioctl_fionbio(listener, false)
        .and_then(|()| set_socket_timeout(listener, Timeout::Recv, Some(TICK)))
        .map_err(ServeError::system("making the listener block"))
}

/// Serves clients one after the other until `halt`.
pub fn run(
    worker: Worker,
    listener: &OwnedFd,
    tls: Option<&Arc<rustls::ServerConfig>>,
    halt: &AtomicBool,
) -> io::Result<()> {
    let settings = &worker.site.settings;
    let buffer_bytes = BUFFER_BYTES + settings.max_header_bytes;
    let mut server = Blocking {
        idle_ms: (settings.idle_timeout_s * 1000.0) as u64,
        request_ms: (settings.request_timeout_s * 1000.0) as u64,
        worker,
        buffer: Vec::with_capacity(buffer_bytes),
        input: Vec::new(),
        out: Outgoing::default(),
        halt,
    };
    let mut reserve = Reserve::new();
    while !halt.load(Ordering::Relaxed) {
        server.worker.counters().system_calls.add(1);
        let taken = accept(listener, SocketFlags::empty());
        server.worker.clock.tick();
        match taken {
            Ok((socket, peer)) => server.take(&socket, peer, tls),
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                let mut answer = Vec::new();
                server
                    .worker
                    .write_refusal(Status::ServiceUnavailable, &mut answer);
                if reserve.shed(listener.as_fd(), &answer) {
                    server.worker.counters().shed.add(1);
                } else {
                    std::thread::sleep(TICK);
                }
            }
            // Nobody came for a tick, or a client was gone before it was taken.
            Err(_) => {}
        }
    }
    Ok(())
}

struct Blocking<'a> {
    worker: Worker,
    buffer: Vec<u8>,
    input: Vec<u8>,
    out: Outgoing,
    halt: &'a AtomicBool,
    idle_ms: u64,
    request_ms: u64,
}

impl Blocking<'_> {
    /// Serves one client, or turns it away.
    fn take(&mut self, socket: &OwnedFd, peer: IpAddr, tls: Option<&Arc<rustls::ServerConfig>>) {
        if !self.worker.site.enter() {
            let mut answer = Vec::new();
            self.worker
                .write_refusal(Status::ServiceUnavailable, &mut answer);
            turn_away(socket, &answer);
            self.worker.counters().shed.add(1);
            return;
        }
        self.worker.welcome();
        self.input.clear();
        self.out.clear();
        if let Ok(session) = tls.map(TlsSession::new).transpose() {
            // An error ends this connection and nothing else.
            let _ = self.converse(socket, peer, session);
        }
        self.worker.counters().closed.add(1);
        self.worker.site.leave();
    }

    fn converse(
        &mut self,
        socket: &OwnedFd,
        peer: IpAddr,
        mut tls: Option<TlsSession>,
    ) -> io::Result<()> {
        set_socket_timeout(socket, Timeout::Recv, Some(TICK))?;
        set_socket_timeout(socket, Timeout::Send, Some(TICK))?;
        self.worker.counters().system_calls.add(3);
        let mut talk = Talk::new(peer);
        let mut request_deadline_ms = None;
        loop {
            let is_within_request =
                talk.is_within_request() || tls.as_ref().is_some_and(TlsSession::is_within_request);
            if !is_within_request {
                request_deadline_ms = None;
            } else if request_deadline_ms.is_none() {
                request_deadline_ms = Some(self.worker.clock.now_ms + self.request_ms);
            }
            if !self.read(socket, request_deadline_ms, &mut tls)? {
                return Ok(());
            }
            let before = talk.answered;
            loop {
                let turn = self.worker.answer(&mut talk, &self.input, &mut self.out);
                self.input.drain(..turn.used);
                self.send(socket, &mut tls)?;
                match turn.stop {
                    Stop::Input => {
                        if talk.answered != before {
                            request_deadline_ms = None;
                        }
                        break;
                    }
                    Stop::Output => {}
                    // Only who asks helpers gets one, and only a loop defers.
                    Stop::Job(_) | Stop::Later => return Ok(()),
                    Stop::Close(is_sending) => {
                        return self.end(socket, &mut tls, is_sending);
                    }
                }
            }
        }
    }

    /// Waits for more input; `false` if none will come.
    fn read(
        &mut self,
        socket: &OwnedFd,
        request_deadline_ms: Option<u64>,
        tls: &mut Option<TlsSession>,
    ) -> io::Result<bool> {
        let idle_deadline_ms = self.worker.clock.now_ms + self.idle_ms;
        let deadline_ms = request_deadline_ms.unwrap_or(idle_deadline_ms);
        loop {
            // Looked at before each read: a client that sends a byte now and then is slow too.
            if self.worker.clock.now_ms >= deadline_ms {
                self.worker.counters().timed_out.add(1);
                if request_deadline_ms.is_some() && tls.is_none() {
                    let mut answer = Vec::new();
                    self.worker
                        .write_refusal(Status::RequestTimeout, &mut answer);
                    turn_away(socket, &answer);
                }
                return Ok(false);
            }
            self.buffer.clear();
            self.worker.counters().system_calls.add(1);
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

    /// Sends all there is, as long as the client takes some of it.
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
            if sent == Sent::All {
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

    fn end(
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
        for _ in 0..THROWN_READS {
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
