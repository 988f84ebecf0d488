//! A request and its response on one connection.

use std::io;

use rustix::event::epoll::EventFlags;

use super::connection::{Connection, State, Wait};
use super::fault::Fault;
use super::request::{Circumstances, shown_advertisement};
use super::request_log::Entry;
use super::response::{Body, DATE_BYTES, Head, is_redirect, parse_head};
use super::settings::Check;
use super::step::{ANY_SIZE, OPERATION_NAMES, Operation};
use super::worker::Worker;

/// Bytes that a paced connection reads at once: one segment's payload on Ethernet.
const SEGMENT_BYTES: usize = 1460;
const BITS_PER_BYTE_NS: u128 = 8_000_000_000;

/// What some bytes of a response led to.
enum Taken {
    /// More is to come.
    More,
    /// The response is complete.
    Complete,
    /// It cannot be used.
    Broken(Fault, String),
}

impl Worker {
    /// Looks at one event; returns the time.
    pub(super) fn handle(&mut self, connection: u32, generation: u32, flags: EventFlags) -> u64 {
        let now = self.now();
        let own = &mut self.connections[connection as usize];
        if own.generation != generation {
            return now;
        }
        if flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
            own.peer_closed = true;
        }
        match own.state {
            State::Closed => {}
            State::Connecting => self.connected(connection, now),
            State::Idle => {
                // Nothing was asked: whatever came ends the connection.
                if own.peer_closed || flags.contains(EventFlags::IN) {
                    own.close();
                }
            }
            State::Busy => {
                let has_unsent = !own.unsent.is_empty() || own.tls.is_some();
                if flags.contains(EventFlags::OUT)
                    && has_unsent
                    && let Err(error) = own.flush()
                {
                    self.broken_off(connection, &error, now);
                    return now;
                }
                let paced = self.connections[connection as usize].wait != Wait::Nothing;
                if !paced
                    && flags.intersects(
                        EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR,
                    )
                {
                    self.receive(connection);
                }
            }
        }
        now
    }

    /// A connection attempt has ended.
    fn connected(&mut self, connection: u32, now: u64) {
        let own = &mut self.connections[connection as usize];
        let error = match own.stream.as_ref().map(std::net::TcpStream::take_error) {
            Some(Ok(None)) => None,
            Some(Ok(Some(error)) | Err(error)) => Some(error),
            None => Some(io::ErrorKind::NotConnected.into()),
        };
        if let Some(error) = error {
            let fault = Fault::of_connect(&error);
            return self.fail(connection, fault, now, || format!("connect: {error}"));
        }
        if let Some(connector) = &self.run.connector {
            match connector.start() {
                Ok(tls) => own.tls = Some(Box::new(tls)),
                Err(error) => {
                    return self.fail(connection, Fault::Tls, now, || error.to_string());
                }
            }
        }
        self.send(connection, now);
    }

    /// Sends the request at hand on an open connection.
    pub(super) fn send(&mut self, connection: u32, now: u64) {
        let own = &mut self.connections[connection as usize];
        own.reset_response();
        own.state = State::Busy;
        own.sent_ns = now;
        own.progress_ns = now;
        let copy_date = match own.step.operation {
            Operation::Conditional => self.copies.get(&own.step.object),
            _ => None,
        };
        let circumstances = Circumstances {
            close: own.closing,
            copy_date: copy_date.unwrap_or(&self.run.today),
            user: connection,
            last_advertisement: own.advertisement,
        };
        let bytes = self
            .run
            .writer
            .bytes(&mut self.scratch, &own.step, circumstances);
        if let Err(error) = own.write(bytes) {
            return self.broken_off(connection, &error, now);
        }
        self.guard(connection, now);
    }

    /// Reads what is there of a response.
    pub(super) fn receive(&mut self, connection: u32) {
        let mut buffer = core::mem::take(&mut self.buffer);
        loop {
            let line_speed = self.run.settings.line_speed_bps;
            let most = if line_speed.is_some() {
                SEGMENT_BYTES
            } else {
                buffer.len()
            };
            let drops = line_speed.is_none() && self.run.settings.check != Check::Digest;
            let own = &mut self.connections[connection as usize];
            let was_handshaking = own.tls.as_ref().is_some_and(|tls| tls.is_handshaking());
            let read = own.read(&mut buffer[..most], drops);
            let now = self.now();
            let own = &mut self.connections[connection as usize];
            if was_handshaking && own.tls.as_ref().is_some_and(|tls| !tls.is_handshaking()) {
                // The request waited for the handshake: only now it is sent.
                own.sent_ns = now;
                own.progress_ns = now;
            }
            let bytes = match read {
                Ok(0) => {
                    self.ended(connection, now);
                    break;
                }
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.broken_off(connection, &error, now);
                    break;
                }
            };
            own.progress_ns = now;
            own.received_bytes += bytes as u64;
            own.window_bytes += bytes as u64;
            self.tally.bytes += bytes as u64;
            // Bytes that were dropped in the kernel are not in the buffer, and nobody looks at them.
            let taken = self.take(connection, &buffer[..bytes.min(most)]);
            let complete = match taken {
                Taken::Broken(fault, text) => {
                    self.fail(connection, fault, now, || text);
                    break;
                }
                Taken::Complete => true,
                Taken::More => false,
            };
            let own = &self.connections[connection as usize];
            if let Some(speed) = line_speed {
                let line_ns = u128::from(own.received_bytes) * BITS_PER_BYTE_NS / u128::from(speed);
                let until = own.sent_ns + line_ns as u64;
                if until > now {
                    let wait = if complete { Wait::LineEnd } else { Wait::Line };
                    self.wait(connection, wait, until);
                    break;
                }
            }
            if complete {
                self.complete(connection, now);
                break;
            }
            // Less than was asked for empties an edge-triggered stream socket (epoll(7)); an end
            // that was announced is still to be read.
            let own = &self.connections[connection as usize];
            if bytes < most && own.tls.is_none() && !own.peer_closed {
                break;
            }
        }
        self.buffer = buffer;
    }

    /// Takes bytes of a response.
    fn take(&mut self, connection: u32, bytes: &[u8]) -> Taken {
        let own = &mut self.connections[connection as usize];
        let mut rest = bytes;
        while own.head.is_none() {
            let gathered = !own.head_bytes.is_empty();
            if gathered {
                own.head_bytes.extend_from_slice(rest);
            }
            let seen: &[u8] = if gathered { &own.head_bytes } else { rest };
            let head = match parse_head(seen) {
                Ok(Some(head)) => head,
                Ok(None) => {
                    if !gathered {
                        own.head_bytes.extend_from_slice(rest);
                    }
                    return Taken::More;
                }
                Err(text) => return Taken::Broken(Fault::BadResponse, text),
            };
            let after = seen.len() - head.bytes;
            let cookie = head
                .cookie
                .and_then(|(from, to)| shown_advertisement(&seen[from..to]));
            own.advertisement = cookie.unwrap_or(own.advertisement);
            own.location = head
                .location
                .map(|(from, to)| String::from_utf8_lossy(&seen[from..to]).into_owned());
            rest = &rest[rest.len() - after..];
            own.head_bytes.clear();
            if head.status >= 200 {
                own.body = Body::after(&head, own.step.operation == Operation::Head);
                own.head = Some(head);
                own.digest = crc32fast::Hasher::new();
            }
        }
        let digests = self.run.settings.check == Check::Digest;
        let Connection {
            body,
            digest,
            body_bytes,
            ..
        } = own;
        let taken = body.take(rest, |data| {
            *body_bytes += data.len() as u64;
            if digests {
                digest.update(data);
            }
        });
        match taken {
            Err(text) => Taken::Broken(Fault::BadResponse, text),
            Ok(taken) if taken < rest.len() => Taken::Broken(
                Fault::BadResponse,
                format!("{} bytes after the end of the response", rest.len() - taken),
            ),
            Ok(_) if own.body.is_complete() => Taken::Complete,
            Ok(_) => Taken::More,
        }
    }

    /// The server closed.
    fn ended(&mut self, connection: u32, now: u64) {
        let own = &mut self.connections[connection as usize];
        own.peer_closed = true;
        match (&own.head, own.body) {
            (Some(_), Body::UntilClose) => self.complete(connection, now),
            (Some(head), body) => {
                let (announced, found) = (head.length_bytes, own.body_bytes);
                self.fail(connection, Fault::ShortBody, now, || {
                    match (announced, body) {
                        (Some(announced), _) => {
                            format!("{found} of {announced} bytes, then closed")
                        }
                        (None, _) => format!("closed inside a chunk, after {found} bytes"),
                    }
                });
            }
            (None, _) => self.broken_off(connection, &io::ErrorKind::UnexpectedEof.into(), now),
        }
    }

    /// The connection broke under a request. One that had been kept may have been closed before the
    /// request came (RFC 9112, section 9.3.1): then it is asked once more, as browsers do.
    fn broken_off(&mut self, connection: u32, error: &io::Error, now: u64) {
        let own = &mut self.connections[connection as usize];
        let text = format!("after {} bytes: {error}", own.received_bytes);
        if own.served > 0 && own.received_bytes == 0 && !own.retried {
            own.retried = true;
            own.close();
            self.tally.reopened += 1;
            return self.connect(connection, now);
        }
        let fault = match error.kind() {
            io::ErrorKind::UnexpectedEof => Fault::Closed,
            _ => Fault::of_transfer(error),
        };
        self.fail(connection, fault, now, || text);
    }

    /// The request at hand has failed.
    pub(super) fn fail(
        &mut self,
        connection: u32,
        fault: Fault,
        now: u64,
        text: impl FnOnce() -> String,
    ) {
        self.tally.faults.add(fault, text);
        let own = &mut self.connections[connection as usize];
        own.window_faults += 1;
        own.wait = Wait::Nothing;
        let status = own.head.as_ref().map_or(0, |head| head.status);
        own.close();
        self.note(connection, now, status, fault.name());
        self.next(connection, now, true);
    }

    /// The response is complete.
    pub(super) fn complete(&mut self, connection: u32, now: u64) {
        let own = &mut self.connections[connection as usize];
        let Some(head) = own.head.take() else {
            return;
        };
        own.wait = Wait::Nothing;
        own.served += 1;
        let keeps =
            head.keep_alive && !own.closing && !own.peer_closed && own.body != Body::UntilClose;
        let service = now.saturating_sub(own.sent_ns);
        let response = now.saturating_sub(own.intended_ns);
        own.window_requests += 1;
        self.tally.requests += 1;
        self.tally.body_bytes += own.body_bytes;
        self.tally.statuses[usize::from(head.status)] += 1;
        self.tally.operations[own.step.operation as usize] += 1;
        self.tally.service.record(service);
        self.tally.response.record(response);
        self.tally.response_sum_ns += u128::from(response);
        self.answered_ns = now;
        let complaint = self.complaint(connection, &head);
        let own = &mut self.connections[connection as usize];
        if keeps {
            own.state = State::Idle;
        } else {
            own.close();
        }
        let error = match complaint {
            None => {
                self.tally.sound += 1;
                ""
            }
            Some((fault, text)) => {
                own.window_faults += 1;
                self.tally.faults.add(fault, || text);
                fault.name()
            }
        };
        if let Some(date) = head.last_modified {
            self.remember(connection, date);
        }
        self.note(connection, now, head.status, error);
        self.next(connection, now, false);
    }

    /// What is wrong with a complete response, if anything is.
    fn complaint(&mut self, connection: u32, head: &Head) -> Option<(Fault, String)> {
        let own = &mut self.connections[connection as usize];
        let step = own.step;
        if !is_expected(head.status, step.status) {
            let mut text = format!("status {}", head.status);
            if let Some(location) = own.location.take() {
                text.push_str(" to ");
                text.push_str(&location);
            }
            return Some((Fault::UnexpectedStatus, text));
        }
        let is_whole = head.status == 200 && step.operation != Operation::Head;
        let expected = u64::from(step.expected_bytes);
        if self.run.settings.check == Check::None || !is_whole {
            return None;
        }
        if step.expected_bytes != ANY_SIZE && own.body_bytes != expected {
            let text = format!(
                "object {}: {} of {expected} bytes",
                step.object, own.body_bytes
            );
            return Some((Fault::ShortBody, text));
        }
        let is_file = matches!(step.operation, Operation::Get | Operation::Conditional);
        if self.run.settings.check == Check::Digest && is_file {
            let digest = core::mem::take(&mut own.digest).finalize();
            let known = *self.digests.entry(step.object).or_insert(digest);
            if known != digest {
                let text = format!(
                    "object {}: crc32 {digest:08x}, before {known:08x}",
                    step.object
                );
                return Some((Fault::ChangedBody, text));
            }
        }
        None
    }

    /// Remembers how old an object is, where conditional requests will ask.
    fn remember(&mut self, connection: u32, date: [u8; DATE_BYTES]) {
        let settings = &self.run.settings;
        let is_trace = matches!(settings.workload, super::settings::Workload::Trace { .. });
        if settings.conditional_share > 0.0 || is_trace {
            self.copies
                .insert(self.connections[connection as usize].step.object, date);
        }
    }

    /// Writes the request's line, where a log was asked for.
    fn note(&mut self, connection: u32, now: u64, status: u16, error: &str) {
        let Some(log) = &mut self.log else {
            return;
        };
        let own = &self.connections[connection as usize];
        log.add(&Entry {
            intended_ns: own.intended_ns,
            sent_ns: own.sent_ns,
            done_ns: now,
            status,
            bytes: own.received_bytes,
            operation: OPERATION_NAMES[own.step.operation as usize],
            object: own.step.object,
            connection,
            error,
        });
    }
}

/// Whether a response has a status that its request accepts: success, "not modified", or the status
/// that the log has recorded. Any redirect stands for another one.
fn is_expected(status: u16, logged: u16) -> bool {
    matches!(status, 200..=299 | 304)
        || status == logged
        || is_redirect(status) && is_redirect(logged)
}
