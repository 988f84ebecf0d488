//! HTTP/1.1 (RFC 9110, RFC 9112) as pure functions of bytes, for servers and for clients.
//!
//! Nothing here reads a clock, a file, a socket or the environment, so all of it can be fuzzed.
//!
//! | module | content |
//! |---|---|
//! | `request`, `response` | parse the head of a message |
//! | `body` | extract a body from the bytes that follow a head: by length, in chunks, until close |
//! | `target` | request targets, paths, percent-encoding, queries |
//! | `date`, `range`, `coding` | the values of fields |
//! | `status`, `content_type` | tables of registered values |
#![forbid(unsafe_code)]

pub mod body;
pub mod coding;
pub mod content_type;
pub mod date;
pub mod range;
pub mod request;
pub mod response;
pub mod status;
pub mod target;
