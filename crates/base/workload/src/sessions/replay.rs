//! A recorded trace as a source of sessions.

use std::io::Read;
use std::sync::Arc;

use super::logged::{SessionTable, read_sessions};
use super::planned::{PlannedRequest, SessionSource};
use super::requests::SessionRequests;
use crate::trace::error::TraceError;
use crate::trace::format::Expected;
use crate::trace::request::Request;

/// Status of a response without a body: the client's copy is still valid.
const NOT_MODIFIED: u16 = 304;

/// The sessions of a trace in the order of their first requests. After the last session, the source
/// starts again.
///
/// Clones share the trace. Each clone has its own position.
#[derive(Clone, Debug)]
pub struct Replay {
    sessions: Arc<SessionTable<PlannedRequest>>,
    next: usize,
    rejected: u64,
}

impl Replay {
    /// Reads a trace and cuts it into sessions.
    ///
    /// Responses of every status count, because servers send error pages too. A 304 and a response
    /// without a size have no body. A body above 4 GiB counts as 4 GiB.
    ///
    /// # Errors
    /// The errors of [`read_sessions`].
    pub fn read<R: Read>(
        source: R,
        expected: impl Into<Expected>,
        window_s: f64,
    ) -> Result<Self, TraceError> {
        let logged = read_sessions(source, expected, window_s, planned)?;
        Ok(Self {
            sessions: Arc::new(logged.by_session()?),
            next: 0,
            rejected: logged.rejected.count,
        })
    }

    /// Number of requests that a simulated server can answer.
    pub fn usable_requests(&self) -> u64 {
        self.sessions.requests() as u64
    }

    /// Rejected lines or records.
    pub fn rejected(&self) -> u64 {
        self.rejected
    }

    /// Sessions of the trace.
    pub fn sessions(&self) -> u64 {
        self.sessions.sessions() as u64
    }
}

fn planned(request: &Request<'_>) -> PlannedRequest {
    let body_bytes = match request.status {
        NOT_MODIFIED => 0,
        _ => request.size_bytes.unwrap_or(0),
    };
    PlannedRequest {
        object: request.object,
        response_bytes: u32::try_from(body_bytes).unwrap_or(u32::MAX),
        dynamic: request.dynamic,
    }
}

impl Replay {
    /// The next session, in the memory of the trace.
    pub fn next_shared(&mut self) -> SessionRequests<PlannedRequest> {
        SessionRequests::Shared(Arc::clone(&self.sessions), self.advance())
    }

    /// The number of the next session.
    fn advance(&mut self) -> usize {
        let number = self.next;
        self.next = (self.next + 1) % self.sessions.sessions();
        number
    }
}

impl SessionSource for Replay {
    fn next_session(&mut self, requests: &mut Vec<PlannedRequest>) -> u32 {
        let number = self.advance();
        let (client, session) = self.sessions.session(number);
        requests.clear();
        requests.extend_from_slice(session);
        client
    }
}
