//! The report of `load media`, in total and by stream.

use std::collections::BTreeMap;
use std::fmt;

use hdrhistogram::Histogram;
use perpacket_linux::clock::process_cpu_ns;
use serde::Serialize;

use super::player::{Client, Outcome};
use super::{Distribution, Spec, Transport};
use crate::percentiles::Percentiles;

/// Statistics over streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 99 %.
    pub p99: f64,
    /// Highest.
    pub max: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let rank = (values.len() as f64 * share).ceil() as usize;
            values.get(rank.max(1) - 1).copied().unwrap_or(0.0)
        };
        Self {
            // The sum of no values is -0. Adding 0 makes it 0.
            mean: (values.iter().sum::<f64>() + 0.0) / values.len().max(1) as f64,
            p50: at(0.5),
            p99: at(0.99),
            max: at(1.0),
        }
    }
}

/// A client's stream in the measured window.
#[derive(Clone, Debug, Serialize)]
pub struct StreamReport {
    /// URL of the medium.
    pub url: String,
    /// `played`, `refused`, `timed out` or `failed`.
    pub outcome: &'static str,
    /// The reason why the client did not play.
    pub reason: Option<String>,
    /// Payload bits a second.
    pub throughput_bps: f64,
    /// Packets received, without duplicates.
    pub packets: u64,
    /// Packets lost (RFC 3550, A.3).
    pub lost: u64,
    /// Packets received after a packet with a higher number.
    pub reordered: u64,
    /// Packets received more than once.
    pub duplicates: u64,
    /// Interarrival jitter at the end, in microseconds (RFC 3550, A.8).
    pub jitter_us: f64,
    /// Mean difference of consecutive inter-arrival times, in microseconds.
    pub mean_gap_difference_us: Option<f64>,
    /// Lateness in microseconds. It is computed from the arrival of the first packet and the
    /// timestamps.
    pub lateness_us: Percentiles,
    /// Time from the connection to the first packet in milliseconds.
    pub start_up_ms: Option<f64>,
    /// Packets that differ from the synthesized stream.
    pub content_errors: u64,
}

/// A reason why clients did not play, with an example.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reason {
    /// `refused`, `timed out` or `failed`.
    pub outcome: &'static str,
    /// The status and the server's explanation, or the failure.
    pub reason: String,
    pub clients: usize,
    /// URL of the first of these clients.
    pub example: String,
}

impl fmt::Display for Reason {
    fn fmt(&self, form: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (clients, outcome) = (self.clients, self.outcome);
        write!(form, "{clients} {outcome}")?;
        if !self.reason.is_empty() {
            write!(form, ", {}", self.reason)?;
        }
        write!(form, "; the first of them: {}", self.example)
    }
}

/// The report of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of this format.
    pub schema: u32,
    pub clients: usize,
    /// The media that clients play.
    pub distribution: Distribution,
    /// The lower transport of RTP.
    pub transport: Transport,
    /// Seconds of the measured window.
    pub window_s: f64,
    /// A signal ended the run early.
    pub interrupted: bool,
    /// Clients that received packets.
    pub played: usize,
    /// Refused clients by status.
    pub refused: BTreeMap<u16, usize>,
    /// Clients that received no response or no packet in time.
    pub timed_out: usize,
    /// Clients whose connection failed.
    pub failed: usize,
    /// Number of failures by reason.
    pub failures: BTreeMap<String, usize>,
    /// All reasons why clients did not play, the most frequent first.
    pub reasons: Vec<Reason>,
    /// Packets received, without duplicates.
    pub packets: u64,
    /// Payload bytes in these packets.
    pub bytes: u64,
    /// Payload bits a second of all streams.
    pub throughput_bps: f64,
    /// Packets lost.
    pub lost: u64,
    /// Packets received after a packet with a higher number.
    pub reordered: u64,
    /// Packets received more than once.
    pub duplicates: u64,
    /// Datagrams that are not RTP or have another source.
    pub strangers: u64,
    /// Whether every byte was compared.
    pub checked: bool,
    /// Packets compared since the start, with the warm-up.
    pub packets_checked: u64,
    /// Packets that differ from the synthesized stream, since the start.
    pub content_errors: u64,
    /// Lateness in microseconds.
    pub lateness_us: Percentiles,
    /// Interarrival jitter of the streams, in microseconds.
    pub jitter_us: Spread,
    /// Mean difference of consecutive inter-arrival times of the streams, in microseconds.
    pub mean_gap_difference_us: Spread,
    /// Time from the connection to the first packet in milliseconds.
    pub start_up_ms: Spread,
    /// CPU time of this program in seconds.
    pub cpu_s: f64,
    pub streams: Vec<StreamReport>,
}

