//! One client: its RTSP dialogue and its sockets.
//!
//! DESCRIBE, SETUP, PLAY, then receive, report every five seconds and keep the session alive until
//! TEARDOWN. A stream that ends before the measurement does is played again from its start.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};

use perpacket_rtp::rtcp::{self, Packet, ReportBlock};
use perpacket_rtp::rtsp::{self, Limits, Lower, Response, Unit, split};
use perpacket_rtp::sdp;

use super::stream::Reading;
use super::{Error, Ports, Transport, sys};

/// Time between receiver reports (RFC 3550, section 6.2), and between requests that keep a session.
const REPORT_INTERVAL_NS: u64 = 5_000_000_000;
const KEEP_ALIVE_INTERVAL_NS: u64 = 20_000_000_000;

/// How long a client waits for an answer, or for packets, before it counts as timed out.
pub(super) const PATIENCE_NS: u64 = 10_000_000_000;

/// Largest datagram, or datagrams glued together, that are taken.
const DATAGRAM_BYTES: usize = 65_536;

/// Room in the kernel for packets of one stream while the others are read.
const RECEIVE_BYTES: usize = 512 * 1024;

/// The name in reports.
const CANONICAL_NAME: &str = "perpacket-load";

/// What a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its turn in the ramp.
    Waiting,
    /// The connection.
    Connecting,
    /// The answer to DESCRIBE.
    Describing,
    /// The answer to SETUP.
    SettingUp,
    /// The answer to PLAY.
    Starting,
    /// Packets.
    Playing,
    /// The answer to TEARDOWN.
    TearingDown,
    /// Nothing more.
    Over,
}

/// How it went for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Packets came.
    Played,
    /// The server answered with this status.
    Refused(u16),
    /// Nothing came.
    TimedOut,
    /// Something broke.
    Failed(String),
}

/// Which of a client's sockets has something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The RTSP connection.
    Control,
    /// The socket for packets.
    Packets,
    /// The socket for reports.
    Reports,
}

/// A client and everything it knows.
pub(super) struct Client {
    pub(super) url: String,
    pub(super) phase: Phase,
    pub(super) reading: Reading,
    pub(super) sockets: Option<(UdpSocket, UdpSocket)>,
    pub(super) control: Option<TcpStream>,
    transport: Transport,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    sequence: u32,
    base: String,
    session: Option<String>,
    channels: (u8, u8),
    server_reports: Option<SocketAddr>,
    ended: Option<Outcome>,
    connected_ns: u64,
    first_packet_ns: Option<u64>,
    asked_ns: u64,
    report_ns: u64,
    keep_alive_ns: u64,
    keep_alive_interval_ns: u64,
    last_report: (u32, u64),
    identity: u32,
}

/// What the loop must do for a client after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Nothing.
    Nothing,
    /// Watch the sockets that have just been opened.
    Watch,
}

impl Client {
    pub(super) fn new(url: String, transport: Transport, reading: Reading, identity: u32) -> Self {
        Self {
            base: url.clone(),
            url,
            phase: Phase::Waiting,
            reading,
            sockets: None,
            control: None,
            transport,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            sequence: 0,
            session: None,
            channels: (0, 1),
            server_reports: None,
            ended: None,
            connected_ns: 0,
            first_packet_ns: None,
            asked_ns: 0,
            report_ns: 0,
            keep_alive_ns: 0,
            keep_alive_interval_ns: KEEP_ALIVE_INTERVAL_NS,
            last_report: (0, 0),
            identity,
        }
    }

    /// How it went.
    pub(super) fn outcome(&self) -> Outcome {
        match &self.ended {
            Some(outcome) => outcome.clone(),
            None if self.reading.counts().packets > 0 => Outcome::Played,
            None => Outcome::TimedOut,
        }
    }

    /// From the connection to the first packet.
    pub(super) fn start_up_ns(&self) -> Option<u64> {
        Some(self.first_packet_ns?.saturating_sub(self.connected_ns))
    }

