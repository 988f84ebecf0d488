//! An io_uring whose operations own what the kernel reads and writes.
//!
//! The kernel uses the memory of an operation until it completes. So an operation takes its memory,
//! and its completion gives it back; what is still under way when the ring is dropped is leaked.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use io_uring::types::{BufRingEntry, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

use crate::outgoing::Outgoing;

/// Operations that are submitted with one system call at most.
const ENTRIES: u32 = 1024;

/// Buffers that the kernel picks from when bytes arrive: a power of two.
const BUFFERS: u16 = 256;

/// Size of such a buffer. Whoever sends more is read again.
const BUFFER_BYTES: usize = 16_384;

/// The group of these buffers: the only one.
const GROUP: u16 = 0;

/// Messages kept for use again.
const SPARES: usize = 256;

/// What came of an operation.
#[derive(Debug)]
pub enum Completion {
    /// A client, and whether more will come without asking again.
    Client(io::Result<OwnedFd>, bool),
    /// The mailbox rang.
    Bell,
    /// Bytes of a connection: as many, in [`Ring::received`].
    Received(u64, io::Result<usize>),
    /// So many bytes of what was to be sent are sent.
    Sent(u64, Box<Outgoing>, io::Result<usize>),
    /// A part of a file, which comes next in what is to be sent.
    Read(u64, Box<Outgoing>, io::Result<Vec<u8>>),
}

enum Operation {
    Accept,
    Poll,
    Receive(u64),
    Send(u64, Box<Message>),
    Read(u64, Box<Part>),
    SendPart(u64, Box<Part>),
}

/// Pieces in memory, and what the kernel needs to know of them. One that is kept for use again has
/// nothing to send.
struct Message {
    out: Option<Box<Outgoing>>,
    pieces: Vec<libc::iovec>,
    header: libc::msghdr,
}

impl Message {
    /// One with nothing to send.
    fn boxed() -> Box<Self> {
        Box::new(Self {
            out: None,
            pieces: Vec::new(),
            // SAFETY: a message header of zeros is an empty one.
            header: unsafe { std::mem::zeroed() },
        })
    }

    /// Takes what comes next: the bytes lie in the heap behind `out` and do not move with it.
    fn take(&mut self, out: Box<Outgoing>) {
        self.pieces.clear();
        out.with_slices(|slices| {
            self.pieces.extend(slices.iter().map(|slice| libc::iovec {
                iov_base: slice.as_ptr().cast_mut().cast(),
                iov_len: slice.len(),
            }));
        });
        self.out = Some(out);
    }
}

/// A part of a file.
struct Part {
    out: Box<Outgoing>,
    bytes: Vec<u8>,
    _file: Option<Arc<OwnedFd>>,
}

/// The ring, its operations under way and its buffers.
pub struct Ring {
    uring: IoUring,
    operations: Vec<Option<Operation>>,
    free: Vec<usize>,
    waiting: Vec<squeue::Entry>,
    #[expect(clippy::vec_box, reason = "the kernel knows a message by its address")]
    spares: Vec<Box<Message>>,
    buffers: NonNull<u8>,
    entries: NonNull<BufRingEntry>,
    tail: u16,
    received: Vec<u8>,
}

/// Bytes of all buffers.
const POOL_BYTES: usize = BUFFERS as usize * BUFFER_BYTES;

/// Bytes of the ring that tells the kernel of them.
const RING_BYTES: usize = BUFFERS as usize * size_of::<BufRingEntry>();

impl Ring {
    /// A ring for the calling thread alone.
    ///
    /// # Errors
    /// The kernel has no io_uring, forbids it, or is older than 6.1.
    pub fn new() -> io::Result<Self> {
        let uring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_cqsize(ENTRIES * 8)
            .build(ENTRIES)?;
        let buffers = map(POOL_BYTES)?;
        let entries = map(RING_BYTES)?.cast();
        // SAFETY: the entries are a mapping of their own, aligned to a page, of this many entries,
        // and stay mapped as long as the ring is there.
        unsafe {
            uring.submitter().register_buf_ring_with_flags(
                entries.as_ptr() as u64,
                BUFFERS,
                GROUP,
                0,
            )?;
        }
        let mut ring = Self {
            uring,
            operations: Vec::new(),
            free: Vec::new(),
            waiting: Vec::new(),
            spares: Vec::new(),
            buffers,
            entries,
            tail: 0,
            received: Vec::with_capacity(BUFFER_BYTES),
        };
        for number in 0..BUFFERS {
            ring.provide(number);
        }
        Ok(ring)
    }

