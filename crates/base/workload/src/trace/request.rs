//! A recorded request of any format.

use crate::trace::log_line::LogLine;
use crate::trace::method::{HttpVersion, Method};
use crate::trace::world_cup::WorldCupRecord;

/// One accepted line or record.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Line or record in the file, from 1.
    pub line: u64,
    /// Unix seconds.
    pub time_s: i64,
    /// Nanoseconds of the second, if the trace has parts of seconds.
    pub fraction_ns: Option<u32>,
    /// Number of the client. Numbers start at 0, in order of first appearance, without gaps.
    pub client: u32,
    /// Number of the object. Numbers start at 0, in order of first appearance, without gaps.
    pub object: u32,
    /// Bytes of the response, if the trace has them.
    pub size_bytes: Option<u64>,
    /// Status code; 0 for the World Cup code "other".
    pub status: u16,
    pub method: Method,
    pub version: HttpVersion,
    /// Whether the server computed the response. Method and path decide this.
    pub dynamic: bool,
    /// The fields as they are in the file.
    pub source: Source<'a>,
}

/// The line or record of a request.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// A log line, and the URI that its request names.
    Log {
        /// All fields.
        line: LogLine<'a>,
        /// The requested URI.
        uri: &'a [u8],
    },
    /// A World Cup 1998 record.
    WorldCup(WorldCupRecord),
}
