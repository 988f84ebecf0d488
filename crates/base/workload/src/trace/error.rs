//! Errors of a whole trace. The error of a single line is a [`crate::Reject`].

use std::io;

use crate::trace::format::{Compression, RECORD_BYTES};

/// The reason why a trace cannot be read or written. An offset counts the bytes of the file as
/// stored, unless its field states decompressed bytes.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("byte 0: the trace is empty; expected log lines or 20-byte World Cup 1998 records")]
    Empty,
    #[error(
        "byte 0: the first {examined} bytes contain no line of Common or Combined Log Format, no \
         JSON line with the fields of the mapping, and no World Cup 1998 records; name the fields \
         of another JSON log (--log-fields), or the format if only the start of the file is damaged"
    )]
    Unrecognized { examined: usize },
    #[error(
        "byte {offset}: binary data where log lines were expected; for World Cup 1998 records \
         name the format world-cup or let it be detected"
    )]
    BinaryAsText { offset: u64 },
    #[error(
        "byte {offset}: no World Cup 1998 records; for log lines name the format common or \
         combined, or let it be detected"
    )]
    NotRecords { offset: u64 },
    #[error(
        "byte {offset}: the last record has {rest_bytes} of {RECORD_BYTES} bytes; the file was cut: \
         fetch it again, or cut it to a multiple of {RECORD_BYTES} bytes"
    )]
    TruncatedRecord { offset: u64, rest_bytes: usize },
    #[error("byte {offset}: damaged {compression} data ({source}); fetch the file again")]
    Compression {
        compression: Compression,
        offset: u64,
        source: io::Error,
    },
    #[error("byte {offset}: cannot read on: {source}")]
    Read { offset: u64, source: io::Error },
    #[error("the format json is only read, not written: name common, combined or world-cup")]
    JsonAsDestination,
    #[error("not enough memory for the trace; give the process more, or cut the trace")]
    Memory,
    #[error("cannot write the trace: {0}")]
    Write(#[source] io::Error),
    #[error("line {line}: {field} {value} does not fit {allowed}")]
    DoesNotFit {
        line: u64,
        field: &'static str,
        value: i64,
        allowed: &'static str,
    },
    #[error(
        "no usable request among {requests} accepted and {rejected} rejected lines; expected GET, \
         HEAD or POST requests"
    )]
    NothingUsable { requests: u64, rejected: u64 },
    #[error("the session window is {window_s} s: it must be from 0 to 1000000 s")]
    Window { window_s: f64 },
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
