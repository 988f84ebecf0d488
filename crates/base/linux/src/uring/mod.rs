//! An io_uring whose operations own the memory that the kernel reads and writes.
//!
//! The kernel uses the memory of an operation until it completes. So an operation owns its memory,
//! and its completion returns it. Dropping a ring leaks the memory of operations under way.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use io_uring::types::{Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

mod buffers;

use buffers::{BUFFER_BYTES, Buffers, GROUP};

/// Maximum number of operations that one system call submits.
const ENTRIES: u32 = 1024;

/// Maximum number of sockets in a ring's table.
const SLOTS: u64 = 16_384;

/// Maximum number of bytes of a file that are read and sent at a time.
const PART_BYTES: usize = 1 << 18;

/// Maximum number of buffers of file parts that are stored for reuse.
const SPARE_PARTS: usize = 16;

/// Maximum number of messages that are stored for reuse.
const SPARES: usize = 256;

/// An output that a ring sends. It consists of pieces in memory and parts of files.
pub trait Outgoing: 'static {
    /// The next piece as a part of a file: file, offset and length. `None` if the next piece is in
    /// memory.
    fn next_file_part(&self) -> Option<(Arc<OwnedFd>, u64, u64)>;

    /// Calls `action` with the pieces in memory before the next part of a file, but with at most
    /// as many as fit in one message. The pieces borrow from `self`, so their addresses are valid
    /// until `self` changes.
    fn with_slices<'a, T>(&'a self, action: impl FnOnce(&[IoSlice<'a>]) -> T) -> T;
}

/// The result of an operation. The `u64` is the token of the connection. A final `bool` is true if
/// the operation stays armed.
#[derive(Debug)]
pub enum Completion<O> {
    /// A connection was accepted.
    Accepted(io::Result<OwnedFd>, bool),
    /// The descriptor of [`Ring::poll`] is readable.
    Readable,
    /// This many bytes are in [`Ring::received`].
    Received(u64, io::Result<usize>, bool),
    /// This many bytes were sent.
    Sent(u64, Box<O>, io::Result<usize>),
    /// This part of a file was read.
    Read(u64, Box<O>, io::Result<Vec<u8>>),
}

/// A multishot operation. It stays armed until it is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multishot(usize);

/// A socket's slot in the ring's table. At each operation on a descriptor, the kernel looks up the
/// file and counts a reference to it. An operation on a slot needs neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered(u32);

/// The way in which an operation names a socket.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    Descriptor(BorrowedFd<'a>),
    /// By its slot.
    Registered(Registered),
}

/// Builds an operation on a socket.
macro_rules! on {
    ($target:expr, |$socket:ident| $operation:expr) => {
        match $target {
            Target::Descriptor(descriptor) => {
                let $socket = Fd(descriptor.as_raw_fd());
                $operation
            }
            Target::Registered(Registered(slot)) => {
                let $socket = Fixed(slot);
                $operation
            }
        }
    };
}

enum Operation<O> {
    Accept,
    Poll,
    Receive(u64),
    Stop,
    Release(Registered),
    Send(u64, Box<Message<O>>),
    Read(u64, Box<FilePart<O>>),
    SendPart(u64, Box<FilePart<O>>),
}

/// Pieces in memory, in the layout that the kernel reads. A message that is stored for reuse has no
/// output.
struct Message<O> {
    out: Option<Box<O>>,
    pieces: Vec<libc::iovec>,
    header: libc::msghdr,
}

impl<O: Outgoing> Message<O> {
    fn boxed() -> Box<Self> {
        Box::new(Self {
            out: None,
            pieces: Vec::new(),
            // SAFETY: zeros are a valid message header.
            header: unsafe { std::mem::zeroed() },
        })
    }

