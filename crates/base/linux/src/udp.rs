//! UDP with segmentation offload, receive offload and the kernel's time of arrival (udp(7)).

use std::io;
use std::mem::{self, MaybeUninit};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use socket2::SockAddr;

use crate::mapped_file::MappedFile;

/// Room for the control messages of one receive. They are a time and a size, with their headers.
const CONTROL_BYTES: usize = 128;

/// Control messages, aligned as the kernel aligns them.
#[repr(C, align(8))]
struct Control(MaybeUninit<[u8; CONTROL_BYTES]>);

/// A datagram, or several of one size that the kernel merged.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Bytes in the buffer.
    pub bytes: usize,
    /// Bytes of each datagram except the last. At least 1, and equal to `bytes` for a single
    /// datagram.
    pub datagram_bytes: usize,
    /// The time at which the kernel received the datagram, since 1970. `None` if the kernel did not
    /// record it.
    pub arrival_ns: Option<u64>,
}

/// Makes the kernel record times of arrival, and merge datagrams of one sender if it can.
///
/// # Errors
/// The errors of setsockopt(2).
pub fn record_arrivals_and_merge(socket: &UdpSocket) -> io::Result<()> {
    record_arrivals(socket)?;
    // Kernels before 5.0 cannot merge datagrams. They return every datagram by itself.
    let _ = set(socket, libc::SOL_UDP, libc::UDP_GRO);
    Ok(())
}

/// Makes the kernel record times of arrival.
///
/// # Errors
/// The errors of setsockopt(2).
pub fn record_arrivals(socket: &UdpSocket) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS)
}

fn set(socket: &UdpSocket, level: libc::c_int, option: libc::c_int) -> io::Result<()> {
    crate::set_option(socket, level, option, 1)
}

/// Receives a datagram into `buffer`. Waits for one if the socket is blocking.
///
/// # Errors
/// The errors of recvmsg(2).
pub fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Received> {
    let mut control = Control(MaybeUninit::uninit());
    let mut vector = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: zeros are a valid message header.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = CONTROL_BYTES;
    // SAFETY: the header points to a buffer and room for control messages that outlive the call.
    let bytes = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    let bytes = usize::try_from(bytes).map_err(|_| io::Error::last_os_error())?;
    let mut received = Received {
        bytes,
        datagram_bytes: bytes.max(1),
        arrival_ns: None,
    };
    // SAFETY: the kernel has set the length of the control messages that it wrote; the macros stay
    // within it, and each value is read unaligned with the size of its type in the kernel.
    unsafe {
        let mut head = libc::CMSG_FIRSTHDR(&raw const message);
        while !head.is_null() {
            let data = libc::CMSG_DATA(head);
            match ((*head).cmsg_level, (*head).cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let time: libc::timespec = ptr::read_unaligned(data.cast());
                    let seconds = time.tv_sec as u64;
                    received.arrival_ns = Some(seconds * 1_000_000_000 + time.tv_nsec as u64);
                }
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let size: libc::c_int = ptr::read_unaligned(data.cast());
                    received.datagram_bytes = usize::try_from(size).unwrap_or(0).max(1);
                }
                _ => {}
            }
            head = libc::CMSG_NXTHDR(&raw const message, head);
        }
    }
    Ok(received)
}

/// An address and a length of memory that the kernel reads. A [`SendBatch`] reuses a vector of them.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Piece(libc::iovec);

// SAFETY: only the batch that added a piece uses its pointer, and the batch borrows the memory.
unsafe impl Send for Piece {}

/// Pieces of memory and of mapped files that are sent together.
#[derive(Debug)]
pub struct SendBatch<'a> {
    pieces: &'a mut Vec<Piece>,
}

impl<'a> SendBatch<'a> {
    /// An empty batch that uses the memory of `pieces`.
    pub fn new(pieces: &'a mut Vec<Piece>) -> Self {
        pieces.clear();
        Self { pieces }
    }

