//! Opens a client's sockets: the connection, and a pair for RTP and RTCP.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};

use perpacket_linux::udp;

use super::super::Ports;

/// Size of a stream's receive buffer, in bytes. Packets wait there while other streams are read.
const RECEIVE_BYTES: usize = 512 * 1024;

/// Starts to connect without waiting.
pub(super) fn start_connection(server: SocketAddr) -> io::Result<TcpStream> {
    use socket2::{Domain, Protocol, Socket, Type};
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(server), kind, Some(Protocol::TCP))?;
    socket.set_tcp_nodelay(true)?;
    match socket.connect(&server.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(error) => return Err(error),
    }
    Ok(socket.into())
}

/// Opens a pair of sockets on an even port and the port after it.
pub(super) fn open_pair(
    local: IpAddr,
    ports: &mut Ports,
) -> io::Result<(UdpSocket, UdpSocket, u16)> {
    let mut last = ErrorKind::AddrInUse.into();
    for _ in 0..Ports::PAIRS {
        let port = ports.next();
        let pair = UdpSocket::bind((local, port))
            .and_then(|packets| Ok((packets, UdpSocket::bind((local, port + 1))?)));
        match pair {
            Ok((packets, reports)) => {
                packets.set_nonblocking(true)?;
                reports.set_nonblocking(true)?;
                udp::record_arrivals_and_merge(&packets)?;
                let socket = socket2::SockRef::from(&packets);
                // The kernel may reduce this size to its limit.
                socket.set_recv_buffer_size(RECEIVE_BYTES)?;
                return Ok((packets, reports, port));
            }
            Err(error) if error.kind() == ErrorKind::AddrInUse => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}
