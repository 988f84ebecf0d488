//! One client connection: its socket, its session and its current request.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crc32fast::Hasher;
use perpacket_http::body::{BodyError, BodyReader};
use perpacket_http::date::DATE_BYTES;
use perpacket_http::response::Response;
use rustix::net::{RecvFlags, recv};
use rustls::ClientConnection;
use socket2::{Domain, Protocol, Socket, Type};

use super::session::{Session, SessionRequest};

/// If the rest of a body has at least this size, the kernel drops it instead of copying it
/// (`MSG_TRUNC`, tcp(7)). Copying a smaller rest is cheaper than the additional call.
const DROP_FROM_BYTES: u64 = 65_536;
/// Receive buffer of a connection with a line speed. With a small buffer, the server can send only
/// as fast as the line. Otherwise this machine's memory would accept the bytes sooner. The kernel
/// doubles the size for its own overhead.
const PACED_BUFFER_BYTES: usize = 32_768;

/// State of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// No socket.
    #[default]
    Closed,
    /// Connecting, to send the current request.
    Connecting,
    /// Connected, without a request.
    Idle,
    /// Sending a request or receiving its response.
    Busy,
}

/// The purpose for which the timer of a connection is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The time-out of the current request.
    #[default]
    TimeOut,
    /// The next read that the line speed allows.
    Line,
    /// The time at which a line of the configured speed would deliver the last byte of the complete
    /// response.
    LineEnd,
    /// The start of the next request.
    Start(u64),
}

/// A client connection.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    pub state: State,
    pub wait: Wait,
    pub stream: Option<TcpStream>,
    pub tls: Option<Box<ClientConnection>>,
    /// Distinguishes the successive sockets of the connection.
    pub generation: u32,
    pub session: Session,
    /// The current request.
    pub request: SessionRequest,
    /// Whether the request asks the server to close the connection.
    pub closing: bool,
    /// Whether the request was sent a second time, on a new connection.
    pub retried: bool,
    /// Whether the peer has closed its sending side.
    pub peer_closed: bool,
    /// Bytes of the request that the socket has not accepted.
    pub unsent: Vec<u8>,
    /// The start of a response head that arrives in pieces.
    pub head_bytes: Vec<u8>,
    /// The response, once its head is complete.
    pub response: Option<ArrivingResponse>,
    /// The body so far, if the load checks its content.
    pub text: Vec<u8>,
    /// Bytes of the response so far, head included.
    pub received_bytes: u64,
    pub intended_ns: u64,
    pub sent_ns: u64,
    /// Time of the last byte, in either direction.
    pub progress_ns: u64,
    /// Responses on this socket.
    pub served: u32,
    /// Failed requests in a row.
    pub failed: u32,
    /// The last advertisement (SPECweb99).
    pub advertisement: u32,
    pub window: WindowCounts,
}

/// Bytes, responses and errors of a connection in the window, from which conformance is computed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowCounts {
    pub bytes: u64,
    pub requests: u64,
    pub errors: u64,
}

/// A response whose head is complete.
#[derive(Debug)]
pub(crate) struct ArrivingResponse {
    pub status: u16,
    pub keep_alive: bool,
    /// `Content-Length`
    pub length_bytes: Option<u64>,
    pub last_modified: Option<[u8; DATE_BYTES]>,
    /// `Location` of a redirect.
    pub location: Option<String>,
    pub body: BodyReader,
    /// Bytes of the body so far.
    pub body_bytes: u64,
    /// CRC-32 of the body so far, if the load compares digests.
    pub digest: Hasher,
}

impl ArrivingResponse {
    pub(crate) fn new(head: &Response<'_>, to_head: bool) -> Result<Self, BodyError> {
        let location = head.location.filter(|_| head.status >= 300);
        Ok(Self {
            status: head.status,
            keep_alive: head.keep_alive,
            length_bytes: head.length_bytes,
            last_modified: head.last_modified.and_then(|date| date.try_into().ok()),
            location: location.map(|text| String::from_utf8_lossy(text).into_owned()),
            body: BodyReader::new(head.framing(to_head), u64::MAX)?,
            body_bytes: 0,
            digest: Hasher::new(),
        })
    }

