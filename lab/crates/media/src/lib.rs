//! Stored media over RTP: a server and its clients.
//!
//! | module | content |
//! |---|---|
//! | `wire` | RTP, RTCP, RTSP, SDP and transport streams as bytes; no clock, socket or file |
//! | `server` | `serve media`: five ways to bring media from the disk to the sender |
//! | `client` | `load media`: thousands of clients on one event loop |
//!
//! The server and the client share only `wire` and the percentiles of their reports, so that a fault
//! of one cannot hide a fault of the other.

#![forbid(unsafe_code)]

pub mod client;
mod percentiles;
pub mod server;
pub mod wire;

pub use percentiles::Percentiles;
