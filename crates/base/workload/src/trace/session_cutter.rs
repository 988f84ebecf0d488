//! Cuts a trace into sessions. Requests of one client with short pauses share a connection.

use crate::trace::error::TraceError;

/// The window that published analyses of these logs use, in seconds. Servers of that time closed a
/// connection after fifteen idle seconds.
pub const SESSION_WINDOW_S: f64 = 15.0;

/// Longest window, about eleven days.
const WINDOW_LIMIT_S: f64 = 1e6;

/// Assigns the requests of a trace to sessions.
#[derive(Clone, Debug)]
pub struct SessionCutter {
    window_s: i64,
    clients: Vec<LastSeen>,
    sessions: u32,
}

/// The last request of a client.
#[derive(Clone, Copy, Debug)]
struct LastSeen {
    time_s: i64,
    session: u32,
}

/// Marks a client that has not been seen.
const NO_SESSION: u32 = u32::MAX;

/// The session of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionPlace {
    /// Number of the session, from 0 in order of first requests.
    pub session: u32,
    /// Whether the request is the first of its session.
    pub first: bool,
}

impl SessionCutter {
    /// A request belongs to the current session of its client if the client's last request was at
    /// most `window_s` seconds ago. Parts of seconds do not count, neither in
    /// times nor in the window.
    ///
    /// # Errors
    /// `window_s` is not from 0 to 10^6 seconds.
    pub fn new(window_s: f64) -> Result<Self, TraceError> {
        if !(0.0..=WINDOW_LIMIT_S).contains(&window_s) {
            return Err(TraceError::Window { window_s });
        }
        Ok(Self {
            window_s: window_s as i64,
            clients: Vec::new(),
            sessions: 0,
        })
    }

    /// Assigns the next request of the trace to a session. A request with an earlier time than its
    /// client's last request belongs to the same session, because some servers log at the end of a
    /// response.
    #[inline]
    ///
    /// # Errors
    /// The memory is too small.
    pub fn place(&mut self, client: u32, time_s: i64) -> Result<SessionPlace, TraceError> {
        let at = client as usize;
        if at >= self.clients.len() {
            self.clients.try_reserve(at + 1 - self.clients.len())?;
            self.clients.resize(
                at + 1,
                LastSeen {
                    time_s: i64::MIN,
                    session: NO_SESSION,
                },
            );
        }
        let seen = &mut self.clients[at];
        let first =
            seen.session == NO_SESSION || time_s.saturating_sub(seen.time_s) > self.window_s;
        if first {
            seen.session = self.sessions;
            self.sessions += 1;
        }
        seen.time_s = seen.time_s.max(time_s);
        Ok(SessionPlace {
            session: seen.session,
            first,
        })
    }

    /// Number of sessions so far.
    pub fn sessions(&self) -> u32 {
        self.sessions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_of_fifteen_seconds_continues_a_session_and_sixteen_end_it() {
        let mut cutter = SessionCutter::new(SESSION_WINDOW_S).unwrap();
        let places = [(0, 100), (1, 100), (0, 115), (0, 131), (1, 131), (0, 130)]
            .map(|(client, time_s)| cutter.place(client, time_s).unwrap());
        let expected = [
            (0, true),
            (1, true),
            (0, false),
            (2, true),
            (3, true),
            (2, false),
        ];
        assert_eq!(
            places,
            expected.map(|(session, first)| SessionPlace { session, first })
        );
        assert_eq!(cutter.sessions(), 4);
    }

    #[test]
    fn an_invalid_window_is_an_error() {
        for window_s in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(SessionCutter::new(window_s).is_err(), "{window_s}");
        }
    }
}
