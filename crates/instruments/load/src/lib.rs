//! The load generators: HTTP requests and bulk TCP against a server under test.
//!
//! A response time is measured from the *intended* start of a request, and a service time from its
//! actual send. Service times alone would hide delays: a generator that waits for a slow server
//! sends its next request late. A separate histogram shows how late the generator itself was.
//!
//! Each CPU runs one thread with its own epoll loop and timing wheel. Threads share a few counters
//! for the progress line. `perpacket_workload` decides what to request. This crate owns the sockets
//! and the clock.

#![forbid(unsafe_code)]

mod compare;
mod error;
mod files;
pub mod http;
mod latency;
mod limits;
mod sources;
pub mod stream;

pub use compare::{CompareSpec, Comparison, ComparisonRow, compare};
pub use error::LoadError;
pub use files::{FileSet, FileSetReport, FilesSpec, make_files};
pub use latency::{Latency, LatencySummary};
pub use sources::{SourceAddresses, SourceError};
