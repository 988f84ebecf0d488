//! The reports of both ends of a bulk load.

use std::collections::BTreeMap;

use serde::Serialize;

/// Version of the JSON form.
pub(crate) const SCHEMA: u32 = 1;

/// The report of the measured window.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of the schema.
    pub schema: u32,
    pub connections: u32,
    /// `send` or `receive`, as seen from this machine.
    pub direction: &'static str,
    /// Requested payload bytes of a segment.
    pub segment_bytes: u32,
    /// Payload bytes of a full segment in the kernel (median over connections).
    pub kernel_segment_bytes: u32,
    /// Requested bits per second on all connections together; `None` is unlimited.
    pub rate_bps: Option<f64>,
    /// Longest time, in microseconds, over which a sender with a rate collects segments that it sends
    /// together.
    pub burst_us: f64,
    pub threads: u32,
    /// Length of the window, in seconds.
    pub duration_s: f64,
    /// Bytes delivered: acknowledged (sending) or read (receiving).
    pub bytes: u64,
    /// Bits delivered per second.
    pub goodput_bps: f64,
    /// Data segments, retransmissions included.
    pub segments: u64,
    /// Segments that this machine retransmitted. A receiver does not know the retransmissions of
    /// the far end.
    pub retransmissions: u64,
    /// Smoothed round-trip times, sampled every 100 ms, in microseconds.
    pub rtt_us: RoundTrip,
    /// CPU time of the threads, in seconds.
    pub cpu_s: f64,
    /// CPU time per data segment, in microseconds.
    pub cpu_us_per_segment: f64,
    /// Congestion control in use.
    pub congestion_control: String,
    /// Broken connections by kind.
    pub errors: BTreeMap<&'static str, u64>,
    /// Connections open at the end.
    pub connections_open: u64,
    /// Whether a signal ended the run.
    pub interrupted: bool,
    /// Notes for the reader of the results.
    pub notes: Vec<String>,
}

impl Report {
    /// The reason why the run has failed; `None` if it has not.
    pub fn failure(&self) -> Option<String> {
        let broken: u64 = self.errors.values().sum();
        (self.connections_open == 0 && broken > 0).then(|| {
            let kinds = self.errors.keys().copied().collect::<Vec<_>>().join(", ");
            format!("all {broken} connections broke ({kinds}): the far end may be gone")
        })
    }
}

/// Round-trip times in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct RoundTrip {
    /// Half of the times are at most this.
    pub p50: f64,
    /// 99 %.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct FarEndReport {
    /// Version of the schema.
    pub schema: u32,
    /// Address of the listener.
    pub listened: String,
    /// Connections accepted.
    pub connections: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Bytes that the kernel accepted for sending.
    pub bytes_sent: u64,
    /// Seconds since the start.
    pub duration_s: f64,
    /// CPU time of the threads, in seconds.
    pub cpu_s: f64,
    /// Broken connections by kind.
    pub errors: BTreeMap<&'static str, u64>,
}