    /// The bytes of the last [`Completion::Received`].
    pub fn received(&self) -> &[u8] {
        &self.received
    }

    /// Takes clients until an error.
    pub fn accept(&mut self, listener: BorrowedFd<'_>) {
        let entry = opcode::AcceptMulti::new(Fd(listener.as_raw_fd()))
            .flags(libc::SOCK_CLOEXEC)
            .build();
        self.submit(Operation::Accept, entry);
    }

    /// Waits until something can be read.
    pub fn poll(&mut self, bell: BorrowedFd<'_>) {
        let entry = opcode::PollAdd::new(Fd(bell.as_raw_fd()), libc::POLLIN as u32).build();
        self.submit(Operation::Poll, entry);
    }

    /// Reads once from a connection, into a buffer that is taken when bytes are there.
    pub fn receive(&mut self, token: u64, socket: BorrowedFd<'_>) {
        let entry = opcode::Recv::new(Fd(socket.as_raw_fd()), ptr::null_mut(), 0)
            .buf_group(GROUP)
            .build()
            .flags(squeue::Flags::BUFFER_SELECT);
        self.submit(Operation::Receive(token), entry);
    }

    /// Sends what comes next: pieces in memory, or a part of a file, which is read first.
    pub fn send(&mut self, token: u64, socket: BorrowedFd<'_>, out: Box<Outgoing>) {
        if let Some((file, offset, length)) = out.next_file_part() {
            let mut part = Box::new(Part {
                out,
                bytes: vec![0; (length as usize).min(1 << 18)],
                _file: Some(Arc::clone(&file)),
            });
            let (start, bytes) = (part.bytes.as_mut_ptr(), part.bytes.len() as u32);
            let entry = opcode::Read::new(Fd(file.as_raw_fd()), start, bytes)
                .offset(offset)
                .build();
            return self.submit(Operation::Read(token, part), entry);
        }
        let socket = Fd(socket.as_raw_fd());
        let mut message = self.spares.pop().unwrap_or_else(Message::boxed);
        message.take(out);
        let entry = if let [piece] = *message.pieces {
            opcode::Send::new(socket, piece.iov_base.cast(), piece.iov_len as u32)
                .flags(libc::MSG_NOSIGNAL)
                .build()
        } else {
            message.header.msg_iov = message.pieces.as_mut_ptr();
            message.header.msg_iovlen = message.pieces.len();
            opcode::SendMsg::new(socket, &raw const message.header)
                .flags(libc::MSG_NOSIGNAL as u32)
                .build()
        };
        self.submit(Operation::Send(token, message), entry);
    }

    /// Sends a part of a file that was read.
    pub fn send_part(
        &mut self,
        token: u64,
        socket: BorrowedFd<'_>,
        out: Box<Outgoing>,
        bytes: Vec<u8>,
    ) {
        let (start, length) = (bytes.as_ptr(), bytes.len() as u32);
        let part = Box::new(Part {
            out,
            bytes,
            _file: None,
        });
        let entry = opcode::Send::new(Fd(socket.as_raw_fd()), start, length)
            .flags(libc::MSG_NOSIGNAL)
            .build();
        self.submit(Operation::SendPart(token, part), entry);
    }

    /// Submits all operations and waits for a completion, or for as long as `limit`.
    ///
    /// # Errors
    /// The ring is broken.
    pub fn wait(&mut self, limit: Duration) -> io::Result<()> {
        self.submit_most()?;
        let limit = Timespec::from(limit);
        let arguments = SubmitArgs::new().timespec(&limit);
        unless_broken(self.uring.submitter().submit_with_args(1, &arguments))
    }

    /// Submits all operations.
    ///
    /// # Errors
    /// The ring is broken.
    pub fn flush(&mut self) -> io::Result<()> {
        self.submit_most()?;
        unless_broken(self.uring.submit())
    }

    /// Leaves as many operations to be submitted as the ring has room for.
    fn submit_most(&mut self) -> io::Result<()> {
        loop {
            let mut queue = self.uring.submission();
            while let Some(entry) = self.waiting.last() {
                // SAFETY: an operation's memory is kept in `operations` until it completes.
                if unsafe { queue.push(entry) }.is_err() {
                    break;
                }
                self.waiting.pop();
            }
            drop(queue);
            if self.waiting.is_empty() {
                return Ok(());
            }
            self.uring.submit()?;
        }
    }

