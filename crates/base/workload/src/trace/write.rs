//! Writes requests as log lines or World Cup 1998 records.

use std::borrow::Cow;
use std::io::Write;

use crate::trace::error::TraceError;
use crate::trace::format::{Compression, TraceFormat};
use crate::trace::method::{HttpVersion, Method};
use crate::trace::output::Output;
use crate::trace::timestamp::push_stamp;
use crate::trace::world_cup::WorldCupRecord;

/// The fields of a log line.
pub(crate) struct LogEntry<'a> {
    pub(crate) host: &'a [u8],
    pub(crate) identity: &'a [u8],
    pub(crate) stamp: &'a [u8],
    pub(crate) request: &'a [u8],
    pub(crate) status: u16,
    pub(crate) size_bytes: Option<u64>,
    /// The rest of a line of Combined Log Format, with its leading blank; may be empty.
    pub(crate) tail: &'a [u8],
}

/// A trace file being written.
pub(crate) struct TraceWriter<W: Write> {
    output: Output<W>,
    line: Vec<u8>,
    stamp: String,
    stamped_s: Option<i64>,
}

impl<W: Write> TraceWriter<W> {
    pub(crate) fn new(
        destination: W,
        format: TraceFormat,
        compression: Compression,
    ) -> Result<Self, TraceError> {
        if format == TraceFormat::Json {
            return Err(TraceError::JsonAsDestination);
        }
        Ok(Self {
            output: Output::new(destination, compression)?,
            line: Vec::new(),
            stamp: String::new(),
            stamped_s: None,
        })
    }

    /// Writes a World Cup 1998 record.
    pub(crate) fn record(&mut self, record: &WorldCupRecord) -> Result<(), TraceError> {
        self.output.write(&record.encode())
    }

    /// Writes a line of Common or Combined Log Format.
    pub(crate) fn entry(
        &mut self,
        entry: &LogEntry<'_>,
        format: TraceFormat,
    ) -> Result<(), TraceError> {
        let combined = format == TraceFormat::Combined;
        let request = if combined {
            without_quotes(entry.request)
        } else {
            Cow::Borrowed(entry.request)
        };
        let status = format!("{:03}", entry.status);
        let size = entry
            .size_bytes
            .map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
        let tail: &[u8] = match (combined, entry.tail) {
            (false, _) => b"",
            (true, []) => b" \"-\" \"-\"",
            (true, tail) => tail,
        };
        self.line.clear();
        for part in [
            entry.host,
            b" ",
            entry.identity,
            b" [",
            entry.stamp,
            b"] \"",
            request.as_ref(),
            b"\" ",
            status.as_bytes(),
            b" ",
            size.as_bytes(),
            tail,
            b"\n",
        ] {
            self.line.extend_from_slice(part);
        }
        self.output.write(&self.line)
    }

    /// Writes a request of a numbered client. The source has no log line of it.
    pub(crate) fn numbered_entry(
        &mut self,
        client: u32,
        time_s: i64,
        path: &[u8],
        numbered: &Numbered,
        format: TraceFormat,
    ) -> Result<(), TraceError> {
        if self.stamped_s != Some(time_s) {
            self.stamp.clear();
            push_stamp(&mut self.stamp, time_s);
            self.stamped_s = Some(time_s);
        }
        let host = format!("client{client}");
        let mut request = Vec::with_capacity(path.len() + 16);
        request.extend_from_slice(numbered.method.name().as_bytes());
        request.push(b' ');
        request.extend_from_slice(path);
        request.extend_from_slice(numbered.version.suffix().as_bytes());
        let stamp = std::mem::take(&mut self.stamp);
        let entry = LogEntry {
            host: host.as_bytes(),
            identity: b"- -",
            stamp: stamp.as_bytes(),
            request: &request,
            status: numbered.status,
            size_bytes: numbered.size_bytes,
            tail: b"",
        };
        let written = self.entry(&entry, format);
        self.stamp = stamp;
        written
    }

    /// Completes the file.
    pub(crate) fn finish(self) -> Result<(), TraceError> {
        self.output.finish()
    }
}

/// The request of a numbered client.
pub(crate) struct Numbered {
    pub(crate) method: Method,
    pub(crate) version: HttpVersion,
    pub(crate) status: u16,
    pub(crate) size_bytes: Option<u64>,
}

/// A request line for Combined Log Format. A quote would end the line there, so quotes become
/// `%22`.
fn without_quotes(request: &[u8]) -> Cow<'_, [u8]> {
    if !request.contains(&b'"') {
        return Cow::Borrowed(request);
    }
    let mut escaped = Vec::with_capacity(request.len() + 8);
    for byte in request {
        match byte {
            b'"' => escaped.extend_from_slice(b"%22"),
            _ => escaped.push(*byte),
        }
    }
    Cow::Owned(escaped)
}
