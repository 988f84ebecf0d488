//! The report of a load, also as JSON.

use std::collections::BTreeMap;

use perpacket_workload::RejectedLine;
use serde::Serialize;

use super::counts::Counts;
use super::notes::{Unfinished, notes};
use super::pages::{PageReport, WRONG_ALLOWED};
use super::session::OPERATION_NAMES;
use super::spec::Spec;
use super::thread_result::ThreadResult;
use crate::error::LoadError;
use crate::latency::{Latency, LatencySummary};

/// Version of the JSON form.
const SCHEMA: u32 = 1;
/// A connection conforms only with at least this share of its line speed (SPECweb99: 320,000 of 400,000
/// b/s).
const CONFORMING_SPEED_SHARE: f64 = 0.8;
/// A connection conforms only with less than this share of failed requests.
const CONFORMING_ERROR_SHARE: f64 = 0.01;

/// The report of the measured window.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of the schema.
    pub schema: u32,
    pub url: String,
    /// The workload's name.
    pub workload: &'static str,
    /// `closed`, `requests`, `sessions` or `recorded`.
    pub arrivals: &'static str,
    /// Arrivals of requests or sessions per second, in an open loop.
    pub arrivals_per_s: Option<f64>,
    /// Factor by which the run is faster than the log, if the run uses the log's times.
    pub speed: Option<f64>,
    /// Maximum number of connections at a time.
    pub connections: u32,
    pub threads: u32,
    /// Length of the window, in seconds.
    pub duration_s: f64,
    /// Begin and end of the window.
    pub window: Window,
    /// Complete responses of any status.
    pub requests: u64,
    /// Complete responses without an error.
    pub sound: u64,
    /// Responses per second.
    pub requests_per_s: f64,
    /// Bytes received, heads included.
    pub bytes: u64,
    /// Bytes of complete responses' bodies.
    pub body_bytes: u64,
    /// Megabits (10^6) of bodies per second.
    pub content_mbps: f64,
    /// Failed requests by kind. They include responses with an unexpected status.
    pub errors: BTreeMap<&'static str, u64>,
    /// First examples of each kind.
    pub error_examples: BTreeMap<&'static str, Vec<String>>,
    /// Responses by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Responses by operation.
    pub operations: BTreeMap<&'static str, u64>,
    /// Answers by page of an application; empty without one.
    pub pages: Vec<PageReport>,
    /// Microseconds to the end of the response.
    pub latency_us: LatencyPair,
    /// Microseconds by which this client started requests late. Empty in a closed loop.
    pub schedule_lag_us: LatencySummary,
    /// Requests (sessions, with session arrivals) that were due and not sent.
    pub unsent: u64,
    /// Requests without a complete response at the end. No latency includes them.
    pub unfinished: u64,
    /// Longest wait of an unfinished request since its intended start, in microseconds.
    pub oldest_unfinished_us: f64,
    /// CPU time of the client's threads, in seconds.
    pub client_cpu_s: f64,
    /// CPU time per response, in microseconds.
    pub client_cpu_us_per_request: f64,
    pub connections_opened: u64,
    /// Requests sent once more because the server had closed an idle connection.
    pub reopened: u64,
    /// Connections that reached 0.8 of their line speed with less than 1 % of errors.
    pub conforming: Option<u32>,
    /// Mean number of requests in progress: the sum of response times divided by the window (Little's
    /// law). In a closed loop without pauses it is close to the number of connections.
    pub load_factor: f64,
    /// The log, if the workload is one.
    pub trace: Option<TraceReport>,
    /// When the server disappeared, in seconds since the start.
    pub server_gone_s: Option<f64>,
    /// Whether a signal ended the run.
    pub interrupted: bool,
    /// Notes for the reader of the results.
    pub notes: Vec<String>,
    /// Histogram of the service times.
    #[serde(skip)]
    pub service: Latency,
    /// Histogram of the response times.
    #[serde(skip)]
    pub response: Latency,
    /// Histogram of the schedule lag.
    #[serde(skip)]
    pub lag: Latency,
}

