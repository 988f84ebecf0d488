//! One bulk connection: sends segments at its rate, or receives.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use rustix::net::{RecvFlags, recv};

use super::greeting::{GREETING_BYTES, Greeting};
use perpacket_linux::tcp::TcpInfo;

/// Number of segments that a connection without a rate sends before another connection may send.
const BATCH_SEGMENTS: u32 = 16;
/// Shortest interval between two wakeups of a sender with a rate. At each wakeup it sends all due
/// segments. Reports print this time as the burst.
pub(crate) const BURST_NS: f64 = 1_000_000.0;
/// A delayed sender makes up for at most this time and omits earlier segments, so that it does not
/// exceed its rate for long.
const CATCH_UP_NS: f64 = 100_000_000.0;

/// Role of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Connecting, or waiting for the start.
    Waiting,
    /// At the far end: reading the greeting. The value is the number of its bytes that have
    /// arrived.
    Greeting(usize),
    Sending,
    Receiving,
}

/// The event that a sender waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SendState {
    /// None: the sender can send more.
    Ready,
    /// Space in the socket.
    Blocked,
    /// The time at which the next segment is due, in nanoseconds.
    Until(u64),
}

/// A bulk connection.
#[derive(Debug)]
pub(crate) struct Flow {
    pub stream: TcpStream,
    pub role: Role,
    pub greeting: [u8; GREETING_BYTES],
    /// Whether the connection is in the list of ready senders.
    pub queued: bool,
    pub connected: bool,
    segment_bytes: usize,
    /// Time between two segments; 0 without a rate.
    gap_ns: f64,
    /// When the next segment is due.
    due_ns: f64,
    /// Bytes of the current segment that the socket has not accepted.
    left: usize,
    pub received_bytes: u64,
    /// Bytes that the socket has accepted.
    pub sent_bytes: u64,
    /// The kernel's counts at the start of the window.
    pub before: TcpInfo,
    pub received_before: u64,
}

impl Flow {
    /// A connection before its start.
    pub(crate) fn new(stream: TcpStream, role: Role) -> Self {
        Self {
            stream,
            role,
            greeting: [0; GREETING_BYTES],
            queued: false,
            connected: false,
            segment_bytes: 1,
            gap_ns: 0.0,
            due_ns: 0.0,
            left: 0,
            received_bytes: 0,
            sent_bytes: 0,
            before: TcpInfo::default(),
            received_before: 0,
        }
    }

    /// Starts to send or to receive. The first segment is due after the fraction `phase` of the gap
    /// between segments, so that connections do not all send at once.
    pub(crate) fn begin(&mut self, sends: bool, greeting: Greeting, now: u64, phase: f64) {
        self.role = if sends {
            Role::Sending
        } else {
            Role::Receiving
        };
        self.segment_bytes = greeting.segment_bytes as usize;
        self.gap_ns = match greeting.rate_bps {
            0.0 => 0.0,
            rate_bps => self.segment_bytes as f64 * 8e9 / rate_bps,
        };
        self.due_ns = now as f64 + phase * self.gap_ns.max(BURST_NS);
    }

    /// Sends the segments that are due, one write per segment.
    pub(crate) fn send(&mut self, payload: &[u8], now: u64) -> io::Result<SendState> {
        let mut left_segments = BATCH_SEGMENTS;
        let now = now as f64;
        if self.gap_ns > 0.0 && now - self.due_ns > CATCH_UP_NS {
            self.due_ns = now - CATCH_UP_NS;
        }
        loop {
            if self.left == 0 {
                if self.gap_ns > 0.0 {
                    if self.due_ns > now {
                        let together = (BURST_NS / self.gap_ns).ceil() - 1.0;
                        return Ok(SendState::Until(
                            (self.due_ns + together * self.gap_ns) as u64,
                        ));
                    }
                    self.due_ns += self.gap_ns;
                } else if left_segments == 0 {
                    return Ok(SendState::Ready);
                }
                left_segments = left_segments.saturating_sub(1);
                self.left = self.segment_bytes;
            }
            match self.stream.write(&payload[..self.left]) {
                Ok(sent) => {
                    self.left -= sent;
                    self.sent_bytes += sent as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(SendState::Blocked);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Receives available bytes. Returns false at the end of the stream. A far end lets the kernel
    /// drop the bytes, but the machine under test copies them as a server would. If `ended`, the
    /// peer has closed its side. The function then reads up to the end, because no other event
    /// follows.
    pub(crate) fn receive(
        &mut self,
        buffer: &mut [u8],
        drops: bool,
        ended: bool,
    ) -> io::Result<bool> {
        loop {
            let read = match drops {
                true => recv(&self.stream, &mut *buffer, RecvFlags::TRUNC)
                    .map(|(_, bytes)| bytes)
                    .map_err(io::Error::from),
                false => self.stream.read(buffer),
            };
            match read {
                Ok(0) => return Ok(false),
                Ok(bytes) => {
                    self.received_bytes += bytes as u64;
                    if bytes < buffer.len() && !ended {
                        return Ok(true);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads the greeting; `None` while it is incomplete.
    pub(crate) fn greet(&mut self) -> io::Result<Option<Greeting>> {
        while let Role::Greeting(have) = self.role {
            match self.stream.read(&mut self.greeting[have..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(more) if have + more == GREETING_BYTES => {
                    let greeting = Greeting::decode(&self.greeting);
                    return greeting.map(Some).ok_or(io::ErrorKind::InvalidData.into());
                }
                Ok(more) => self.role = Role::Greeting(have + more),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}
