//! Counts the frames of a stream at their destination.
//!
//! In XDP a program counts and drops them at little cost. A packet socket also reads each sequence
//! number. It counts separately the frames that arrived while its buffer was full, because the
//! router did not lose these frames.

use perpacket_linux::interface::Interface;
use perpacket_linux::packet::{PacketSocket, ReceiveBuffers};
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

/// The counts of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Received {
    /// Frames of the stream.
    pub frames: u64,
    /// Their bytes, without check sequences.
    pub bytes: u64,
    /// Frames that arrived after a frame with a higher number, or twice. `None` if the receiver
    /// does not read sequence numbers.
    pub out_of_order: Option<u64>,
    /// Frames of any kind that arrived while the receiver's buffer was full.
    pub overflowed: u64,
}

/// A counting receiver of one stream on one interface.
#[derive(Debug)]
pub struct Receiver {
    counter: Counter,
}

#[derive(Debug)]
enum Counter {
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
    buffers: ReceiveBuffers,
    received: Received,
    next_sequence: u64,
}

/// Bytes of the socket's buffer.
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
        let counter = match method {
            Method::Socket => {
                socket
                    .set_receive_buffer(BUFFER_BYTES)
                    .map_err(interface.failed("set its receive buffer"))?;
                Counter::Socket(Box::new(SocketCounter {
                    socket,
                    stream: stream.clone(),
                    buffers: ReceiveBuffers::new(FRAME_BYTES),
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
                let link = bpf::attach(&program, interface, hardware.index)?;
                Counter::Xdp {
                    counts,
                    _link: link,
                    _program: program,
                }
            }
        };
        Ok(Self { counter })
    }

    /// Reads the frames that wait and returns the counts since the receiver was opened.
    ///
    /// # Errors
    /// The errors of recvmmsg(2) and bpf(2).
    pub fn read(&mut self) -> Result<Received, RouterError> {
        match &mut self.counter {
            Counter::Socket(counter) => counter.read(),
            Counter::Xdp { counts, .. } => {
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
        let Self {
            socket,
            stream,
            buffers,
            received,
            next_sequence,
        } = self;
        let count = |frame: &[u8], length: usize| {
            let Some(sequence) = stream.sequence(frame) else {
                return;
            };
            received.frames += 1;
            received.bytes += length as u64;
            if sequence < *next_sequence {
                received.out_of_order = received.out_of_order.map(|count| count + 1);
            }
            *next_sequence = (*next_sequence).max(sequence + 1);
        };
        let overflowed = socket
            .receive_waiting(buffers, count)
            .and_then(|()| socket.overflowed())
            .map_err(RouterError::traffic("receive frames"))?;
        received.overflowed += overflowed;
        Ok(*received)
    }
}
