//! Responses to RTSP requests (RFC 2326).
//!
//! A connection has one session, and a session has one stream. The session ends with its connection.
//! The server answers the requests of a connection in order. DESCRIBE and SETUP wait until a reader
//! has opened the file.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use crate::wire::rtsp::{LowerTransport, Message, Range, Request, Status, Transport};
use crate::wire::sdp;
use perpacket_http::target::percent_decode;
use rustix::rand::{GetRandomFlags, getrandom};

use super::Buffering;
use super::counters::count;
use super::event_loop::EventLoop;
use super::library::{Medium, OpenError};
use super::mailbox::Requester;
use super::session::{Connection, Sender, Session, State};
use super::stream::{Destination, RtpStart, Stream};
use super::threads::{StreamTask, StreamThreads};
use perpacket_linux::mailbox::lock;

/// The relative URI of the only stream of a medium.
const TRACK: &str = "track1";

/// The supported methods.
const METHODS: &str =
    "OPTIONS, DESCRIBE, SETUP, PLAY, PAUSE, TEARDOWN, GET_PARAMETER, SET_PARAMETER";

/// Lowest port to which the server sends media. Lower ports belong to services of the client's
/// machine.
const FIRST_CLIENT_PORT: u16 = 1024;

/// Mean time between reports, in nanoseconds (RFC 3550, section 6.2).
const REPORT_INTERVAL_NS: u64 = 5_000_000_000;

/// A response.
pub(super) struct Reply {
    status: Status,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Reply {
    /// A response with a status only.
    pub(super) fn new(status: Status) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: String::new(),
        }
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The response as bytes. `sequence` is the CSeq of the request.
    pub(super) fn to_bytes(&self, sequence: Option<u32>) -> Vec<u8> {
        let status = self.status;
        let mut text = format!("RTSP/1.0 {} {}\r\n", status.code(), status.reason());
        // Writing to a string cannot fail.
        if let Some(sequence) = sequence {
            let _ = write!(text, "CSeq: {sequence}\r\n");
        }
        for (name, value) in &self.headers {
            let _ = write!(text, "{name}: {value}\r\n");
        }
        if !self.body.is_empty() {
            let _ = write!(text, "Content-Length: {}\r\n", self.body.len());
        }
        text.push_str("\r\n");
        text.push_str(&self.body);
        text.into_bytes()
    }
}

/// Time to the next report. It is random, from half to one and a half times the mean, so that
/// streams that started together do not report together (RFC 3550, section 6.2).
pub(super) fn report_interval_ns() -> u64 {
    REPORT_INTERVAL_NS / 2 + u64::from_ne_bytes(random()) % REPORT_INTERVAL_NS
}

/// Random bytes that no client can predict.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // getrandom(2) waits until the generator is ready and does not fail for so few bytes.
    let _ = getrandom(&mut bytes, GetRandomFlags::empty());
    bytes
}

/// A path or URI without the part that names the stream.
fn without_track(uri: &str) -> &str {
    let uri = uri.trim_end_matches('/');
    uri.strip_suffix(TRACK)
        .map_or(uri, |uri| uri.trim_end_matches('/'))
}

/// The decoded file name of a URI, without the stream's part. `None` if the URI has no file name.
fn file_name(uri: &str) -> Option<String> {
    let scheme = uri
        .get(..7)
        .filter(|scheme| scheme.eq_ignore_ascii_case("rtsp://"))?;
    let (_, path) = uri[scheme.len()..].split_once('/')?;
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let name = String::from_utf8(percent_decode(without_track(path).as_bytes())?).ok()?;
    (!name.is_empty() && !name.contains('\0')).then_some(name)
}

