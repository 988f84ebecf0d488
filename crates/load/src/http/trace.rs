//! A log as work for a client: sessions of requests with their own times, and the objects they name.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use perpacket_workload::{
    Method, ObjectPaths, Reject, RejectedLine, Request, SESSION_WINDOW_S, SessionCutter, Source,
    Stream, TraceError, TraceFormat, TraceSink, read_trace,
};

use super::paths::Paths;
use super::settings::{Part, Spread};
use super::step::{ANY_SIZE, Operation, Step};
use crate::error::LoadError;

const NS_PER_S: f64 = 1e9;
/// Lines that are no requests of which number and reason are told; all are counted.
const TOLD_LINES: usize = 5;

/// The sessions of a log; session `i` has the steps from `starts[i]` to `starts[i + 1]`.
#[derive(Debug)]
pub(crate) struct Trace {
    clients: Vec<u32>,
    starts: Vec<u32>,
    steps: Vec<Step>,
    /// What the objects are called, beneath the target's path.
    pub paths: Arc<Paths>,
    /// Largest size of each object's 200s; nothing for one that never had any.
    pub size_bytes: Vec<Option<u64>>,
    /// Accepted lines that no server of files can be asked (other methods, no path).
    pub skipped: u64,
    /// Lines that are no requests.
    pub rejected: u64,
    /// The first of them.
    pub rejected_lines: Vec<RejectedLine>,
}

impl Trace {
    /// Reads a log.
    ///
    /// # Errors
    /// It cannot be read, or holds nothing to ask.
    pub(crate) fn read(
        file: &Path,
        objects: Option<&Path>,
        spread: Spread,
        prefix: &str,
        seed: u64,
    ) -> Result<Self, LoadError> {
        let mappings = match objects {
            None => ObjectPaths::default(),
            Some(path) => {
                let source = open(path)?;
                ObjectPaths::read(source).map_err(|source| trace_error(path, source))?
            }
        };
        let mut collected = Collected {
            cutter: SessionCutter::new(SESSION_WINDOW_S)
                .map_err(|error| trace_error(file, error))?,
            clients: Vec::new(),
            lines: Vec::new(),
            paths: HashMap::new(),
            texts: Vec::new(),
            size_bytes: Vec::new(),
            mappings,
            skipped: 0,
            rejected: 0,
            rejected_lines: Vec::new(),
        };
        let format = read_trace(open(file)?, None, &mut collected)
            .map_err(|error| trace_error(file, error))?;
        if objects.is_some() && format != TraceFormat::WorldCup {
            return Err(LoadError::Usage(format!(
                "object-mappings: {} has {format} format, which contains the paths of its objects",
                file.display()
            )));
        }
        if collected.lines.is_empty() {
            let source = TraceError::NothingUsable {
                requests: collected.skipped,
                rejected: collected.rejected,
            };
            return Err(trace_error(file, source));
        }
        collected.spread(spread, seed);
        Ok(collected.by_session(prefix))
    }

    /// Sessions.
    pub(crate) fn sessions(&self) -> usize {
        self.clients.len()
    }

    /// Requests.
    pub(crate) fn requests(&self) -> usize {
        self.steps.len()
    }

    /// The steps of a session, if it belongs to a part: a client's sessions are all in one.
    pub(crate) fn session(&self, session: usize, part: Part) -> Option<&[Step]> {
        (self.clients[session] % part.of == part.index)
            .then(|| &self.steps[self.starts[session] as usize..self.starts[session + 1] as usize])
    }
}

fn open(path: &Path) -> Result<File, LoadError> {
    File::open(path).map_err(|source| LoadError::File {
        path: path.to_owned(),
        source,
    })
}

fn trace_error(path: &Path, source: TraceError) -> LoadError {
    LoadError::Trace {
        path: path.to_owned(),
        source,
    }
}

/// One line: its second, its session and what it asks.
#[derive(Clone, Copy)]
struct Line {
    time_s: i64,
    session: u32,
    step: Step,
}

/// What a log holds, in its order.
struct Collected {
    cutter: SessionCutter,
    clients: Vec<u32>,
    lines: Vec<Line>,
    /// Objects by the reader's number.
    paths: HashMap<u32, u32>,
    texts: Vec<Vec<u8>>,
    size_bytes: Vec<Option<u64>>,
    mappings: ObjectPaths,
    skipped: u64,
    rejected: u64,
    rejected_lines: Vec<RejectedLine>,
}

