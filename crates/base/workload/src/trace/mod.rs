//! Traces: formats, readers, writers and summaries. Depends on nothing else of this crate.
//!
//! | module | content |
//! |---|---|
//! | `format` | the four formats and their compression |
//! | `read`, `input` | read any trace and pass its requests to a [`TraceSink`] |
//! | `log_line`, `json_line`, `json_fields`, `world_cup`, `timestamp`, `method` | the fields of a line or a record |
//! | `numbering` | numbers for hosts, paths and sparse identifiers |
//! | `session_cutter` | which session a request belongs to |
//! | `summary`, `histogram`, `curve`, `peak`, `packets` | what a trace contains |
//! | `write`, `output`, `convert` | write a trace, convert it to another format |
//!
//! [`TraceSink`]: read::TraceSink

pub(crate) mod convert;
pub(crate) mod curve;
pub(crate) mod error;
pub(crate) mod format;
mod histogram;
mod input;
pub(crate) mod json_fields;
mod json_line;
pub(crate) mod log_line;
pub(crate) mod method;
mod numbering;
pub(crate) mod object_paths;
mod output;
pub(crate) mod packets;
mod peak;
pub(crate) mod read;
pub(crate) mod rejects;
pub(crate) mod request;
pub(crate) mod session_cutter;
pub(crate) mod summary;
mod timestamp;
pub(crate) mod world_cup;
pub(crate) mod write;