    /// Adds the pieces of an output. They borrow from memory that the box owns. Moving the box does
    /// not move that memory, and nothing changes it before the operation completes.
    fn fill(&mut self, out: Box<O>) {
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

struct FilePart<O> {
    out: Box<O>,
    bytes: Vec<u8>,
    _file: Option<Arc<OwnedFd>>,
}

/// A ring, its operations under way and its buffers.
pub struct Ring<O> {
    uring: IoUring,
    operations: Vec<Option<Operation<O>>>,
    free: Vec<usize>,
    slots: Vec<Registered>,
    waiting: VecDeque<squeue::Entry>,
    #[expect(clippy::vec_box, reason = "the kernel has the address of a message")]
    spares: Vec<Box<Message<O>>>,
    spare_parts: Vec<Vec<u8>>,
    buffers: Buffers,
    received: Vec<u8>,
}

impl<O: Outgoing> Ring<O> {
    /// Creates a ring that only the calling thread may use.
    ///
    /// # Errors
    /// The kernel has no io_uring, forbids it, or is older than 6.1.
    pub fn new() -> io::Result<Self> {
        let uring = build()?;
        let slots = slots(&uring);
        let buffers = Buffers::new(&uring.submitter())?;
        Ok(Self {
            uring,
            operations: Vec::new(),
            free: Vec::new(),
            slots,
            waiting: VecDeque::new(),
            spares: Vec::new(),
            spare_parts: Vec::new(),
            buffers,
            received: Vec::with_capacity(BUFFER_BYTES),
        })
    }

    /// The bytes of the last [`Completion::Received`].
    pub fn received(&self) -> &[u8] {
        &self.received
    }

    /// Accepts connections until an error.
    pub fn accept(&mut self, listener: BorrowedFd<'_>) {
        let entry = opcode::AcceptMulti::new(Fd(listener.as_raw_fd()))
            .flags(libc::SOCK_CLOEXEC)
            .build();
        self.submit(Operation::Accept, entry);
    }

    /// Waits once until a descriptor is readable.
    pub fn poll(&mut self, descriptor: BorrowedFd<'_>) {
        let entry = opcode::PollAdd::new(Fd(descriptor.as_raw_fd()), libc::POLLIN as u32).build();
        self.submit(Operation::Poll, entry);
    }

    /// Puts a socket into a free slot, if there is one. The socket stays open until the slot is
    /// released.
    pub fn register(&mut self, socket: BorrowedFd<'_>) -> Option<Registered> {
        let registered = self.slots.pop()?;
        let update = self
            .uring
            .submitter()
            .register_files_update(registered.0, &[socket.as_raw_fd()]);
        if update.is_err() {
            self.slots.push(registered);
            return None;
        }
        Some(registered)
    }

    /// Frees a slot. No operation may be under way on it.
    pub fn release(&mut self, registered: Registered) {
        let entry = opcode::Close::new(Fixed(registered.0)).build();
        self.submit(Operation::Release(registered), entry);
    }

    /// Receives once from a connection. The kernel picks a buffer when bytes arrive.
    pub fn receive(&mut self, token: u64, socket: Target<'_>) {
        let entry = on!(socket, |socket| opcode::Recv::new(
            socket,
            ptr::null_mut(),
            0
        ))
        .buf_group(GROUP)
        .build()
        .flags(squeue::Flags::BUFFER_SELECT);
        self.submit(Operation::Receive(token), entry);
    }

    /// Receives from a connection each time that bytes arrive, until its end, an error or
    /// [`Self::stop`].
    pub fn receive_always(&mut self, token: u64, socket: Target<'_>) -> Multishot {
        let entry = on!(socket, |socket| opcode::RecvMulti::new(socket, GROUP)).build();
        Multishot(self.submit(Operation::Receive(token), entry))
    }

    /// Disarms a multishot operation. The operation then completes once more. Until then, stopping
    /// it again is harmless.
    pub fn stop(&mut self, multishot: Multishot) {
        let entry = opcode::AsyncCancel::new(multishot.0 as u64).build();
        self.submit(Operation::Stop, entry);
    }

    /// Sends the next pieces in memory. If a part of a file comes next, this reads the part
    /// instead, and [`Self::send_part`] then sends it.
    pub fn send(&mut self, token: u64, socket: Target<'_>, out: Box<O>) {
        if let Some((file, offset, length)) = out.next_file_part() {
            let mut part = Box::new(FilePart {
                out,
                bytes: self.part_buffer((length as usize).min(PART_BYTES)),
                _file: Some(Arc::clone(&file)),
            });
            let (start, bytes) = (part.bytes.as_mut_ptr(), part.bytes.len() as u32);
            let entry = opcode::Read::new(Fd(file.as_raw_fd()), start, bytes)
                .offset(offset)
                .build();
            self.submit(Operation::Read(token, part), entry);
            return;
        }
        let mut message = self.spares.pop().unwrap_or_else(Message::boxed);
        message.fill(out);
        let entry = if let [piece] = *message.pieces {
            let (start, bytes) = (piece.iov_base.cast(), piece.iov_len as u32);
            on!(socket, |socket| opcode::Send::new(socket, start, bytes))
                .flags(libc::MSG_NOSIGNAL)
                .build()
        } else {
            message.header.msg_iov = message.pieces.as_mut_ptr();
            message.header.msg_iovlen = message.pieces.len();
            let header = &raw const message.header;
            on!(socket, |socket| opcode::SendMsg::new(socket, header))
                .flags(libc::MSG_NOSIGNAL as u32)
                .build()
        };
        self.submit(Operation::Send(token, message), entry);
    }

    /// Sends a part of a file that [`Self::send`] read.
    pub fn send_part(&mut self, token: u64, socket: Target<'_>, out: Box<O>, bytes: Vec<u8>) {
        let (start, length) = (bytes.as_ptr(), bytes.len() as u32);
        let part = Box::new(FilePart {
            out,
            bytes,
            _file: None,
        });
        // Use MSG_WAITALL, because after a short send the ring would have to read the rest from the
        // file again.
        let entry = on!(socket, |socket| opcode::Send::new(socket, start, length))
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build();
        self.submit(Operation::SendPart(token, part), entry);
    }

    /// A buffer for a part of a file. Reuses a former buffer if there is one, because that is still
    /// in the processor's cache.
    fn part_buffer(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = self.spare_parts.pop().unwrap_or_default();
        bytes.resize(length, 0);
        bytes
    }

    /// Submits all operations and waits for a completion, but at most for `limit`.
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

    /// Queues as many operations as the ring has room for, and submits when it is full.
    fn submit_most(&mut self) -> io::Result<()> {
        loop {
            let mut queue = self.uring.submission();
            while let Some(entry) = self.waiting.front() {
                // SAFETY: `operations` owns the operation's memory until it completes.
                if unsafe { queue.push(entry) }.is_err() {
                    break;
                }
                self.waiting.pop_front();
            }
            drop(queue);
            if self.waiting.is_empty() {
                return Ok(());
            }
            match self.uring.submit() {
                // Completions must be read first. The next call submits the remaining operations.
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => return Ok(()),
                result => result?,
            };
        }
    }

    /// The next completion, if there is one.
    pub fn next_completion(&mut self) -> Option<Completion<O>> {
        loop {
            let entry = self.uring.completion().next()?;
            if let Some(completion) = self.complete(&entry) {
                return Some(completion);
            }
        }
    }

    fn submit(&mut self, operation: Operation<O>, entry: squeue::Entry) -> usize {
        let place = self.free.pop().unwrap_or_else(|| {
            self.operations.push(None);
            self.operations.len() - 1
        });
        self.operations[place] = Some(operation);
        let entry = entry.user_data(place as u64);
        // SAFETY: `operations` owns the operation's memory until it completes.
        if unsafe { self.uring.submission().push(&entry) }.is_err() {
            self.waiting.push_back(entry);
        }
        place
    }

    fn complete(&mut self, entry: &cqueue::Entry) -> Option<Completion<O>> {
        let place = entry.user_data() as usize;
        let result = match entry.result() {
            error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
            count => Ok(count as usize),
        };
        let more = cqueue::more(entry.flags());
        let operation = self.operations.get_mut(place)?.take()?;
        match operation {
            Operation::Accept if more => self.operations[place] = Some(Operation::Accept),
            Operation::Receive(token) if more => {
                self.operations[place] = Some(Operation::Receive(token));
            }
            _ => self.free.push(place),
        }
        Some(match operation {
            Operation::Accept => {
                // SAFETY: the descriptor is new and has no other owner.
                let socket = result.map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) });
                Completion::Accepted(socket, more)
            }
            Operation::Poll => Completion::Readable,
            Operation::Stop => return None,
            Operation::Release(registered) => {
                self.slots.push(registered);
                return None;
            }
            Operation::Receive(token) => {
                self.received.clear();
                if let Some(number) = cqueue::buffer_select(entry.flags()) {
                    let count = *result.as_ref().unwrap_or(&0);
                    self.buffers.copy_out(number, count, &mut self.received);
                }
                Completion::Received(token, result, more)
            }
            Operation::Send(token, mut message) => {
                let out = message.out.take()?;
                if self.spares.len() < SPARES {
                    self.spares.push(message);
                }
                Completion::Sent(token, out, result)
            }
            Operation::SendPart(token, part) => {
                let FilePart { out, bytes, .. } = *part;
                if self.spare_parts.len() < SPARE_PARTS {
                    self.spare_parts.push(bytes);
                }
                Completion::Sent(token, out, result)
            }
            Operation::Read(token, part) => {
                let FilePart { out, mut bytes, .. } = *part;
                let read = result.map(|count| {
                    bytes.truncate(count);
                    bytes
                });
                Completion::Read(token, out, read)
            }
        })
    }
}

