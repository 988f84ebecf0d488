//! A client. It sets up a stream, receives it, and sends reports and keep-alive requests.
//!
//! A stream that ends during the run is played again from its start. `dialogue` has the RTSP
//! requests, and `sockets` opens the sockets.

mod dialogue;
mod sockets;

use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};

use perpacket_linux::clock::{monotonic_ns, realtime_ns};
use perpacket_linux::udp;

use crate::wire::rtcp::{self, Packet, ReportBlock};
use crate::wire::rtsp;

use super::stream::ReceivedStream;
use super::{Error, Ports, Transport};

/// Time between receiver reports (RFC 3550, section 6.2), and default time between keep-alive
/// requests.
const REPORT_INTERVAL_NS: u64 = 5_000_000_000;
const KEEP_ALIVE_INTERVAL_NS: u64 = 20_000_000_000;

/// Longest wait for a response or a packet. A client that waits longer has timed out.
pub(super) const RESPONSE_LIMIT_NS: u64 = 10_000_000_000;

/// Size of the receive buffer: the largest datagram, or datagrams that the kernel merged.
const DATAGRAM_BYTES: usize = 65_536;

/// The canonical name in reports.
const CANONICAL_NAME: &str = "perpacket-load";

/// The phase of a client. The description of a phase is the event that the client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its start time in the ramp, the period over which the clients start.
    Waiting,
    /// The connection.
    Connecting,
    /// The response to DESCRIBE.
    Describing,
    /// The response to SETUP.
    SettingUp,
    /// The response to PLAY.
    Starting,
    /// Packets.
    Playing,
    /// The response to TEARDOWN.
    TearingDown,
    /// Nothing: the client has ended.
    Ended,
}

/// The outcome of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The client received packets.
    Played,
    /// The server refused a request.
    Refused {
        /// The status code.
        code: u16,
        /// The reason phrase and the first line of the body.
        explanation: String,
    },
    /// No response or no packet arrived in time.
    TimedOut,
    /// The connection or the dialogue failed.
    Failed(String),
}

/// The sockets of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SocketKind {
    /// The RTSP connection.
    Control,
    /// The RTP socket.
    Packets,
    /// The RTCP socket.
    Reports,
}

pub(super) struct Client {
    pub(super) url: String,
    pub(super) phase: Phase,
    pub(super) received: ReceivedStream,
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
    requested_ns: u64,
    report_ns: u64,
    keep_alive_ns: u64,
    keep_alive_interval_ns: u64,
    last_report: (u32, u64),
    identity: u32,
}

/// The next action of the event loop for a client after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    /// Poll the sockets that were opened.
    Watch,
}

impl Client {
    pub(super) fn new(
        url: String,
        transport: Transport,
        received: ReceivedStream,
        identity: u32,
    ) -> Self {
        Self {
            base: url.clone(),
            url,
            phase: Phase::Waiting,
            received,
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
            requested_ns: 0,
            report_ns: 0,
            keep_alive_ns: 0,
            keep_alive_interval_ns: KEEP_ALIVE_INTERVAL_NS,
            last_report: (0, 0),
            identity,
        }
    }

    pub(super) fn outcome(&self) -> Outcome {
        match &self.ended {
            Some(outcome) => outcome.clone(),
            None if self.received.counts().packets > 0 => Outcome::Played,
            None => Outcome::TimedOut,
        }
    }

    /// Time from the connection to the first packet.
    pub(super) fn start_up_ns(&self) -> Option<u64> {
        Some(self.first_packet_ns?.saturating_sub(self.connected_ns))
    }

    /// Starts to connect. The event loop polls the connection.
    pub(super) fn connect(&mut self, server: SocketAddr, now_ns: u64) {
        match sockets::start_connection(server) {
            Ok(control) => {
                self.control = Some(control);
                self.phase = Phase::Connecting;
                (self.connected_ns, self.requested_ns) = (now_ns, now_ns);
            }
            Err(error) => self.fail(Outcome::Failed(format!("connect: {error}"))),
        }
    }

    /// Ends the client with an outcome.
    pub(super) fn fail(&mut self, outcome: Outcome) {
        self.ended.get_or_insert(outcome);
        self.close();
    }

    /// Closes all sockets.
    pub(super) fn close(&mut self) {
        self.phase = Phase::Ended;
        self.control = None;
        self.sockets = None;
        self.incoming = Vec::new();
        self.outgoing = Vec::new();
    }

