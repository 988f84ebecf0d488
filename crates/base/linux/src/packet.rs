//! Packet sockets (packet(7)) and batches of frames.

use std::ffi::c_int;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::check;
use crate::interface::{self, Hardware, Interface, InterfaceError};

/// All protocols, in network byte order.
const ALL: u16 = (libc::ETH_P_ALL as u16).to_be();

/// Number of frames in the largest batch.
pub const BATCH: usize = 64;

/// A packet socket on an interface.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
}

impl PacketSocket {
    /// Opens a socket on an interface. With `receives`, the socket receives every incoming frame.
    /// Otherwise it receives none.
    ///
    /// # Errors
    /// The interface does not exist, or this process lacks the permission.
    pub fn open(interface: &Interface, receives: bool) -> Result<(Self, Hardware), InterfaceError> {
        interface.inside(|| {
            Self::open_here(interface.name(), receives)
                .map_err(interface.failed("open a packet socket"))
        })
    }

    fn open_here(interface: &str, receives: bool) -> io::Result<(Self, Hardware)> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no memory is passed. Protocol 0 receives nothing yet.
        let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: the descriptor is new and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let hardware = interface::hardware(&fd, interface)?;
        let socket = Self { fd };
        if receives {
            socket
                .option(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)
                .map_err(|error| match error.raw_os_error() {
                    Some(libc::ENOPROTOOPT) => {
                        io::Error::other("Linux 4.20 or newer is needed to ignore sent frames")
                    }
                    _ => error,
                })?;
        }
        // SAFETY: zeros are a valid address.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = if receives { ALL } else { 0 };
        address.sll_ifindex = hardware.index as c_int;
        // SAFETY: the address outlives the call, and its size is passed.
        check(unsafe {
            libc::bind(
                socket.fd.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as u32,
            )
        })?;
        Ok((socket, hardware))
    }

    /// Sends frames directly to the device, without its queueing discipline.
    ///
    /// # Errors
    /// The errors of setsockopt(2).
    pub fn bypass_queue(&self) -> io::Result<()> {
        self.option(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)
    }

    /// Sets the size of the receive buffer. If this process has the permission, the size may exceed
    /// the system's limit.
    ///
    /// # Errors
    /// The errors of setsockopt(2).
    pub fn set_receive_buffer(&self, bytes: c_int) -> io::Result<()> {
        self.option(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes)
            .or_else(|_| self.option(libc::SOL_SOCKET, libc::SO_RCVBUF, bytes))
    }

    fn option(&self, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
        crate::set_option(&self.fd, level, name, value)
    }

    /// Sends up to [`BATCH`] frames in one call without waiting. Returns how many it sent.
    ///
    /// # Errors
    /// The errors of sendmmsg(2).
    pub fn send(&self, frames: &[Vec<u8>]) -> io::Result<usize> {
        let mut batch = Batch::empty();
        let frames = frames.iter().map(|frame| (frame.as_ptr(), frame.len()));
        let count = batch.point_to(frames);
        // SAFETY: the headers point to vectors, and the vectors point to frames. All of them are
        // alive, and sending only reads them.
        check(unsafe {
            libc::sendmmsg(
                self.fd.as_raw_fd(),
                batch.headers.as_mut_ptr(),
                count as u32,
                libc::MSG_DONTWAIT,
            )
        })
        .map(|sent| sent as usize)
    }

    /// Receives all waiting frames. Calls `each` with every frame, truncated to the size of a
    /// buffer, and with the frame's length before truncation.
    ///
    /// # Errors
    /// The errors of recvmmsg(2).
    pub fn receive_waiting(
        &self,
        buffers: &mut ReceiveBuffers,
        mut each: impl FnMut(&[u8], usize),
    ) -> io::Result<()> {
        loop {
            match self.receive(&mut buffers.0, &mut each) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Receives at least one and at most [`BATCH`] frames in one call.
    fn receive(
        &self,
        buffers: &mut [Vec<u8>],
        each: &mut impl FnMut(&[u8], usize),
    ) -> io::Result<()> {
        let mut batch = Batch::empty();
        let places = buffers.iter_mut();
        let count =
            batch.point_to(places.map(|buffer| (buffer.as_mut_ptr().cast_const(), buffer.len())));
        // SAFETY: the headers point to vectors, and the vectors point to initialised buffers with
        // the right lengths. The buffers are borrowed mutably.
        let received = check(unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                batch.headers.as_mut_ptr(),
                count as u32,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        })?;
        for (buffer, header) in buffers.iter().zip(&batch.headers[..received as usize]) {
            let length = header.msg_len as usize;
            each(&buffer[..length.min(buffer.len())], length);
        }
        Ok(())
    }

    /// Frames that the kernel dropped since the last call because the buffer was full
    /// (`PACKET_STATISTICS`).
    ///
    /// # Errors
    /// The errors of getsockopt(2).
    pub fn overflowed(&self) -> io::Result<u64> {
        // SAFETY: any bytes are valid counts.
        let (counts, _) = unsafe {
            crate::option::<libc::tpacket_stats>(
                &self.fd,
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
            )
        }?;
        Ok(u64::from(counts.tp_drops))
    }
}

/// Buffers for a batch of frames.
#[derive(Debug)]
pub struct ReceiveBuffers(Vec<Vec<u8>>);

impl ReceiveBuffers {
    /// Buffers for frames of up to `frame_bytes`.
    pub fn new(frame_bytes: usize) -> Self {
        Self(vec![vec![0; frame_bytes]; BATCH])
    }
}

/// Message headers with one piece of memory each. A header contains the address of its vector, so a
/// batch must not move after [`Batch::point_to`].
struct Batch {
    headers: [libc::mmsghdr; BATCH],
    vectors: [libc::iovec; BATCH],
}

impl Batch {
    fn empty() -> Self {
        // SAFETY: zeros are valid headers and vectors, which point nowhere.
        unsafe { mem::zeroed() }
    }

    /// Points the headers to pieces of memory. Returns their number.
    fn point_to(&mut self, pieces: impl Iterator<Item = (*const u8, usize)>) -> usize {
        let mut count = 0;
        let places = self.headers.iter_mut().zip(&mut self.vectors);
        for ((header, vector), (start, length)) in places.zip(pieces) {
            vector.iov_base = start.cast_mut().cast();
            vector.iov_len = length;
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            count += 1;
        }
        count
    }
}
