//! Receiving datagrams with what the kernel knows of them: when they came, and how many it glued
//! together. No safe wrapper gives these control messages.
#![expect(unsafe_code, reason = "no safe wrapper reads these control messages")]

use std::io;
use std::mem::{self, MaybeUninit};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::ptr;

/// Room for a stamp and a size, with their heads.
const CONTROL_BYTES: usize = 128;

/// Aligned as the kernel aligns what it writes there.
#[repr(C, align(8))]
struct Control(MaybeUninit<[u8; CONTROL_BYTES]>);

/// A datagram, or several of one size glued together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    /// Bytes in the buffer.
    pub(super) bytes: usize,
    /// Bytes of each datagram but the last; all of them if it is one.
    pub(super) segment: usize,
    /// When the kernel took it, in nanoseconds since 1970; none if it did not say.
    pub(super) stamp_ns: Option<u64>,
}

/// Asks for stamps, and for datagrams of one sender to be glued together where the kernel can.
pub(super) fn enable(socket: &UdpSocket) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS)?;
    // Kernels before 5.0 cannot: then every datagram comes by itself.
    let _ = set(socket, libc::SOL_UDP, libc::UDP_GRO);
    Ok(())
}

fn set(socket: &UdpSocket, level: libc::c_int, option: libc::c_int) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the value is an int that outlives the call, and its size is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            ptr::from_ref(&on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Receives what is next, without waiting.
///
/// # Errors
/// As `recvmsg(2)`.
pub(super) fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Received> {
    let mut control = Control(MaybeUninit::uninit());
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: all zeros are a valid message header.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = ptr::from_mut(&mut part);
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = CONTROL_BYTES;
    // SAFETY: the header points to a buffer and control room that outlive the call.
    let bytes = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    let bytes = usize::try_from(bytes).map_err(|_| io::Error::last_os_error())?;
    let mut received = Received {
        bytes,
        segment: bytes.max(1),
        stamp_ns: None,
    };
    // SAFETY: the kernel has set the length of the control messages it wrote; the macros walk
    // within it, and each value is read unaligned at the size its type has in the kernel.
    unsafe {
        let mut head = libc::CMSG_FIRSTHDR(&raw const message);
        while !head.is_null() {
            let data = libc::CMSG_DATA(head);
            match ((*head).cmsg_level, (*head).cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let time: libc::timespec = ptr::read_unaligned(data.cast());
                    let seconds = time.tv_sec as u64;
                    received.stamp_ns = Some(seconds * 1_000_000_000 + time.tv_nsec as u64);
                }
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let size: libc::c_int = ptr::read_unaligned(data.cast());
                    received.segment = usize::try_from(size).unwrap_or(0).max(1);
                }
                _ => {}
            }
            head = libc::CMSG_NXTHDR(&raw const message, head);
        }
    }
    Ok(received)
}
