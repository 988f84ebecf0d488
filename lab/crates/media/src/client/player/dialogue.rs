//! The RTSP requests of a client: DESCRIBE, SETUP, PLAY and TEARDOWN (RFC 2326).

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, TcpStream};

use perpacket_linux::clock::realtime_ns;

use crate::wire::rtsp::{
    self, Limits, LowerTransport, Message, MessageOrFrame, Response, parse_next,
};
use crate::wire::sdp;

use super::super::{Ports, Transport};
use super::{Action, Client, Outcome, Phase, REPORT_INTERVAL_NS, sockets};

/// Maximum number of characters of a server's explanation that the report has.
const EXPLANATION_CHARS: usize = 160;

impl Client {
    /// Sends a request.
    pub(super) fn request(&mut self, method: &str, uri: &str, headers: &str, now_ns: u64) {
        self.sequence += 1;
        let session = self.session.as_ref();
        let session = session.map_or(String::new(), |name| format!("Session: {name}\r\n"));
        let request = format!(
            "{method} {uri} RTSP/1.0\r\nCSeq: {}\r\n{session}{headers}User-Agent: perpacket\r\n\r\n",
            self.sequence
        );
        self.outgoing.extend_from_slice(request.as_bytes());
        self.requested_ns = now_ns;
        // If the flush fails, the next read notices it and closes the connection.
        let _ = self.flush();
    }

