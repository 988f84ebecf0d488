//! A recorded trace as a source of sessions.

use std::io::Read;
use std::sync::Arc;

use crate::error::TraceError;
use crate::format::TraceFormat;
use crate::log_line::Reject;
use crate::method::Method;
use crate::plan::{PlannedRequest, SessionSource};
use crate::read::{TraceSink, read_trace};
use crate::request::Request;
use crate::sessions::SessionCutter;

/// Status of a response without a body because the client's copy is still good.
const NOT_MODIFIED: u16 = 304;

/// The sessions of a trace in the order of their first requests, over and over.
///
/// Clones share the trace and start where the original stands.
#[derive(Clone, Debug)]
pub struct Replay {
    trace: Arc<SessionTable>,
    next: usize,
    rejected: u64,
}

/// Sessions stored flat: session `i` has the requests from `starts[i]` to `starts[i + 1]`.
#[derive(Debug)]
struct SessionTable {
    clients: Vec<u32>,
    starts: Vec<u32>,
    requests: Vec<PlannedRequest>,
}

impl Replay {
    /// Reads a trace and cuts it into sessions.
    ///
    /// Usable are GET, HEAD and POST requests, whatever their status: an error's page is sent as
    /// well. A 304 and a response without a size have no body; a body above 4 GiB counts 4 GiB.
    ///
    /// # Errors
    /// See [`read_trace`]; also a `window_s` that is not from 0 to 10^6 seconds, and a trace
    /// without usable requests.
    pub fn read<R: Read>(
        source: R,
        format: Option<TraceFormat>,
        window_s: f64,
    ) -> Result<Self, TraceError> {
        let mut collected = Collected {
            cutter: SessionCutter::new(window_s)?,
            clients: Vec::new(),
            requests: Vec::new(),
            accepted: 0,
            rejected: 0,
        };
        read_trace(source, format, &mut collected)?;
        let (requests, rejected) = (collected.accepted, collected.rejected);
        if collected.requests.is_empty() {
            return Err(TraceError::NothingUsable { requests, rejected });
        }
        Ok(Self {
            trace: Arc::new(collected.by_session()),
            next: 0,
            rejected,
        })
    }

    /// Requests a simulated server can answer.
    #[must_use]
    pub fn usable_requests(&self) -> u64 {
        self.trace.requests.len() as u64
    }

    /// Lines or records that could not be read and were skipped.
    #[must_use]
    pub fn rejected(&self) -> u64 {
        self.rejected
    }

    /// Sessions of the trace.
    #[must_use]
    pub fn sessions(&self) -> u64 {
        self.trace.clients.len() as u64
    }
}

impl SessionSource for Replay {
    fn next_session(&mut self, requests: &mut Vec<PlannedRequest>) -> u32 {
        let session = self.next;
        let table = &*self.trace;
        self.next = (session + 1) % table.clients.len();
        let range = table.starts[session] as usize..table.starts[session + 1] as usize;
        requests.clear();
        requests.extend_from_slice(&table.requests[range]);
        table.clients[session]
    }
}

/// The usable requests of a trace, in its order.
struct Collected {
    cutter: SessionCutter,
    /// By session.
    clients: Vec<u32>,
    requests: Vec<(u32, PlannedRequest)>,
    accepted: u64,
    rejected: u64,
}

impl Collected {
    /// Sorts the requests by session, keeping their order, by counting.
    fn by_session(self) -> SessionTable {
        let sessions = self.clients.len();
        let mut starts = vec![0u32; sessions + 1];
        for (session, _) in &self.requests {
            starts[*session as usize + 1] += 1;
        }
        for session in 0..sessions {
            starts[session + 1] += starts[session];
        }
        let mut free = starts.clone();
        let empty = PlannedRequest {
            object: 0,
            response_bytes: 0,
            dynamic: false,
        };
        let mut requests = vec![empty; self.requests.len()];
        for (session, request) in self.requests {
            let place = &mut free[session as usize];
            requests[*place as usize] = request;
            *place += 1;
        }
        SessionTable {
            clients: self.clients,
            starts,
            requests,
        }
    }
}

impl TraceSink for Collected {
    fn request(&mut self, request: &Request<'_>) -> Result<(), TraceError> {
        self.accepted += 1;
        if !matches!(request.method, Method::Get | Method::Head | Method::Post) {
            return Ok(());
        }
        let place = self.cutter.place(request.client, request.time_s);
        if place.first {
            self.clients.push(request.client);
        }
        let body_bytes = if request.status == NOT_MODIFIED {
            0
        } else {
            request.size_bytes.unwrap_or(0)
        };
        self.requests.push((
            place.session,
            PlannedRequest {
                object: request.object,
                response_bytes: u32::try_from(body_bytes).unwrap_or(u32::MAX),
                dynamic: request.dynamic,
            },
        ));
        Ok(())
    }

    fn reject(&mut self, _line: u64, _reason: Reject) {
        self.rejected += 1;
    }
}
