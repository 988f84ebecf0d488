//! Errors of single requests: counts by kind, and the first examples of each kind.

use std::collections::BTreeMap;
use std::io;

/// Examples of each kind.
const EXAMPLES: usize = 3;

/// The reason why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RequestError {
    /// The connection was refused: no process listens.
    Refused,
    /// The connection was reset.
    Reset,
    /// No byte was transferred within the time-out.
    TimedOut,
    /// The connection was closed before a response.
    Closed,
    /// The bytes are not an HTTP response.
    BadResponse,
    /// The length of the body differs from the announced length, or from the length of the
    /// workload's file.
    ShortBody,
    /// The body has the right length but differs from an earlier body of the object.
    ChangedBody,
    /// The status is not 2xx, not 304, and not the status in the log.
    UnexpectedStatus,
    /// The answer to a page lacks the expected text, or has an unexpected status.
    WrongContent,
    /// Connecting failed for another reason.
    Connect,
    /// The client has no free port or file descriptor.
    NoPort,
    /// The TLS handshake or a record failed.
    Tls,
}

const KINDS: usize = 12;

/// Names of the kinds in reports.
const NAMES: [&str; KINDS] = [
    "refused",
    "reset",
    "timed_out",
    "closed",
    "bad_response",
    "short_body",
    "changed_body",
    "unexpected_status",
    "wrong_content",
    "connect",
    "no_port",
    "tls",
];

impl RequestError {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }

    /// The kind of an error while connecting.
    pub fn of_connecting(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::TimedOut => Self::TimedOut,
            io::ErrorKind::ConnectionReset => Self::Reset,
            io::ErrorKind::AddrNotAvailable | io::ErrorKind::AddrInUse => Self::NoPort,
            _ if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => Self::NoPort,
            _ => Self::Connect,
        }
    }

    /// The kind of an error on an established connection.
    pub fn of_connected(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::TimedOut => Self::TimedOut,
            io::ErrorKind::InvalidData => Self::Tls,
            io::ErrorKind::ConnectionRefused => Self::Refused,
            _ => Self::Reset,
        }
    }
}

/// Counts by kind.
#[derive(Clone, Debug, Default)]
pub struct ErrorCounts {
    counts: [u64; KINDS],
    examples: [Vec<String>; KINDS],
}

impl ErrorCounts {
    /// Counts a failed request. `text` is called only for the first examples.
    pub fn add(&mut self, error: RequestError, text: impl FnOnce() -> String) {
        let kind = error as usize;
        self.counts[kind] += 1;
        let examples = &mut self.examples[kind];
        if examples.len() < EXAMPLES {
            let text = text();
            if !examples.contains(&text) {
                examples.push(text);
            }
        }
    }

    /// The count of one kind.
    pub fn count(&self, error: RequestError) -> u64 {
        self.counts[error as usize]
    }

    /// The count of all kinds.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds the counts of another thread.
    pub fn merge(&mut self, other: Self) {
        for (kind, (count, examples)) in other.counts.into_iter().zip(other.examples).enumerate() {
            self.counts[kind] += count;
            for text in examples {
                let own = &mut self.examples[kind];
                if own.len() < EXAMPLES && !own.contains(&text) {
                    own.push(text);
                }
            }
        }
    }

    /// The counts above zero, by name.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        let named = NAMES.into_iter().zip(self.counts);
        named.filter(|(_, count)| *count > 0).collect()
    }

    /// The examples, by name.
    pub fn examples(&self) -> BTreeMap<&'static str, Vec<String>> {
        let named = NAMES.into_iter().zip(self.examples.iter().cloned());
        named.filter(|(_, texts)| !texts.is_empty()).collect()
    }
}
