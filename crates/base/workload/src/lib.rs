//! Workloads: the requests that clients send to a server.
//!
//! A workload turns a recorded trace or a generator into *sessions*: the requests that one client
//! sends over one connection. `trace` reads, writes and summarizes traces, `sessions` cuts them
//! into sessions, `generators` draws sessions from published distributions.
//!
//! The crate depends on no other crate of the project and reads no clock, no environment and no
//! file of its own. Its readers receive a [`std::io::Read`], and its generators receive a seed.

#![forbid(unsafe_code)]

mod generators;
mod sessions;
mod trace;

pub use generators::lognormal::{LognormalGenerator, LognormalSessions};
pub use generators::parameter::ParameterError;
pub use generators::random::Stream;
pub use generators::source::Sessions;
pub use generators::specweb99::{SpecWeb99, SpecWeb99Generator};
pub use generators::surge::{Surge, SurgeGenerator, SurgeRequest};
pub use generators::synthesize::{Synthesis, SynthesisError, Synthesized, synthesize};
pub use generators::webstone::WebStoneGenerator;
pub use generators::{specweb99, surge, webstone};
pub use sessions::logged::{LoggedRequest, LoggedSessions, SessionTable, read_sessions};
pub use sessions::planned::{PlannedRequest, SessionSource};
pub use sessions::replay::Replay;
pub use sessions::requests::SessionRequests;
pub use trace::convert::{Conversion, Converted, convert};
pub use trace::curve::CurvePoint;
pub use trace::error::TraceError;
pub use trace::format::{Compression, Expected, RECORD_BYTES, TraceFormat, UnknownFormat};
pub use trace::json_fields::{JsonFields, UnknownPart};
pub use trace::log_line::{LogLine, Reject};
pub use trace::method::{HttpVersion, Method};
pub use trace::object_paths::ObjectPaths;
pub use trace::packets::{SEGMENT_BYTES, response_packets};
pub use trace::read::{TraceSink, read_trace};
pub use trace::rejects::{LISTED_REJECTS, RejectedLine, Rejects};
pub use trace::request::{Request, Source};
pub use trace::session_cutter::{SESSION_WINDOW_S, SessionCutter, SessionPlace};
pub use trace::summary::{Check, SessionPackets, Spread, Summary, summarize};
pub use trace::world_cup::WorldCupRecord;