    /// The next completion, if there is one.
    pub fn next(&mut self) -> Option<Completion> {
        loop {
            let entry = self.uring.completion().next()?;
            if let Some(completion) = self.complete(&entry) {
                return Some(completion);
            }
        }
    }

    fn submit(&mut self, operation: Operation, entry: squeue::Entry) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.operations.push(None);
            self.operations.len() - 1
        });
        self.operations[place] = Some(operation);
        let entry = entry.user_data(place as u64);
        // SAFETY: an operation's memory is kept in `operations` until it completes.
        if unsafe { self.uring.submission().push(&entry) }.is_err() {
            self.waiting.push(entry);
        }
    }

    fn complete(&mut self, entry: &cqueue::Entry) -> Option<Completion> {
        let place = entry.user_data() as usize;
        let result = match entry.result() {
            error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
            count => Ok(count as usize),
        };
        let more = cqueue::more(entry.flags());
        let operation = self.operations.get_mut(place)?.take()?;
        if more {
            self.operations[place] = Some(Operation::Accept);
        } else {
            self.free.push(place);
        }
        Some(match operation {
            Operation::Accept => {
                // SAFETY: the descriptor is new and nobody else has it.
                let socket = result.map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) });
                Completion::Client(socket, more)
            }
            Operation::Poll => Completion::Bell,
            Operation::Receive(token) => {
                self.received.clear();
                if let Some(number) = cqueue::buffer_select(entry.flags()) {
                    let count = *result.as_ref().unwrap_or(&0);
                    self.take_buffer(number, count);
                }
                Completion::Received(token, result)
            }
            Operation::Send(token, mut message) => {
                let out = message.out.take()?;
                if self.spares.len() < SPARES {
                    self.spares.push(message);
                }
                Completion::Sent(token, out, result)
            }
            Operation::SendPart(token, part) => Completion::Sent(token, part.out, result),
            Operation::Read(token, part) => {
                let Part { out, mut bytes, .. } = *part;
                let read = result.map(|count| {
                    bytes.truncate(count);
                    bytes
                });
                Completion::Read(token, out, read)
            }
        })
    }

    /// Copies what the kernel put into a buffer, and gives the buffer back.
    fn take_buffer(&mut self, number: u16, count: usize) {
        let offset = usize::from(number % BUFFERS) * BUFFER_BYTES;
        // SAFETY: the buffer lies within the pool, the kernel filled `count` bytes of it and does
        // not touch it again before it is provided anew.
        let bytes = unsafe {
            std::slice::from_raw_parts(self.buffers.as_ptr().add(offset), count.min(BUFFER_BYTES))
        };
        self.received.extend_from_slice(bytes);
        self.provide(number);
    }

    /// Gives the kernel a buffer.
    fn provide(&mut self, number: u16) {
        let place = usize::from(self.tail & (BUFFERS - 1));
        let offset = usize::from(number % BUFFERS) * BUFFER_BYTES;
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: `place` is within the mapping of entries, which only this thread writes; the
        // tail is an aligned u16 in the first entry that the kernel reads atomically.
        unsafe {
            let entry = &mut *self.entries.as_ptr().add(place);
            entry.set_addr(self.buffers.as_ptr().add(offset) as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(number);
            let tail = BufRingEntry::tail(self.entries.as_ptr()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.operations.iter().flatten().next().is_some() {
            // The kernel may still write there.
            std::mem::forget(std::mem::take(&mut self.operations));
            return;
        }
        // SAFETY: nothing is under way, so the kernel touches neither mapping any more, and nobody
        // else has them.
        unsafe {
            libc::munmap(self.buffers.as_ptr().cast(), POOL_BYTES);
            if self.uring.submitter().unregister_buf_ring(GROUP).is_ok() {
                libc::munmap(self.entries.as_ptr().cast(), RING_BYTES);
            }
        }
    }
}

/// What is no fault of the ring: time is up, a signal came, completions have to be taken first.
fn unless_broken(result: io::Result<usize>) -> io::Result<()> {
    match result {
        Err(error)
            if !matches!(
                error.raw_os_error(),
                Some(libc::ETIME | libc::EINTR | libc::EBUSY)
            ) =>
        {
            Err(error)
        }
        _ => Ok(()),
    }
}

/// Zeroed memory, aligned to a page.
fn map(bytes: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: an anonymous mapping at no given address touches no memory of ours.
    let base: *mut c_void = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base.cast()).ok_or_else(io::Error::last_os_error)
}
