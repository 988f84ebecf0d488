//! The sockets of an event loop: a listener, and UDP sockets that share a port.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

/// Number of attempts to find a free even port whose next port is free too.
const PORT_TRIES: usize = 100;

/// A listener. Several event loops can listen on its address.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    // Each event loop has its own queue of connections.
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    socket.listen(4096)?;
    Ok(socket.into())
}

/// A UDP socket. It shares its port with other sockets of this server.
pub(super) fn datagrams(address: SocketAddr) -> io::Result<Socket> {
    let kind = Type::DGRAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::UDP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Sockets for RTP and RTCP, on an even port and the port after it (RFC 3550, section 11).
pub(super) fn port_pair(ip: IpAddr) -> io::Result<(UdpSocket, UdpSocket)> {
    let mut last = ErrorKind::AddrInUse.into();
    for _ in 0..PORT_TRIES {
        // Bind a first socket without address reuse. The kernel then selects no port that another
        // server shares.
        let probe = UdpSocket::bind(SocketAddr::new(ip, 0))?;
        let port = probe.local_addr()?.port() & !1;
        drop(probe);
        let is_free = UdpSocket::bind(SocketAddr::new(ip, port)).is_ok();
        if !is_free {
            continue;
        }
        let rtp = datagrams(SocketAddr::new(ip, port))?;
        match UdpSocket::bind(SocketAddr::new(ip, port + 1)) {
            Ok(reports) => {
                reports.set_nonblocking(true)?;
                return Ok((rtp.into(), reports));
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
