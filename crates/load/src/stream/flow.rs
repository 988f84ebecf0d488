//! One bulk connection: sends segments at its rate, or takes what comes.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use rustix::net::{RecvFlags, recv};

use super::greeting::{GREETING_BYTES, Greeting};
use perpacket_linux::tcp::TcpInfo;

/// Segments that a connection without a rate sends before the next one's turn.
const TURN_SEGMENTS: u32 = 16;
/// A sender with a rate wakes at most once in this time: at more than one segment in it, the
/// segments due are sent together. This is the burst that reports state.
pub(crate) const BURST_NS: f64 = 1_000_000.0;
/// A sender that was held up makes up for at most this time, so that a rate stays a rate.
const DEBT_NS: f64 = 100_000_000.0;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Connecting, or waiting for the start.
    Waiting,
    /// The far end's: reading the greeting; so many bytes of it are here.
    Greeting(usize),
    /// Sending.
    Sending,
    /// Receiving.
    Receiving,
}

/// What a sender waits for next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Turn {
    /// Its next turn.
    Again,
    /// Room in the socket.
    Blocked,
    /// A time, in nanoseconds.
    Until(u64),
}

/// A bulk connection.
#[derive(Debug)]
pub(crate) struct Flow {
    pub stream: TcpStream,
    pub role: Role,
    pub greeting: [u8; GREETING_BYTES],
    /// Waits in the list of those that have a turn.
    pub queued: bool,
    pub connected: bool,
    segment_bytes: usize,
    /// Time between two segments; 0 without a rate.
    gap_ns: f64,
    /// When the next segment is due.
    due_ns: f64,
    /// Bytes of the current segment that the socket did not take.
    left: usize,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes handed to the socket.
    pub sent_bytes: u64,
    /// What the kernel knew at the window's beginning.
    pub before: TcpInfo,
    pub received_before: u64,
}

impl Flow {
    /// A connection that does nothing yet.
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

    /// Becomes a sender or a receiver; a sender's first segment is due after `phase` of its gap, so
    /// that many connections do not send at the same moment.
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

    /// Sends what is due, one write a segment.
    pub(crate) fn send(&mut self, payload: &[u8], now: u64) -> io::Result<Turn> {
        let mut turns = TURN_SEGMENTS;
        let now = now as f64;
        if self.gap_ns > 0.0 && now - self.due_ns > DEBT_NS {
            self.due_ns = now - DEBT_NS;
        }
        loop {
            if self.left == 0 {
                if self.gap_ns > 0.0 {
                    if self.due_ns > now {
                        let together = (BURST_NS / self.gap_ns).ceil() - 1.0;
                        return Ok(Turn::Until((self.due_ns + together * self.gap_ns) as u64));
                    }
                    self.due_ns += self.gap_ns;
                } else if turns == 0 {
                    return Ok(Turn::Again);
                }
                turns = turns.saturating_sub(1);
                self.left = self.segment_bytes;
            }
            match self.stream.write(&payload[..self.left]) {
                Ok(taken) => {
                    self.left -= taken;
                    self.sent_bytes += taken as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Turn::Blocked);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes what is there; false at the end. A far end drops the bytes in the kernel, the machine
    /// under test copies them as a server would. With `ended` the peer sends no more, and its end is
    /// looked for behind what is there: no event will tell of it again.
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

    /// Reads the greeting; the whole one once it is here.
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