impl EventLoop {
    /// Handles a request: answers it, or requests the medium first.
    pub(super) fn handle(&mut self, token: u64, connection: &mut Connection, request: Request) {
        count(&self.shared.counters.requests);
        if let Some(session) = &mut connection.session {
            session.with(Stream::reset_refusals);
        }
        if let Some(refusal) = refusal(&request) {
            return self.answer(connection, &request.message, refusal);
        }
        let reply = match &*request.method {
            "OPTIONS" => Reply::new(Status::Ok).with("Public", METHODS),
            "DESCRIBE" | "SETUP" => match file_name(&request.uri) {
                Some(name) => {
                    let requester = Requester {
                        mailbox: self.mailbox(),
                        token,
                    };
                    self.shared.readers.open(name, requester);
                    connection.waiting = Some(request);
                    return;
                }
                None => Reply::new(Status::NotFound),
            },
            "PLAY" | "PAUSE" | "TEARDOWN" => self.control(token, connection, &request),
            "GET_PARAMETER" | "SET_PARAMETER" => match request.message.session() {
                Some(_) if !names_session(connection, &request.message) => {
                    Reply::new(Status::SessionNotFound)
                }
                _ => Reply::new(Status::Ok),
            },
            _ => Reply::new(Status::MethodNotAllowed).with("Allow", METHODS),
        };
        self.answer(connection, &request.message, reply);
    }

    fn answer(&self, connection: &mut Connection, request: &Message, mut reply: Reply) {
        let counters = &self.shared.counters;
        if reply.status.code() >= 400 {
            count(&counters.errors);
        }
        if reply.status == Status::NotEnoughBandwidth {
            count(&counters.refused);
        }
        if let Some(session) = &connection.session
            && reply.status == Status::Ok
        {
            let timeout_s = self.shared.spec.session_timeout.0.as_secs();
            let value = format!("{};timeout={timeout_s}", session.name);
            reply.headers.push(("Session", value));
        }
        reply.headers.push(("Server", "perpacket".into()));
        lock(&connection.outgoing).push(&reply.to_bytes(request.sequence()));
    }

    /// Answers a request that waited for its medium.
    pub(super) fn handle_opened(
        &mut self,
        connection: &mut Connection,
        request: &Request,
        result: Result<Arc<Medium>, OpenError>,
    ) {
        let reply = match result {
            Ok(medium) => {
                connection.described = Some(Arc::clone(&medium));
                if request.method == "DESCRIBE" {
                    describe(connection, request, &medium)
                } else {
                    self.set_up(connection, request, medium)
                }
            }
            Err(OpenError::Layout(error)) => {
                // The body contains the reason, for the user of the client.
                let mut reply = Reply::new(Status::UnsupportedMediaType)
                    .with("Content-Type", "text/plain; charset=utf-8");
                reply.body = format!("{error}\r\n");
                reply
            }
            Err(OpenError::Missing { .. } | OpenError::NotAFile { .. }) => {
                Reply::new(Status::NotFound)
            }
        };
        self.answer(connection, &request.message, reply);
    }

    fn set_up(
        &mut self,
        connection: &mut Connection,
        request: &Request,
        medium: Arc<Medium>,
    ) -> Reply {
        let named = request.message.session().is_some();
        match &connection.session {
            None if named => return Reply::new(Status::SessionNotFound),
            Some(_) if named && !names_session(connection, &request.message) => {
                return Reply::new(Status::SessionNotFound);
            }
            // The session would get a second stream.
            Some(session) if !named || session.medium != medium.name => {
                return Reply::new(Status::AggregateOperationNotAllowed);
            }
            Some(session) if session.is_playing() => {
                return Reply::new(Status::MethodNotValidInThisState);
            }
            _ => {}
        }
        let offers = request.message.header("Transport").unwrap_or_default();
        let accepted = Transport::parse_all(offers)
            .flatten()
            .find(|offer| is_acceptable(offer, connection.peer.ip()));
        let Some(transport) = accepted else {
            return Reply::new(Status::UnsupportedTransport);
        };
        self.end_session(connection);
        let (counters, spec) = (&self.shared.counters, &self.shared.spec);
        if counters.sessions_open.fetch_add(1, Relaxed) >= spec.max_sessions {
            counters.sessions_open.fetch_sub(1, Relaxed);
            return Reply::new(Status::NotEnoughBandwidth);
        }
        match self.new_session(connection, medium, transport) {
            Ok(transport) => {
                count(&self.shared.counters.sessions);
                Reply::new(Status::Ok).with("Transport", transport.to_string())
            }
            // No descriptor or port is free.
            Err(_) => {
                self.shared.counters.sessions_open.fetch_sub(1, Relaxed);
                Reply::new(Status::NotEnoughBandwidth)
            }
        }
    }

