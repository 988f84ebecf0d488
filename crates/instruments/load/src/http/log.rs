//! A log as a workload: sessions of requests with their times, and the requested objects.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use perpacket_workload::{
    Expected, JsonFields, LoggedRequest, LoggedSessions, Method, ObjectPaths, RejectedLine,
    Request, SESSION_WINDOW_S, SessionRequests, SessionTable, Source, Stream, TraceError,
    TraceFormat, read_sessions,
};

use super::paths::Paths;
use super::session::{ANY_SIZE, Operation, SessionRequest};
use super::shard::Shard;
use super::workload::Spread;
use crate::error::LoadError;

const NS_PER_S: f64 = 1e9;
/// Maximum number of rejected lines that a report lists. The report counts all rejected lines.
const LISTED_LINES: usize = 5;

/// A log, and what is needed to read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFile<'a> {
    pub path: &'a Path,
    /// Object mappings of a World Cup 1998 log.
    pub objects: Option<&'a Path>,
    /// The fields of a JSON log.
    pub fields: Option<&'a JsonFields>,
}

/// The sessions of a log.
#[derive(Debug)]
pub(crate) struct Log {
    sessions: Arc<SessionTable<SessionRequest>>,
    /// Paths of the objects, below the path of the target.
    pub paths: Arc<Paths>,
    /// Largest size of a 200 response of each object; `None` if there was none.
    pub size_bytes: Vec<Option<u64>>,
    /// Accepted lines whose methods a load cannot send.
    pub skipped: u64,
    /// Number of rejected lines.
    pub rejected: u64,
    /// The first rejected lines.
    pub rejected_lines: Vec<RejectedLine>,
}

impl Log {
    /// Reads a log. Without `spread`, its requests are due at once.
    ///
    /// # Errors
    /// The log cannot be read or contains no request that a load can send.
    pub(crate) fn read(
        log: LogFile<'_>,
        spread: Option<Spread>,
        prefix: &str,
        seed: u64,
    ) -> Result<Self, LoadError> {
        let mut objects = Objects {
            numbers: HashMap::new(),
            paths: Vec::new(),
            size_bytes: Vec::new(),
            mappings: match log.objects {
                None => ObjectPaths::default(),
                Some(path) => ObjectPaths::read(open(path)?).map_err(trace_error(path))?,
            },
        };
        let content = |request: &Request<'_>| objects.session_request(request);
        let file = log.path;
        let expected = Expected {
            format: None,
            fields: log.fields.cloned().unwrap_or_default(),
        };
        let mut logged = read_sessions(open(file)?, expected, SESSION_WINDOW_S, content)
            .map_err(trace_error(file))?;
        if log.objects.is_some() && logged.format != TraceFormat::WorldCup {
            return Err(LoadError::Usage(format!(
                "object-mappings: {} has {} format, which contains the paths of its objects",
                file.display(),
                logged.format
            )));
        }
        if log.fields.is_some() && logged.format != TraceFormat::Json {
            return Err(LoadError::Usage(format!(
                "log-fields: {} has {} format, whose fields have fixed places",
                file.display(),
                logged.format
            )));
        }
        let time = |request: &LoggedRequest<_>| (request.time_s, request.fraction_ns);
        logged.requests.sort_by_key(time);
        if let Some(spread) = spread {
            set_times(&mut logged, spread, seed);
        }
        logged.rejected.lines.truncate(LISTED_LINES);
        Ok(Self {
            sessions: Arc::new(logged.by_session().map_err(trace_error(file))?),
            paths: Arc::new(Paths::new(prefix, &objects.paths)),
            size_bytes: objects.size_bytes,
            skipped: logged.skipped,
            rejected: logged.rejected.count,
            rejected_lines: logged.rejected.lines,
        })
    }

    pub(crate) fn sessions(&self) -> usize {
        self.sessions.sessions()
    }

    pub(crate) fn requests(&self) -> usize {
        self.sessions.requests()
    }

    /// The requests of a session, if its client belongs to this part of the load.
    pub(crate) fn session(&self, session: usize, shard: Shard) -> Option<&[SessionRequest]> {
        let (client, requests) = self.sessions.session(session);
        (client % shard.shards == shard.index).then_some(requests)
    }

    /// The requests of a session, for a connection.
    pub(crate) fn shared(&self, session: usize) -> SessionRequests<SessionRequest> {
        SessionRequests::Shared(Arc::clone(&self.sessions), session)
    }
}

fn open(path: &Path) -> Result<File, LoadError> {
    File::open(path).map_err(LoadError::file(path))
}

fn trace_error(path: &Path) -> impl Fn(TraceError) -> LoadError {
    move |source| LoadError::Trace {
        path: path.to_owned(),
        source,
    }
}

