//! Writes the sessions of a generator as a trace that contains the same sessions.
//!
//! Sessions arrive as a Poisson process. The requests of a session follow each other after
//! exponential gaps. The gaps have an upper limit, so that rounding times to whole seconds never
//! divides a session. A new session of a client waits until the client's last session has ended.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::generators::parameter::{ParameterError, require_ranges};
use crate::generators::random::Stream;
use crate::generators::source::Sessions;
use crate::sessions::planned::{PlannedRequest, SessionSource};
use crate::trace::error::TraceError;
use crate::trace::format::{Compression, TraceFormat};
use crate::trace::method::{HttpVersion, Method};
use crate::trace::session_cutter::SESSION_WINDOW_S;
use crate::trace::world_cup::{WorldCupRecord, kind_of_path, status_index};
use crate::trace::write::{Numbered, TraceWriter};

/// The options of a synthesis.
#[derive(Clone, Debug)]
pub struct Synthesis {
    /// Minimum number of requests. The last session is always complete.
    pub requests: u64,
    /// Mean sessions per second.
    pub sessions_per_s: f64,
    /// Mean gap between two requests of a session, in seconds.
    pub gap_mean_s: f64,
    /// Unix time at which the trace begins.
    pub start_time_s: u32,
    /// Seed of arrivals and gaps. The sessions have their own seed.
    pub seed: u64,
    pub format: TraceFormat,
    /// Compression of the trace.
    pub compression: Compression,
}

impl Default for Synthesis {
    /// 100,000 requests in Common Log Format from the first day of the 1998 World Cup, ten
    /// sessions a second, one second between a session's requests.
    fn default() -> Self {
        Self {
            requests: 100_000,
            sessions_per_s: 10.0,
            gap_mean_s: 1.0,
            start_time_s: 897_436_800,
            seed: 1,
            format: TraceFormat::Common,
            compression: Compression::None,
        }
    }
}

/// Result of the synthesis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Synthesized {
    pub format: TraceFormat,
    /// Requests written.
    pub requests: u64,
    /// Number of sessions written. The fifteen-second rule finds the same number in the trace.
    pub sessions: u64,
    /// Bytes of all responses.
    pub bytes: u64,
}