impl<O> Drop for Ring<O> {
    fn drop(&mut self) {
        if self.operations.iter().flatten().next().is_some() {
            // The kernel may still read or write the memory of operations.
            std::mem::forget(std::mem::take(&mut self.operations));
            return;
        }
        // SAFETY: nothing is under way, and the buffers are not used again.
        unsafe { self.buffers.free(&self.uring.submitter()) };
    }
}

/// A ring with the options that this kernel supports.
fn build() -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_cqsize(ENTRIES * 8);
    let plain = builder.clone();
    builder
        .setup_no_sqarray()
        .build(ENTRIES)
        .or_else(|_| plain.build(ENTRIES))
}

/// Slots for sockets. On kernels before 6.13 there are none, because these kernels free a released
/// slot only when no operation at all is under way (`io_uring/rsrc.c`). A process can detect no
/// feature of 6.13 or 6.14, so the function tests for a feature of 6.15.
fn slots(uring: &IoUring) -> Vec<Registered> {
    if !uring.params().is_feature_no_iowait() {
        return Vec::new();
    }
    let count = crate::descriptors::limit().min(SLOTS) as u32;
    match uring.submitter().register_files_sparse(count) {
        Ok(()) => (0..count).rev().map(Registered).collect(),
        Err(_) => Vec::new(),
    }
}

/// Ignores errors after which the ring is still usable: the time is up, a signal arrived, or
/// completions must be read first.
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

/// Checks that this process may create a ring with the options that [`Ring`] needs.
///
/// # Errors
/// The kernel forbids rings, or is older than 6.1.
pub fn is_available() -> io::Result<()> {
    IoUring::<squeue::Entry, cqueue::Entry>::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(1)
        .map(drop)
        .map_err(|error| match error.raw_os_error() {
            Some(libc::EINVAL) => io::Error::other("Linux 6.1 or newer is needed"),
            _ => error,
        })
}

#[cfg(test)]
mod tests;
