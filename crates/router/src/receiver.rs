//! Counts the frames of a stream where they arrive.
//!
//! In XDP a program counts and drops them at little cost. A packet socket also checks each number,
//! and counts the frames that it had no room for: the router did not lose those.

use std::io;

use perpacket_linux::interface::Interface;
use perpacket_linux::packet::{BATCH, PacketSocket};
use serde::Serialize;

use crate::bpf::{self, License, Link, Numbers, Program, count};
use crate::error::RouterError;
use crate::stream::Stream;

/// How frames are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// A packet socket.
    Socket,
    /// A program in XDP.
    Xdp,
}

/// What arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Received {
    /// Frames of the stream.
    pub frames: u64,
    /// Their bytes, without check sequences.
    pub bytes: u64,
    /// Frames that came after one with a higher number, or twice; `None` where all are equal.
    pub out_of_order: Option<u64>,
    /// Frames of any kind that the receiver had no room for.
    pub overflowed: u64,
}

/// A counting receiver of one stream on one interface.
#[derive(Debug)]
pub struct Receiver {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Socket(Box<SocketCounter>),
    Xdp {
        counts: Numbers,
        _link: Link,
        _program: Program,
    },
}

/// A packet socket and its counts.
#[derive(Debug)]
struct SocketCounter {
    socket: PacketSocket,
    stream: Stream,
    buffers: Vec<Vec<u8>>,
    lengths: Vec<usize>,
    received: Received,
    next_sequence: u64,
}

/// Room for frames that wait to be read.
const BUFFER_BYTES: i32 = 64 << 20;

/// Bytes of the longest frame, with tags and without check sequence.
const FRAME_BYTES: usize = 1600;

impl Receiver {
    /// Opens a receiver.
    ///
    /// # Errors
    /// The interface, or BPF for XDP, cannot be used.
    pub fn open(
        interface: &Interface,
        stream: &Stream,
        method: Method,
    ) -> Result<Self, RouterError> {
        let (socket, hardware) = PacketSocket::open(interface, method == Method::Socket)?;
        let kind = match method {
            Method::Socket => {
                socket
                    .set_receive_buffer(BUFFER_BYTES)
                    .map_err(interface.failed("set its receive buffer"))?;
                Kind::Socket(Box::new(SocketCounter {
                    socket,
                    stream: stream.clone(),
                    buffers: vec![vec![0; FRAME_BYTES]; BATCH],
                    lengths: vec![0; BATCH],
                    received: Received {
                        out_of_order: Some(0),
                        ..Received::default()
                    },
                    next_sequence: 0,
                }))
            }
            Method::Xdp => {
                let counts = Numbers::new()?;
                let program = bpf::load(&count(stream, &counts), License::Mit)?;
                let link =
                    interface.inside(|| Ok::<_, RouterError>(program.attach(hardware.index)?))?;
                Kind::Xdp {
                    counts,
                    _link: link,
                    _program: program,
                }
            }
        };
        Ok(Self { kind })
    }

    /// Reads the frames that wait and returns the counts since the receiver was opened.
    ///
    /// # Errors
    /// Those of recvmmsg(2) and bpf(2).
    pub fn read(&mut self) -> Result<Received, RouterError> {
        match &mut self.kind {
            Kind::Socket(counter) => counter.read(),
            Kind::Xdp { counts, .. } => {
                let [frames, bytes, _] = counts.read()?;
                Ok(Received {
                    frames,
                    bytes,
                    out_of_order: None,
                    overflowed: 0,
                })
            }
        }
    }
}

impl SocketCounter {
    fn read(&mut self) -> Result<Received, RouterError> {
        let failed = |source| RouterError::Traffic {
            what: "receive frames",
            source,
        };
        loop {
            match self.socket.receive(&mut self.buffers, &mut self.lengths) {
                Ok(frames) => self.count(frames),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
        self.received.overflowed += self.socket.overflowed().map_err(failed)?;
        Ok(self.received)
    }

    fn count(&mut self, frames: usize) {
        for (buffer, &length) in self.buffers.iter().zip(&self.lengths[..frames]) {
            let frame = &buffer[..length.min(buffer.len())];
            let Some(sequence) = self.stream.sequence(frame) else {
                continue;
            };
            self.received.frames += 1;
            self.received.bytes += length as u64;
            if sequence < self.next_sequence {
                self.received.out_of_order = self.received.out_of_order.map(|count| count + 1);
            }
            self.next_sequence = self.next_sequence.max(sequence + 1);
        }
    }
}