/// Response times, measured from two points in time.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LatencyPair {
    /// From the send of the request.
    pub service: LatencySummary,
    /// From the intended start of the request.
    pub response: LatencySummary,
}

/// A window of time.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Window {
    /// Unix seconds.
    pub begin: f64,
    /// Unix seconds.
    pub end: f64,
}

/// A log and how much of it was sent.
#[derive(Clone, Debug, Serialize)]
pub struct TraceReport {
    /// Requests that a load can send.
    pub requests: u64,
    /// Sessions of these requests.
    pub sessions: u64,
    /// Accepted lines with methods that a load cannot send.
    pub skipped: u64,
    /// Rejected lines.
    pub rejected: u64,
    /// The first rejected lines, with reasons.
    pub rejected_lines: Vec<RejectedLine>,
    /// Requests begun, the warm-up included. If the log is repeated, this can exceed the number of
    /// its requests.
    pub begun: u64,
}

/// The encoded histograms of a load.
#[derive(Clone, Debug, Serialize)]
pub struct Histograms {
    /// Version of the schema.
    pub schema: u32,
    /// Encoding of the histograms.
    pub encoding: &'static str,
    /// Unit of the values.
    pub unit: &'static str,
    /// Service times.
    pub service: String,
    /// Response times.
    pub response: String,
    pub schedule_lag: String,
}

/// The results of all threads and of the main thread.
pub(crate) struct RunResult {
    pub results: Vec<ThreadResult>,
    pub threads: u32,
    pub window_begin_ns: u64,
    pub window_begin_unix_s: f64,
    pub trace: Option<TraceReport>,
    pub server_gone_ns: Option<u64>,
    pub interrupted: bool,
}

impl Report {
    /// The report of a run. `pages` are the names of the application's pages.
    pub(crate) fn new(spec: &Spec, run: RunResult, pages: Option<Vec<String>>) -> Self {
        let end_ns = run
            .results
            .iter()
            .map(|result| result.end_ns)
            .max()
            .unwrap_or(0);
        let duration_s = end_ns.saturating_sub(run.window_begin_ns) as f64 / 1e9;
        let per_s = |count: f64| {
            if duration_s > 0.0 {
                count / duration_s
            } else {
                0.0
            }
        };
        let sum = |count: fn(&ThreadResult) -> u64| run.results.iter().map(count).sum::<u64>();
        let left = Unfinished {
            unsent: sum(|result| result.unsent),
            unfinished: sum(|result| result.unfinished),
            all_busy: run.results.iter().any(|result| result.all_busy),
            server_gone: run.server_gone_ns.is_some(),
        };
        let client_cpu_s = sum(|result| result.cpu_ns) as f64 / 1e9;
        let oldest = run
            .results
            .iter()
            .map(|result| result.oldest_unfinished_ns)
            .max();
        let conforming = conforming(spec, &run.results, duration_s);
        let pages = pages.unwrap_or_default();
        let mut counts = Counts::new(pages.len());
        run.results
            .into_iter()
            .for_each(|result| counts.merge(result.counts));
        let named = OPERATION_NAMES.into_iter().zip(counts.operations);
        Self {
            schema: SCHEMA,
            url: spec.url().to_owned(),
            workload: spec.workload().name(),
            arrivals: spec.arrivals().name(),
            arrivals_per_s: spec.arrivals().per_s(),
            speed: spec.arrivals().speed(),
            connections: spec.connections(),
            threads: run.threads,
            duration_s,
            window: Window {
                begin: run.window_begin_unix_s,
                end: run.window_begin_unix_s + duration_s,
            },
            requests: counts.requests,
            sound: counts.sound,
            requests_per_s: per_s(counts.requests as f64),
            bytes: counts.bytes,
            body_bytes: counts.body_bytes,
            content_mbps: per_s(counts.body_bytes as f64 * 8e-6),
            pages: (counts.pages.as_ref())
                .map_or_else(Vec::new, |counts| counts.report(pages, duration_s)),
            operations: named.filter(|(_, count)| *count > 0).collect(),
            latency_us: LatencyPair {
                service: counts.service.summary(),
                response: counts.response.summary(),
            },
            schedule_lag_us: counts.lag.summary(),
            unsent: left.unsent,
            unfinished: left.unfinished,
            oldest_unfinished_us: oldest.unwrap_or(0) as f64 / 1000.0,
            client_cpu_s,
            client_cpu_us_per_request: match counts.requests {
                0 => 0.0,
                requests => client_cpu_s * 1e6 / requests as f64,
            },
            connections_opened: counts.opened,
            reopened: counts.reopened,
            conforming,
            load_factor: per_s(counts.response_sum_ns as f64 / 1e9),
            server_gone_s: run.server_gone_ns.map(|gone_ns| gone_ns as f64 / 1e9),
            interrupted: run.interrupted,
            notes: notes(spec, &counts, run.trace.as_ref(), left),
            trace: run.trace,
            statuses: counts.statuses,
            errors: counts.errors.counts(),
            error_examples: counts.errors.examples(),
            service: counts.service,
            response: counts.response,
            lag: counts.lag,
        }
    }