impl Collected {
    /// Our number of an object, from 0 among those that are asked.
    fn object(&mut self, request: &Request<'_>) -> u32 {
        if let Some(known) = self.paths.get(&request.object) {
            return *known;
        }
        let path = match &request.source {
            Source::Log { uri, .. } => path_of(uri),
            Source::WorldCup(record) => path_of(&self.mappings.path(record.object)),
        };
        let number = self.texts.len() as u32;
        self.texts.push(path);
        self.size_bytes.push(None);
        self.paths.insert(request.object, number);
        number
    }

    /// Orders the requests by time and places them inside their second.
    fn spread(&mut self, spread: Spread, seed: u64) {
        self.lines.sort_by_key(|line| line.time_s);
        let mut stream = Stream::new(seed, "places in a second");
        let begin_s = self.lines.first().map_or(0, |line| line.time_s);
        let mut places = Vec::new();
        for second in self.lines.chunk_by_mut(|a, b| a.time_s == b.time_s) {
            let count = second.len();
            places.clear();
            match spread {
                Spread::None => places.resize(count, 0.0),
                Spread::Uniform => {
                    places.extend((0..count).map(|place| place as f64 / count as f64))
                }
                Spread::Poisson => {
                    places.extend((0..count).map(|_| stream.uniform()));
                    places.sort_by(f64::total_cmp);
                }
            }
            for (line, place) in second.iter_mut().zip(&places) {
                let time_s = (line.time_s - begin_s) as f64 + place;
                line.step.due_ns = (time_s * NS_PER_S) as u64;
            }
        }
    }

    /// Sorts the requests by session, keeping their order, by counting. Sessions are in order of
    /// their first request.
    fn by_session(self, prefix: &str) -> Trace {
        let mut numbers = vec![u32::MAX; self.clients.len()];
        let mut clients = Vec::with_capacity(numbers.len());
        let mut starts = vec![0u32];
        for line in &self.lines {
            let number = &mut numbers[line.session as usize];
            if *number == u32::MAX {
                *number = clients.len() as u32;
                clients.push(self.clients[line.session as usize]);
                starts.push(0);
            }
            starts[*number as usize + 1] += 1;
        }
        for session in 0..clients.len() {
            starts[session + 1] += starts[session];
        }
        let mut free = starts.clone();
        let mut steps = vec![Step::default(); self.lines.len()];
        for line in &self.lines {
            let place = &mut free[numbers[line.session as usize] as usize];
            steps[*place as usize] = line.step;
            *place += 1;
        }
        Trace {
            clients,
            starts,
            steps,
            paths: Arc::new(Paths::new(prefix, self.texts.iter().map(Vec::as_slice))),
            size_bytes: self.size_bytes,
            skipped: self.skipped,
            rejected: self.rejected,
            rejected_lines: self.rejected_lines,
        }
    }
}

impl TraceSink for Collected {
    fn request(&mut self, request: &Request<'_>) -> Result<(), TraceError> {
        let operation = match (request.method, request.status) {
            (Method::Get, 304) => Operation::Conditional,
            (Method::Get, _) => Operation::Get,
            (Method::Head, _) => Operation::Head,
            (Method::Post, _) => Operation::Post,
            _ => {
                self.skipped += 1;
                return Ok(());
            }
        };
        let place = self.cutter.place(request.client, request.time_s);
        if place.first {
            self.clients.push(request.client);
        }
        let object = self.object(request);
        if let (200, Some(bytes)) = (request.status, request.size_bytes) {
            let known = &mut self.size_bytes[object as usize];
            *known = Some(known.unwrap_or(0).max(bytes));
        }
        self.lines.push(Line {
            time_s: request.time_s,
            session: place.session,
            step: Step {
                object,
                expected_bytes: ANY_SIZE,
                operation,
                status: request.status,
                due_ns: 0,
            },
        });
        Ok(())
    }

    fn reject(&mut self, line: u64, reason: Reject) {
        self.rejected += 1;
        if self.rejected_lines.len() < TOLD_LINES {
            self.rejected_lines.push(RejectedLine { line, reason });
        }
    }
}

/// A logged URI as a path that can be sent: without scheme and host, and with what a request line
/// cannot hold as %XX.
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
    fn a_logged_uri_becomes_a_path_that_can_be_sent() {
        let path = |uri: &[u8]| String::from_utf8(path_of(uri)).unwrap();
        assert_eq!(path(b"/a b\"c\xe9"), "/a%20b%22c%E9");
        assert_eq!(path(b"HTTP://host/x?y"), "/x?y");
        assert_eq!(path(b"http://host"), "/");
        assert_eq!(path(b"x"), "/x");
    }
}
