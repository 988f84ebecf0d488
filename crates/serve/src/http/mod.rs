//! HTTP/1.1 (RFC 9110, RFC 9112): requests and heads of responses as pure functions of bytes.
//!
//! Nothing here reads a clock, a file or a socket, so all of it can be fuzzed.

pub mod body;
pub mod coding;
pub mod content_type;
pub mod date;
pub mod range;
pub mod request;
pub mod status;
pub mod target;
