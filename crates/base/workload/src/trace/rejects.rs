//! Rejected lines: the number of all rejected lines, and a list of the first ones.

use serde::{Serialize, Serializer};

use crate::trace::log_line::Reject;

/// Maximum number of rejected lines that are listed.
pub const LISTED_REJECTS: usize = 100_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RejectedLine {
    /// Line or record, from 1.
    pub line: u64,
    #[serde(serialize_with = "as_reason")]
    pub reason: Reject,
}

/// The rejected lines of a trace.
#[derive(Clone, Debug, Default)]
pub struct Rejects {
    /// Number of all rejected lines.
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
