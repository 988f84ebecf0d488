//! Packet sockets (packet(7)) and batches of frames.

use std::ffi::c_int;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::check;
use crate::interface::{self, Hardware, Interface, InterfaceError};

/// All protocols, in network byte order.
const ALL: u16 = (libc::ETH_P_ALL as u16).to_be();

/// Frames of the largest batch.
pub const BATCH: usize = 64;

/// A packet socket on an interface.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
}

impl PacketSocket {
    /// Opens a socket on an interface. With `receives` it receives every frame that comes in,
    /// otherwise none.
    ///
    /// # Errors
    /// The interface does not exist, or this process may not.
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
        socket.option(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
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

    /// Sends frames straight to the device, past its queueing discipline.
    ///
    /// # Errors
    /// Those of setsockopt(2).
    pub fn bypass_queue(&self) -> io::Result<()> {
        self.option(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)
    }

    /// Sets the room for frames that wait to be read, beyond the system's limit where allowed.
    ///
    /// # Errors
    /// Those of setsockopt(2).
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
    /// Those of sendmmsg(2).
    pub fn send(&self, frames: &[Vec<u8>]) -> io::Result<usize> {
        let frames = &frames[..frames.len().min(BATCH)];
        // SAFETY: zeros are valid headers and vectors, which point nowhere.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        // SAFETY: as above.
        let mut vectors: [libc::iovec; BATCH] = unsafe { mem::zeroed() };
        for ((header, vector), frame) in headers.iter_mut().zip(&mut vectors).zip(frames) {
            vector.iov_base = frame.as_ptr().cast_mut().cast();
            vector.iov_len = frame.len();
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: the headers point to vectors and those to frames, all alive; sending only reads.
        let sent = unsafe {
            libc::sendmmsg(
                self.fd.as_raw_fd(),
                headers.as_mut_ptr(),
                frames.len() as u32,
                libc::MSG_DONTWAIT,
            )
        };
        check(sent).map(|sent| sent as usize)
    }

    /// Receives up to [`BATCH`] frames that wait, each into a buffer, and their lengths. Returns how
    /// many it received.
    ///
    /// # Errors
    /// Those of recvmmsg(2).
    pub fn receive(&self, buffers: &mut [Vec<u8>], lengths: &mut [usize]) -> io::Result<usize> {
        let count = buffers.len().min(lengths.len()).min(BATCH);
        // SAFETY: zeros are valid headers and vectors, which point nowhere.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        // SAFETY: as above.
        let mut vectors: [libc::iovec; BATCH] = unsafe { mem::zeroed() };
        for ((header, vector), buffer) in headers.iter_mut().zip(&mut vectors).zip(buffers) {
            vector.iov_base = buffer.as_mut_ptr().cast();
            vector.iov_len = buffer.len();
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: the headers point to vectors and those to initialised buffers of their lengths.
        let got = unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                headers.as_mut_ptr(),
                count as u32,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        let got = check(got)? as usize;
        for (length, header) in lengths.iter_mut().zip(&headers[..got]) {
            *length = header.msg_len as usize;
        }
        Ok(got)
    }

    /// Frames that found no room since the last call (`PACKET_STATISTICS`).
    ///
    /// # Errors
    /// Those of getsockopt(2).
    pub fn overflowed(&self) -> io::Result<u64> {
        // SAFETY: zeros are valid counts.
        let mut counts: libc::tpacket_stats = unsafe { mem::zeroed() };
        let mut size = size_of::<libc::tpacket_stats>() as u32;
        // SAFETY: the counts and their size outlive the call.
        check(unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut counts).cast(),
                &raw mut size,
            )
        })?;
        Ok(u64::from(counts.tp_drops))
    }
}
