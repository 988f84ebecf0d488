//! Reads a trace and passes every request to a sink.
//!
//! The reader stores one window over the file, and a number for every distinct client and object.

use std::io::Read;

use memchr::{memchr, memmem};

use crate::trace::error::TraceError;
use crate::trace::format::{Expected, RECORD_BYTES, TraceFormat};
use crate::trace::input::Input;
use crate::trace::json_fields::JsonFields;
use crate::trace::json_line::JsonReader;
use crate::trace::log_line::{LogLine, Reject};
use crate::trace::method::{HttpVersion, Method};
use crate::trace::numbering::{Identifiers, Names};
use crate::trace::request::{Request, Source};
use crate::trace::timestamp::StampReader;
use crate::trace::world_cup::WorldCupRecord;

/// Length of the longest line. Servers reject request lines of an eighth of this length.
const LINE_LIMIT_BYTES: usize = 65_536;
/// Bytes at the start of a trace from which its format is detected.
const HEAD_BYTES: usize = 65_536;

/// Receives the content of a trace in the order of the file.
pub trait TraceSink {
    /// Receives an accepted line or record.
    ///
    /// # Errors
    /// Returning an error ends the reading.
    fn request(&mut self, request: &Request<'_>) -> Result<(), TraceError>;

    /// Receives a rejected line or record. Lines are counted from 1.
    fn reject(&mut self, line: u64, reason: Reject);
}

/// Reads a trace, plain or compressed. Returns its format.
///
/// Magic bytes identify the compression. If no format is requested, the first 64 KiB decide. The
/// format is that of the first line that is valid in any log format. If there is no such line, it
/// is World Cup 1998, provided that most records have valid codes. The reader skips bad lines and
/// records, and passes them to [`TraceSink::reject`].
///
/// # Errors
/// The trace is empty, damaged, cut inside a record, not in the requested format, or in no known
/// format. Or the sink failed.
pub fn read_trace<R: Read>(
    source: R,
    expected: impl Into<Expected>,
    sink: &mut impl TraceSink,
) -> Result<TraceFormat, TraceError> {
    let expected = expected.into();
    let mut input = Input::new(source)?;
    while input.bytes().len() < HEAD_BYTES && input.extend()? {}
    let head = &input.bytes()[..input.bytes().len().min(HEAD_BYTES)];
    if head.is_empty() {
        return Err(TraceError::Empty);
    }
    let format = match expected.format {
        Some(format) => checked_format(head, format, &expected.fields)?,
        None => detected_format(head, &expected.fields)?,
    };
    match format {
        TraceFormat::WorldCup => read_records(&mut input, sink)?,
        TraceFormat::Common | TraceFormat::Combined | TraceFormat::Json => {
            read_lines(&mut input, format, &expected.fields, sink)?;
        }
    }
    Ok(format)
}

/// Detects the format from the start of a trace.
fn detected_format(head: &[u8], fields: &JsonFields) -> Result<TraceFormat, TraceError> {
    let of_line = |line: &[u8]| {
        [
            TraceFormat::Common,
            TraceFormat::Combined,
            TraceFormat::Json,
        ]
        .into_iter()
        .find(|format| is_line(line, *format, fields))
    };
    if let Some(format) = head.split(|byte| *byte == b'\n').find_map(of_line) {
        return Ok(format);
    }
    if is_mostly_records(head) {
        return Ok(TraceFormat::WorldCup);
    }
    // A control character means that this is not text, but there are fewer bytes than one record.
    if head.len() < RECORD_BYTES && first_unprintable(head).is_some() {
        return Err(TraceError::TruncatedRecord {
            offset: 0,
            rest_bytes: head.len(),
        });
    }
    Err(TraceError::Unrecognized {
        examined: head.len(),
    })
}

/// Returns the requested format, or an error if the start of the trace contradicts it.
fn checked_format(
    head: &[u8],
    format: TraceFormat,
    fields: &JsonFields,
) -> Result<TraceFormat, TraceError> {
    if format == TraceFormat::WorldCup {
        if head.len() < RECORD_BYTES {
            return Err(TraceError::TruncatedRecord {
                offset: 0,
                rest_bytes: head.len(),
            });
        }
        if !is_mostly_records(head) {
            return Err(TraceError::NotRecords { offset: 0 });
        }
        return Ok(format);
    }
    let has_line = head
        .split(|byte| *byte == b'\n')
        .any(|line| is_line(line, format, fields));
    match first_unprintable(head) {
        Some(at) if !has_line => Err(TraceError::BinaryAsText { offset: at as u64 }),
        _ => Ok(format),
    }
}

/// Whether a line is valid in a format of text.
fn is_line(line: &[u8], format: TraceFormat, fields: &JsonFields) -> bool {
    match format {
        TraceFormat::Json => JsonReader::new(fields).parse(line).is_ok(),
        _ => LogLine::parse(line, format).is_ok(),
    }
}

/// Whether the first record and more than half of all records have codes of the format.
fn is_mostly_records(head: &[u8]) -> bool {
    let mut validity = records(head).map(|record| WorldCupRecord::decode(record).is_some());
    let first_is_valid = validity.next() == Some(true);
    let balance: i64 = validity.map(|valid| if valid { 1 } else { -1 }).sum();
    first_is_valid && 1 + balance > 0
}

/// The complete records at the start of some bytes.
fn records(bytes: &[u8]) -> impl Iterator<Item = &[u8; RECORD_BYTES]> {
    bytes
        .chunks_exact(RECORD_BYTES)
        .filter_map(|record| record.first_chunk())
}

/// Position of the first control character other than tab and line ends.
fn first_unprintable(head: &[u8]) -> Option<usize> {
    head.iter()
        .position(|byte| byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n' | b'\r'))
}

/// The state that is needed for later lines.
struct LogReader<'a> {
    json: JsonReader<'a>,
    hosts: Names,
    uris: Names,
    /// Whether the server computes the response to each URI.
    computed: Vec<bool>,
    stamps: StampReader,
}

impl<'a> LogReader<'a> {
    fn new(fields: &'a JsonFields) -> Self {
        Self {
            json: JsonReader::new(fields),
            hosts: Names::default(),
            uris: Names::default(),
            computed: Vec::new(),
            stamps: StampReader::default(),
        }
    }