/// The reason why a trace cannot be synthesized.
#[derive(Debug, thiserror::Error)]
pub enum SynthesisError {
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    #[error(transparent)]
    Trace(#[from] TraceError),
}

/// Writes sessions as a trace, in order of time.
///
/// # Errors
/// A parameter is out of its range, the destination cannot be written, or the trace would end
/// after the last time of 32-bit seconds.
pub fn synthesize<W: Write>(
    sessions: &mut Sessions,
    destination: W,
    synthesis: &Synthesis,
) -> Result<Synthesized, SynthesisError> {
    check(synthesis)?;
    let mut schedule = Schedule {
        waiting: BinaryHeap::new(),
        arrivals: Stream::new(synthesis.seed, "session arrivals"),
        gaps: Stream::new(synthesis.seed, "gaps in sessions"),
        free_s: FxHashMap::default(),
        now_s: f64::from(synthesis.start_time_s),
        sequence: 0,
    };
    let mut writer = TraceWriter::new(destination, synthesis.format, synthesis.compression)?;
    let mut done = Synthesized {
        format: synthesis.format,
        requests: 0,
        sessions: 0,
        bytes: 0,
    };
    let mut requests = Vec::new();
    while done.requests < synthesis.requests {
        let client = sessions.next_session(&mut requests);
        done.sessions += 1;
        done.requests += requests.len() as u64;
        done.bytes += requests
            .iter()
            .map(|request| u64::from(request.response_bytes))
            .sum::<u64>();
        schedule.add(client, &requests, synthesis);
        while let Some(event) = schedule.due() {
            write_event(&mut writer, &event, sessions, synthesis.format)?;
        }
    }
    schedule.now_s = f64::INFINITY;
    while let Some(event) = schedule.due() {
        write_event(&mut writer, &event, sessions, synthesis.format)?;
    }
    writer.finish()?;
    Ok(done)
}

fn check(synthesis: &Synthesis) -> Result<(), ParameterError> {
    require_ranges(&[
        ("requests", synthesis.requests as f64, 1.0, 1e10),
        ("sessions_per_s", synthesis.sessions_per_s, 1e-3, 1e6),
        ("gap_mean_s", synthesis.gap_mean_s, 0.0, SESSION_WINDOW_S),
    ])
}

/// Requests that are not written yet.
struct Schedule {
    waiting: BinaryHeap<Reverse<Event>>,
    arrivals: Stream,
    gaps: Stream,
    /// For each client, the time from which a request belongs to a new session.
    free_s: FxHashMap<u32, f64>,
    /// No later session begins before this time.
    now_s: f64,
    sequence: u64,
}

impl Schedule {
    /// Schedules the next session.
    fn add(&mut self, client: u32, requests: &[PlannedRequest], synthesis: &Synthesis) {
        self.now_s += self.arrivals.exponential() / synthesis.sessions_per_s;
        let free_s = self.free_s.entry(client).or_insert(0.0);
        let mut time_s = self.now_s.max(*free_s);
        for request in requests {
            self.waiting.push(Reverse(Event {
                time_s: time_s as u64,
                sequence: self.sequence,
                client,
                request: *request,
            }));
            self.sequence += 1;
            // Rounding times down can lengthen a gap by almost a second.
            let gap_s = self.gaps.exponential() * synthesis.gap_mean_s;
            *free_s = time_s + SESSION_WINDOW_S + 1.0;
            time_s += gap_s.min(SESSION_WINDOW_S - 1.0);
        }
    }

    /// The next request in the order of whole seconds. `None` while a later session could still
    /// precede it.
    fn due(&mut self) -> Option<Event> {
        let Reverse(next) = self.waiting.peek()?;
        if next.time_s as f64 >= self.now_s.floor() {
            return None;
        }
        self.waiting.pop().map(|Reverse(event)| event)
    }
}

/// A request and its time. Requests with equal times stay in the order in which they were made.
#[derive(PartialEq, Eq)]
struct Event {
    time_s: u64,
    sequence: u64,
    client: u32,
    request: PlannedRequest,
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.time_s, self.sequence).cmp(&(other.time_s, other.sequence))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

fn write_event<W: Write>(
    writer: &mut TraceWriter<W>,
    event: &Event,
    sessions: &Sessions,
    format: TraceFormat,
) -> Result<(), TraceError> {
    let request = &event.request;
    let mut path = sessions.object_path(request.object);
    if format == TraceFormat::WorldCup {
        let time_s = u32::try_from(event.time_s).map_err(|_| TraceError::DoesNotFit {
            line: event.sequence + 1,
            field: "time",
            value: event.time_s as i64,
            allowed: "Unix seconds of 32 bits; raise sessions_per_s",
        })?;
        return writer.record(&WorldCupRecord {
            time_s,
            client: event.client,
            object: request.object,
            size_bytes: Some(request.response_bytes),
            method: Method::Get.code(),
            version: HttpVersion::Http11.code(),
            status_index: status_index(200),
            kind: kind_of_path(path.as_bytes(), request.dynamic),
            server: 0,
        });
    }
    if request.dynamic {
        path.insert_str(0, DYNAMIC_PREFIX);
    }
    let numbered = Numbered {
        method: Method::Get,
        version: HttpVersion::Http11,
        status: 200,
        size_bytes: Some(u64::from(request.response_bytes)),
    };
    let time_s = event.time_s as i64;
    writer.numbered_entry(event.client, time_s, path.as_bytes(), &numbered, format)
}

/// Marks a computed response in a log, because log lines have no field for this.
const DYNAMIC_PREFIX: &str = "/cgi-bin/dynamic?";