    /// Writes as much as the socket accepts.
    pub(super) fn flush(&mut self) -> io::Result<()> {
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

    /// Reads and writes what is possible without waiting.
    pub(super) fn handle_control(
        &mut self,
        now_ns: u64,
        buffer: &mut [u8],
        ports: &mut Ports,
        late: &mut impl FnMut(u64),
    ) -> Result<Action, Outcome> {
        let broken = |error: io::Error| Outcome::Failed(format!("connection: {}", error.kind()));
        let mut action = Action::Nothing;
        if self.phase == Phase::Connecting {
            let control = self.control.as_ref();
            match control.map(TcpStream::take_error) {
                Some(Ok(None)) => {}
                Some(Ok(Some(error)) | Err(error)) => return Err(broken(error)),
                None => return Ok(action),
            }
            self.phase = Phase::Describing;
            let url = self.url.clone();
            self.request("DESCRIBE", &url, "Accept: application/sdp\r\n", now_ns);
        }
        self.flush().map_err(broken)?;
        loop {
            let Some(control) = &self.control else {
                return Ok(action);
            };
            match (&*control).read(buffer) {
                Ok(0) => return Err(Outcome::Failed("connection closed by the server".into())),
                Ok(bytes) => self.incoming.extend_from_slice(&buffer[..bytes]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(action),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(broken(error)),
            }
            if self.parse_input(now_ns, ports, late)? == Action::Watch {
                action = Action::Watch;
            }
        }
    }

    fn parse_input(
        &mut self,
        now_ns: u64,
        ports: &mut Ports,
        late: &mut impl FnMut(u64),
    ) -> Result<Action, Outcome> {
        let malformed = |error: rtsp::Malformed| Outcome::Failed(error.to_string());
        let mut used = 0;
        let mut action = Action::Nothing;
        while let Some((element, bytes)) =
            parse_next(&self.incoming[used..], Limits::default()).map_err(malformed)?
        {
            let start = used;
            used += bytes;
            match element {
                MessageOrFrame::Frame(frame) => {
                    let data = start + frame.data.start..start + frame.data.end;
                    if frame.channel == self.channels.0 {
                        self.first_packet_ns.get_or_insert(now_ns);
                        let arrival_ns = realtime_ns();
                        if let Some(late_us) =
                            self.received.packet(&self.incoming[data], arrival_ns)
                        {
                            late(late_us);
                        }
                    } else {
                        let compound = self.incoming[data].to_vec();
                        self.receive_report(&compound, now_ns);
                    }
                }
                MessageOrFrame::Message(message) => {
                    let response = Response::try_from(message).map_err(malformed)?;
                    if self.handle_response(&response, now_ns, ports)? == Action::Watch {
                        action = Action::Watch;
                    }
                    if self.phase == Phase::Ended {
                        return Ok(action);
                    }
                }
            }
        }
        self.incoming.drain(..used);
        Ok(action)
    }

    /// Handles the response to the last request and sends the next request.
    fn handle_response(
        &mut self,
        response: &Response,
        now_ns: u64,
        ports: &mut Ports,
    ) -> Result<Action, Outcome> {
        if response.message.sequence() != Some(self.sequence) {
            return Ok(Action::Nothing);
        }
        // Any response to GET_PARAMETER shows that the session is alive.
        if response.code != 200 && !matches!(self.phase, Phase::Playing | Phase::TearingDown) {
            return Err(Outcome::Refused {
                code: response.code,
                explanation: explanation(&response.message),
            });
        }
        match self.phase {
            Phase::Describing => {
                self.set_up(response, now_ns, ports)?;
                return Ok(Action::Watch);
            }
            Phase::SettingUp => {
                self.read_transport(response)?;
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
        Ok(Action::Nothing)
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
            self.received.clock_hz = clock_hz;
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
                let (packets, reports, port) = sockets::open_pair(local, ports).map_err(failed)?;
                self.sockets = Some((packets, reports));
                format!("RTP/AVP;unicast;client_port={port}-{}", port + 1)
            }
        };
        self.phase = Phase::SettingUp;
        self.request(
            "SETUP",
            &uri,
            &format!("Transport: {transport}\r\n"),
            now_ns,
        );
        Ok(())
    }

    fn read_transport(&mut self, response: &Response) -> Result<(), Outcome> {
        let message = &response.message;
        let session = message.session();
        let (name, timeout_s) =
            session.ok_or_else(|| Outcome::Failed("response to setup without a session".into()))?;
        self.session = Some(name.to_owned());
        if let Some(timeout_s) = timeout_s {
            // Two requests per time-out: one of them can be late.
            self.keep_alive_interval_ns =
                (timeout_s.max(2) * 500_000_000).min(self.keep_alive_interval_ns);
        }
        let transport = message.header("Transport").unwrap_or_default();
        match rtsp::Transport::parse_all(transport).next() {
            Some(Ok(transport)) => {
                self.received.ssrc = self.received.ssrc.or(transport.ssrc);
                match transport.lower {
                    LowerTransport::Udp { server, .. } => {
                        let control = self.control.as_ref();
                        let peer = control.and_then(|control| control.peer_addr().ok());
                        self.server_reports = peer.zip(server).map(|(mut peer, (_, port))| {
                            peer.set_port(port);
                            peer
                        });
                    }
                    LowerTransport::Interleaved { channels } => {
                        self.channels = channels.unwrap_or((0, 1));
                    }
                }
                Ok(())
            }
            _ => Err(Outcome::Failed(format!(
                "transport `{transport}` in the response to setup"
            ))),
        }
    }

    pub(super) fn play(&mut self, now_ns: u64) {
        self.phase = Phase::Starting;
        let base = self.base.clone();
        self.request("PLAY", &base, "Range: npt=0-\r\n", now_ns);
    }
}

/// A server's explanation of a refusal: the reason phrase and the first line of a plain text body,
/// without control characters.
fn explanation(message: &Message) -> String {
    let words = message.start_line.splitn(3, ' ').nth(2).unwrap_or_default();
    let is_text = message
        .header("Content-Type")
        .is_some_and(|kind| kind.starts_with("text/plain"));
    let body = String::from_utf8_lossy(&message.body);
    let line = body.lines().next().filter(|_| is_text).unwrap_or_default();
    let separator = if line.is_empty() { "" } else { ": " };
    let whole = format!("{words}{separator}{line}");
    let printable = whole.chars().filter(|character| !character.is_control());
    printable.take(EXPLANATION_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_explained_in_one_line_without_control_characters() {
        let message = |bytes: &[u8]| match parse_next(bytes, Limits::default()) {
            Ok(Some((MessageOrFrame::Message(message), _))) => explanation(&message),
            other => panic!("{other:?}"),
        };
        assert_eq!(message(b"RTSP/1.0 404 Not Found\r\n\r\n"), "Not Found");
        assert_eq!(message(b"RTSP/1.0 404\r\n\r\n"), "");
        let explained = b"RTSP/1.0 415 No\r\nContent-Type: text/plain; charset=utf-8\r\n\
            Content-Length: 12\r\n\r\na.ts:\x1b[1m\r\nb";
        assert_eq!(message(explained), "No: a.ts:[1m");
        let page = b"RTSP/1.0 415 No\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n<hr>";
        assert_eq!(message(page), "No");
        let long = format!("RTSP/1.0 500 {}\r\n\r\n", "x".repeat(4000));
        assert_eq!(message(long.as_bytes()).len(), EXPLANATION_CHARS);
    }
}