    /// The reason why the run has failed; `None` if it has not.
    pub fn failure(&self) -> Option<String> {
        if let Some(gone_s) = self.server_gone_s {
            return Some(format!(
                "{}: the server was gone {gone_s:.1} s after the start: it refuses connections",
                self.url
            ));
        }
        if self.is_no_result() {
            return Some(format!(
                "{}: {} of {} answers are wrong, more than one in a thousand: the run is not a result",
                self.url,
                self.wrong(),
                self.pages.iter().map(|page| page.requests).sum::<u64>()
            ));
        }
        if self.interrupted || self.sound > 0 {
            return None;
        }
        if !self.errors.is_empty() {
            return Some(format!(
                "{}: every request failed: {}",
                self.url,
                self.describe_errors()
            ));
        }
        (self.unfinished > 0).then(|| {
            format!(
                "{}: no response in {:.1} s to {} requests",
                self.url, self.duration_s, self.unfinished
            )
        })
    }

    /// Wrong answers of an application.
    fn wrong(&self) -> u64 {
        self.pages.iter().map(|page| page.wrong).sum()
    }

    /// Whether more than one in a thousand answers of an application is wrong.
    pub fn is_no_result(&self) -> bool {
        let requests: u64 = self.pages.iter().map(|page| page.requests).sum();
        self.wrong() as f64 > WRONG_ALLOWED * requests as f64
    }

    /// The errors with their counts and first examples.
    fn describe_errors(&self) -> String {
        let kinds = self.errors.iter().map(|(kind, count)| {
            let first = self
                .error_examples
                .get(kind)
                .and_then(|texts| texts.first());
            match first {
                Some(text) => format!("{count} {kind} ({text})"),
                None => format!("{count} {kind}"),
            }
        });
        kinds.collect::<Vec<_>>().join(", ")
    }

    /// The encoded histograms.
    ///
    /// # Errors
    /// The encoder failed.
    pub fn histograms(&self) -> Result<Histograms, LoadError> {
        Ok(Histograms {
            schema: SCHEMA,
            encoding: "HdrHistogram V2 compressed, base64",
            unit: "nanoseconds",
            service: self.service.encode()?,
            response: self.response.encode()?,
            schedule_lag: self.lag.encode()?,
        })
    }
}

/// Number of connections that reached their line speed; `None` without a line speed.
fn conforming(spec: &Spec, results: &[ThreadResult], duration_s: f64) -> Option<u32> {
    let speed_bps = spec.line_speed_bps()? as f64;
    let connections = results.iter().flat_map(|result| &result.connections);
    let conform = connections.filter(|window| {
        let bps = window.bytes as f64 * 8.0 / duration_s;
        let ended = (window.requests + window.errors).max(1) as f64;
        bps >= CONFORMING_SPEED_SHARE * speed_bps
            && (window.errors as f64) < CONFORMING_ERROR_SHARE * ended
    });
    Some(conform.count() as u32)
}
