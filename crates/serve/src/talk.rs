//! What a connection remembers between two looks at its bytes: little, for ten thousand idle ones.

use std::net::IpAddr;

use perpacket_http::body::BodyReader;

/// The HTTP side of a connection.
#[derive(Debug)]
pub struct Talk {
    /// Who is at the other end.
    pub peer: IpAddr,
    /// Bytes of a partial head in which no end was found.
    pub searched: usize,
    /// Requests answered, modulo 2^32.
    pub answered: u32,
    /// The last response is under way: nothing more is read as a request.
    pub closing: bool,
    /// CPU time that the next request has used already, in microseconds: `/work` on a loop.
    pub work_done_us: u64,
    /// A request whose body is still coming, or whose answer waits for a cold file.
    pub pending: Option<Box<PendingBody>>,
}

/// A request with a body.
#[derive(Debug)]
pub struct PendingBody {
    /// The head as it came; it is parsed again when the body is here.
    pub head: Vec<u8>,
    /// Takes the body out of the input.
    pub reader: BodyReader,
    /// What came of the body.
    pub body: Vec<u8>,
}

impl Talk {
    /// A new connection's.
    pub fn new(peer: IpAddr) -> Self {
        Self {
            peer,
            searched: 0,
            answered: 0,
            closing: false,
            work_done_us: 0,
            pending: None,
        }
    }

    /// Whether a request has begun to come in.
    pub fn is_within_request(&self) -> bool {
        self.searched > 0 || self.pending.is_some()
    }
}
