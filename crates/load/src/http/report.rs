//! What a load found, as its caller gets it and as JSON.

use std::collections::BTreeMap;

use perpacket_workload::RejectedLine;
use serde::Serialize;

use super::counts::Counts;
use super::notes::{self, Unfinished};
use super::session::OPERATION_NAMES;
use super::settings::{Arrivals, Settings};
use super::thread_result::ThreadResult;
use crate::error::LoadError;
use crate::latency::{Latency, LatencySummary};

/// Version of the JSON form.
const SCHEMA: u32 = 1;
/// A connection conforms with this share of its line's speed (SPECweb99: 320,000 of 400,000 b/s)...
const CONFORMING_SPEED_SHARE: f64 = 0.8;
/// ...and less than this share of failed requests.
const CONFORMING_FAULT_SHARE: f64 = 0.01;

/// The measured window of a load.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of this form.
    pub schema: u32,
    /// What was asked.
    pub url: String,
    /// The workload's name.
    pub workload: &'static str,
    /// `closed`, `requests`, `sessions` or `recorded`.
    pub arrivals: &'static str,
    /// Requests or sessions that were to arrive a second, where they do.
    pub arrivals_per_s: Option<f64>,
    /// How many times as fast as the log, where its times are kept.
    pub speed: Option<f64>,
    /// Connections at a time, at most.
    pub connections: u32,
    /// Threads.
    pub threads: u32,
    /// Length of the window, in seconds.
    pub duration_s: f64,
    /// Its beginning and end, in Unix seconds.
    pub window: Window,
    /// Complete responses, of whatever status.
    pub requests: u64,
    /// Those among them with nothing to complain of.
    pub sound: u64,
    /// Responses a second.
    pub requests_per_s: f64,
    /// Bytes received, heads included.
    pub bytes: u64,
    /// Bytes of complete responses' bodies.
    pub body_bytes: u64,
    /// Megabits (10^6) of body a second.
    pub content_mbps: f64,
    /// Failed requests by kind; a response with an unexpected status counts here as well.
    pub errors: BTreeMap<&'static str, u64>,
    /// First examples of each kind.
    pub error_examples: BTreeMap<&'static str, Vec<String>>,
    /// Responses by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Responses by operation.
    pub operations: BTreeMap<&'static str, u64>,
    /// Microseconds from the send, and from the intended start, to the response's end.
    pub latency_us: LatencyPair,
    /// Microseconds by which this client took requests up late. Nothing in a closed loop.
    pub schedule_lag_us: LatencySummary,
    /// Requests (sessions, where those arrive) whose time came and that were never sent.
    pub unsent: u64,
    /// Requests under way when the window ended; no latency has them.
    pub unfinished: u64,
    /// The longest that one of them had waited since its intended start, in microseconds.
    pub oldest_unfinished_us: f64,
    /// Processor time of the client's threads, in seconds.
    pub client_cpu_s: f64,
    /// The same for one response, in microseconds.
    pub client_cpu_us_per_request: f64,
    /// Connections opened.
    pub connections_opened: u64,
    /// Requests sent once more because the server had closed a kept connection.
    pub reopened: u64,
    /// Connections that got 0.8 of their line's speed with less than 1 % of failures.
    pub conforming: Option<u32>,
    /// Mean requests under way: the sum of response times over the window (Little's law). Near the
    /// number of connections if a client without pauses is sound.
    pub load_factor: f64,
    /// What the replayed log held.
    pub trace: Option<TraceReport>,
    /// When the server was found gone, in seconds from the run's start.
    pub server_gone_s: Option<f64>,
    /// The run was ended from outside.
    pub interrupted: bool,
    /// What to know when reading these figures.
    pub notes: Vec<String>,
    /// The histograms, which [`Report::histograms`] encodes.
    #[serde(skip)]
    pub service: Option<Latency>,
    /// See above.
    #[serde(skip)]
    pub response: Option<Latency>,
    /// See above.
    #[serde(skip)]
    pub lag: Option<Latency>,
}

/// Service and response times.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LatencyPair {
    /// From sending the request.
    pub service: LatencySummary,
    /// From when the request was meant to start.
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

/// What a replayed log held.
#[derive(Clone, Debug, Serialize)]
pub struct TraceReport {
    /// Requests that can be replayed.
    pub requests: u64,
    /// Sessions they form.
    pub sessions: u64,
    /// Accepted lines with methods that are not replayed.
    pub skipped: u64,
    /// Lines that are no requests.
    pub rejected: u64,
    /// The first of them, with the reasons.
    pub rejected_lines: Vec<RejectedLine>,
    /// Requests begun, the warm-up's included: more than the log has if it was begun again.
    pub begun: u64,
}

/// The histograms of a load.
#[derive(Clone, Debug, Serialize)]
pub struct Histograms {
    /// Version of this form.
    pub schema: u32,
    /// How they are written.
    pub encoding: &'static str,
    /// Unit of their values.
    pub unit: &'static str,
    /// Service times.
    pub service: String,
    /// Response times.
    pub response: String,
    /// Schedule lag.
    pub schedule_lag: String,
}

