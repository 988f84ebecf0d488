//! The write queue of an RTSP connection: responses and interleaved frames.
//!
//! A client that reads too slowly loses complete frames, but no responses. It does not delay others.

use std::io::{self, ErrorKind, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// If the queue has this many bytes, frames are dropped. At usual rates, a stream sends this many
/// bytes in several seconds.
const FRAMES_LIMIT_BYTES: usize = 256 * 1024;

/// If the queue has this many bytes, the connection is closed.
const LIMIT_BYTES: usize = 1024 * 1024;

/// The write queue of a connection.
#[derive(Debug)]
pub(super) struct Outgoing {
    socket: Arc<TcpStream>,
    bytes: Vec<u8>,
    written: usize,
}

impl Outgoing {
    pub(super) fn new(socket: Arc<TcpStream>) -> Self {
        Self {
            socket,
            bytes: Vec::new(),
            written: 0,
        }
    }

    /// Adds a response.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds a frame that consists of several parts. Returns false if the frame was dropped.
    pub(super) fn push_frame(&mut self, parts: &[&[u8]]) -> bool {
        let has_room = self.bytes.len() - self.written < FRAMES_LIMIT_BYTES;
        if has_room {
            parts
                .iter()
                .for_each(|part| self.bytes.extend_from_slice(part));
        }
        has_room
    }

    /// Writes as much as the socket accepts.
    ///
    /// # Errors
    /// The connection failed, or the queue is too long.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while self.written < self.bytes.len() {
            match (&*self.socket).write(&self.bytes[self.written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        if self.written == self.bytes.len() {
            self.bytes.clear();
            self.written = 0;
        } else if self.written > LIMIT_BYTES {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
        if self.bytes.len() - self.written > LIMIT_BYTES {
            return Err(ErrorKind::OutOfMemory.into());
        }
        Ok(())
    }
}
