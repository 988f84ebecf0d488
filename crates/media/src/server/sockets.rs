//! The sockets of an event loop: a listener, and datagram sockets that share a port.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

/// Tries to find an even port with the next one free.
const PORT_TRIES: usize = 100;

/// A listener that several event loops may share.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    // An event loop a core, each with a queue of its own.
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    socket.listen(4096)?;
    Ok(socket.into())
}

/// A datagram socket that shares its port with others of this server.
pub(super) fn datagrams(address: SocketAddr) -> io::Result<Socket> {
    let kind = Type::DGRAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::UDP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Sockets on an even port and the next: RTP and RTCP (RFC 3550, section 11).
pub(super) fn port_pair(ip: IpAddr) -> io::Result<(UdpSocket, UdpSocket)> {
    let mut last = ErrorKind::AddrInUse.into();
    for _ in 0..PORT_TRIES {
        // A free port first, not yet shared: sharing would let us land on another server's.
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
