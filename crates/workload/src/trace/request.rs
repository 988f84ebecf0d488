//! A recorded request, whatever format it came from.

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
    /// Number of the client, dense from 0 in order of first appearance.
    pub client: u32,
    /// Number of the object, dense from 0 in order of first appearance.
    pub object: u32,
    /// Bytes of the response, where the server noted any.
    pub size_bytes: Option<u64>,
    /// Status code; 0 stands for a World Cup code without an index.
    pub status: u16,
    /// Method.
    pub method: Method,
    /// Version of HTTP.
    pub version: HttpVersion,
    /// The server computed the response, as far as the trace tells.
    pub dynamic: bool,
    /// The fields as they stand in the file.
    pub source: Source<'a>,
}

/// Where a request came from.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// A log line, and the URI its request names.
    Log {
        /// All fields.
        line: LogLine<'a>,
        /// The requested URI.
        uri: &'a [u8],
    },
    /// A World Cup 1998 record.
    WorldCup(WorldCupRecord),
}