    /// Passes one line to the sink.
    #[inline]
    fn line(
        &mut self,
        line: u64,
        text: &[u8],
        format: TraceFormat,
        sink: &mut impl TraceSink,
    ) -> Result<(), TraceError> {
        let parsed = match format {
            TraceFormat::Json => self.json.parse(text),
            _ => LogLine::parse(text, format),
        };
        let fields = match parsed {
            Ok(fields) => fields,
            Err(reason) => {
                sink.reject(line, reason);
                return Ok(());
            }
        };
        let Some(time_s) = self.stamps.read(&fields.stamp) else {
            sink.reject(line, Reject::BadTime);
            return Ok(());
        };
        let (method, uri, version) = fields.request_parts();
        let object = self.uris.number(uri)?;
        if object as usize == self.computed.len() {
            self.computed.try_reserve(1)?;
            self.computed.push(is_computed(uri));
        }
        sink.request(&Request {
            line,
            time_s,
            fraction_ns: fields.fraction_ns,
            client: self.hosts.number(fields.host)?,
            object,
            size_bytes: fields.size_bytes,
            status: fields.status,
            method,
            version,
            dynamic: method == Method::Post || self.computed[object as usize],
            source: Source::Log { line: fields, uri },
        })
    }
}

/// Whether the server computes the response to a URI: it has a query or names a CGI program.
fn is_computed(uri: &[u8]) -> bool {
    memchr(b'?', uri).is_some() || memmem::find(uri, b"cgi-bin/").is_some()
}

fn read_lines<R: Read>(
    input: &mut Input<R>,
    format: TraceFormat,
    fields: &JsonFields,
    sink: &mut impl TraceSink,
) -> Result<(), TraceError> {
    let mut reader = LogReader::new(fields);
    let mut line = 0;
    loop {
        let bytes = input.bytes();
        let mut from = 0;
        while let Some(length) = memchr(b'\n', &bytes[from..]) {
            line += 1;
            if length > LINE_LIMIT_BYTES {
                sink.reject(line, Reject::TooLong);
            } else {
                reader.line(line, &bytes[from..from + length], format, sink)?;
            }
            from += length + 1;
        }
        let torn = bytes.len() - from;
        input.consume(from);
        if torn > LINE_LIMIT_BYTES {
            line += 1;
            sink.reject(line, Reject::TooLong);
            if !skip_line(input)? {
                return Ok(());
            }
        } else if !input.extend()? {
            // The last line may lack its line feed.
            return match input.bytes() {
                [] => Ok(()),
                rest => reader.line(line + 1, rest, format, sink),
            };
        }
    }
}

/// Skips the bytes up to the next line feed. Returns false if the trace ends first.
fn skip_line<R: Read>(input: &mut Input<R>) -> Result<bool, TraceError> {
    loop {
        if let Some(length) = memchr(b'\n', input.bytes()) {
            input.consume(length + 1);
            return Ok(true);
        }
        input.consume(input.bytes().len());
        if !input.extend()? {
            return Ok(false);
        }
    }
}

fn read_records<R: Read>(
    input: &mut Input<R>,
    sink: &mut impl TraceSink,
) -> Result<(), TraceError> {
    let (mut clients, mut objects) = (Identifiers::default(), Identifiers::default());
    let mut line = 0;
    loop {
        let bytes = input.bytes();
        let rest_bytes = bytes.len() % RECORD_BYTES;
        let complete = bytes.len() - rest_bytes;
        for bytes in records(bytes) {
            line += 1;
            let Some(record) = WorldCupRecord::decode(bytes) else {
                sink.reject(line, Reject::BadCode);
                continue;
            };
            sink.request(&Request {
                line,
                time_s: i64::from(record.time_s),
                fraction_ns: None,
                client: clients.number(record.client)?,
                object: objects.number(record.object)?,
                size_bytes: record.size_bytes.map(u64::from),
                status: record.status(),
                method: Method::from_code(record.method).unwrap_or(Method::Other),
                version: HttpVersion::from_code(record.version),
                dynamic: record.is_dynamic(),
                source: Source::WorldCup(record),
            })?;
        }
        input.consume(complete);
        if !input.extend()? {
            return match rest_bytes {
                0 => Ok(()),
                _ => Err(TraceError::TruncatedRecord {
                    offset: input.offset(),
                    rest_bytes,
                }),
            };
        }
    }
}
