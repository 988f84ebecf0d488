//! The state of HTTP on a connection, between two reads. It is small, because a server may have ten
//! thousand idle connections.

use std::net::IpAddr;

use perpacket_http::body::BodyReader;

/// The state of HTTP on a connection.
#[derive(Debug)]
pub struct HttpState {
    /// The client's address.
    pub peer: IpAddr,
    /// Number of bytes of a partial head that were searched and contain no empty line.
    pub searched_bytes: usize,
    /// Requests answered, modulo 2^32.
    pub answered: u32,
    /// The last response of the connection is in the output. Input after its request is not parsed.
    pub closing: bool,
    /// CPU time that a `/work` request on a loop has already used, in microseconds.
    pub work_done_us: u64,
    /// A request whose body is incomplete, or a request that waits for a job.
    pub pending: Option<Box<PendingBody>>,
}

/// A request with a body.
#[derive(Debug)]
pub struct PendingBody {
    /// The head, which is parsed again when the body is complete.
    pub head: Vec<u8>,
    /// Decoder that extracts the body from the input.
    pub reader: BodyReader,
    /// The body so far.
    pub body: Vec<u8>,
}

impl HttpState {
    /// The state of a new connection.
    pub fn new(peer: IpAddr) -> Self {
        Self {
            peer,
            searched_bytes: 0,
            answered: 0,
            closing: false,
            work_done_us: 0,
            pending: None,
        }
    }

    /// Whether a request has begun and is incomplete.
    pub fn is_within_request(&self) -> bool {
        self.searched_bytes > 0 || self.pending.is_some()
    }
}