    /// Adds memory.
    pub fn add(&mut self, bytes: &'a [u8]) {
        self.pieces.push(Piece(libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        }));
    }

    /// Adds a part of a mapped file. The part is cut at the end of the mapping.
    pub fn add_mapped(&mut self, file: &'a MappedFile, offset: usize, length: usize) {
        let (iov_base, iov_len) = file.part(offset, length);
        self.pieces.push(Piece(libc::iovec { iov_base, iov_len }));
    }

    /// Sends the batch without waiting. An unconnected socket needs an address. With
    /// `datagram_bytes`, the kernel cuts the batch into datagrams of that size (`UDP_SEGMENT`).
    ///
    /// # Errors
    /// The errors of sendmsg(2). For a mapped file that shrank, the error is `EFAULT`.
    pub fn send(
        self,
        socket: BorrowedFd<'_>,
        to: Option<&SockAddr>,
        datagram_bytes: Option<u16>,
    ) -> io::Result<usize> {
        let mut control = Control(MaybeUninit::zeroed());
        // SAFETY: zeros are a valid message header.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = self.pieces.as_mut_ptr().cast();
        message.msg_iovlen = self.pieces.len();
        if let Some(to) = to {
            message.msg_name = to.as_ptr().cast_mut().cast();
            message.msg_namelen = to.len();
        }
        if let Some(bytes) = datagram_bytes {
            message.msg_control = control.0.as_mut_ptr().cast();
            // SAFETY: the macros compute sizes and stay within the room for control messages,
            // which is zeroed, aligned for a header and large enough for one with two bytes.
            unsafe {
                message.msg_controllen = libc::CMSG_SPACE(size_of::<u16>() as u32) as usize;
                let head = libc::CMSG_FIRSTHDR(&raw const message);
                (*head).cmsg_level = libc::SOL_UDP;
                (*head).cmsg_type = libc::UDP_SEGMENT;
                (*head).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as usize;
                ptr::write_unaligned(libc::CMSG_DATA(head).cast(), bytes);
            }
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the header points to pieces, an address and control messages that outlive the
        // call. The kernel only reads them, and returns an error for memory that vanished.
        let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;

    fn pair() -> (UdpSocket, UdpSocket) {
        let (near, far) = (
            UdpSocket::bind("127.0.0.1:0").unwrap(),
            UdpSocket::bind("127.0.0.1:0").unwrap(),
        );
        near.connect(far.local_addr().unwrap()).unwrap();
        (near, far)
    }

    #[test]
    fn a_batch_of_memory_and_a_mapped_file_is_cut_into_datagrams() {
        let (near, far) = pair();
        let mut file = tempfile();
        file.write_all(&[2; 5000]).unwrap();
        let mapped = MappedFile::new(&file, 5000).unwrap();
        mapped.populate(0, 5000).unwrap();
        let mut pieces = Vec::new();
        let mut batch = SendBatch::new(&mut pieces);
        batch.add(&[1; 600]);
        // The part beyond the mapping is not added.
        batch.add_mapped(&mapped, 4000, 5000);
        assert_eq!(batch.send(near.as_fd(), None, Some(1000)).unwrap(), 1600);
        let mut buffer = [0; 3000];
        let sizes = [0, 1].map(|_| receive(&far, &mut buffer).unwrap().bytes);
        assert_eq!(sizes, [1000, 600]);
    }

    #[test]
    fn a_mapped_file_that_shrank_is_an_error() {
        let (near, _far) = pair();
        let mut file = tempfile();
        file.write_all(&[2; 8192]).unwrap();
        let mapped = MappedFile::new(&file, 8192).unwrap();
        file.set_len(0).unwrap();
        assert!(mapped.populate(0, 8192).is_err());
        let mut pieces = Vec::new();
        let mut batch = SendBatch::new(&mut pieces);
        batch.add_mapped(&mapped, 4096, 100);
        let error = batch.send(near.as_fd(), None, None).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
    }

    #[test]
    fn datagrams_have_a_time_of_arrival() {
        let (near, far) = pair();
        record_arrivals_and_merge(&far).unwrap();
        let before_ns = crate::clock::realtime_ns();
        near.send(&[1; 100]).unwrap();
        let received = receive(&far, &mut [0; 200]).unwrap();
        assert_eq!((received.bytes, received.datagram_bytes), (100, 100));
        // The kernel's clock of arrivals may lag by a tick.
        assert!(received.arrival_ns.unwrap() + 1_000_000_000 > before_ns);
    }

    fn tempfile() -> std::fs::File {
        rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC)
            .unwrap()
            .into()
    }
}