    fn new_session(
        &mut self,
        connection: &mut Connection,
        medium: Arc<Medium>,
        mut transport: Transport,
    ) -> std::io::Result<Transport> {
        let ssrc = u32::from_ne_bytes(random());
        let destination = match &mut transport.lower {
            LowerTransport::Udp { client, server } => {
                let (rtp, reports) = client.unwrap_or_default();
                let to = |port| {
                    let mut address = connection.peer;
                    address.set_port(port);
                    address
                };
                *server = Some((self.rtp_port, self.rtp_port + 1));
                let (socket, address) = self.connect(connection.local.ip(), to(rtp))?;
                Destination::Datagrams {
                    socket,
                    to: address,
                    reports: to(reports),
                    refusals: 0,
                    segments: true,
                }
            }
            LowerTransport::Interleaved { channels } => Destination::Frames {
                outgoing: Arc::clone(&connection.outgoing),
                channels: *channels.get_or_insert((0, 1)),
            },
        };
        transport.ssrc = Some(ssrc);
        transport.destination = None;
        let origin = RtpStart {
            ssrc,
            sequence: u16::from_ne_bytes(random()),
            timestamp: u32::from_ne_bytes(random()),
        };
        let counters = Arc::clone(&self.shared.counters);
        let name = medium.name.clone();
        let stream = Stream::new(medium, destination, origin, counters);
        let sender = match self.shared.spec.buffering {
            Buffering::Unbuffered | Buffering::Single | Buffering::Double => Sender::Threads {
                stream: Arc::new(Mutex::new(stream)),
                threads: None,
            },
            Buffering::Shared | Buffering::Mapped => Sender::EventLoop {
                stream: Box::new(stream),
                ahead: std::collections::VecDeque::new(),
                starved: false,
            },
        };
        connection.session = Some(Box::new(Session {
            name: format!("{:016x}", u64::from_ne_bytes(random())),
            medium: name,
            ssrc,
            sender,
            state: State::Ready,
            reported_lost: 0,
            cut_short: false,
            report_ns: 0,
        }));
        Ok(transport)
    }

    /// Handles PLAY, PAUSE and TEARDOWN.
    fn control(&mut self, token: u64, connection: &mut Connection, request: &Request) -> Reply {
        if !names_session(connection, &request.message) {
            return Reply::new(Status::SessionNotFound);
        }
        let is_its_medium = connection
            .session
            .as_ref()
            .is_some_and(|session| file_name(&request.uri).as_ref() == Some(&session.medium));
        if !is_its_medium {
            return Reply::new(Status::NotFound);
        }
        match &*request.method {
            "PLAY" => self.play(token, connection, request),
            "PAUSE" => {
                self.halt(connection);
                let position_ns = connection.session.as_mut().map_or(0, |session| {
                    session.with(|stream| stream.medium.layout.time_ns(stream.next))
                });
                let range = format!("npt={:.6}-", position_ns as f64 / 1e9);
                Reply::new(Status::Ok).with("Range", range)
            }
            _ => {
                self.end_session(connection);
                Reply::new(Status::Ok)
            }
        }
    }

