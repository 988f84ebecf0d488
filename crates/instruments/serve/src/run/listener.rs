//! Listening sockets, and rejecting clients when descriptors run out.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{RecvFlags, SendFlags, SocketFlags, acceptfrom_with, recv, send};
use socket2::{Domain, Protocol, Socket, Type};

use crate::error::ServeError;
use crate::spec::Spec;

/// Maximum number of connections that wait for an accept. The kernel limits it to
/// `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Opens `count` listening sockets at one address. The kernel distributes the clients among them.
pub fn listen(spec: &Spec, count: usize) -> Result<(Vec<OwnedFd>, SocketAddr), ServeError> {
    let fault = |source| ServeError::Listen {
        address: spec.listen.to_string(),
        source,
    };
    // Bind once without SO_REUSEPORT to detect a port in use. With SO_REUSEPORT, the port could
    // already belong to another process of this user.
    let first = bind(spec.listen, false).map_err(fault)?;
    let address = first
        .local_addr()
        .map_err(fault)?
        .as_socket()
        .ok_or_else(|| fault(io::ErrorKind::Unsupported.into()))?;
    let mut sockets = Vec::new();
    if count == 1 {
        sockets.push(first);
    } else {
        drop(first);
        for _ in 0..count {
            sockets.push(bind(address, true).map_err(fault)?);
        }
    }
    for socket in &sockets {
        socket.listen(BACKLOG).map_err(fault)?;
    }
    Ok((sockets.into_iter().map(OwnedFd::from).collect(), address))
}

fn bind(address: SocketAddr, shared: bool) -> io::Result<Socket> {
    let kind = Type::STREAM.cloexec().nonblocking();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    // Connections inherit the option. The server sends whole responses, so Nagle's algorithm would
    // only delay them.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Accepts a connection. Returns it and the client's address.
pub fn accept(listener: impl AsFd, flags: SocketFlags) -> Result<(OwnedFd, IpAddr), Errno> {
    let (socket, address) = acceptfrom_with(listener, flags | SocketFlags::CLOEXEC)?;
    let peer = address
        .and_then(|address| SocketAddr::try_from(address).ok())
        .map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |address| address.ip());
    Ok((socket, peer))
}

/// A reserved descriptor, to accept and reject a client when no other is free.
#[derive(Debug)]
pub struct ReserveDescriptor(Option<OwnedFd>);

impl ReserveDescriptor {
    pub fn new() -> Self {
        Self(open_descriptor())
    }

    /// Accepts the next client with the reserved descriptor and rejects it. Returns `false` if that
    /// fails.
    pub fn reject_next(&mut self, listener: BorrowedFd<'_>, response: &[u8]) -> bool {
        drop(self.0.take());
        let accepted = accept(listener, SocketFlags::NONBLOCK);
        let is_rejected = match accepted {
            Ok((socket, _)) => {
                reject_client(&socket, response);
                true
            }
            Err(Errno::AGAIN) => true,
            Err(_) => false,
        };
        self.0 = open_descriptor();
        is_rejected
    }
}

fn open_descriptor() -> Option<OwnedFd> {
    use rustix::fs::{Mode, OFlags, open};
    open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Whether the socket has unread input. Closing it would then reset the connection.
pub fn has_unread_bytes(socket: &OwnedFd) -> bool {
    ioctl_fionread(socket).is_ok_and(|bytes| bytes > 0)
}

/// Sends as much of a response as the socket accepts. The caller then closes the connection.
///
/// Reads input first: closing a socket with unread bytes resets the connection, and the client would
/// lose the response.
pub fn reject_client(socket: &OwnedFd, response: &[u8]) {
    let mut unread = [0; 4096];
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let _ = recv(socket, &mut unread, RecvFlags::DONTWAIT);
    let _ = send(socket, response, flags);
}
