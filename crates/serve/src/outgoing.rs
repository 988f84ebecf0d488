//! What is to be sent: heads and small bodies in one buffer, larger bodies by reference.
//!
//! All responses that are ready go out with one sendmsg. Bodies below [`COPY_BYTES`] are copied
//! behind their heads: a copy of some hundred bytes is cheaper than one more piece for the
//! kernel to gather.

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

/// Bodies up to this size are copied behind their heads.
const COPY_BYTES: usize = 2048;

/// Room of a fresh buffer, in bytes: a head and a small body.
const TEXT_BYTES: usize = 1024;

/// Responses are gathered up to so many bytes before they are sent.
const ENOUGH_BYTES: u64 = 1 << 20;

/// Responses are gathered up to so many pieces.
const ENOUGH_PIECES: usize = 128;

/// Most pieces of one sendmsg. The kernel takes 1024; 64 hold what a turn gathers, mostly.
const GATHERED: usize = 64;

/// A head and its body: what most messages are. Room for more is room to be filled with zeros.
const FEW: usize = 2;

/// Memory that a buffer keeps while nobody needs it, in bytes.
const KEPT_BYTES: usize = 1 << 16;

/// Most bytes of one sendfile, so that one client does not hold a loop for long.
pub const FILE_PART_BYTES: u64 = 1 << 20;

/// What the kernel reads ahead by default, in bytes (`VM_READAHEAD_PAGES`, `include/linux/mm.h`).
const READ_AHEAD_BYTES: usize = 128 << 10;

/// What `/bytes` sends, over and over.
static PATTERN: [u8; 65_536] = [b'x'; 65_536];

#[derive(Clone, Debug)]
enum Piece {
    /// Of the buffer.
    Text(Range<usize>),
    /// Of a file in memory.
    Memory(Arc<Content>, Range<usize>),
    /// Of an open file.
    File(Arc<OwnedFd>, Range<u64>),
    /// So many bytes of the pattern.
    Pattern(u64),
}

/// Responses in the order they are sent.
#[derive(Debug, Default)]
pub struct Outgoing {
    text: Vec<u8>,
    pieces: Vec<Piece>,
    first: usize,
    left_bytes: u64,
}

/// How far sending came.
#[derive(Debug, PartialEq, Eq)]
pub enum Sent {
    /// All is sent.
    All,
    /// The socket takes no more now.
    Blocked,
    /// A part of a file may be on disk: bring it into memory first.
    Cold,
}

impl Outgoing {
    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.first == self.pieces.len()
    }

    /// Whether it is time to send what there is.
    pub fn is_enough(&self) -> bool {
        self.left_bytes >= ENOUGH_BYTES || self.pieces.len() >= ENOUGH_PIECES
    }

    /// Bytes still to be sent.
    pub fn left_bytes(&self) -> u64 {
        self.left_bytes
    }

    /// Forgets everything; keeps its memory unless that grew large.
    pub fn clear(&mut self) {
        self.text.clear();
        self.text.shrink_to(1 << 17);
        self.pieces.clear();
        self.first = 0;
        self.left_bytes = 0;
    }

    /// Gives back most of the memory of a buffer that grew.
    pub fn trim(&mut self) {
        self.text.shrink_to(KEPT_BYTES);
        self.pieces.shrink_to(GATHERED);
    }

    /// Whether [`Self::gather`] finds at most [`FEW`] slices.
    fn is_few(&self) -> bool {
        let left = &self.pieces[self.first..];
        // A pattern is as many slices as its size takes.
        left.len() <= FEW && !left.iter().any(|piece| matches!(piece, Piece::Pattern(_)))
    }

    /// Appends what `write` writes to the buffer.
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

    /// Lets the buffer begin on a cache line, see [`crate::files::content`].
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

    /// Appends a head and its body that lie together in memory.
    pub fn whole(&mut self, response: Arc<Content>) {
        self.left_bytes += response.len() as u64;
        let all = 0..response.len();
        self.pieces.push(Piece::Memory(response, all));
    }

    /// Appends so many bytes that mean nothing.
    pub fn pattern(&mut self, bytes: u64) {
        if bytes > 0 {
            self.pieces.push(Piece::Pattern(bytes));
            self.left_bytes += bytes;
        }
    }

    /// The file part that comes next, if a file comes next: file, offset and length.
    pub fn next_file_part(&self) -> Option<(Arc<OwnedFd>, u64, u64)> {
        match self.pieces.get(self.first) {
            Some(Piece::File(file, part)) => {
                let length = (part.end - part.start).min(FILE_PART_BYTES);
                Some((Arc::clone(file), part.start, length))
            }
            _ => None,
        }
    }

    /// Sends until all is sent or the socket takes no more.
    ///
    /// With `ask_first`, a part of a file that the kernel would have to read from disk is not sent;
    /// `warmed` says that the next part was just read and need not be asked for.
    ///
    /// # Errors
    /// Those of sendmsg and sendfile; `UnexpectedEof` if a file became shorter than promised.
    pub fn send(
        &mut self,
        socket: impl AsFd,
        counters: &Counters,
        ask_first: bool,
        mut warmed: bool,
    ) -> io::Result<Sent> {
        let socket = socket.as_fd();
        while !self.is_empty() {
            let result = match self.next_file_part() {
                None => self.send_pieces(socket),
                Some((file, offset, length)) => {
                    if ask_first && !std::mem::take(&mut warmed) {
                        counters.system_calls.add(1);
                        if !in_memory(&file, offset, length) {
                            return Ok(Sent::Cold);
                        }
                    }
                    let mut at = offset;
                    let sent = rustix::fs::sendfile(socket, &file, Some(&mut at), length as usize);
                    if sent == Ok(0) {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    sent
                }
            };
            counters.system_calls.add(1);
            match result {
                Ok(bytes) => {
                    counters.bytes_sent.add(bytes as u64);
                    self.advance(bytes as u64);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Sent::Blocked),
                Err(error) => return Err(error.into()),
            }
        }
        self.clear();
        Ok(Sent::All)
    }

    /// One send or sendmsg of the pieces that are in memory.
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
            // Else a head is a packet of its own, and wakes the client for nothing.
            flags |= SendFlags::MORE;
        }
        let mut control = SendAncillaryBuffer::default();
        self.with_slices(|slices| rustix::net::sendmsg(socket, slices, &mut control, flags))
    }

    /// The pieces in memory up to the next file; returns how many slices they are.
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
            // What is left of a pattern must come before what follows it.
            let is_cut = matches!(piece, Piece::Pattern(bytes)
                if *bytes > PATTERN.len() as u64 && *bytes % PATTERN.len() as u64 != 0);
            if count == slices.len() || is_cut {
                break;
            }
        }
        count
    }

    /// Takes note that so many bytes were sent.
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