    /// Sends TEARDOWN if the client has a session.
    pub(super) fn tear_down(&mut self, now_ns: u64) {
        if self.session.is_some() && self.control.is_some() {
            self.phase = Phase::TearingDown;
            let base = self.base.clone();
            self.request("TEARDOWN", &base, "", now_ns);
        } else {
            self.close();
        }
    }

    /// Handles an event of a socket.
    pub(super) fn ready(
        &mut self,
        source: SocketKind,
        now_ns: u64,
        buffer: &mut [u8],
        ports: &mut Ports,
        late: &mut impl FnMut(u64),
    ) -> Action {
        match source {
            SocketKind::Packets => {
                self.read_packets(buffer, late);
                Action::Nothing
            }
            SocketKind::Reports => {
                self.read_reports(buffer, now_ns);
                Action::Nothing
            }
            SocketKind::Control => {
                let handled = self.handle_control(now_ns, buffer, ports, late);
                handled.unwrap_or_else(|outcome| {
                    if self.phase == Phase::TearingDown {
                        self.close();
                    } else {
                        self.fail(outcome);
                    }
                    Action::Nothing
                })
            }
        }
    }

    fn read_packets(&mut self, buffer: &mut [u8], late: &mut impl FnMut(u64)) {
        let Some((packets, _)) = &self.sockets else {
            return;
        };
        // Receive once per event. Level-triggered polling reports the remaining datagrams again.
        let Ok(received) = udp::receive(packets, buffer) else {
            return;
        };
        let arrival_ns = received.arrival_ns.unwrap_or_else(realtime_ns);
        if self.first_packet_ns.is_none() {
            self.first_packet_ns = Some(monotonic_ns());
        }
        for packet in buffer[..received.bytes].chunks(received.datagram_bytes) {
            if let Some(late_us) = self.received.packet(packet, arrival_ns) {
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
            self.receive_report(&compound, now_ns);
        }
    }

    fn receive_report(&mut self, compound: &[u8], now_ns: u64) {
        let ours = self.received.ssrc;
        for packet in rtcp::packets(compound) {
            match packet {
                Packet::Sender(report) => {
                    self.last_report = ((report.ntp >> 16) as u32, now_ns);
                }
                Packet::Goodbye { ssrc } if self.phase == Phase::Playing && ours == Some(ssrc) => {
                    self.received.restart();
                    self.play(now_ns);
                }
                _ => {}
            }
        }
    }

    /// Sends the report and the keep-alive request that are due.
    pub(super) fn send_due(&mut self, now_ns: u64) {
        if self.phase != Phase::Playing {
            return;
        }
        if now_ns >= self.report_ns {
            self.report_ns = now_ns + REPORT_INTERVAL_NS;
            self.report(now_ns);
        }
        if now_ns >= self.keep_alive_ns {
            let base = self.base.clone();
            let requested_ns = self.requested_ns;
            self.request("GET_PARAMETER", &base, "", now_ns);
            // The time limit of responses does not apply to keep-alive requests.
            self.requested_ns = requested_ns;
            self.keep_alive_ns = now_ns + self.keep_alive_interval_ns;
        }
    }

    fn report(&mut self, now_ns: u64) {
        let Some(ssrc) = self.received.ssrc else {
            return;
        };
        let reception = &mut self.received.reception;
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
                // A lost report is not sent again, because the next report replaces it.
                let _ = reports.send_to(&bytes, server);
            }
            _ => {
                let head = rtsp::frame_header(self.channels.1, bytes.len() as u16);
                self.outgoing.extend(head);
                self.outgoing.extend(bytes);
                // If the flush fails, the next read notices it and closes the connection.
                let _ = self.flush();
            }
        }
    }

    /// Whether the client has waited too long.
    pub(super) fn is_overdue(&self, now_ns: u64) -> bool {
        match self.phase {
            Phase::Waiting | Phase::Ended => false,
            Phase::Playing => {
                self.first_packet_ns.is_none()
                    && now_ns.saturating_sub(self.requested_ns) > RESPONSE_LIMIT_NS
            }
            _ => now_ns.saturating_sub(self.requested_ns) > RESPONSE_LIMIT_NS,
        }
    }
}

/// A receive buffer.
pub(super) fn buffer() -> Vec<u8> {
    vec![0; DATAGRAM_BYTES]
}

impl From<hdrhistogram::CreationError> for Error {
    fn from(error: hdrhistogram::CreationError) -> Self {
        Self::System(io::Error::other(error))
    }
}