    /// Starts to connect; the loop watches the connection.
    pub(super) fn connect(&mut self, server: SocketAddr, now_ns: u64) {
        match start_connection(server) {
            Ok(control) => {
                self.control = Some(control);
                self.phase = Phase::Connecting;
                (self.connected_ns, self.asked_ns) = (now_ns, now_ns);
            }
            Err(error) => self.fail(Outcome::Failed(format!("connect: {error}"))),
        }
    }

    /// Ends with an outcome and closes everything.
    pub(super) fn fail(&mut self, outcome: Outcome) {
        self.ended.get_or_insert(outcome);
        self.close();
    }

    /// Closes everything.
    pub(super) fn close(&mut self) {
        self.phase = Phase::Over;
        self.control = None;
        self.sockets = None;
        self.incoming = Vec::new();
        self.outgoing = Vec::new();
    }

    /// Ends the session, if there is one.
    pub(super) fn tear_down(&mut self, now_ns: u64) {
        if self.session.is_some() && self.control.is_some() {
            self.phase = Phase::TearingDown;
            let base = self.base.clone();
            self.ask("TEARDOWN", &base, "", now_ns);
        } else {
            self.close();
        }
    }

    /// Works on a socket that has something.
    pub(super) fn ready(
        &mut self,
        source: Source,
        now_ns: u64,
        buffer: &mut [u8],
        ports: &mut Ports,
        late: &mut impl FnMut(u64),
    ) -> Need {
        match source {
            Source::Packets => {
                self.read_packets(buffer, late);
                Need::Nothing
            }
            Source::Reports => {
                self.read_reports(buffer, now_ns);
                Need::Nothing
            }
            Source::Control => {
                let worked = self.work(now_ns, buffer, ports, late);
                worked.unwrap_or_else(|outcome| {
                    if self.phase == Phase::TearingDown {
                        self.close();
                    } else {
                        self.fail(outcome);
                    }
                    Need::Nothing
                })
            }
        }
    }

    fn read_packets(&mut self, buffer: &mut [u8], late: &mut impl FnMut(u64)) {
        let Some((packets, _)) = &self.sockets else {
            return;
        };
        // One receive an event: what is left is reported again, and others come first.
        let Ok(received) = sys::receive(packets, buffer) else {
            return;
        };
        let arrival_ns = received.stamp_ns.unwrap_or_else(super::unix_ns);
        if self.first_packet_ns.is_none() {
            self.first_packet_ns = Some(super::now_ns());
        }
        for packet in buffer[..received.bytes].chunks(received.segment) {
            if let Some(late_us) = self.reading.packet(packet, arrival_ns) {
                late(late_us);
            }
        }
    }

    fn read_reports(&mut self, buffer: &mut [u8], now_ns: u64) {
        let Some((_, reports)) = &self.sockets else {
            return;
        };
        if let Ok(bytes) = reports.recv(buffer) {
            let compound = buffer[..bytes].to_vec();
            self.take_report(&compound, now_ns);
        }
    }

    fn take_report(&mut self, compound: &[u8], now_ns: u64) {
        let ours = self.reading.ssrc;
        for packet in rtcp::packets(compound) {
            match packet {
                Packet::Sender(report) => {
                    self.last_report = ((report.ntp >> 16) as u32, now_ns);
                }
                Packet::Goodbye { ssrc } if self.phase == Phase::Playing && ours == Some(ssrc) => {
                    self.reading.begin_again();
                    self.play(now_ns);
                }
                _ => {}
            }
        }
    }

