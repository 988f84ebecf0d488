//! Responses to send: heads and small bodies in one buffer, larger bodies by reference.
//!
//! One sendmsg sends all of them. Bodies of up to [`COPY_BYTES`] are copied behind their heads:
//! copying some hundred bytes is cheaper than letting the kernel gather one more piece.

use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use perpacket_linux::uring::{self, Outgoing as _};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use rustix::net::{SendAncillaryBuffer, SendFlags};

use crate::counters::Counters;
use crate::files::content::{Content, bytes_to_line};
use crate::files::entry::Body;

/// Largest body that is copied behind its head.
const COPY_BYTES: usize = 2048;

/// Size of a new buffer, in bytes: a head and a small body.
const TEXT_BYTES: usize = 1024;

/// When the queue has this many bytes, it is sent before more requests are answered.
const FULL_BYTES: u64 = 1 << 20;

/// When the queue has this many pieces, it is sent before more requests are answered.
const FULL_PIECES: usize = 128;

/// Maximum number of slices of one sendmsg. The kernel accepts 1024, but queues rarely have more
/// than 64.
const MAX_SLICES: usize = 64;

/// Number of slices that most messages need: a head and its body. A small array is cheaper to
/// initialize.
const STACK_SLICES: usize = 2;

/// The memory of a buffer is reduced to this many bytes before reuse.
const REUSED_BYTES: usize = 1 << 16;

/// Maximum number of bytes of one sendfile. The limit keeps other clients from waiting long.
pub const FILE_PART_BYTES: u64 = 1 << 20;

/// Number of bytes that the kernel reads ahead by default (`VM_READAHEAD_PAGES`,
/// `include/linux/mm.h`).
const READ_AHEAD_BYTES: usize = 128 << 10;

/// The bytes that `/bytes` repeats.
static PATTERN: [u8; 65_536] = [b'x'; 65_536];

#[derive(Clone, Debug)]
enum Piece {
    /// A range of the buffer.
    Text(Range<usize>),
    /// A range of a file in memory.
    Memory(Arc<Content>, Range<usize>),
    /// A range of an open file.
    File(Arc<OwnedFd>, Range<u64>),
    /// A number of bytes of the pattern.
    Pattern(u64),
}

/// Responses in the order in which they are sent.
#[derive(Debug, Default)]
pub struct SendQueue {
    text: Vec<u8>,
    pieces: Vec<Piece>,
    first: usize,
    left_bytes: u64,
}

/// The result of sending.
#[derive(Debug, PartialEq, Eq)]
pub enum SendStatus {
    /// Everything was sent.
    Complete,
    /// The socket accepts no more now.
    Blocked,
    /// The next part of a file may not be in the page cache. A helper thread must read it first.
    Cold,
}

impl SendQueue {
    /// Whether everything was sent.
    pub fn is_empty(&self) -> bool {
        self.first == self.pieces.len()
    }

    /// Whether to send before more requests are answered.
    pub fn is_full(&self) -> bool {
        self.left_bytes >= FULL_BYTES || self.pieces.len() >= FULL_PIECES
    }

    /// Bytes that are not sent yet.
    pub fn left_bytes(&self) -> u64 {
        self.left_bytes
    }

    /// Removes everything from the queue. Keeps the memory of the queue unless it is large.
    pub fn clear(&mut self) {
        self.text.clear();
        self.text.shrink_to(1 << 17);
        self.pieces.clear();
        self.first = 0;
        self.left_bytes = 0;
    }

    /// Frees most of the memory of a large buffer.
    pub fn trim(&mut self) {
        self.text.shrink_to(REUSED_BYTES);
        self.pieces.shrink_to(MAX_SLICES);
    }

    /// Whether the pieces in memory fit into [`STACK_SLICES`] slices.
    fn fits_stack_slices(&self) -> bool {
        let left = &self.pieces[self.first..];
        // A pattern has as many slices as its size needs.
        left.len() <= STACK_SLICES && !left.iter().any(|piece| matches!(piece, Piece::Pattern(_)))
    }

