//! One client: what it waits for, what it receives and what it reports.
//!
//! It receives, reports every five seconds and keeps its session alive until it is told to end. A
//! stream that ends before the measurement does is played again from its start. How a session is
//! set up is in `dialogue`, how sockets are opened in `sockets`.

mod dialogue;
mod sockets;

use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};

use perpacket_linux::udp;

use crate::wire::rtcp::{self, Packet, ReportBlock};
use crate::wire::rtsp;

use super::stream::Reading;
use super::{Error, Ports, Transport};

/// Time between receiver reports (RFC 3550, section 6.2), and between requests that keep a session.
const REPORT_INTERVAL_NS: u64 = 5_000_000_000;
const KEEP_ALIVE_INTERVAL_NS: u64 = 20_000_000_000;

/// How long a client waits for an answer, or for packets, before it counts as timed out.
pub(super) const PATIENCE_NS: u64 = 10_000_000_000;

/// Largest datagram, or datagrams glued together, that are taken.
const DATAGRAM_BYTES: usize = 65_536;

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
    /// The server answered with this status, and said this of it.
    Refused {
        /// Of RFC 2326, section 7.1.1.
        code: u16,
        /// The status in words, and the first line of the answer's text.
        said: String,
    },
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
        match sockets::start_connection(server) {
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
        let Ok(received) = udp::receive(packets, buffer) else {
            return;
        };
        let arrival_ns = received.arrival_ns.unwrap_or_else(super::unix_ns);
        if self.first_packet_ns.is_none() {
            self.first_packet_ns = Some(super::now_ns());
        }
        for packet in buffer[..received.bytes].chunks(received.datagram_bytes) {
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