    /// Reports and keeps the session, when it is time.
    pub(super) fn keep(&mut self, now_ns: u64) {
        if self.phase != Phase::Playing {
            return;
        }
        if now_ns >= self.report_ns {
            self.report_ns = now_ns + REPORT_INTERVAL_NS;
            self.report(now_ns);
        }
        if now_ns >= self.keep_alive_ns {
            let base = self.base.clone();
            let asked_ns = self.asked_ns;
            self.ask("GET_PARAMETER", &base, "", now_ns);
            // Its answer may come late without harm: the packets are what counts.
            self.asked_ns = asked_ns;
            self.keep_alive_ns = now_ns + self.keep_alive_interval_ns;
        }
    }

    fn report(&mut self, now_ns: u64) {
        let Some(ssrc) = self.reading.ssrc else {
            return;
        };
        let reception = &mut self.reading.reception;
        let (last_report, at_ns) = self.last_report;
        let delay_ns = if last_report == 0 { 0 } else { now_ns - at_ns };
        let block = ReportBlock {
            ssrc,
            fraction_lost: reception.fraction_lost(),
            lost: i32::try_from(reception.lost()).unwrap_or(i32::MAX),
            extended_highest: reception.extended_highest(),
            jitter_ticks: reception.jitter_ticks() as u32,
            last_report,
            delay: ((u128::from(delay_ns) << 16) / 1_000_000_000) as u32,
        };
        let bytes = rtcp::receiver_report(self.identity, Some(&block), CANONICAL_NAME);
        match (&self.sockets, self.server_reports) {
            (Some((_, reports)), Some(server)) => {
                // The next report follows.
                let _ = reports.send_to(&bytes, server);
            }
            _ => {
                let head = rtsp::frame_head(self.channels.1, bytes.len() as u16);
                self.outgoing.extend(head);
                self.outgoing.extend(bytes);
                // A connection that failed is found out by its reader.
                let _ = self.flush();
            }
        }
    }

    /// Whether it has waited too long.
    pub(super) fn is_overdue(&self, now_ns: u64) -> bool {
        match self.phase {
            Phase::Waiting | Phase::Over => false,
            Phase::Playing => {
                self.first_packet_ns.is_none() && now_ns.saturating_sub(self.asked_ns) > PATIENCE_NS
            }
            _ => now_ns.saturating_sub(self.asked_ns) > PATIENCE_NS,
        }
    }

