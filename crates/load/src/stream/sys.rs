//! What the kernel knows of a TCP connection: `TCP_INFO`, which no safe wrapper reads whole.

#![expect(
    unsafe_code,
    reason = "getsockopt(TCP_INFO) has no safe wrapper that gives every field"
)]

use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

/// Bytes of `struct tcp_info` up to `tcpi_data_segs_out` (include/uapi/linux/tcp.h).
const INFO_BYTES: usize = 160;

/// Fields of `struct tcp_info`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TcpInfo {
    /// Payload bytes of a full segment.
    pub segment_bytes: u32,
    /// Smoothed round-trip time, in microseconds.
    pub rtt_us: u32,
    /// Segments sent again.
    pub retransmitted: u32,
    /// Bytes the peer has acknowledged.
    pub acknowledged_bytes: u64,
    /// Data segments received.
    pub segments_in: u32,
    /// Data segments sent, those sent again included.
    pub segments_out: u32,
}

impl TcpInfo {
    /// Asks the kernel.
    pub(crate) fn of(stream: &TcpStream) -> io::Result<Self> {
        let mut bytes = [0u8; INFO_BYTES];
        let mut length = INFO_BYTES as libc::socklen_t;
        // SAFETY: the pointers are to a buffer of `length` bytes and to that length, which outlive
        // the call; the kernel writes at most `length` bytes.
        let status = unsafe {
            libc::getsockopt(
                stream.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                bytes.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
        let word = |at: usize| {
            u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let long = |at: usize| {
            let mut field = [0; 8];
            field.copy_from_slice(&bytes[at..at + 8]);
            u64::from_ne_bytes(field)
        };
        Ok(Self {
            segment_bytes: word(16),
            rtt_us: word(68),
            retransmitted: word(100),
            acknowledged_bytes: long(120),
            segments_in: word(152),
            segments_out: word(156),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_kernel_s_count_of_acknowledged_bytes_is_what_was_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let before = TcpInfo::of(&near).unwrap();
        near.write_all(&[7; 5000]).unwrap();
        far.read_exact(&mut [0; 5000]).unwrap();
        // An answer carries the acknowledgment.
        far.write_all(b"x").unwrap();
        near.read_exact(&mut [0; 1]).unwrap();
        let info = TcpInfo::of(&near).unwrap();
        assert_eq!(info.acknowledged_bytes - before.acknowledged_bytes, 5000);
        assert!(
            info.segments_out >= 1 && info.segment_bytes > 500,
            "{info:?}"
        );
    }
}