    /// Calls `write` with the buffer, and queues the bytes that it appends.
    pub fn text(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.text.is_empty() {
            self.start_line();
        }
        let start = self.text.len();
        write(&mut self.text);
        let end = self.text.len();
        self.left_bytes += (end - start) as u64;
        match self.pieces.last_mut() {
            Some(Piece::Text(range)) if range.end == start => range.end = end,
            _ if end > start => self.pieces.push(Piece::Text(start..end)),
            _ => {}
        }
    }

    /// Aligns the start of the buffer with a cache line, see [`crate::files::content`].
    #[inline]
    fn start_line(&mut self) {
        self.text.reserve(TEXT_BYTES);
        let skipped = bytes_to_line(self.text.as_ptr());
        self.text.resize(skipped, 0);
    }

    /// Appends a part of a file.
    pub fn body(&mut self, body: &Body, part: Range<u64>) {
        let length = part.end - part.start;
        match body {
            Body::Memory(content) => {
                let part = part.start as usize..part.end as usize;
                if part.len() <= COPY_BYTES {
                    self.text(|text| text.extend_from_slice(&content[part]));
                } else {
                    self.pieces.push(Piece::Memory(Arc::clone(content), part));
                    self.left_bytes += length;
                }
            }
            Body::File(_) if length == 0 => {}
            Body::File(file) => {
                self.pieces.push(Piece::File(Arc::clone(file), part));
                self.left_bytes += length;
            }
        }
    }

    /// Appends a response whose head and body are one piece.
    pub fn whole(&mut self, response: Arc<Content>) {
        self.left_bytes += response.len() as u64;
        let all = 0..response.len();
        self.pieces.push(Piece::Memory(response, all));
    }

    /// Appends a number of arbitrary bytes.
    pub fn pattern(&mut self, bytes: u64) {
        if bytes > 0 {
            self.pieces.push(Piece::Pattern(bytes));
            self.left_bytes += bytes;
        }
    }

    /// The next piece as a part of a file: file, offset and length. `None` if the next piece is in
    /// memory.
    pub fn next_file_part(&self) -> Option<(Arc<OwnedFd>, u64, u64)> {
        match self.pieces.get(self.first) {
            Some(Piece::File(file, part)) => {
                let length = (part.end - part.start).min(FILE_PART_BYTES);
                Some((Arc::clone(file), part.start, length))
            }
            _ => None,
        }
    }