/// Sets the due time of each request within its second: as in the log, or else by `spread`. The requests are in the order of time.
fn set_times(logged: &mut LoggedSessions<SessionRequest>, spread: Spread, seed: u64) {
    let requests = &mut logged.requests;
    // The name selects the stream of random numbers. A different name would change every replay.
    let mut stream = Stream::new(seed, "places in a second");
    let part_s =
        |request: &LoggedRequest<_>| request.fraction_ns.map(|ns| f64::from(ns) / NS_PER_S);
    let (begin_s, begin_part_s) = requests.first().map_or((0, 0.0), |first| {
        (first.time_s, part_s(first).unwrap_or(0.0))
    });
    let mut fractions = Vec::new();
    for second in requests.chunk_by_mut(|a, b| a.time_s == b.time_s) {
        let count = second.len();
        fractions.clear();
        match spread {
            Spread::None => fractions.resize(count, 0.0),
            Spread::Uniform => {
                fractions.extend((0..count).map(|index| index as f64 / count as f64));
            }
            Spread::Poisson => {
                fractions.extend((0..count).map(|_| stream.uniform()));
                fractions.sort_by(f64::total_cmp);
            }
        }
        for (request, fraction) in second.iter_mut().zip(&fractions) {
            let part_s = part_s(request).unwrap_or(*fraction) - begin_part_s;
            let time_s = (request.time_s - begin_s) as f64 + part_s;
            request.content.due_ns = (time_s * NS_PER_S) as u64;
        }
    }
}

/// The objects that a log names.
struct Objects {
    /// The number of each object in this log, by the number that the reader assigned.
    numbers: HashMap<u32, u32>,
    paths: Vec<Vec<u8>>,
    size_bytes: Vec<Option<u64>>,
    mappings: ObjectPaths,
}

impl Objects {
    fn session_request(&mut self, request: &Request<'_>) -> SessionRequest {
        let object = self.number(request);
        if let (200, Some(bytes)) = (request.status, request.size_bytes) {
            let largest = &mut self.size_bytes[object as usize];
            *largest = Some(largest.unwrap_or(0).max(bytes));
        }
        SessionRequest {
            object,
            expected_bytes: ANY_SIZE,
            operation: match (request.method, request.status) {
                (Method::Head, _) => Operation::Head,
                (Method::Post, _) => Operation::Post,
                (_, 304) => Operation::Conditional,
                _ => Operation::Get,
            },
            logged_status: request.status,
            due_ns: 0,
        }
    }

    /// The number of an object in this log. Numbers start at 0, in the order of the first requests.
    fn number(&mut self, request: &Request<'_>) -> u32 {
        if let Some(number) = self.numbers.get(&request.object) {
            return *number;
        }
        let path = match &request.source {
            Source::Log { uri, .. } => path_of(uri),
            Source::WorldCup(record) => path_of(&self.mappings.path(record.object)),
        };
        let number = self.paths.len() as u32;
        self.paths.push(path);
        self.size_bytes.push(None);
        self.numbers.insert(request.object, number);
        number
    }
}

/// The path that a request line has for a logged URI. Scheme and host are removed, and bytes other
/// than visible ASCII are percent-encoded.
pub(crate) fn path_of(uri: &[u8]) -> Vec<u8> {
    let uri = match uri.get(..7) {
        Some(scheme) if scheme.eq_ignore_ascii_case(b"http://") => {
            let rest = &uri[7..];
            let slash = memchr::memchr(b'/', rest).unwrap_or(rest.len());
            &rest[slash..]
        }
        _ => uri,
    };
    let mut path = Vec::with_capacity(uri.len() + 1);
    if uri.first() != Some(&b'/') {
        path.push(b'/');
    }
    for byte in uri {
        if byte.is_ascii_graphic() && !matches!(byte, b'"' | b'#') {
            path.push(*byte);
        } else {
            path.extend(format!("%{byte:02X}").bytes());
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_start_at_the_parts_of_seconds_that_a_log_has() {
        let line = |time, uri| {
            format!(
                "{{\"ts\":{time},\"status\":200,\"request\":{{\"remote_ip\":\"a\",\"uri\":\"{uri}\"}}}}\n"
            )
        };
        // A server writes a line when a response ends, so lines may be out of order.
        let text = [
            line("100.5", "/1"),
            line("100.25", "/0"),
            line("102.0", "/2"),
        ]
        .concat();
        let mut logged = read_sessions(text.as_bytes(), None, SESSION_WINDOW_S, |request| {
            SessionRequest {
                object: request.object,
                expected_bytes: ANY_SIZE,
                operation: Operation::Get,
                logged_status: 200,
                due_ns: 0,
            }
        })
        .unwrap();
        logged
            .requests
            .sort_by_key(|request| (request.time_s, request.fraction_ns));
        set_times(&mut logged, Spread::Uniform, 1);
        let due: Vec<_> = logged
            .requests
            .iter()
            .map(|request| (request.content.object, request.content.due_ns))
            .collect();
        assert_eq!(due, [(1, 0), (0, 250_000_000), (2, 1_750_000_000)]);
    }

    #[test]
    fn a_logged_uri_becomes_the_path_of_a_request() {
        let path = |uri: &[u8]| String::from_utf8(path_of(uri)).unwrap();
        assert_eq!(path(b"/a b\"c\xe9"), "/a%20b%22c%E9");
        assert_eq!(path(b"HTTP://host/x?y"), "/x?y");
        assert_eq!(path(b"http://host"), "/");
        assert_eq!(path(b"x"), "/x");
    }
}
