//! Converts a trace to another format.
//!
//! The written formats have whole seconds: the parts of seconds that some logs have are left out. A
//! client that replays such a trace spreads requests over the second.
//!
//! | from, to | what changes |
//! |---|---|
//! | log to log | Combined gets `"-" "-"` where the source had no referer, quotes in a request become `%22`; Common drops referer and agent |
//! | log to World Cup | clients and objects are numbered in order of first appearance, the path decides the type, the server is 0, a status the format lacks becomes "other" |
//! | World Cup to log | client N is the host `clientN`, object N its mapped path or `/object/N`, "other" is the status 000; type and server are lost |
//!
//! A JSON log is converted as a log of Combined Log Format. It is never written. A virtual host before the
//! client is left out.
//!
//! Rejected lines are not converted.

use std::io::{Read, Write};

use serde::Serialize;

use crate::trace::error::TraceError;
use crate::trace::format::{Compression, Expected, TraceFormat};
use crate::trace::log_line::{LogLine, Reject};
use crate::trace::object_paths::{ObjectPaths, write_mapping};
use crate::trace::read::{TraceSink, read_trace};
use crate::trace::rejects::{RejectedLine, Rejects};
use crate::trace::request::{Request, Source};
use crate::trace::world_cup::{WorldCupRecord, kind_of_path, status_index};
use crate::trace::write::{LogEntry, Numbered, TraceWriter};

/// The options of a conversion.
pub struct Conversion<'a> {
    /// Format of the source.
    pub from: Expected,
    /// Format of the destination.
    pub to: TraceFormat,
    /// Compression of the destination.
    pub compression: Compression,
    /// Paths of a World Cup trace's objects.
    pub paths: ObjectPaths,
    /// Destination of the paths of the objects, for a World Cup trace.
    pub mappings: Option<&'a mut (dyn Write + Send)>,
}

/// Result of a conversion.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Converted {
    /// Format of the source.
    pub from: TraceFormat,
    /// Format of the destination.
    pub to: TraceFormat,
    /// Requests written.
    pub requests: u64,
    /// Lines or records of the source that were not converted.
    pub rejected: u64,
    /// The first of these lines or records, at most [`crate::LISTED_REJECTS`].
    pub rejects: Vec<RejectedLine>,
}

/// Converts a trace.
///
/// # Errors
/// The errors of [`read_trace`]. Also, the destination cannot be written, or a time or size does
/// not fit a World Cup record.
pub fn convert<R: Read, W: Write>(
    source: R,
    destination: W,
    conversion: Conversion<'_>,
) -> Result<Converted, TraceError> {
    let (from, to) = (conversion.from.clone(), conversion.to);
    let mut converter = Converter {
        writer: TraceWriter::new(destination, to, conversion.compression)?,
        conversion,
        requests: 0,
        mapped: 0,
        rejects: Rejects::default(),
    };
    let from = read_trace(source, from, &mut converter)?;
    converter.writer.finish()?;
    Ok(Converted {
        from,
        to,
        requests: converter.requests,
        rejected: converter.rejects.count,
        rejects: converter.rejects.lines,
    })
}

struct Converter<'a, W: Write> {
    writer: TraceWriter<W>,
    conversion: Conversion<'a>,
    requests: u64,
    /// Number of objects whose paths are written already.
    mapped: u32,
    rejects: Rejects,
}

impl<W: Write> Converter<'_, W> {
    fn log_to_log(&mut self, line: &LogLine<'_>) -> Result<(), TraceError> {
        let entry = LogEntry {
            host: line.host,
            identity: line.identity,
            stamp: &line.stamp,
            request: line.request,
            status: line.status,
            size_bytes: line.size_bytes,
            tail: line.tail,
        };
        self.writer.entry(&entry, self.conversion.to)
    }

    fn log_to_record(&mut self, request: &Request<'_>, uri: &[u8]) -> Result<(), TraceError> {
        let does_not_fit = |field, value, allowed| TraceError::DoesNotFit {
            line: request.line,
            field,
            value,
            allowed,
        };
        let time_s = u32::try_from(request.time_s)
            .map_err(|_| does_not_fit("time", request.time_s, "Unix seconds of 32 bits"))?;
        // The largest value means that the size is missing.
        let size_bytes = match request.size_bytes {
            Some(size) if size >= u64::from(u32::MAX) => {
                let size = i64::try_from(size).unwrap_or(i64::MAX);
                return Err(does_not_fit("size", size, "sizes below 4294967295 bytes"));
            }
            size => size.map(|size| size as u32),
        };
        if let Some(mappings) = &mut self.conversion.mappings
            && request.object == self.mapped
        {
            write_mapping(*mappings, request.object, uri)?;
            self.mapped += 1;
        }
        self.writer.record(&WorldCupRecord {
            time_s,
            client: request.client,
            object: request.object,
            size_bytes,
            method: request.method.code(),
            version: request.version.code(),
            status_index: status_index(request.status),
            kind: kind_of_path(uri, request.dynamic),
            server: 0,
        })
    }

    fn record_to_log(
        &mut self,
        request: &Request<'_>,
        record: &WorldCupRecord,
    ) -> Result<(), TraceError> {
        let path = self.conversion.paths.path(record.object);
        let numbered = Numbered {
            method: request.method,
            version: request.version,
            status: request.status,
            size_bytes: request.size_bytes,
        };
        let to = self.conversion.to;
        self.writer
            .numbered_entry(record.client, request.time_s, &path, &numbered, to)
    }
}

impl<W: Write> TraceSink for Converter<'_, W> {
    fn request(&mut self, request: &Request<'_>) -> Result<(), TraceError> {
        self.requests += 1;
        match (&request.source, self.conversion.to) {
            (Source::WorldCup(record), TraceFormat::WorldCup) => self.writer.record(record),
            (Source::WorldCup(record), _) => self.record_to_log(request, record),
            (Source::Log { uri, .. }, TraceFormat::WorldCup) => self.log_to_record(request, uri),
            (Source::Log { line, .. }, _) => self.log_to_log(line),
        }
    }

    fn reject(&mut self, line: u64, reason: Reject) {
        self.rejects.add(line, reason);
    }
}
