//! Workloads: what clients ask of a server.
//!
//! A workload turns a recorded trace or a generator into *sessions*: the requests one client sends
//! over one connection. This crate reads and writes traces, cuts them into sessions, sums them up
//! and generates sessions from published distributions. It depends on no other crate of the
//! project and touches no clock, no environment and no file it was not given: readers take
//! [`std::io::Read`], generators take a seed.

#![forbid(unsafe_code)]

mod catalogue;
mod convert;
mod error;
mod format;
mod histogram;
mod input;
mod log_line;
mod lognormal;
mod method;
mod names;
mod normal;
mod object_paths;
mod output;
mod packets;
mod parameter;
mod peak;
mod plan;
mod random;
mod read;
mod rejects;
mod replay;
mod request;
mod sessions;
pub mod specweb99;
mod stamp;
mod summary;
pub mod surge;
mod synthesize;
pub mod webstone;
mod world_cup;
mod write;

pub use convert::{Conversion, Converted, convert};
pub use error::TraceError;
pub use format::{Compression, RECORD_BYTES, TraceFormat, UnknownFormat};
pub use log_line::{LogLine, Reject};
pub use lognormal::{LognormalGenerator, LognormalSessions};
pub use method::{HttpVersion, Method};
pub use object_paths::ObjectPaths;
pub use packets::{SEGMENT_BYTES, response_packets};
pub use parameter::ParameterError;
pub use plan::{PlannedRequest, SessionSource, Sessions};
pub use random::Stream;
pub use read::{TraceSink, read_trace};
pub use rejects::{LISTED_REJECTS, RejectedLine};
pub use replay::Replay;
pub use request::{Request, Source};
pub use sessions::{Place, SESSION_WINDOW_S, SessionCutter};
pub use specweb99::{SpecWeb99, SpecWeb99Generator};
pub use summary::{Check, SessionPackets, Spread, Summary, summarize};
pub use surge::{Surge, SurgeGenerator, SurgeRequest};
pub use synthesize::{Synthesis, SynthesisError, Synthesized, synthesize};
pub use webstone::WebStoneGenerator;
pub use world_cup::WorldCupRecord;