impl Report {
    pub(super) fn new(
        spec: &Spec,
        clients: &[Client],
        lateness: &Histogram<u64>,
        window_s: f64,
        interrupted: bool,
    ) -> Self {
        let lateness_us = Percentiles::of(lateness, 1.0);
        let streams: Vec<StreamReport> = clients
            .iter()
            .map(|client| stream(client, window_s, lateness_us.max))
            .collect();
        let (mut refused, mut failures) = (BTreeMap::new(), BTreeMap::new());
        for client in clients {
            match client.outcome() {
                Outcome::Refused { code, .. } => *refused.entry(code).or_insert(0) += 1,
                Outcome::Failed(reason) => *failures.entry(reason).or_insert(0) += 1,
                Outcome::Played | Outcome::TimedOut => {}
            }
        }
        let number = |outcome: &str| {
            let same = streams.iter().filter(|stream| stream.outcome == outcome);
            same.count()
        };
        let sum = |of: fn(&StreamReport) -> u64| streams.iter().map(of).sum::<u64>();
        let played = || streams.iter().filter(|stream| stream.packets > 1);
        let bytes = clients
            .iter()
            .map(|client| client.received.bytes)
            .sum::<u64>();
        Self {
            schema: 1,
            clients: clients.len(),
            distribution: spec.distribution,
            transport: spec.transport,
            window_s,
            interrupted,
            played: number("played"),
            refused,
            timed_out: number("timed out"),
            failed: number("failed"),
            failures,
            reasons: reasons(&streams),
            packets: sum(|stream| stream.packets),
            bytes,
            throughput_bps: bytes as f64 * 8.0 / window_s.max(1e-9),
            lost: sum(|stream| stream.lost),
            reordered: sum(|stream| stream.reordered),
            duplicates: sum(|stream| stream.duplicates),
            strangers: clients.iter().map(|client| client.received.strangers).sum(),
            checked: spec.check,
            packets_checked: clients.iter().map(|client| client.received.checked).sum(),
            content_errors: sum(|stream| stream.content_errors),
            lateness_us,
            jitter_us: Spread::of(played().map(|stream| stream.jitter_us).collect()),
            mean_gap_difference_us: Spread::of(
                played()
                    .filter_map(|stream| stream.mean_gap_difference_us)
                    .collect(),
            ),
            start_up_ms: Spread::of(
                streams
                    .iter()
                    .filter_map(|stream| stream.start_up_ms)
                    .collect(),
            ),
            cpu_s: process_cpu_ns() as f64 / 1e9,
            streams,
        }
    }
}

/// All reasons, each once. The most frequent come first; ties are in the order of the clients.
fn reasons(streams: &[StreamReport]) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = Vec::new();
    for stream in streams.iter().filter(|stream| stream.outcome != "played") {
        let reason = stream.reason.as_deref().unwrap_or_default();
        let same = |known: &&mut Reason| known.outcome == stream.outcome && known.reason == reason;
        match reasons.iter_mut().find(same) {
            Some(known) => known.clients += 1,
            None => reasons.push(Reason {
                outcome: stream.outcome,
                reason: reason.to_owned(),
                clients: 1,
                example: stream.url.clone(),
            }),
        }
    }
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.clients));
    reasons
}

/// The report of a client's stream. `latest_us` is the highest lateness of the run.
fn stream(client: &Client, window_s: f64, latest_us: f64) -> StreamReport {
    let received = &client.received;
    let counts = received.counts();
    let tick_us = 1e6 / f64::from(received.clock_hz);
    let (outcome, reason) = match client.outcome() {
        Outcome::Played => ("played", None),
        Outcome::Refused { code, explanation } => (
            "refused",
            Some(format!("status {code} {explanation}").trim_end().to_owned()),
        ),
        Outcome::TimedOut => ("timed out", None),
        Outcome::Failed(reason) => ("failed", Some(reason)),
    };
    let mean = received.reception.mean_gap_difference_ticks();
    StreamReport {
        url: client.url.clone(),
        outcome,
        reason,
        throughput_bps: received.bytes as f64 * 8.0 / window_s.max(1e-9),
        packets: counts.packets,
        lost: counts.lost,
        reordered: counts.reordered,
        duplicates: counts.duplicates,
        jitter_us: received.reception.jitter_ticks() * tick_us,
        mean_gap_difference_us: mean.map(|ticks| ticks * tick_us),
        lateness_us: Percentiles::of(&received.lateness, 1.0).at_most(latest_us),
        start_up_ms: client.start_up_ns().map(|time_ns| time_ns as f64 / 1e6),
        content_errors: received.content_errors,
    }
}
