//! What waits to be written to an RTSP connection: answers and, where a client wants them there,
//! interleaved packets.
//!
//! A client that reads too slowly loses whole frames, never answers and never the beginning of a
//! frame without its end; nobody waits for it.

use std::io::{self, ErrorKind, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// Bytes that may wait before frames are dropped: several seconds of the usual rates.
const FRAMES_LIMIT_BYTES: usize = 256 * 1024;

/// Bytes that may wait in all; a client that lets more answers pile up is cut off.
const LIMIT_BYTES: usize = 1024 * 1024;

/// The writing half of a connection.
#[derive(Debug)]
pub(super) struct Outgoing {
    socket: Arc<TcpStream>,
    bytes: Vec<u8>,
    written: usize,
}

impl Outgoing {
    /// Nothing to write yet.
    pub(super) fn new(socket: Arc<TcpStream>) -> Self {
        Self {
            socket,
            bytes: Vec::new(),
            written: 0,
        }
    }

    /// Adds an answer.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds a frame of several parts; false if the client is so far behind that it was dropped.
    pub(super) fn push_frame(&mut self, parts: &[&[u8]]) -> bool {
        let has_room = self.bytes.len() - self.written < FRAMES_LIMIT_BYTES;
        if has_room {
            parts
                .iter()
                .for_each(|part| self.bytes.extend_from_slice(part));
        }
        has_room
    }

    /// Writes what the socket takes.
    ///
    /// # Errors
    /// The connection is gone, or so much waits that it might as well be.
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