    /// The location of a redirect, after a mark, for the text of an error.
    pub(crate) fn destination(&self, mark: &str) -> String {
        let location = self.location.as_ref();
        location.map_or(String::new(), |location| format!("{mark} to {location}"))
    }
}

impl Connection {
    /// Discards the last response.
    pub(crate) fn reset_response(&mut self) {
        self.head_bytes.clear();
        self.response = None;
        self.text.clear();
        self.received_bytes = 0;
        self.unsent.clear();
    }

    /// Closes the socket, if there is one.
    pub(crate) fn close(&mut self) {
        self.stream = None;
        self.tls = None;
        self.state = State::Closed;
        self.peer_closed = false;
        self.served = 0;
        self.unsent.clear();
        self.generation = self.generation.wrapping_add(1);
    }

    /// Reads available bytes. `drop_body` lets the kernel drop bytes of a body.
    pub(crate) fn read(&mut self, buffer: &mut [u8], drop_body: bool) -> io::Result<usize> {
        let Some(stream) = &mut self.stream else {
            return Ok(0);
        };
        if let Some(tls) = &mut self.tls {
            return read_tls(tls, stream, buffer);
        }
        if drop_body
            && let Some(response) = &self.response
            && let Some(left) = response.body.left_bytes()
            && left >= DROP_FROM_BYTES
        {
            let most = buffer.len().min(left as usize);
            return Ok(recv(&*stream, &mut buffer[..most], RecvFlags::TRUNC)?.1);
        }
        stream.read(buffer)
    }

    /// Sends the bytes of a request and stores those that the socket does not accept.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(stream) = &mut self.stream else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        if let Some(tls) = &mut self.tls {
            tls.writer().write_all(bytes)?;
            return flush_tls(tls, stream);
        }
        let sent = match stream.write(bytes) {
            Ok(sent) => sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        if sent < bytes.len() {
            self.unsent.extend_from_slice(&bytes[sent..]);
        }
        Ok(())
    }

    /// Sends the rest of a request.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let Some(stream) = &mut self.stream else {
            return Ok(());
        };
        if let Some(tls) = &mut self.tls {
            return flush_tls(tls, stream);
        }
        while !self.unsent.is_empty() {
            match stream.write(&self.unsent) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Reads and decrypts available bytes. Returns their number, or 0 at the end.
fn read_tls(
    tls: &mut ClientConnection,
    stream: &mut TcpStream,
    buffer: &mut [u8],
) -> io::Result<usize> {
    loop {
        match tls.reader().read(buffer) {
            Ok(bytes) => return Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Err(_) => {}
        }
        if tls.read_tls(stream)? == 0 {
            return Ok(0);
        }
        if let Err(error) = tls.process_new_packets() {
            // The connection is closed even if the alert cannot be sent.
            let _ = flush_tls(tls, stream);
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        flush_tls(tls, stream)?;
    }
}

fn flush_tls(tls: &mut ClientConnection, stream: &mut TcpStream) -> io::Result<()> {
    while tls.wants_write() {
        match tls.write_tls(stream) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Starts to connect without blocking.
pub(crate) fn connect(
    to: SocketAddr,
    from: Option<std::net::IpAddr>,
    paced: bool,
) -> io::Result<TcpStream> {
    let socket = Socket::new(
        Domain::for_address(to),
        Type::STREAM.nonblocking().cloexec(),
        Some(Protocol::TCP),
    )?;
    if paced {
        socket.set_recv_buffer_size(PACED_BUFFER_BYTES)?;
    }
    if let Some(from) = from {
        // Without this option, all targets share the ports of a source address.
        rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
        socket.bind(&SocketAddr::new(from, 0).into())?;
    }
    match socket.connect(&to.into()) {
        Ok(()) => Ok(socket.into()),
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(socket.into()),
        Err(error) => Err(error),
    }
}
