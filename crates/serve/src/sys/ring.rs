//! An io_uring whose operations own what the kernel reads and writes.
//!
//! The kernel uses the memory of an operation until it completes. So an operation takes its memory,
//! and its completion gives it back; what is still under way when the ring is dropped is leaked.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use io_uring::types::{Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::process::{Resource, getrlimit};

use crate::outgoing::Outgoing;

mod buffers;

use buffers::{BUFFER_BYTES, Buffers, GROUP};

/// Operations that are submitted with one system call at most.
const ENTRIES: u32 = 1024;

/// Most sockets in a ring's own table.
const SLOTS: u64 = 16_384;

/// Messages kept for use again.
const SPARES: usize = 256;

/// What came of an operation.
#[derive(Debug)]
pub enum Completion {
    /// A client, and whether more will come without asking again.
    Client(io::Result<OwnedFd>, bool),
    /// The mailbox rang.
    Bell,
    /// Bytes of a connection: as many, in [`Ring::received`]; and whether more will come without
    /// asking again.
    Received(u64, io::Result<usize>, bool),
    /// So many bytes of what was to be sent are sent.
    Sent(u64, Box<Outgoing>, io::Result<usize>),
    /// A part of a file, which comes next in what is to be sent.
    Read(u64, Box<Outgoing>, io::Result<Vec<u8>>),
}

/// An operation that stands until it is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing(usize);

/// A socket's slot in the ring's own table: what is named so is there at once, where a descriptor
/// is looked up and counted each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered(u32);

/// A socket, as an operation names it.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// By its descriptor.
    Descriptor(BorrowedFd<'a>),
    /// By its slot.
    Registered(Registered),
}

/// Builds an operation on a socket, whichever way that is named.
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

enum Operation {
    Accept,
    Poll,
    Receive(u64),
    Stop,
    Release(Registered),
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
    slots: Vec<Registered>,
    waiting: VecDeque<squeue::Entry>,
    #[expect(clippy::vec_box, reason = "the kernel knows a message by its address")]
    spares: Vec<Box<Message>>,
    buffers: Buffers,
    received: Vec<u8>,
}

impl Ring {
    /// A ring for the calling thread alone.
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
            buffers,
            received: Vec::with_capacity(BUFFER_BYTES),
        })
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

    /// Gives a socket a slot, if there is one. The socket stays open until that is released.
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

    /// Takes a slot back. Nothing may be under way there.
    pub fn release(&mut self, registered: Registered) {
        let entry = opcode::Close::new(Fixed(registered.0)).build();
        self.submit(Operation::Release(registered), entry);
    }

    /// Reads once from a connection, into a buffer that is taken when bytes are there.
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

    /// Reads from a connection whenever bytes arrive, until its end, an error or [`Self::stop`].
    pub fn receive_always(&mut self, token: u64, socket: Target<'_>) -> Standing {
        let entry = on!(socket, |socket| opcode::RecvMulti::new(socket, GROUP)).build();
        Standing(self.submit(Operation::Receive(token), entry))
    }

    /// Ends an operation that stands: it completes once more, without more to come. Saying so again
    /// before that does no harm.
    pub fn stop(&mut self, standing: Standing) {
        let entry = opcode::AsyncCancel::new(standing.0 as u64).build();
        self.submit(Operation::Stop, entry);
    }

    /// Sends what comes next: pieces in memory, or a part of a file, which is read first.
    pub fn send(&mut self, token: u64, socket: Target<'_>, out: Box<Outgoing>) {
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
            self.submit(Operation::Read(token, part), entry);
            return;
        }
        let mut message = self.spares.pop().unwrap_or_else(Message::boxed);
        message.take(out);
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

    /// Sends a part of a file that was read.
    pub fn send_part(
        &mut self,
        token: u64,
        socket: Target<'_>,
        out: Box<Outgoing>,
        bytes: Vec<u8>,
    ) {
        let (start, length) = (bytes.as_ptr(), bytes.len() as u32);
        let part = Box::new(Part {
            out,
            bytes,
            _file: None,
        });
        let entry = on!(socket, |socket| opcode::Send::new(socket, start, length))
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
            while let Some(entry) = self.waiting.front() {
                // SAFETY: an operation's memory is kept in `operations` until it completes.
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
                // Completions have to be taken first; what is left goes with the next call.
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => return Ok(()),
                result => result?,
            };
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

    fn submit(&mut self, operation: Operation, entry: squeue::Entry) -> usize {
        let place = self.free.pop().unwrap_or_else(|| {
            self.operations.push(None);
            self.operations.len() - 1
        });
        self.operations[place] = Some(operation);
        let entry = entry.user_data(place as u64);
        // SAFETY: an operation's memory is kept in `operations` until it completes.
        if unsafe { self.uring.submission().push(&entry) }.is_err() {
            self.waiting.push_back(entry);
        }
        place
    }

    fn complete(&mut self, entry: &cqueue::Entry) -> Option<Completion> {
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
                // SAFETY: the descriptor is new and nobody else has it.
                let socket = result.map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) });
                Completion::Client(socket, more)
            }
            Operation::Poll => Completion::Bell,
            Operation::Stop => return None,
            Operation::Release(registered) => {
                self.slots.push(registered);
                return None;
            }
            Operation::Receive(token) => {
                self.received.clear();
                if let Some(number) = cqueue::buffer_select(entry.flags()) {
                    let count = *result.as_ref().unwrap_or(&0);
                    self.buffers.take(number, count, &mut self.received);
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
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.operations.iter().flatten().next().is_some() {
            // The kernel may still write there.
            std::mem::forget(std::mem::take(&mut self.operations));
            return;
        }
        // SAFETY: nothing is under way, and the buffers are not used again.
        unsafe { self.buffers.free(&self.uring.submitter()) };
    }
}

