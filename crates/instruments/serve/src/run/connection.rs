//! A connection of a loop: its state, the event that it waits for, and its deadline.

use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

use super::tls::TlsSession;
use crate::files::helper_threads::Job;
use crate::http_state::HttpState;
use crate::send_queue::SendQueue;
use perpacket_linux::uring::{Multishot, Registered, Target};

/// The event that a connection waits for. Each has its own time-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The first byte of the next request.
    Idle,
    /// The rest of a request.
    Request,
    /// Room in the socket for more of the response: the client must read first.
    Sending,
    /// A helper thread. There is no time-out, because the client does not cause the delay.
    Helper,
    /// The client's close. The last response has been sent, and further input is discarded.
    Lingering,
}

#[derive(Debug)]
pub struct Connection {
    pub socket: OwnedFd,
    pub http: HttpState,
    /// Input without a response: a part of a request, or whole requests that wait.
    pub input: Vec<u8>,
    /// Responses that have not been sent completely.
    pub out: Option<Box<SendQueue>>,
    /// The TLS session, if the server uses TLS.
    pub tls: Option<Box<TlsSession>>,
    /// The event that the connection waits for.
    pub waiting: Waiting,
    /// When the time-out ends, in milliseconds of the worker's clock.
    pub deadline_ms: u64,
    /// Progress of a client that reads a response slowly.
    pub progress: Option<Progress>,
    /// The socket may have more to read.
    pub is_readable: bool,
    /// The input may have complete requests.
    pub has_requests: bool,
    /// The next request may take long, so other connections come first.
    pub is_deferred: bool,
    /// The connection is in the loop's queue of deferred connections.
    pub is_queued: bool,
    /// The client has shut down its sending side.
    pub is_half_closed: bool,
    /// `Some` if the connection closes after the output is sent. The value is true if the client
    /// may still be sending.
    pub ending: Option<bool>,
    /// The job for a helper thread after the output is sent.
    pub job: Option<Box<Job>>,
    /// A helper thread has read the next part of a file.
    pub is_warmed: bool,
    /// Its slot in an io_uring's table, if it has one.
    pub registered: Option<Registered>,
    /// Operations of an io_uring that have not completed.
    pub operations: PendingOperations,
}

/// The bytes that a client has acknowledged, and the time of the last increase.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Bytes acknowledged since the connection was opened.
    pub acknowledged_bytes: u64,
    /// Time of the last increase, in milliseconds of the worker's clock.
    pub since_ms: u64,
}

/// Operations of an io_uring that have not completed.
#[derive(Clone, Copy, Debug, Default)]
pub struct PendingOperations {
    pub receiving: Receiving,
    /// A send, or a read of the file part to send.
    pub is_sending: bool,
    /// The connection closes after all operations have completed.
    pub is_closing: bool,
}

/// The receive operation of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Receiving {
    /// No receive is under way.
    #[default]
    Idle,
    /// A receive that completes once.
    Single,
    /// A receive that completes each time bytes arrive.
    Multishot(Multishot),
}

impl Connection {
    pub fn new(socket: OwnedFd, peer: IpAddr, tls: Option<Box<TlsSession>>) -> Self {
        Self {
            socket,
            http: HttpState::new(peer),
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
            operations: PendingOperations::default(),
        }
    }

    /// The socket for operations of an io_uring. It is a slot of the ring's table if the connection
    /// has one, because a slot costs less than a descriptor.
    #[inline]
    pub fn target(&self) -> Target<'_> {
        match self.registered {
            Some(registered) => Target::Registered(registered),
            None => Target::Descriptor(self.socket.as_fd()),
        }
    }

    /// Whether the next request can be answered now: no response, job or close must come first.
    pub fn is_free(&self) -> bool {
        self.out.is_none()
            && self.job.is_none()
            && self.ending.is_none()
            && self.waiting != Waiting::Helper
            && !self.operations.is_sending
            && !self.operations.is_closing
    }
}

/// Connections by token. A token is a slot number and a generation. When a slot is reused, its
/// generation changes, so that a late event of a closed connection finds nothing.
#[derive(Debug, Default)]
pub struct Connections {
    slots: Vec<(u32, Option<Connection>)>,
    free: Vec<u32>,
}

impl Connections {
    /// Adds a connection. Returns its token.
    pub fn insert(&mut self, connection: Connection) -> u64 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[number as usize];
        slot.1 = Some(connection);
        u64::from(slot.0) << 32 | u64::from(number)
    }

    /// The connection of a token; `None` if the connection is closed.
    #[inline]
    pub fn get(&mut self, token: u64) -> Option<&mut Connection> {
        let (generation, connection) = self.slots.get_mut(token as u32 as usize)?;
        connection
            .as_mut()
            .filter(|_| u64::from(*generation) == token >> 32)
    }

    pub fn remove(&mut self, token: u64) -> Option<Connection> {
        self.get(token)?;
        let (generation, connection) = &mut self.slots[token as u32 as usize];
        *generation = generation.wrapping_add(1);
        self.free.push(token as u32);
        connection.take()
    }

    /// The number of connections.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Tokens of connections whose deadline has passed, and the next deadline of the others.
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
    fn the_token_of_a_closed_connection_finds_nothing() {
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