    fn play(&mut self, token: u64, connection: &mut Connection, request: &Request) -> Reply {
        let Some(session) = &mut connection.session else {
            return Reply::new(Status::SessionNotFound);
        };
        let range = match request.message.header("Range").map(Range::parse) {
            Some(Ok(range)) => Some(range),
            Some(Err(_)) => return Reply::new(Status::InvalidRange),
            None => None,
        };
        let (medium, position) = session.with(|stream| (Arc::clone(&stream.medium), stream.next));
        let layout = &medium.layout;
        let start = range.and_then(|range| range.start_ns);
        let first = start.map_or(position, |start_ns| layout.packet_at(start_ns));
        let end = range.and_then(|range| range.end_ns);
        let end = end.map_or(layout.packets(), |end_ns| layout.packet_at(end_ns));
        if first >= end {
            return Reply::new(Status::InvalidRange);
        }
        if session.is_playing() && range.is_none() {
            return playing(session, request);
        }
        let rate_bps = layout.rate_bps();
        self.halt(connection);
        if !self.admit_rate(rate_bps) {
            return Reply::new(Status::NotEnoughBandwidth);
        }
        let Some(session) = &mut connection.session else {
            return Reply::new(Status::SessionNotFound);
        };
        session.with(|stream| stream.seek(first, end));
        session.cut_short = false;
        self.sources.insert(session.ssrc, token);
        self.packet_rate += packet_rate(&medium);
        let reply = playing(session, request);
        let is_started = match &mut session.sender {
            Sender::EventLoop { .. } => {
                self.begin(token, connection);
                true
            }
            Sender::Threads { stream, threads } => {
                self.runs += 1;
                let task = StreamTask {
                    stream: Arc::clone(stream),
                    buffering: self.shared.spec.buffering,
                    buffer_packets: self.shared.spec.buffer_packets(),
                    readers: self.shared.readers.clone(),
                    counters: Arc::clone(&self.shared.counters),
                    mailbox: Arc::clone(&self.mailbox),
                    token,
                    run: self.runs,
                };
                *threads = StreamThreads::start(task).ok();
                session.state = State::Playing;
                threads.is_some()
            }
        };
        if !is_started {
            self.halt(connection);
            return Reply::new(Status::NotEnoughBandwidth);
        }
        reply
    }

    /// Adds the rate of a stream, unless the sum would be above the limit.
    fn admit_rate(&self, rate_bps: u64) -> bool {
        let (counters, spec) = (&self.shared.counters, &self.shared.spec);
        if self.shared.overloaded.load(Relaxed) {
            return false;
        }
        let before = counters.rate_bps.fetch_add(rate_bps, Relaxed);
        let is_admitted = before.saturating_add(rate_bps) <= spec.max_rate_bps();
        if is_admitted {
            count(&counters.playing);
        } else {
            counters.rate_bps.fetch_sub(rate_bps, Relaxed);
        }
        is_admitted
    }

    /// Stops a playing stream.
    fn halt(&mut self, connection: &mut Connection) {
        let Some(session) = &mut connection.session else {
            return;
        };
        if !session.is_playing() {
            return;
        }
        session.halt();
        self.sources.remove(&session.ssrc);
        let medium = session.with(|stream| Arc::clone(&stream.medium));
        self.packet_rate = (self.packet_rate - packet_rate(&medium)).max(0.0);
        let counters = &self.shared.counters;
        counters.playing.fetch_sub(1, Relaxed);
        counters
            .rate_bps
            .fetch_sub(medium.layout.rate_bps(), Relaxed);
    }

    /// Ends a stream that was sent to its end, or whose file cannot be read.
    pub(super) fn finish(&mut self, connection: &mut Connection, failed: bool) {
        self.halt(connection);
        let counters = &self.shared.counters;
        count(if failed {
            &counters.failed
        } else {
            &counters.finished
        });
        if let Some(session) = &mut connection.session {
            session.with(|stream| stream.send_goodbye(&self.reports));
        }
    }

    pub(super) fn end_session(&mut self, connection: &mut Connection) {
        self.halt(connection);
        if connection.session.take().is_some() {
            self.shared.counters.sessions_open.fetch_sub(1, Relaxed);
        }
    }
}

/// The response to a request without a CSeq number, of an unknown version or with an unknown
/// option.
fn refusal(request: &Request) -> Option<Reply> {
    let message = &request.message;
    if message.sequence().is_none() {
        return Some(Reply::new(Status::BadRequest));
    }
    if !request.version_is_known {
        return Some(Reply::new(Status::VersionNotSupported));
    }
    let option = message
        .header("Require")
        .or(message.header("Proxy-Require"))?;
    Some(Reply::new(Status::OptionNotSupported).with("Unsupported", option))
}

