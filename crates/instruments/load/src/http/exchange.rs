//! A request and its response on one connection.

use std::io;

use perpacket_http::body::BodyError;
use perpacket_http::date::DATE_BYTES;
use perpacket_http::response::{parse_response, set_cookies};
use perpacket_linux::epoll::EventFlags;

use super::connection::{ArrivingResponse, State, Wait};
use super::errors::RequestError;
use super::request::{RequestContext, shown_advertisement};
use super::request_log::Entry;
use super::session::{ANY_SIZE, OPERATION_NAMES, Operation};
use super::spec::Check;
use super::worker::Worker;
use super::workload::Workload;

/// Bytes per read of a connection with a line speed: the payload of an Ethernet segment.
const SEGMENT_BYTES: usize = 1460;
const BITS_PER_BYTE_NS: u128 = 8_000_000_000;

/// The state of a response after some of its bytes were parsed.
enum Parsed {
    /// More bytes are to come.
    Incomplete,
    /// The response is complete.
    Complete,
    /// The bytes are not an HTTP response, for this reason.
    Invalid(String),
}

impl Worker {
    /// Handles one event and returns the current time.
    pub(super) fn handle_event(&mut self, slot: u32, generation: u32, flags: EventFlags) -> u64 {
        let now = self.now();
        let connection = &mut self.connections[slot as usize];
        if connection.generation != generation {
            return now;
        }
        if flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
            connection.peer_closed = true;
        }
        match connection.state {
            State::Closed => {}
            State::Connecting => self.finish_connecting(slot, now),
            State::Idle => {
                // If no request is under way, the connection is closed when the peer closes it or
                // sends any byte.
                if connection.peer_closed || flags.contains(EventFlags::IN) {
                    connection.close();
                }
            }
            State::Busy => {
                let has_unsent = !connection.unsent.is_empty() || connection.tls.is_some();
                if flags.contains(EventFlags::OUT)
                    && has_unsent
                    && let Err(error) = connection.flush()
                {
                    self.connection_lost(slot, &error, now);
                    return now;
                }
                let paced = self.connections[slot as usize].wait != Wait::TimeOut;
                if !paced
                    && flags.intersects(
                        EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR,
                    )
                {
                    self.receive(slot);
                }
            }
        }
        now
    }

    /// Handles the end of a connection attempt, which has succeeded or failed.
    fn finish_connecting(&mut self, slot: u32, now: u64) {
        let connection = &mut self.connections[slot as usize];
        let error = match connection
            .stream
            .as_ref()
            .map(std::net::TcpStream::take_error)
        {
            Some(Ok(None)) => None,
            Some(Ok(Some(error)) | Err(error)) => Some(error),
            None => Some(io::ErrorKind::NotConnected.into()),
        };
        if let Some(error) = error {
            let error_kind = RequestError::of_connecting(&error);
            return self.fail_request(slot, error_kind, now, || format!("connect: {error}"));
        }
        if let Some(connector) = &self.run.connector {
            match connector.start() {
                Ok(tls) => connection.tls = Some(Box::new(tls)),
                Err(error) => {
                    return self.fail_request(slot, RequestError::Tls, now, || error.to_string());
                }
            }
        }
        self.send_request(slot, now);
    }

    /// Sends the current request on an open connection.
    pub(super) fn send_request(&mut self, slot: u32, now: u64) {
        let connection = &mut self.connections[slot as usize];
        connection.reset_response();
        connection.state = State::Busy;
        connection.sent_ns = now;
        connection.progress_ns = now;
        let copy_date = match connection.request.operation {
            Operation::Conditional => self.copies.get(&connection.request.object),
            _ => None,
        };
        let context = RequestContext {
            close: connection.closing,
            copy_date: copy_date.unwrap_or(&self.run.today),
            user: slot,
            last_advertisement: connection.advertisement,
        };
        let writer = &self.run.writer;
        let bytes = match &self.run.application {
            Some(application) => {
                let client = &connection.session.client;
                let request = &connection.request;
                writer.page(
                    &mut self.scratch,
                    application,
                    request,
                    client,
                    context.close,
                );
                &self.scratch
            }
            None => writer.bytes(&mut self.scratch, &connection.request, context),
        };
        if let Err(error) = connection.write(bytes) {
            return self.connection_lost(slot, &error, now);
        }
        self.arm_timeout(slot, now);
    }

    /// Reads the bytes of a response that have arrived.
    pub(super) fn receive(&mut self, slot: u32) {
        let mut buffer = core::mem::take(&mut self.buffer);
        loop {
            let line_speed = self.run.spec.line_speed_bps();
            let most = if line_speed.is_some() {
                SEGMENT_BYTES
            } else {
                buffer.len()
            };
            let drops = line_speed.is_none()
                && self.run.spec.check != Check::Digest
                && self.run.application.is_none();
            let connection = &mut self.connections[slot as usize];
            let was_handshaking = connection
                .tls
                .as_ref()
                .is_some_and(|tls| tls.is_handshaking());
            let read = connection.read(&mut buffer[..most], drops);
            let now = self.now();
            let connection = &mut self.connections[slot as usize];
            if was_handshaking
                && connection
                    .tls
                    .as_ref()
                    .is_some_and(|tls| !tls.is_handshaking())
            {
                // The request has waited for the handshake and is sent now.
                connection.sent_ns = now;
                connection.progress_ns = now;
            }
            let bytes = match read {
                Ok(0) => {
                    self.end_of_stream(slot, now);
                    break;
                }
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.connection_lost(slot, &error, now);
                    break;
                }
            };
            connection.progress_ns = now;
            connection.received_bytes += bytes as u64;
            connection.window.bytes += bytes as u64;
            self.counts.bytes += bytes as u64;
            // Dropped bytes are not in the buffer. Only their number counts.
            let parsed = self.parse(slot, &buffer[..bytes.min(most)]);
            let complete = match parsed {
                Parsed::Invalid(text) => {
                    self.fail_request(slot, RequestError::BadResponse, now, || text);
                    break;
                }
                Parsed::Complete => true,
                Parsed::Incomplete => false,
            };
            let until = self.line_until_ns(slot);
            if until > now {
                let wait = if complete { Wait::LineEnd } else { Wait::Line };
                self.wait_until(slot, wait, until);
                break;
            }
            if complete {
                self.complete_request(slot, now);
                break;
            }
            // A short read means that an edge-triggered stream socket is empty (epoll(7)). The
            // peer's end of stream must still be read.
            let connection = &self.connections[slot as usize];
            if bytes < most && connection.tls.is_none() && !connection.peer_closed {
                break;
            }
        }
        self.buffer = buffer;
    }

    /// The time at which a line of the configured speed would deliver the last of the received
    /// bytes; 0 without a line speed.
    fn line_until_ns(&self, slot: u32) -> u64 {
        let Some(speed_bps) = self.run.spec.line_speed_bps() else {
            return 0;
        };
        let connection = &self.connections[slot as usize];
        let bytes = u128::from(connection.received_bytes);
        connection.sent_ns + (bytes * BITS_PER_BYTE_NS / u128::from(speed_bps)) as u64
    }

    /// Parses bytes of a response.
    fn parse(&mut self, slot: u32, bytes: &[u8]) -> Parsed {
        let connection = &mut self.connections[slot as usize];
        let mut rest = bytes;
        while connection.response.is_none() {
            let is_continued = !connection.head_bytes.is_empty();
            if is_continued {
                connection.head_bytes.extend_from_slice(rest);
            }
            let seen: &[u8] = if is_continued {
                &connection.head_bytes
            } else {
                rest
            };
            let (head, head_bytes) = match parse_response(seen) {
                Ok(Some(parsed)) => parsed,
                Ok(None) => {
                    if !is_continued {
                        connection.head_bytes.extend_from_slice(rest);
                    }
                    return Parsed::Incomplete;
                }
                Err(error) => return Parsed::Invalid(error.to_string()),
            };
            let left = seen.len() - head_bytes;
            if self.run.application.is_some() {
                for cookie in set_cookies(&seen[..head_bytes]) {
                    connection.session.client.store_cookie(cookie);
                }
            } else if let Some(shown) = head.set_cookie.and_then(shown_advertisement) {
                connection.advertisement = shown;
            }
            // A status below 200 announces another response.
            if head.status >= 200 {
                let to_head = connection.request.operation == Operation::Head;
                match ArrivingResponse::new(&head, to_head) {
                    Ok(response) => connection.response = Some(response),
                    Err(error) => return Parsed::Invalid(body_problem(error)),
                }
            }
            rest = &rest[rest.len() - left..];
            connection.head_bytes.clear();
        }
        let Some(response) = &mut connection.response else {
            return Parsed::Incomplete;
        };
        let digests = self.run.spec.check == Check::Digest;
        let reads_text = self.run.application.is_some();
        let text = &mut connection.text;
        let ArrivingResponse {
            body,
            digest,
            body_bytes,
            ..
        } = response;
        let read = body.read(rest, |data| {
            *body_bytes += data.len() as u64;
            if reads_text {
                text.extend_from_slice(data);
            }
            if digests {
                digest.update(data);
            }
        });
        match read {
            Err(error) => Parsed::Invalid(body_problem(error)),
            Ok(read) if read < rest.len() => Parsed::Invalid(format!(
                "{} bytes after the end of the response",
                rest.len() - read
            )),
            Ok(_) if response.body.is_complete() => Parsed::Complete,
            Ok(_) => Parsed::Incomplete,
        }
    }

    /// Handles the server's close of its sending side.
    fn end_of_stream(&mut self, slot: u32, now: u64) {
        let connection = &mut self.connections[slot as usize];
        connection.peer_closed = true;
        let Some(response) = &connection.response else {
            return self.connection_lost(slot, &io::ErrorKind::UnexpectedEof.into(), now);
        };
        if response.body.ends_at_close() {
            return self.complete_request(slot, now);
        }
        let (announced, received) = (response.length_bytes, response.body_bytes);
        self.fail_request(slot, RequestError::ShortBody, now, || match announced {
            Some(announced) => format!("{received} of {announced} bytes, then closed"),
            None => format!("closed inside a chunk, after {received} bytes"),
        });
    }

    /// Handles a connection that broke during a request. The server may have closed an idle
    /// connection just before the request arrived (RFC 9112, section 9.3.1). The request is then
    /// sent once more, as browsers do.
    fn connection_lost(&mut self, slot: u32, error: &io::Error, now: u64) {
        let connection = &mut self.connections[slot as usize];
        let text = format!("after {} bytes: {error}", connection.received_bytes);
        if connection.served > 0 && connection.received_bytes == 0 && !connection.retried {
            connection.retried = true;
            connection.close();
            self.counts.reopened += 1;
            return self.connect(slot, now);
        }
        let error_kind = match error.kind() {
            io::ErrorKind::UnexpectedEof => RequestError::Closed,
            _ => RequestError::of_connected(error),
        };
        self.fail_request(slot, error_kind, now, || text);
    }

    /// Ends the current request as failed.
    pub(super) fn fail_request(
        &mut self,
        slot: u32,
        error_kind: RequestError,
        now: u64,
        text: impl FnOnce() -> String,
    ) {
        self.counts.errors.add(error_kind, text);
        let connection = &mut self.connections[slot as usize];
        connection.window.errors += 1;
        connection.wait = Wait::TimeOut;
        let response = connection.response.as_ref();
        let status = response.map_or(0, |response| response.status);
        connection.close();
        self.log_request(slot, now, status, error_kind.name());
        self.count_page(slot, None);
        self.end_request(slot, now, true);
    }

    /// Ends the current request, whose response is complete.
    pub(super) fn complete_request(&mut self, slot: u32, now: u64) {
        let connection = &mut self.connections[slot as usize];
        let Some(mut response) = connection.response.take() else {
            return;
        };
        connection.wait = Wait::TimeOut;
        connection.served += 1;
        let stays_open = response.keep_alive
            && !connection.closing
            && !connection.peer_closed
            && !response.body.ends_at_close();
        let service_ns = now.saturating_sub(connection.sent_ns);
        let response_ns = now.saturating_sub(connection.intended_ns);
        connection.window.requests += 1;
        let counts = &mut self.counts;
        counts.requests += 1;
        counts.body_bytes += response.body_bytes;
        *counts.statuses.entry(response.status).or_default() += 1;
        counts.operations[connection.request.operation as usize] += 1;
        counts.service.record(service_ns);
        counts.response.record(response_ns);
        counts.response_sum_ns += u128::from(response_ns);
        self.answered_ns = now;
        let problem = self.check_response(slot, &mut response);
        let connection = &mut self.connections[slot as usize];
        if stays_open {
            connection.state = State::Idle;
        } else {
            connection.close();
        }
        let error = match problem {
            None => {
                self.counts.sound += 1;
                ""
            }
            Some((error, text)) => {
                connection.window.errors += 1;
                self.counts.errors.add(error, || text);
                error.name()
            }
        };
        if let Some(date) = response.last_modified {
            self.store_copy_date(slot, date);
        }
        self.log_request(slot, now, response.status, error);
        self.count_page(slot, error.is_empty().then_some(response_ns));
        self.end_request(slot, now, false);
    }

    /// The first problem of a complete response: its status, its length or its digest.
    fn check_response(
        &mut self,
        slot: u32,
        response: &mut ArrivingResponse,
    ) -> Option<(RequestError, String)> {
        let request = self.connections[slot as usize].request;
        let (status, object) = (response.status, request.object);
        if self.run.application.is_some() {
            return self.check_page(slot, response);
        }
        if !is_expected(status, request.logged_status) {
            let text = format!("status {status}{}", response.destination(""));
            return Some((RequestError::UnexpectedStatus, text));
        }
        let check = self.run.spec.check;
        if check == Check::None || status != 200 || request.operation == Operation::Head {
            return None;
        }
        let expected = u64::from(request.expected_bytes);
        if request.expected_bytes != ANY_SIZE && response.body_bytes != expected {
            let text = format!(
                "object {object}: {} of {expected} bytes",
                response.body_bytes
            );
            return Some((RequestError::ShortBody, text));
        }
        let is_file = matches!(request.operation, Operation::Get | Operation::Conditional);
        if check == Check::Digest && is_file {
            let digest = core::mem::take(&mut response.digest).finalize();
            let known = *self.digests.entry(object).or_insert(digest);
            if known != digest {
                let text = format!("object {object}: crc32 {digest:08x}, before {known:08x}");
                return Some((RequestError::ChangedBody, text));
            }
        }
        None
    }

    /// The problem with the answer to a page of an application.
    fn check_page(
        &mut self,
        slot: u32,
        response: &ArrivingResponse,
    ) -> Option<(RequestError, String)> {
        let application = self.run.application.as_ref()?;
        let connection = &mut self.connections[slot as usize];
        let page = connection.request.object;
        let expected = application.status(page);
        let problem = if response.status == expected {
            let client = &mut connection.session.client;
            application.accept(page, &connection.text, client).err()?
        } else {
            let destination = response.destination(":");
            format!(
                "status {}, expected {expected}{destination}",
                response.status
            )
        };
        let text = format!("{}: {problem}", application.name(page));
        Some((RequestError::WrongContent, text))
    }

    /// Counts the answer to a page of an application, and draws the client's next page. The
    /// response time of a wrong answer is not recorded.
    fn count_page(&mut self, slot: u32, right_ns: Option<u64>) {
        let Some(pages) = &mut self.counts.pages else {
            return;
        };
        let connection = &mut self.connections[slot as usize];
        pages.count(connection.request.object, right_ns);
        if let Workload::Application { each, .. } = self.run.spec.workload()
            && each.is_some_and(|each| pages.fewest() >= each)
        {
            self.budget = 0;
        }
        self.sessions
            .next_page(&mut connection.session, right_ns.is_some());
    }

    /// Stores the date of the client's copy of an object, for conditional requests.
    fn store_copy_date(&mut self, slot: u32, date: [u8; DATE_BYTES]) {
        let spec = &self.run.spec;
        let is_trace = matches!(spec.workload(), Workload::Trace { .. });
        if spec.conditional.0 > 0.0 || is_trace {
            self.copies
                .insert(self.connections[slot as usize].request.object, date);
        }
    }

    /// Writes the request to the request log, if there is one.
    fn log_request(&mut self, slot: u32, now: u64, status: u16, error: &str) {
        let Some(log) = &mut self.log else {
            return;
        };
        let connection = &self.connections[slot as usize];
        log.add(&Entry {
            intended_ns: connection.intended_ns,
            sent_ns: connection.sent_ns,
            done_ns: now,
            status,
            bytes: connection.received_bytes,
            operation: OPERATION_NAMES[connection.request.operation as usize],
            object: connection.request.object,
            connection: slot,
            error,
        });
    }
}

/// Whether a status is expected: success, "not modified", or the status in the log. All redirects
/// count as the same status.
fn is_expected(status: u16, logged: u16) -> bool {
    matches!(status, 200..=299 | 304)
        || status == logged
        || is_redirect(status) && is_redirect(logged)
}

/// Whether a status sends the client to another location.
pub(super) fn is_redirect(status: u16) -> bool {
    matches!(status, 300..=303 | 305..=399)
}

fn body_problem(error: BodyError) -> String {
    match error {
        BodyError::UnexpectedByte(byte) => {
            format!("byte {byte:#04x} where a chunk's size or end was expected")
        }
        BodyError::TooLong => "a chunk's size exceeds 64 bits".to_owned(),
        BodyError::TooMuchOverhead => "too many chunk extensions or trailers".to_owned(),
    }
}
