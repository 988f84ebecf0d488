//! The load generators: HTTP requests and bulk TCP against a server under test.
//!
//! Both follow one rule: time is measured from when a request was *meant* to start as well as from
//! when it was sent. A generator that waits for a slow server before it asks again hides the very
//! delays it was built to find; how late the generator itself was stands in a histogram of its own,
//! so that its part can be told from the server's.
//!
//! Each core runs one thread with its own epoll loop and timer wheel; threads share nothing but a
//! few counters for the progress line. `http` and `stream` know sockets and clocks, what is asked
//! comes from `perpacket_workload`.

#![forbid(unsafe_code)]

mod compare;
mod error;
mod files;
pub mod http;
mod latency;
mod limits;
mod sources;
pub mod stream;

pub use compare::{Comparison, ComparisonRow, compare};
pub use error::LoadError;
pub use files::{FileSet, FileSetReport, make_files};
pub use latency::{Latency, LatencySummary};
pub use sources::{SourceAddresses, SourceError};