    /// Sends until everything is sent or the socket accepts no more.
    ///
    /// With `checks_cache`, the queue does not send a part of a file that is not in the page cache.
    /// `warmed` skips this check for the next part.
    ///
    /// # Errors
    /// The errors of sendmsg and sendfile; `UnexpectedEof` if a file became shorter than its
    /// `Content-Length`.
    pub fn send(
        &mut self,
        socket: impl AsFd,
        counters: &Counters,
        checks_cache: bool,
        mut warmed: bool,
    ) -> io::Result<SendStatus> {
        let socket = socket.as_fd();
        while !self.is_empty() {
            let result = match self.next_file_part() {
                None => self.send_pieces(socket),
                Some((file, offset, length)) => {
                    let is_checked = checks_cache && !std::mem::take(&mut warmed);
                    if is_checked && !in_memory(&file, offset, length) {
                        return Ok(SendStatus::Cold);
                    }
                    let mut at = offset;
                    let sent = rustix::fs::sendfile(socket, &file, Some(&mut at), length as usize);
                    if sent == Ok(0) {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    sent
                }
            };
            match result {
                Ok(bytes) => {
                    counters.bytes_sent.add(bytes as u64);
                    self.advance(bytes as u64);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(SendStatus::Blocked),
                Err(error) => return Err(error.into()),
            }
        }
        self.clear();
        Ok(SendStatus::Complete)
    }

    /// Sends pieces in memory with one system call.
    fn send_pieces(&self, socket: impl AsFd) -> Result<usize, Errno> {
        let left = &self.pieces[self.first..];
        let single = match left {
            [Piece::Text(range)] => Some(&self.text[range.clone()]),
            [Piece::Memory(content, range)] => Some(&content[range.clone()]),
            _ => None,
        };
        if let Some(bytes) = single {
            return rustix::net::send(socket, bytes, SendFlags::NOSIGNAL);
        }
        let mut flags = SendFlags::NOSIGNAL;
        if left.iter().any(|piece| matches!(piece, Piece::File(..))) {
            // Without MORE the head would be a packet of its own and wake the client too early.
            flags |= SendFlags::MORE;
        }
        let mut control = SendAncillaryBuffer::default();
        self.with_slices(|slices| rustix::net::sendmsg(socket, slices, &mut control, flags))
    }

    /// Fills `slices` with the pieces in memory up to the next file. Returns the number of slices.
    pub fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut count = 0;
        for piece in &self.pieces[self.first..] {
            let mut repeat = 1;
            let slice = match piece {
                Piece::Text(range) => &self.text[range.clone()],
                Piece::Memory(content, range) => &content[range.clone()],
                Piece::Pattern(bytes) => {
                    repeat = (bytes / PATTERN.len() as u64).max(1);
                    &PATTERN[..PATTERN.len().min(*bytes as usize)]
                }
                Piece::File(..) => break,
            };
            while repeat > 0 && count < slices.len() {
                slices[count] = IoSlice::new(slice);
                count += 1;
                repeat -= 1;
            }
            // The rest of a pattern must come before the next piece.
            let is_cut = matches!(piece, Piece::Pattern(bytes)
                if *bytes > PATTERN.len() as u64 && *bytes % PATTERN.len() as u64 != 0);
            if count == slices.len() || is_cut {
                break;
            }
        }
        count
    }

    /// Removes bytes that were sent.
    pub fn advance(&mut self, mut bytes: u64) {
        self.left_bytes -= bytes;
        while let Some(piece) = self.pieces.get_mut(self.first) {
            let left = match piece {
                Piece::Text(range) | Piece::Memory(_, range) => (range.end - range.start) as u64,
                Piece::File(_, range) => range.end - range.start,
                Piece::Pattern(left) => *left,
            };
            if left > bytes {
                match piece {
                    Piece::Text(range) | Piece::Memory(_, range) => range.start += bytes as usize,
                    Piece::File(_, range) => range.start += bytes,
                    Piece::Pattern(left) => *left -= bytes,
                }
                return;
            }
            bytes -= left;
            self.first += 1;
        }
    }
}

impl uring::Outgoing for SendQueue {
    fn next_file_part(&self) -> Option<(Arc<OwnedFd>, u64, u64)> {
        self.next_file_part()
    }