/// What the threads found together, and the circumstances.
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
    pub(crate) fn new(settings: &Settings, found: RunResult) -> Result<Self, LoadError> {
        let end_ns = found
            .results
            .iter()
            .map(|result| result.end_ns)
            .max()
            .unwrap_or(0);
        let duration_s = end_ns.saturating_sub(found.window_begin_ns) as f64 / 1e9;
        let per_s = |count: f64| {
            if duration_s > 0.0 {
                count / duration_s
            } else {
                0.0
            }
        };
        let sum = |of: fn(&ThreadResult) -> u64| found.results.iter().map(of).sum::<u64>();
        let left = Unfinished {
            unsent: sum(|one| one.unsent),
            unfinished: sum(|one| one.unfinished),
            all_busy: found.results.iter().any(|one| one.all_busy),
            server_gone: found.server_gone_ns.is_some(),
        };
        let client_cpu_s = sum(|one| one.cpu_ns) as f64 / 1e9;
        let oldest = found
            .results
            .iter()
            .map(|one| one.oldest_unfinished_ns)
            .max();
        let conforming = conforming(settings, &found.results, duration_s);
        let mut counts = Counts::new()?;
        found
            .results
            .into_iter()
            .for_each(|result| counts.merge(result.counts));
        let named = OPERATION_NAMES.into_iter().zip(counts.operations);
        let statuses = (0u16..).zip(&counts.statuses);
        Ok(Self {
            schema: SCHEMA,
            url: settings.url.clone(),
            workload: settings.workload.name(),
            arrivals: match settings.arrivals {
                Arrivals::Closed => "closed",
                Arrivals::Requests { .. } => "requests",
                Arrivals::Sessions { .. } => "sessions",
                Arrivals::Recorded { .. } => "recorded",
            },
            arrivals_per_s: match settings.arrivals {
                Arrivals::Requests { per_s, .. } | Arrivals::Sessions { per_s, .. } => Some(per_s),
                Arrivals::Closed | Arrivals::Recorded { .. } => None,
            },
            speed: match settings.arrivals {
                Arrivals::Recorded { speed } => Some(speed),
                _ => None,
            },
            connections: settings.connections,
            threads: found.threads,
            duration_s,
            window: Window {
                begin: found.window_begin_unix_s,
                end: found.window_begin_unix_s + duration_s,
            },
            requests: counts.requests,
            sound: counts.sound,
            requests_per_s: per_s(counts.requests as f64),
            bytes: counts.bytes,
            body_bytes: counts.body_bytes,
            content_mbps: per_s(counts.body_bytes as f64 * 8e-6),
            statuses: statuses
                .filter(|(_, count)| **count > 0)
                .map(|(of, count)| (of, *count))
                .collect(),
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
            server_gone_s: found.server_gone_ns.map(|gone_ns| gone_ns as f64 / 1e9),
            interrupted: found.interrupted,
            notes: notes::of(settings, &counts, found.trace.as_ref(), left),
            trace: found.trace,
            errors: counts.errors.counts(),
            error_examples: counts.errors.examples(),
            service: Some(counts.service),
            response: Some(counts.response),
            lag: Some(counts.lag),
        })
    }

    /// Why the run counts as failed, if it does.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        if let Some(gone_s) = self.server_gone_s {
            return Some(format!(
                "{}: the server was gone {gone_s:.1} s after the start: nobody answers there any more",
                self.url
            ));
        }
        if self.interrupted || self.sound > 0 {
            return None;
        }
        if !self.errors.is_empty() {
            return Some(format!(
                "{}: every request failed: {}",
                self.url,
                self.kinds()
            ));
        }
        (self.unfinished > 0).then(|| {
            format!(
                "{}: no request was answered in {:.1} s: {} were under way",
                self.url, self.duration_s, self.unfinished
            )
        })
    }

    /// Kinds of failures with their counts and first examples.
    fn kinds(&self) -> String {
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

    /// The histograms, written.
    ///
    /// # Errors
    /// The encoder failed.
    pub fn histograms(&self) -> Result<Histograms, LoadError> {
        let encode = |latency: &Option<Latency>| match latency {
            Some(latency) => latency.encode(),
            None => Ok(String::new()),
        };
        Ok(Histograms {
            schema: SCHEMA,
            encoding: "HdrHistogram V2 compressed, base64",
            unit: "nanoseconds",
            service: encode(&self.service)?,
            response: encode(&self.response)?,
            schedule_lag: encode(&self.lag)?,
        })
    }
}

/// How many connections got what their line could carry; nothing where lines have no speed.
fn conforming(settings: &Settings, results: &[ThreadResult], duration_s: f64) -> Option<u32> {
    let speed_bps = settings.line_speed_bps? as f64;
    let connections = results.iter().flat_map(|result| &result.connections);
    let conform = connections.filter(|(bytes, requests, errors)| {
        let bps = *bytes as f64 * 8.0 / duration_s;
        bps >= CONFORMING_SPEED_SHARE * speed_bps
            && (*errors as f64) < CONFORMING_FAULT_SHARE * (requests + errors).max(1) as f64
    });
    Some(conform.count() as u32)
}
