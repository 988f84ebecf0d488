//! Lines that are no requests: all counted, listed one by one up to a limit.

use serde::{Serialize, Serializer};

use crate::trace::log_line::Reject;

/// Rejects that are listed one by one; all are counted.
pub const LISTED_REJECTS: usize = 100_000;

/// A line that is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RejectedLine {
    /// Line or record, from 1.
    pub line: u64,
    /// Why.
    #[serde(serialize_with = "as_reason")]
    pub reason: Reject,
}

/// The rejected lines of a trace.
#[derive(Clone, Debug, Default)]
pub struct Rejects {
    /// All of them.
    pub count: u64,
    /// The first [`LISTED_REJECTS`].
    pub lines: Vec<RejectedLine>,
}

impl Rejects {
    pub(crate) fn add(&mut self, line: u64, reason: Reject) {
        self.count += 1;
        if self.lines.len() < LISTED_REJECTS {
            self.lines.push(RejectedLine { line, reason });
        }
    }
}

fn as_reason<S: Serializer>(reason: &Reject, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(reason.reason())
}
