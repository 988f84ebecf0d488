//! Counts the frames of a stream where they arrive.
//!
//! In XDP a program counts and takes them off the wire at little cost; a packet socket looks at
//! each number too, and tells how many frames it had itself no room for, which are no loss of the
//! router's.

use std::io;

use perpacket_linux::packet::{BATCH, PacketSocket};
use serde::Serialize;

use crate::bpf::{self, License, Link, Numbers, Program, count};
use crate::error::RouterError;
use crate::place::Place;
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
    /// Frames that came after one with a higher number, or twice; none where all are equal.
    pub out_of_order: Option<u64>,
    /// Frames of any kind for which the receiver itself had no room.
    pub overflowed: u64,
}

/// A counting receiver of one stream on one interface.
#[derive(Debug)]
pub struct Receiver {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Socket(Box<Listener>),
    Xdp {
        counts: Numbers,
        /// Held for its end.
        _link: Link,
        _program: Program,
    },
}

/// The packet socket with what it has seen.
#[derive(Debug)]
struct Listener {
    socket: PacketSocket,
    stream: Stream,
    buffers: Vec<Vec<u8>>,
    lengths: Vec<usize>,
    seen: Received,
    next_sequence: u64,
}

/// Room for frames that wait to be read.
const BUFFER_BYTES: i32 = 64 << 20;

/// Longest frame with tags and without check sequence.
const FRAME_BYTES: usize = 1600;

impl Receiver {
    /// Opens it.
    ///
    /// # Errors
    /// The interface, or for XDP BPF, cannot be used.
    pub fn open(place: &Place, stream: &Stream, method: Method) -> Result<Self, RouterError> {
        let (socket, hardware) = place.socket(method == Method::Socket)?;
        let kind = match method {
            Method::Socket => {
                socket
                    .set_receive_buffer(BUFFER_BYTES)
                    .map_err(|source| place.failed("make room for frames", source))?;
                Kind::Socket(Box::new(Listener {
                    socket,
                    stream: stream.clone(),
                    buffers: vec![vec![0; FRAME_BYTES]; BATCH],
                    lengths: vec![0; BATCH],
                    seen: Received {
                        out_of_order: Some(0),
                        ..Received::default()
                    },
                    next_sequence: 0,
                }))
            }
            Method::Xdp => {
                let counts = Numbers::new()?;
                let program = bpf::load(&count(stream, &counts), License::Mit)?;
                let link = place.inside(|| Ok(program.attach(hardware.index)?))?;
                Kind::Xdp {
                    counts,
                    _link: link,
                    _program: program,
                }
            }
        };
        Ok(Self { kind })
    }

    /// Reads what waits and gives the counts since the receiver was opened.
    ///
    /// # Errors
    /// The kernel does not give them.
    pub fn read(&mut self) -> Result<Received, RouterError> {
        match &mut self.kind {
            Kind::Socket(listener) => listener.read(),
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

impl Listener {
    fn read(&mut self) -> Result<Received, RouterError> {
        let failed = |source| RouterError::Traffic {
            what: "receive frames",
            source,
        };
        loop {
            match self.socket.receive(&mut self.buffers, &mut self.lengths) {
                Ok(count) => self.look_at(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
        self.seen.overflowed += self.socket.overflowed().map_err(failed)?;
        Ok(self.seen)
    }

    fn look_at(&mut self, count: usize) {
        for (buffer, &length) in self.buffers.iter().zip(&self.lengths[..count]) {
            let frame = &buffer[..length.min(buffer.len())];
            let Some(sequence) = self.stream.sequence(frame) else {
                continue;
            };
            self.seen.frames += 1;
            self.seen.bytes += length as u64;
            if sequence < self.next_sequence {
                self.seen.out_of_order = self.seen.out_of_order.map(|count| count + 1);
            }
            self.next_sequence = self.next_sequence.max(sequence + 1);
        }
    }
}
