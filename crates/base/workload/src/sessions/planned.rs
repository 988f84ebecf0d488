//! Sessions of planned requests, for simulated and real clients.

/// One request of a client, and the response that the server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedRequest {
    /// Number of the requested object, from 0. A trace's objects are numbered in order of first
    /// appearance.
    pub object: u32,
    /// Bytes of the response's body, without a header.
    pub response_bytes: u32,
    /// Whether the server computes the response instead of sending a file.
    pub dynamic: bool,
}

/// An endless source of sessions.
pub trait SessionSource {
    /// Replaces `requests` by the next session's requests and returns its client.
    ///
    /// A session has at least one request. The function allocates memory only if `requests` must
    /// grow.
    fn next_session(&mut self, requests: &mut Vec<PlannedRequest>) -> u32;
}
