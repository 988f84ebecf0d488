//! Errors of a whole trace. The error of a single line is a [`crate::Reject`].

use std::io;

use crate::trace::format::{Compression, RECORD_BYTES};

/// The reason why a trace cannot be read or written. An offset counts the bytes of the file as
/// stored, unless its field states decompressed bytes.
#[derive(Debug, thiserror::Error)]
#[allow(
    missing_docs,
    reason = "the message of each variant explains its fields"
)]
pub enum TraceError {
    /// The file is empty, or is empty after decompression.
    #[error("byte 0: the trace is empty; expected log lines or 20-byte World Cup 1998 records")]
    Empty,
    /// No format was requested, and the file has no known format.
    #[error(
        "byte 0: the first {examined} bytes contain no line of Common or Combined Log Format and no \
         World Cup 1998 records; if only the start of the file is damaged, name its format"
    )]
    Unrecognized { examined: usize },
    /// A log format was requested, and the file is binary.
    #[error(
        "byte {offset}: binary data where log lines were expected; for World Cup 1998 records \
         name the format world-cup or let it be detected"
    )]
    BinaryAsText { offset: u64 },
    /// The World Cup 1998 format was requested, and the file has another one.
    #[error(
        "byte {offset}: no World Cup 1998 records; for log lines name the format common or \
         combined, or let it be detected"
    )]
    NotRecords { offset: u64 },
    /// The file ends inside a record.
    #[error(
        "byte {offset}: the last record has {rest_bytes} of {RECORD_BYTES} bytes; the file was cut: \
         fetch it again, or cut it to a multiple of {RECORD_BYTES} bytes"
    )]
    TruncatedRecord { offset: u64, rest_bytes: usize },
    /// The compressed stream is damaged or cut.
    #[error("byte {offset}: damaged {compression} data ({source}); fetch the file again")]
    Compression {
        compression: Compression,
        offset: u64,
        source: io::Error,
    },
    /// The operating system failed to read more.
    #[error("byte {offset}: cannot read on: {source}")]
    Read { offset: u64, source: io::Error },
    /// The memory is too small for the trace.
    #[error("not enough memory for the trace; give the process more, or cut the trace")]
    Memory,
    /// The destination could not be written.
    #[error("cannot write the trace: {0}")]
    Write(#[source] io::Error),
    /// A request does not fit the destination's format.
    #[error("line {line}: {field} {value} does not fit {allowed}")]
    DoesNotFit {
        line: u64,
        field: &'static str,
        value: i64,
        allowed: &'static str,
    },
    /// The trace has no request that a server could answer.
    #[error(
        "no usable request among {requests} accepted and {rejected} rejected lines; expected GET, \
         HEAD or POST requests"
    )]
    NothingUsable { requests: u64, rejected: u64 },
    /// The session window is out of range.
    #[error("the session window is {window_s} s: it must be from 0 to 1000000 s")]
    Window { window_s: f64 },
    /// A line of an object mappings file is not a number and a path.
    #[error("line {line} of the object mappings: expected an object number and a path")]
    Mapping { line: u64 },
}

impl From<std::collections::TryReserveError> for TraceError {
    fn from(_: std::collections::TryReserveError) -> Self {
        Self::Memory
    }
}

impl From<hashbrown::TryReserveError> for TraceError {
    fn from(_: hashbrown::TryReserveError) -> Self {
        Self::Memory
    }
}
