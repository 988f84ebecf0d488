//! The session of a connection: its requests and its position in them.

use perpacket_workload::SessionRequests;

use super::application::Client;

/// The size of the response is unknown.
pub(crate) const ANY_SIZE: u32 = u32::MAX;

/// How a client requests an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Operation {
    /// GET of a file.
    #[default]
    Get,
    /// HEAD of a file.
    Head,
    /// GET of a file with `If-Modified-Since`.
    Conditional,
    /// POST without a body.
    Post,
    /// SPECweb99's dynamic GET.
    DynamicGet,
    /// SPECweb99's dynamic GET with a rotating advertisement.
    Advertisement,
    /// SPECweb99's dynamic POST.
    DynamicPost,
    /// SPECweb99's GET through CGI.
    Cgi,
}

pub(crate) const OPERATIONS: usize = 8;

/// Names of the operations in reports.
pub(crate) const OPERATION_NAMES: [&str; OPERATIONS] = [
    "get",
    "head",
    "conditional_get",
    "post",
    "dynamic_get",
    "dynamic_get_advertisement",
    "dynamic_post",
    "cgi_get",
];

#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionRequest {
    pub object: u32,
    /// Expected bytes of the body, or [`ANY_SIZE`].
    pub expected_bytes: u32,
    /// How the client requests it.
    pub operation: Operation,
    /// The status in the log; 0 without a log. A response is expected to have this status or
    /// that of a success.
    pub logged_status: u16,
    /// With a log: the start of the request, from the start of the log. Otherwise: the wait before
    /// the request.
    pub due_ns: u64,
}

impl Default for SessionRequest {
    fn default() -> Self {
        Self {
            object: 0,
            expected_bytes: ANY_SIZE,
            operation: Operation::Get,
            logged_status: 0,
            due_ns: 0,
        }
    }
}

/// The requests of a session, repeated `rounds` times, and the position in them.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// The requests of one round.
    pub requests: SessionRequests<SessionRequest>,
    /// The state of the client, if the workload is an application.
    pub client: Client,
    position: usize,
    rounds: u64,
}

impl Session {
    /// Starts with the first of the requests.
    pub(crate) fn start(&mut self, rounds: u64) {
        self.position = 0;
        self.rounds = rounds;
    }

    /// The current request; `None` at the end of the session.
    #[inline]
    pub(crate) fn current(&self) -> Option<SessionRequest> {
        match self.rounds {
            0 => None,
            _ => self.requests.get(self.position).copied(),
        }
    }

    /// Whether the current request is the last.
    #[inline]
    pub(crate) fn is_last(&self) -> bool {
        self.rounds <= 1 && self.position + 1 >= self.requests.len()
    }

    /// Advances to the next request. Returns false at the end of the session.
    #[inline]
    pub(crate) fn advance(&mut self) -> bool {
        self.position += 1;
        if self.position >= self.requests.len() {
            self.position = 0;
            self.rounds = self.rounds.saturating_sub(1);
        }
        self.rounds > 0
    }

    /// Ends the session.
    pub(crate) fn clear(&mut self) {
        self.rounds = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_after_its_rounds() {
        let mut session = Session::default();
        assert!(session.current().is_none());
        session.requests = SessionRequests::Own(vec![SessionRequest::default(); 2]);
        session.start(2);
        let mut seen = 0;
        while session.current().is_some() {
            seen += 1;
            assert_eq!(session.is_last(), seen == 4);
            session.advance();
        }
        assert_eq!(seen, 4);
    }
}
