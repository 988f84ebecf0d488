//! The sessions of a log. One pass reads and cuts the log, and a counting sort groups its requests
//! by session.

use std::io::Read;

use crate::trace::error::TraceError;
use crate::trace::format::{Expected, TraceFormat};
use crate::trace::log_line::Reject;
use crate::trace::method::Method;
use crate::trace::read::{TraceSink, read_trace};
use crate::trace::rejects::Rejects;
use crate::trace::request::Request;
use crate::trace::session_cutter::SessionCutter;

/// The requests of a log that a client can send (GET, HEAD and POST), in the log's order.
#[derive(Clone, Debug)]
pub struct LoggedSessions<T> {
    pub requests: Vec<LoggedRequest<T>>,
    /// The client of each session.
    pub clients: Vec<u32>,
    /// Format of the log.
    pub format: TraceFormat,
    /// Number of accepted lines whose methods no client can send.
    pub skipped: u64,
    /// Rejected lines.
    pub rejected: Rejects,
}

/// One request of a log.
#[derive(Clone, Copy, Debug)]
pub struct LoggedRequest<T> {
    /// Unix seconds.
    pub time_s: i64,
    /// Nanoseconds of the second, if the log has parts of seconds.
    pub fraction_ns: Option<u32>,
    /// Number of the request's session. Sessions are numbered from 0 in the order of their first
    /// requests.
    pub session: u32,
    /// The content that the caller stores for the request.
    pub content: T,
}

/// Reads a log and cuts it into sessions. `content` converts a request to the content that the
/// caller stores.
///
/// # Errors
/// The errors of [`read_trace`]. Also, `window_s` is not from 0 to 10^6 seconds, or the log has no
/// request that a client can send.
pub fn read_sessions<T, R: Read>(
    source: R,
    expected: impl Into<Expected>,
    window_s: f64,
    content: impl FnMut(&Request<'_>) -> T,
) -> Result<LoggedSessions<T>, TraceError> {
    let mut collector = Collector {
        cutter: SessionCutter::new(window_s)?,
        content,
        sessions: LoggedSessions {
            requests: Vec::new(),
            clients: Vec::new(),
            format: TraceFormat::Common,
            skipped: 0,
            rejected: Rejects::default(),
        },
    };
    let format = read_trace(source, expected, &mut collector)?;
    let sessions = collector.sessions;
    if sessions.requests.is_empty() {
        return Err(TraceError::NothingUsable {
            requests: sessions.skipped,
            rejected: sessions.rejected.count,
        });
    }
    Ok(LoggedSessions { format, ..sessions })
}

struct Collector<T, F> {
    cutter: SessionCutter,
    content: F,
    sessions: LoggedSessions<T>,
}

impl<T, F: FnMut(&Request<'_>) -> T> TraceSink for Collector<T, F> {
    fn request(&mut self, request: &Request<'_>) -> Result<(), TraceError> {
        if !matches!(request.method, Method::Get | Method::Head | Method::Post) {
            self.sessions.skipped += 1;
            return Ok(());
        }
        let place = self.cutter.place(request.client, request.time_s)?;
        let LoggedSessions {
            requests, clients, ..
        } = &mut self.sessions;
        if place.first {
            clients.try_reserve(1)?;
            clients.push(request.client);
        }
        requests.try_reserve(1)?;
        requests.push(LoggedRequest {
            time_s: request.time_s,
            fraction_ns: request.fraction_ns,
            session: place.session,
            content: (self.content)(request),
        });
        Ok(())
    }

    fn reject(&mut self, line: u64, reason: Reject) {
        self.sessions.rejected.add(line, reason);
    }
}

impl<T: Copy> LoggedSessions<T> {
    /// Groups the requests by session. The requests of a session stay in order. Sessions are
    /// numbered in the order of their first requests.
    ///
    /// # Errors
    /// The memory is too small.
    pub fn by_session(&self) -> Result<SessionTable<T>, TraceError> {
        const UNKNOWN: u32 = u32::MAX;
        let count = self.clients.len();
        let (mut numbers, mut clients) = (with_room(count)?, with_room(count)?);
        numbers.resize(count, UNKNOWN);
        let mut starts = with_room(count + 1)?;
        starts.push(0_u32);
        for request in &self.requests {
            let number = &mut numbers[request.session as usize];
            if *number == UNKNOWN {
                *number = clients.len() as u32;
                clients.push(self.clients[request.session as usize]);
                starts.push(0);
            }
            starts[*number as usize + 1] += 1;
        }
        for session in 0..clients.len() {
            starts[session + 1] += starts[session];
        }
        let mut next = with_room(starts.len())?;
        next.extend_from_slice(&starts);
        let mut requests = with_room(self.requests.len())?;
        requests.extend(self.requests.iter().map(|request| request.content));
        for request in &self.requests {
            let position = &mut next[numbers[request.session as usize] as usize];
            requests[*position as usize] = request.content;
            *position += 1;
        }
        Ok(SessionTable {
            clients,
            starts,
            requests,
        })
    }
}

/// An empty vector with room for this many elements.
fn with_room<T>(elements: usize) -> Result<Vec<T>, TraceError> {
    let mut vector = Vec::new();
    vector.try_reserve_exact(elements)?;
    Ok(vector)
}

/// Sessions in one array: session `i` has the requests from `starts[i]` to `starts[i + 1]`.
#[derive(Debug)]
pub struct SessionTable<T> {
    clients: Vec<u32>,
    starts: Vec<u32>,
    requests: Vec<T>,
}

impl<T> SessionTable<T> {
    pub fn sessions(&self) -> usize {
        self.clients.len()
    }

    pub fn requests(&self) -> usize {
        self.requests.len()
    }

    /// The client of a session and its requests.
    pub fn session(&self, session: usize) -> (u32, &[T]) {
        let range = self.starts[session] as usize..self.starts[session + 1] as usize;
        (self.clients[session], &self.requests[range])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_grouped_by_session_in_the_order_of_first_requests() {
        let log = "\
b - - [01/Jul/1995:00:00:00 +0000] \"GET /1 HTTP/1.0\" 200 1\n\
a - - [01/Jul/1995:00:00:00 +0000] \"GET /2 HTTP/1.0\" 200 1\n\
b - - [01/Jul/1995:00:00:15 +0000] \"HEAD /3 HTTP/1.0\" 200 1\n\
b - - [01/Jul/1995:00:00:31 +0000] \"POST /4 HTTP/1.0\" 200 1\n\
a - - [01/Jul/1995:00:00:31 +0000] \"PUT /5 HTTP/1.0\" 200 1\n\
torn\n";
        let sessions = read_sessions(log.as_bytes(), None, 15.0, |request| request.object).unwrap();
        assert_eq!((sessions.skipped, sessions.rejected.count), (1, 1));
        let table = sessions.by_session().unwrap();
        let sessions: Vec<_> = (0..table.sessions())
            .map(|session| table.session(session))
            .collect();
        assert_eq!(sessions, [(0, &[0, 2][..]), (1, &[1]), (0, &[3])]);
        assert_eq!(table.requests(), 4);
    }
}
