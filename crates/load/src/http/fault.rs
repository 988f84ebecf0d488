//! What can go wrong with one request: kinds that are counted, and the first examples of each.

use std::collections::BTreeMap;
use std::io;

/// Texts that are kept of each kind.
const EXAMPLES: usize = 3;

/// Kinds of failed requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// The server's machine refused the connection: nobody listens.
    Refused,
    /// The connection was reset.
    Reset,
    /// No byte moved for as long as a client waits.
    TimedOut,
    /// The connection was closed before a response.
    Closed,
    /// What came is no HTTP response.
    BadResponse,
    /// The body is shorter than announced, or than the workload's file.
    ShortBody,
    /// The body has the right length and other bytes than the same object had before.
    ChangedBody,
    /// The status is not what the workload expects: 2xx or 304, or what the log recorded.
    UnexpectedStatus,
    /// No connection could be made for another reason.
    Connect,
    /// The client has no free port (or descriptor) left.
    NoPort,
    /// The TLS handshake or a record failed.
    Tls,
}

/// Number of kinds.
const KINDS: usize = 11;

/// Names in reports, by kind.
const NAMES: [&str; KINDS] = [
    "refused",
    "reset",
    "timed_out",
    "closed",
    "bad_response",
    "short_body",
    "changed_body",
    "unexpected_status",
    "connect",
    "no_port",
    "tls",
];

impl Fault {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }

    /// The kind of an error of a connection attempt.
    #[must_use]
    pub fn of_connect(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::TimedOut => Self::TimedOut,
            io::ErrorKind::ConnectionReset => Self::Reset,
            io::ErrorKind::AddrNotAvailable | io::ErrorKind::AddrInUse => Self::NoPort,
            _ if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => Self::NoPort,
            _ => Self::Connect,
        }
    }

    /// The kind of an error of an established connection.
    #[must_use]
    pub fn of_transfer(error: &io::Error) -> Self {
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
pub struct Faults {
    counts: [u64; KINDS],
    examples: [Vec<String>; KINDS],
}

impl Faults {
    /// Counts a failed request. The text is made only when it is kept.
    pub fn add(&mut self, fault: Fault, text: impl FnOnce() -> String) {
        let kind = fault as usize;
        self.counts[kind] += 1;
        let examples = &mut self.examples[kind];
        if examples.len() < EXAMPLES {
            let text = text();
            if !examples.contains(&text) {
                examples.push(text);
            }
        }
    }

    /// How many of a kind.
    #[must_use]
    pub fn count(&self, fault: Fault) -> u64 {
        self.counts[fault as usize]
    }

    /// How many of all kinds.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds another thread's.
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

    /// Counts by name, of the kinds that happened.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        let named = NAMES.into_iter().zip(self.counts);
        named.filter(|(_, count)| *count > 0).collect()
    }

    /// Examples by name, of the kinds that happened.
    #[must_use]
    pub fn examples(&self) -> BTreeMap<&'static str, Vec<String>> {
        let named = NAMES.into_iter().zip(self.examples.iter().cloned());
        named.filter(|(_, texts)| !texts.is_empty()).collect()
    }
}