/// A ring, with what this kernel has of what makes it faster.
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

/// Slots for sockets; none where the kernel keeps one that was released as long as anything else is
/// under way, which it did before 6.13 (`io_uring/rsrc.c`). The first newer feature that can be
/// asked for here is of 6.15.
fn slots(uring: &IoUring) -> Vec<Registered> {
    if !uring.params().is_feature_no_iowait() {
        return Vec::new();
    }
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(SLOTS);
    let count = descriptors.min(SLOTS) as u32;
    match uring.submitter().register_files_sparse(count) {
        Ok(()) => (0..count).rev().map(Registered).collect(),
        Err(_) => Vec::new(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    /// Far beyond what anything here takes, in turns of [`TURN`].
    const TURNS: usize = 600;
    const TURN: Duration = Duration::from_secs(1);

    /// A ring; none on a kernel that has none for us.
    fn ring() -> Option<Ring> {
        Ring::new()
            .inspect_err(|error| eprintln!("skipped: {error}"))
            .ok()
    }

    /// The next completion of a read: how many bytes or which error, and whether more come.
    fn received(ring: &mut Ring) -> (Result<usize, Option<i32>>, bool) {
        for _ in 0..TURNS {
            match ring.next() {
                Some(Completion::Received(7, result, more)) => {
                    return (result.map_err(|error| error.raw_os_error()), more);
                }
                Some(other) => panic!("{other:?}"),
                None => ring.wait(TURN).unwrap(),
            }
        }
        panic!("nothing came");
    }

    #[test]
    fn a_read_stands_until_it_is_stopped() {
        let Some(mut ring) = ring() else { return };
        let (mut client, socket) = UnixStream::pair().unwrap();
        let standing = ring.receive_always(7, Target::Descriptor(socket.as_fd()));
        for text in ["one", "three"] {
            client.write_all(text.as_bytes()).unwrap();
            assert_eq!(received(&mut ring), (Ok(text.len()), true));
            assert_eq!(ring.received(), text.as_bytes());
        }
        ring.stop(standing);
        let canceled = Some(libc::ECANCELED);
        assert_eq!(received(&mut ring), (Err(canceled), false));
        client.write_all(b"again").unwrap();
        ring.receive(7, Target::Descriptor(socket.as_fd()));
        assert_eq!(received(&mut ring), (Ok(5), false));
    }

    #[test]
    fn a_socket_with_a_slot_works_by_it_and_is_closed_once_that_is_released() {
        let Some(mut ring) = ring() else { return };
        let (mut client, socket) = UnixStream::pair().unwrap();
        let Some(registered) = ring.register(socket.as_fd()) else {
            eprintln!("skipped: this kernel is older than 6.15 and gives no slots");
            return;
        };
        let slots = ring.slots.len();
        ring.receive(7, Target::Registered(registered));
        client.write_all(b"ask").unwrap();
        assert_eq!(received(&mut ring), (Ok(3), false));
        drop(socket);
        client.set_nonblocking(true).unwrap();
        let error = client.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "the ring has it");
        ring.release(registered);
        ring.flush().unwrap();
        client.set_nonblocking(false).unwrap();
        client.set_read_timeout(Some(TURN * 600)).unwrap();
        assert_eq!(client.read(&mut [0]).unwrap(), 0, "closed");
        assert!(ring.next().is_none());
        assert_eq!(ring.slots.len(), slots + 1);
    }
}