impl uring::Outgoing for Outgoing {
    fn next_file_part(&self) -> Option<(Arc<OwnedFd>, u64, u64)> {
        self.next_file_part()
    }

    fn with_slices<'a, T>(&'a self, take: impl FnOnce(&[IoSlice<'a>]) -> T) -> T {
        if self.is_few() {
            let mut slices = [IoSlice::new(&[]); FEW];
            let count = self.gather(&mut slices);
            take(&slices[..count])
        } else {
            let mut slices = [IoSlice::new(&[]); GATHERED];
            let count = self.gather(&mut slices);
            take(&slices[..count])
        }
    }
}

/// Whether a part of a file can be sent without waiting for a disk.
///
/// The kernel tells it of files that this user might write (`can_do_cachestat` in `mm/filemap.c`),
/// and since 6.5; else reads are tried.
fn in_memory(file: &OwnedFd, offset: u64, length: u64) -> bool {
    const PAGE_BYTES: u64 = 4096;
    let pages = (offset + length).div_ceil(PAGE_BYTES) - offset / PAGE_BYTES;
    match perpacket_linux::page_cache::cached_pages(file.as_fd(), offset, length) {
        Ok(cached) => cached >= pages,
        Err(_) => reads_at_once(file, offset..offset + length),
    }
}

/// Whether a byte of each window that the kernel reads ahead, and the last one, can be read
/// without waiting. A file system that cannot tell refuses, which is taken as on disk: the helpers
/// then read it first.
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
    fn a_file_just_written_reads_at_once_up_to_its_end() {
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
                "the file system cannot report what a read waits for",
            );
            return;
        }
        assert!(reads_at_once(&file, 0..300_000));
        assert!(reads_at_once(&file, 299_999..300_000));
        assert!(!reads_at_once(&file, 0..300_001), "there is no such byte");
    }

    #[test]
    fn text_begins_on_a_cache_line_also_when_the_buffer_is_used_again() {
        let mut out = Outgoing::default();
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
    fn a_head_and_its_body_are_few_pieces_and_a_pattern_is_as_many_as_it_takes() {
        let memory = Content::filled(5000, |bytes| {
            bytes.resize(bytes.len() + 5000, 1);
            Ok(())
        });
        let mut out = Outgoing::default();
        out.text(|text| text.extend_from_slice(b"head"));
        out.body(&Body::Memory(Arc::new(memory.unwrap())), 0..5000);
        assert!(out.is_few());
        out.clear();
        out.text(|text| text.extend_from_slice(b"head"));
        out.pattern(10 << 20);
        assert!(!out.is_few(), "one message takes as much of it as it can");
    }

    proptest! {
        #[test]
        fn every_byte_is_gathered_once_and_in_order(
            pieces in prop::collection::vec((0u8..3, 0u64..150_000), 0..6),
            steps in prop::collection::vec(1u64..150_000, 1..200),
        ) {
            let mut out = Outgoing::default();
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
