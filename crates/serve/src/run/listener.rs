//! Listening sockets, and what is done with clients when descriptors run out.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{RecvFlags, SendFlags, SocketFlags, acceptfrom_with, recv, send};
use socket2::{Domain, Protocol, Socket, Type};

use crate::error::ServeError;
use crate::settings::Settings;

/// Connections that may wait to be taken; the kernel lowers it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// As many listening sockets at one address, among which the kernel spreads the clients.
pub fn listen(settings: &Settings, count: usize) -> Result<(Vec<OwnedFd>, SocketAddr), ServeError> {
    let fault = |source| ServeError::Listen {
        address: settings.listen.to_string(),
        source,
    };
    // Alone first: with SO_REUSEPORT another process of this user could share the port unnoticed.
    let first = bind(settings.listen, false).map_err(fault)?;
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
    // Connections take this option over from the listener: responses are whole when they are sent.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// The next client of a listener.
pub fn accept(listener: impl AsFd, flags: SocketFlags) -> Result<(OwnedFd, IpAddr), Errno> {
    let (socket, address) = acceptfrom_with(listener, flags | SocketFlags::CLOEXEC)?;
    let peer = address
        .and_then(|address| SocketAddr::try_from(address).ok())
        .map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |address| address.ip());
    Ok((socket, peer))
}

/// A descriptor kept aside, so that there is one to turn a client away with when there is none.
#[derive(Debug)]
pub struct Reserve(Option<OwnedFd>);

impl Reserve {
    /// Takes a descriptor aside.
    pub fn new() -> Self {
        Self(spare())
    }

    /// Takes the next client with the reserve and turns it away; `false` if not even that goes.
    pub fn shed(&mut self, listener: BorrowedFd<'_>, answer: &[u8]) -> bool {
        drop(self.0.take());
        let taken = accept(listener, SocketFlags::NONBLOCK);
        let is_shed = match taken {
            Ok((socket, _)) => {
                turn_away(&socket, answer);
                true
            }
            Err(Errno::AGAIN) => true,
            Err(_) => false,
        };
        self.0 = spare();
        is_shed
    }
}

fn spare() -> Option<OwnedFd> {
    use rustix::fs::{Mode, OFlags, open};
    open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Whether bytes of the client wait in the socket. Closing it would then reset the connection.
pub fn has_unread_bytes(socket: &OwnedFd) -> bool {
    ioctl_fionread(socket).is_ok_and(|bytes| bytes > 0)
}

/// Sends an answer to a client that is closed next, as far as it goes.
///
/// What it sent already is read first: closing a socket with unread bytes resets the connection,
/// and the client would lose the answer.
pub fn turn_away(socket: &OwnedFd, answer: &[u8]) {
    let mut unread = [0; 4096];
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let _ = recv(socket, &mut unread, RecvFlags::DONTWAIT);
    let _ = send(socket, answer, flags);
}
