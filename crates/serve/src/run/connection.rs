//! A connection of a loop: what it waits for, and since when.

use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

use super::tls::TlsSession;
use crate::files::helpers::Job;
use crate::outgoing::Outgoing;
use crate::talk::Talk;
use perpacket_linux::uring::{Multishot, Registered, Target};

/// What ends a connection that does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The next request has not begun.
    Idle,
    /// A request is coming in.
    Request,
    /// The client takes the response.
    Sending,
    /// A helper works for it: no limit, it is not the client who is slow.
    Helper,
    /// The response is sent; what the client still sends is thrown away, so that it can read it.
    Lingering,
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    /// Its socket.
    pub socket: OwnedFd,
    /// The HTTP side.
    pub talk: Talk,
    /// Bytes that came and are not answered: a part of a request, or requests that have to wait.
    pub input: Vec<u8>,
    /// What is answered and not sent, or not all; none if there is nothing to send.
    pub out: Option<Box<Outgoing>>,
    /// TLS, if it is spoken.
    pub tls: Option<Box<TlsSession>>,
    /// What it waits for.
    pub waiting: Waiting,
    /// When that ends the connection, in milliseconds of the worker's clock.
    pub deadline_ms: u64,
    /// What the client has acknowledged of a response that it takes slowly.
    pub progress: Option<Progress>,
    /// The socket may have more to read.
    pub is_readable: bool,
    /// There may be whole requests in the input.
    pub has_requests: bool,
    /// The next of them may take long, and other connections come first.
    pub is_deferred: bool,
    /// The loop has it in its queue of deferred connections.
    pub is_queued: bool,
    /// The client will send no more.
    pub is_half_closed: bool,
    /// The connection ends when all is sent; `Some(true)` if the client may still be sending.
    pub ending: Option<bool>,
    /// What a helper must do when all is sent.
    pub job: Option<Box<Job>>,
    /// A helper read the next part of a file.
    pub is_warmed: bool,
    /// Its slot in an io_uring's table, if it has one.
    pub registered: Option<Registered>,
    /// What is under way, where reads and sends complete later.
    pub flight: Flight,
}

/// Bytes that a client has acknowledged, and since when it has acknowledged no more.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Since the connection was opened.
    pub acknowledged_bytes: u64,
    /// In milliseconds of the worker's clock.
    pub since_ms: u64,
}

/// What an io_uring has under way for a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flight {
    /// A read.
    pub receiving: Receiving,
    /// A send, or the read of what is sent.
    pub is_sending: bool,
    /// The connection ends when nothing is under way.
    pub is_closing: bool,
}

/// How an io_uring reads from a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Receiving {
    /// Not.
    #[default]
    Not,
    /// Once, when bytes arrive.
    Once,
    /// Whenever bytes arrive.
    Always(Multishot),
}

impl Connection {
    /// A new connection.
    pub fn new(socket: OwnedFd, peer: IpAddr, tls: Option<Box<TlsSession>>) -> Self {
        Self {
            socket,
            talk: Talk::new(peer),
            input: Vec::new(),
            out: None,
            tls,
            waiting: Waiting::Idle,
            deadline_ms: 0,
            progress: None,
            is_readable: false,
            has_requests: false,
            is_deferred: false,
            is_queued: false,
            is_half_closed: false,
            ending: None,
            job: None,
            is_warmed: false,
            registered: None,
            flight: Flight::default(),
        }
    }

    /// Its socket, as an io_uring has it at the least cost.
    #[inline]
    pub fn target(&self) -> Target<'_> {
        match self.registered {
            Some(registered) => Target::Registered(registered),
            None => Target::Descriptor(self.socket.as_fd()),
        }
    }

    /// Whether its next request can be answered now: nothing stands before it.
    pub fn is_free(&self) -> bool {
        self.out.is_none()
            && self.job.is_none()
            && self.ending.is_none()
            && self.waiting != Waiting::Helper
            && !self.flight.is_sending
            && !self.flight.is_closing
    }
}

/// Connections by number. A number is used again, with another generation, so that an event of a
/// connection that is gone is known as such.
#[derive(Debug, Default)]
pub struct Connections {
    slots: Vec<(u32, Option<Connection>)>,
    free: Vec<u32>,
}

impl Connections {
    /// Adds a connection; returns its token.
    pub fn insert(&mut self, connection: Connection) -> u64 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[number as usize];
        slot.1 = Some(connection);
        u64::from(slot.0) << 32 | u64::from(number)
    }

    /// Takes a connection out to work on it; `None` if it is gone.
    #[inline]
    pub fn get(&mut self, token: u64) -> Option<&mut Connection> {
        let (generation, connection) = self.slots.get_mut(token as u32 as usize)?;
        connection
            .as_mut()
            .filter(|_| u64::from(*generation) == token >> 32)
    }

    /// Removes a connection.
    pub fn remove(&mut self, token: u64) -> Option<Connection> {
        self.get(token)?;
        let (generation, connection) = &mut self.slots[token as u32 as usize];
        *generation = generation.wrapping_add(1);
        self.free.push(token as u32);
        connection.take()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Tokens of those whose deadline is over at `now_ms`, and the next deadline of the others.
    pub fn overdue(&self, now_ms: u64) -> (Vec<u64>, u64) {
        let mut tokens = Vec::new();
        let mut next_ms = u64::MAX;
        for (number, (generation, connection)) in self.slots.iter().enumerate() {
            if let Some(connection) = connection {
                if connection.deadline_ms <= now_ms {
                    tokens.push(u64::from(*generation) << 32 | number as u64);
                } else {
                    next_ms = next_ms.min(connection.deadline_ms);
                }
            }
        }
        (tokens, next_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn a_token_of_a_connection_that_is_gone_finds_nothing() {
        let connection = || {
            let (socket, _) = std::os::unix::net::UnixStream::pair().unwrap();
            Connection::new(socket.into(), Ipv4Addr::LOCALHOST.into(), None)
        };
        let mut all = Connections::default();
        let first = all.insert(connection());
        assert!(all.remove(first).is_some());
        let second = all.insert(connection());
        assert_eq!(first as u32, second as u32, "the number is used again");
        assert!(all.get(first).is_none() && all.remove(first).is_none());
        assert!(all.get(second).is_some());
        assert_eq!(all.len(), 1);
    }
}
