//! The state of a TCP connection.

use std::io;
use std::mem;
use std::os::fd::AsFd;

/// Fields of `TCP_INFO` (tcp(7)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Payload bytes of a full segment.
    pub segment_bytes: u32,
    /// Smoothed round-trip time.
    pub rtt_us: u32,
    /// Retransmitted segments.
    pub retransmitted: u32,
    /// Bytes that the peer acknowledged.
    pub acknowledged_bytes: u64,
    /// Data segments received.
    pub segments_in: u32,
    /// Data segments sent, retransmissions included.
    pub segments_out: u32,
}

impl TcpInfo {
    /// The current state of a connection.
    ///
    /// # Errors
    /// The descriptor is not a TCP socket, or the kernel is older than 4.6 and reports fewer
    /// fields.
    pub fn of(stream: impl AsFd) -> io::Result<Self> {
        // SAFETY: the structure has numbers only.
        let (info, bytes) =
            unsafe { crate::option::<libc::tcp_info>(stream, libc::IPPROTO_TCP, libc::TCP_INFO) }?;
        if bytes < mem::offset_of!(libc::tcp_info, tcpi_delivery_rate) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Self {
            segment_bytes: info.tcpi_snd_mss,
            rtt_us: info.tcpi_rtt,
            retransmitted: info.tcpi_total_retrans,
            acknowledged_bytes: info.tcpi_bytes_acked,
            segments_in: info.tcpi_data_segs_in,
            segments_out: info.tcpi_data_segs_out,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_kernel_counts_acknowledged_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let before = TcpInfo::of(&near).unwrap();
        near.write_all(&[7; 5000]).unwrap();
        far.read_exact(&mut [0; 5000]).unwrap();
        // The response carries the acknowledgment.
        far.write_all(b"x").unwrap();
        near.read_exact(&mut [0; 1]).unwrap();
        let info = TcpInfo::of(&near).unwrap();
        assert_eq!(info.acknowledged_bytes - before.acknowledged_bytes, 5000);
        assert!(
            info.segments_out >= 1 && info.segment_bytes > 500,
            "{info:?}"
        );
    }

    #[test]
    fn a_socket_of_another_kind_has_no_state() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(TcpInfo::of(&socket).is_err());
    }
}