    fn with_slices<'a, T>(&'a self, action: impl FnOnce(&[IoSlice<'a>]) -> T) -> T {
        if self.fits_stack_slices() {
            let mut slices = [IoSlice::new(&[]); STACK_SLICES];
            let count = self.gather(&mut slices);
            action(&slices[..count])
        } else {
            let mut slices = [IoSlice::new(&[]); MAX_SLICES];
            let count = self.gather(&mut slices);
            action(&slices[..count])
        }
    }
}

/// Whether a part of a file is in the page cache.
///
/// cachestat(2) reports this since Linux 6.5, and only for files that this user may write
/// (`can_do_cachestat` in `mm/filemap.c`). Otherwise [`reads_at_once`] decides.
fn in_memory(file: &OwnedFd, offset: u64, length: u64) -> bool {
    const PAGE_BYTES: u64 = 4096;
    let pages = (offset + length).div_ceil(PAGE_BYTES) - offset / PAGE_BYTES;
    match perpacket_linux::page_cache::cached_pages(file.as_fd(), offset, length) {
        Ok(cached) => cached >= pages,
        Err(_) => reads_at_once(file, offset..offset + length),
    }
}

/// Whether one byte of each read-ahead window, and the last byte, can be read without waiting. If
/// the file system cannot report it, the result is false, and a helper thread reads the part.
fn reads_at_once(file: &OwnedFd, part: Range<u64>) -> bool {
    let last = part.end.checked_sub(1);
    part.step_by(READ_AHEAD_BYTES).chain(last).all(|at| {
        let mut byte = [0];
        let mut slices = [IoSliceMut::new(&mut byte)];
        preadv2(file, &mut slices, at, ReadWriteFlags::NOWAIT) == Ok(1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use perpacket_requirements::skip;
    use proptest::prelude::*;
    use std::io::Write;

    #[test]
    fn a_new_file_can_be_read_to_its_end_without_waiting() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 300_000]).unwrap();
        let file = OwnedFd::from(file);
        let can_tell = preadv2(
            &file,
            &mut [IoSliceMut::new(&mut [0])],
            0,
            ReadWriteFlags::NOWAIT,
        );
        if can_tell == Err(Errno::OPNOTSUPP) {
            skip(
                "nowait",
                "the file system cannot report whether a read would wait",
            );
            return;
        }
        assert!(reads_at_once(&file, 0..300_000));
        assert!(reads_at_once(&file, 299_999..300_000));
        assert!(!reads_at_once(&file, 0..300_001), "there is no such byte");
    }

    #[test]
    fn the_buffer_begins_on_a_cache_line_also_when_it_is_reused() {
        let mut out = SendQueue::default();
        for _ in 0..3 {
            out.text(|text| text.extend_from_slice(b"head"));
            let mut slices = [IoSlice::new(&[]); 1];
            assert_eq!(out.gather(&mut slices), 1);
            assert_eq!(bytes_to_line(slices[0].as_ptr()), 0);
            assert_eq!(&*slices[0], b"head");
            out.clear();
        }
    }

    #[test]
    fn a_head_and_its_body_fit_the_small_array_and_a_pattern_does_not() {
        let memory = Content::filled(5000, |bytes| {
            bytes.resize(bytes.len() + 5000, 1);
            Ok(())
        });
        let mut out = SendQueue::default();
        out.text(|text| text.extend_from_slice(b"head"));
        out.body(&Body::Memory(Arc::new(memory.unwrap())), 0..5000);
        assert!(out.fits_stack_slices());
        out.clear();
        out.text(|text| text.extend_from_slice(b"head"));
        out.pattern(10 << 20);
        assert!(
            !out.fits_stack_slices(),
            "one message contains as much of the pattern as possible"
        );
    }

    proptest! {
        #[test]
        fn every_byte_is_gathered_once_and_in_order(
            pieces in prop::collection::vec((0u8..3, 0u64..150_000), 0..6),
            steps in prop::collection::vec(1u64..150_000, 1..200),
        ) {
            let mut out = SendQueue::default();
            let mut expected = Vec::new();
            for (number, &(kind, bytes)) in pieces.iter().enumerate() {
                let content = vec![number as u8; bytes as usize];
                match kind {
                    0 => out.text(|text| text.extend_from_slice(&content)),
                    1 => {
                        let size = content.len();
                        let memory = Content::filled(size, |bytes| {
                            bytes.extend_from_slice(&content);
                            Ok(())
                        });
                        out.body(&Body::Memory(Arc::new(memory.unwrap())), 0..bytes);
                    }
                    _ => out.pattern(bytes),
                }
                expected.extend(if kind == 2 { vec![b'x'; bytes as usize] } else { content });
            }
            prop_assert_eq!(out.left_bytes(), expected.len() as u64);
            let mut sent = Vec::new();
            for step in steps.iter().cycle() {
                if out.is_empty() {
                    break;
                }
                let mut slices = [IoSlice::new(&[]); 3];
                let count = out.gather(&mut slices);
                let mut now: Vec<u8> = Vec::new();
                slices[..count].iter().for_each(|slice| now.extend_from_slice(slice));
                now.truncate(*step as usize);
                prop_assert!(!now.is_empty() || out.left_bytes() == 0);
                out.advance(now.len() as u64);
                sent.extend(now);
            }
            prop_assert_eq!(sent, expected);
        }
    }
}