/// Packets a second of a medium.
fn packet_rate(medium: &Medium) -> f64 {
    medium.layout.rate_bps() as f64 / 8.0 / f64::from(medium.layout.packet_bytes)
}

fn names_session(connection: &Connection, message: &Message) -> bool {
    match (&connection.session, message.session()) {
        (Some(session), Some((name, _))) => session.name == name,
        _ => false,
    }
}

/// Whether the server may send packets as offered. It sends only to the client itself, and only to
/// unprivileged ports.
fn is_acceptable(offer: &Transport, peer: IpAddr) -> bool {
    let is_to_peer = match &offer.destination {
        None => true,
        Some(destination) => destination.parse::<IpAddr>() == Ok(peer),
    };
    let has_ports = match offer.lower {
        LowerTransport::Udp { client, .. } => {
            client.is_some_and(|(rtp, _)| rtp >= FIRST_CLIENT_PORT)
        }
        LowerTransport::Interleaved { .. } => true,
    };
    offer.unicast && !offer.is_recording && is_to_peer && has_ports
}

fn describe(connection: &Connection, request: &Request, medium: &Medium) -> Reply {
    let session = u64::from_ne_bytes(random()) >> 1;
    let mut reply = Reply::new(Status::Ok)
        .with("Content-Type", "application/sdp")
        .with(
            "Content-Base",
            format!("{}/", request.uri.trim_end_matches('/')),
        );
    let server: SocketAddr = connection.local;
    reply.body = sdp::describe(&medium.layout, &medium.name, server.ip(), TRACK, session);
    reply
}

/// The response to PLAY. It has the range, and the sequence number and timestamp of the first
/// packet (RTP-Info; RFC 2326, section 12.33).
fn playing(session: &mut Session, request: &Request) -> Reply {
    let uri = without_track(&request.uri);
    session.with(|stream| {
        let layout = &stream.medium.layout;
        let end_ns = layout.time_ns(stream.end).min(layout.duration_ns());
        let range = Range::text(layout.time_ns(stream.next), end_ns);
        let info = format!(
            "url={uri}/{TRACK};seq={};rtptime={}",
            stream.sequence,
            stream.timestamp()
        );
        Reply::new(Status::Ok)
            .with("Range", range)
            .with("RTP-Info", info)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_is_read_from_a_uri_with_or_without_the_stream() {
        for uri in [
            "rtsp://h/a%20b/c.ts",
            "RTSP://h:8554/a b/c.ts/track1",
            "rtsp://h/a b/c.ts/?x",
        ] {
            assert_eq!(file_name(uri).unwrap(), "a b/c.ts", "{uri}");
        }
        for uri in [
            "*",
            "rtsp://h",
            "rtsp://h/",
            "http://h/a.ts",
            "rtsp://h/%zz",
            "rtsp://h/%00",
        ] {
            assert_eq!(file_name(uri), None, "{uri}");
        }
    }

    #[test]
    fn packets_are_sent_to_the_peer_only() {
        let peer = "127.0.0.1".parse().unwrap();
        let acceptable = |text| {
            let offer = Transport::parse_all(text).next().unwrap();
            offer.is_ok_and(|offer| is_acceptable(&offer, peer))
        };
        assert!(acceptable("RTP/AVP;unicast;client_port=5000-5001"));
        assert!(acceptable(
            "RTP/AVP;unicast;destination=127.0.0.1;client_port=5000-5001"
        ));
        assert!(acceptable("RTP/AVP/TCP;interleaved=2-3"));
        for refused in [
            "RTP/AVP;unicast;destination=127.0.0.2;client_port=5000-5001",
            "RTP/AVP;unicast;destination=example.org;client_port=5000-5001",
            "RTP/AVP;unicast;client_port=53-54",
            "RTP/AVP;unicast",
            "RTP/AVP;multicast;client_port=5000-5001",
            "RTP/AVP;unicast;client_port=5000-5001;mode=record",
        ] {
            assert!(!acceptable(refused), "{refused}");
        }
    }
}
