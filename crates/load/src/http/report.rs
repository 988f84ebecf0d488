//! What a load found, as its caller gets it and as JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use super::fault::Fault;
use super::settings::{Arrivals, Settings, Workload};
use super::step::{OPERATION_NAMES, Operation};
use super::tally::Tally;
use super::worker::Outcome;
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
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TraceReport {
    /// Requests that can be replayed.
    pub requests: u64,
    /// Sessions they form.
    pub sessions: u64,
    /// Accepted lines with methods that are not replayed.
    pub skipped: u64,
    /// Lines that are no requests.
    pub rejected: u64,
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
pub(crate) struct Found {
    pub outcomes: Vec<Outcome>,
    pub threads: u32,
    pub window_begin_ns: u64,
    pub window_begin_unix_s: f64,
    pub trace: Option<TraceReport>,
    pub server_gone_ns: Option<u64>,
    pub interrupted: bool,
}

impl Report {
    pub(crate) fn new(settings: &Settings, found: Found) -> Result<Self, LoadError> {
        let end_ns = found
            .outcomes
            .iter()
            .map(|outcome| outcome.end_ns)
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
        let sum = |of: fn(&Outcome) -> u64| found.outcomes.iter().map(of).sum::<u64>();
        let (unsent, unfinished) = (sum(|one| one.unsent), sum(|one| one.unfinished));
        let client_cpu_s = sum(|one| one.cpu_ns) as f64 / 1e9;
        let oldest = found
            .outcomes
            .iter()
            .map(|one| one.oldest_unfinished_ns)
            .max();
        let conforming = conforming(settings, &found.outcomes, duration_s);
        let mut tally = Tally::new()?;
        found
            .outcomes
            .into_iter()
            .for_each(|outcome| tally.merge(outcome.tally));
        let named = OPERATION_NAMES.into_iter().zip(tally.operations);
        let statuses = (0u16..).zip(&tally.statuses);
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
            connections: settings.connections,
            threads: found.threads,
            duration_s,
            window: Window {
                begin: found.window_begin_unix_s,
                end: found.window_begin_unix_s + duration_s,
            },
            requests: tally.requests,
            requests_per_s: per_s(tally.requests as f64),
            bytes: tally.bytes,
            body_bytes: tally.body_bytes,
            content_mbps: per_s(tally.body_bytes as f64 * 8e-6),
            statuses: statuses
                .filter(|(_, count)| **count > 0)
                .map(|(of, count)| (of, *count))
                .collect(),
            operations: named.filter(|(_, count)| *count > 0).collect(),
            latency_us: LatencyPair {
                service: tally.service.summary(),
                response: tally.response.summary(),
            },
            schedule_lag_us: tally.lag.summary(),
            unsent,
            unfinished,
            oldest_unfinished_us: oldest.unwrap_or(0) as f64 / 1000.0,
            client_cpu_s,
            client_cpu_us_per_request: match tally.requests {
                0 => 0.0,
                requests => client_cpu_s * 1e6 / requests as f64,
            },
            connections_opened: tally.opened,
            reopened: tally.reopened,
            conforming,
            load_factor: per_s(tally.response_sum_ns as f64 / 1e9),
            trace: found.trace,
            server_gone_s: found.server_gone_ns.map(|gone_ns| gone_ns as f64 / 1e9),
            interrupted: found.interrupted,
            notes: notes(settings, &tally, unsent, unfinished),
            errors: tally.faults.counts(),
            error_examples: tally.faults.examples(),
            service: Some(tally.service),
            response: Some(tally.response),
            lag: Some(tally.lag),
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
        let first = self.error_examples.iter().next();
        match (self.requests, first, self.interrupted) {
            (0, Some((kind, texts)), false) => Some(format!(
                "{}: no request was answered: {kind}: {}",
                self.url,
                texts.first().map_or("", String::as_str)
            )),
            _ => None,
        }
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
fn conforming(settings: &Settings, outcomes: &[Outcome], duration_s: f64) -> Option<u32> {
    let speed_bps = settings.line_speed_bps? as f64;
    let connections = outcomes.iter().flat_map(|outcome| &outcome.connections);
    let conform = connections.filter(|(bytes, requests, faults)| {
        let bps = *bytes as f64 * 8.0 / duration_s;
        bps >= CONFORMING_SPEED_SHARE * speed_bps
            && (*faults as f64) < CONFORMING_FAULT_SHARE * (requests + faults).max(1) as f64
    });
    Some(conform.count() as u32)
}

/// What to know when reading the figures.
fn notes(settings: &Settings, tally: &Tally, unsent: u64, unfinished: u64) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |text: &str| notes.push(text.to_owned());
    match &settings.workload {
        Workload::SpecWeb99 { .. } => note(
            "SPECweb99: shares of dynamic operations, and the limits of conformance (320,000 b/s, 1 % of \
             failures), are from general knowledge of the benchmark",
        ),
        Workload::WebStone => {
            note("WebStone: the mix of files is from general knowledge of the benchmark")
        }
        Workload::Surge { .. } => {
            let surge = perpacket_workload::Surge::default();
            notes.push(format!(
                "Surge: draws are capped: files at {:.0} B, {} files a page, pauses at {} s, thought at \
                 {} s; {:.2} % of the files are in the tail, so that all have {} MB together",
                surge.tail_limit_bytes,
                surge.page_limit,
                surge.active_off_limit_s,
                surge.think_limit_s,
                surge.tail_share() * 100.0,
                surge.total_bytes / 1_000_000,
            ));
        }
        Workload::Trace { .. } if tally.operations[Operation::Post as usize] > 0 => {
            note("POST requests of the log were sent without a body");
        }
        _ => {}
    }
    if settings.conditional_share > 0.0 && matches!(settings.workload, Workload::SpecWeb99 { .. }) {
        notes.push("conditional requests are no part of SPECweb99".to_owned());
    }
    if unsent > 0 {
        notes.push(format!(
            "{unsent} were not sent: all {} connections were busy; allow more connections, or ask less",
            settings.connections
        ));
    }
    if unfinished > 0 && settings.arrivals.are_open() {
        notes.push(format!(
            "{unfinished} requests were under way at the end and are in no latency figure"
        ));
    }
    if tally.faults.count(Fault::NoPort) > 0 {
        notes.push("client ports ran out: name more source addresses".to_owned());
    }
    notes
}