    fn ask(&mut self, method: &str, uri: &str, headers: &str, now_ns: u64) {
        self.sequence += 1;
        let session = self.session.as_ref();
        let session = session.map_or(String::new(), |name| format!("Session: {name}\r\n"));
        let request = format!(
            "{method} {uri} RTSP/1.0\r\nCSeq: {}\r\n{session}{headers}User-Agent: perpacket\r\n\r\n",
            self.sequence
        );
        self.outgoing.extend_from_slice(request.as_bytes());
        self.asked_ns = now_ns;
        // A connection that failed is found out by its reader.
        let _ = self.flush();
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(control) = &self.control else {
            return Ok(());
        };
        while !self.outgoing.is_empty() {
            match (&*control).write(&self.outgoing) {
                Ok(bytes) => drop(self.outgoing.drain(..bytes)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads and writes the connection as far as it goes.
    fn work(
        &mut self,
        now_ns: u64,
        buffer: &mut [u8],
        ports: &mut Ports,
        late: &mut impl FnMut(u64),
    ) -> Result<Need, Outcome> {
        let broken = |error: io::Error| Outcome::Failed(format!("connection: {}", error.kind()));
        let mut need = Need::Nothing;
        if self.phase == Phase::Connecting {
            let control = self.control.as_ref();
            match control.map(TcpStream::take_error) {
                Some(Ok(None)) => {}
                Some(Ok(Some(error)) | Err(error)) => return Err(broken(error)),
                None => return Ok(need),
            }
            self.phase = Phase::Describing;
            let url = self.url.clone();
            self.ask("DESCRIBE", &url, "Accept: application/sdp\r\n", now_ns);
        }
        self.flush().map_err(broken)?;
        loop {
            let Some(control) = &self.control else {
                return Ok(need);
            };
            match (&*control).read(buffer) {
                Ok(0) => return Err(Outcome::Failed("connection closed by the server".into())),
                Ok(bytes) => self.incoming.extend_from_slice(&buffer[..bytes]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(need),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(broken(error)),
            }
            if self.understand(now_ns, ports, late)? == Need::Watch {
                need = Need::Watch;
            }
        }
    }

    fn understand(
        &mut self,
        now_ns: u64,
        ports: &mut Ports,
        late: &mut impl FnMut(u64),
    ) -> Result<Need, Outcome> {
        let malformed = |error: rtsp::Malformed| Outcome::Failed(error.to_string());
        let mut used = 0;
        let mut need = Need::Nothing;
        while let Some((unit, bytes)) =
            split(&self.incoming[used..], Limits::default()).map_err(malformed)?
        {
            let start = used;
            used += bytes;
            match unit {
                Unit::Frame(frame) => {
                    let data = start + frame.data.start..start + frame.data.end;
                    if frame.channel == self.channels.0 {
                        self.first_packet_ns.get_or_insert(now_ns);
                        let arrival_ns = super::unix_ns();
                        if let Some(late_us) = self.reading.packet(&self.incoming[data], arrival_ns)
                        {
                            late(late_us);
                        }
                    } else {
                        let compound = self.incoming[data].to_vec();
                        self.take_report(&compound, now_ns);
                    }
                }
                Unit::Message(message) => {
                    let response = Response::try_from(message).map_err(malformed)?;
                    if self.answered(&response, now_ns, ports)? == Need::Watch {
                        need = Need::Watch;
                    }
                    if self.phase == Phase::Over {
                        return Ok(need);
                    }
                }
            }
        }
        self.incoming.drain(..used);
        Ok(need)
    }

    /// Takes the answer to the last request and makes the next.
    fn answered(
        &mut self,
        response: &Response,
        now_ns: u64,
        ports: &mut Ports,
    ) -> Result<Need, Outcome> {
        if response.message.sequence() != Some(self.sequence) {
            return Ok(Need::Nothing);
        }
        // A server without GET_PARAMETER has still heard of its client.
        if response.code != 200 && !matches!(self.phase, Phase::Playing | Phase::TearingDown) {
            return Err(Outcome::Refused(response.code));
        }
        match self.phase {
            Phase::Describing => {
                self.set_up(response, now_ns, ports)?;
                return Ok(Need::Watch);
            }
            Phase::SettingUp => {
                self.take_transport(response)?;
                self.play(now_ns);
            }
            Phase::Starting => {
                self.phase = Phase::Playing;
                self.report_ns = now_ns + REPORT_INTERVAL_NS;
                self.keep_alive_ns = now_ns + self.keep_alive_interval_ns;
            }
            Phase::TearingDown => self.close(),
            _ => {}
        }
        Ok(Need::Nothing)
    }

    fn set_up(
        &mut self,
        response: &Response,
        now_ns: u64,
        ports: &mut Ports,
    ) -> Result<(), Outcome> {
        let message = &response.message;
        let text = std::str::from_utf8(&message.body).unwrap_or_default();
        let description = sdp::parse(text)
            .ok_or_else(|| Outcome::Failed("description without a stream over rtp".into()))?;
        if let Some(clock_hz) = description.clock_hz.filter(|&clock_hz| clock_hz > 0) {
            self.reading.clock_hz = clock_hz;
        }
        let base = message
            .header("Content-Base")
            .or(message.header("Content-Location"));
        self.base = base.unwrap_or(&self.url).to_owned();
        let uri = match description.control.as_deref() {
            None | Some("*") => self.base.clone(),
            Some(absolute) if absolute.contains("://") => absolute.to_owned(),
            Some(relative) => format!("{}/{relative}", self.base.trim_end_matches('/')),
        };
        let transport = match self.transport {
            Transport::Tcp => "RTP/AVP/TCP;unicast;interleaved=0-1".to_owned(),
            Transport::Udp => {
                let local = self
                    .control
                    .as_ref()
                    .and_then(|control| control.local_addr().ok());
                let local = local.map_or(IpAddr::from([0, 0, 0, 0]), |local| local.ip());
                let failed = |error: io::Error| Outcome::Failed(format!("ports: {error}"));
                let (packets, reports, port) = open_pair(local, ports).map_err(failed)?;
                self.sockets = Some((packets, reports));
                format!("RTP/AVP;unicast;client_port={port}-{}", port + 1)
            }
        };
        self.phase = Phase::SettingUp;
        self.ask(
            "SETUP",
            &uri,
            &format!("Transport: {transport}\r\n"),
            now_ns,
        );
        Ok(())
    }

    fn take_transport(&mut self, response: &Response) -> Result<(), Outcome> {
        let message = &response.message;
        let session = message.session();
        let (name, timeout_s) =
            session.ok_or_else(|| Outcome::Failed("answer to setup without a session".into()))?;
        self.session = Some(name.to_owned());
        if let Some(timeout_s) = timeout_s {
            // Twice in a time-out, so that one request may be lost.
            self.keep_alive_interval_ns =
                (timeout_s.max(2) * 500_000_000).min(self.keep_alive_interval_ns);
        }
        let transport = message.header("Transport").unwrap_or_default();
        match rtsp::Transport::parse_all(transport).next() {
            Some(Ok(transport)) => {
                self.reading.ssrc = self.reading.ssrc.or(transport.ssrc);
                match transport.lower {
                    Lower::Udp { server, .. } => {
                        let control = self.control.as_ref();
                        let peer = control.and_then(|control| control.peer_addr().ok());
                        self.server_reports = peer.zip(server).map(|(mut peer, (_, port))| {
                            peer.set_port(port);
                            peer
                        });
                    }
                    Lower::Interleaved { channels } => {
                        self.channels = channels.unwrap_or((0, 1));
                    }
                }
                Ok(())
            }
            _ => Err(Outcome::Failed(format!(
                "transport `{transport}` in the answer to setup"
            ))),
        }
    }

    fn play(&mut self, now_ns: u64) {
        self.phase = Phase::Starting;
        let base = self.base.clone();
        self.ask("PLAY", &base, "Range: npt=0-\r\n", now_ns);
    }
}

fn start_connection(server: SocketAddr) -> io::Result<TcpStream> {
    use socket2::{Domain, Protocol, Socket, Type};
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(server), kind, Some(Protocol::TCP))?;
    socket.set_tcp_nodelay(true)?;
    match socket.connect(&server.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(error) => return Err(error),
    }
    Ok(socket.into())
}

/// Sockets on an even port and the next.
fn open_pair(local: IpAddr, ports: &mut Ports) -> io::Result<(UdpSocket, UdpSocket, u16)> {
    let mut last = ErrorKind::AddrInUse.into();
    for _ in 0..Ports::PAIRS {
        let port = ports.next();
        let pair = UdpSocket::bind((local, port))
            .and_then(|packets| Ok((packets, UdpSocket::bind((local, port + 1))?)));
        match pair {
            Ok((packets, reports)) => {
                packets.set_nonblocking(true)?;
                reports.set_nonblocking(true)?;
                sys::enable(&packets)?;
                let socket = socket2::SockRef::from(&packets);
                // The kernel gives what its limit allows.
                socket.set_recv_buffer_size(RECEIVE_BYTES)?;
                return Ok((packets, reports, port));
            }
            Err(error) if error.kind() == ErrorKind::AddrInUse => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// Room for what one read brings.
pub(super) fn buffer() -> Vec<u8> {
    vec![0; DATAGRAM_BYTES]
}

impl From<hdrhistogram::CreationError> for Error {
    fn from(error: hdrhistogram::CreationError) -> Self {
        Self::System(io::Error::other(error))
    }
}
