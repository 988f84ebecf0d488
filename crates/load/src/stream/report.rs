//! What a bulk load found.

use std::collections::BTreeMap;

use serde::Serialize;

/// Version of the JSON form.
pub(crate) const SCHEMA: u32 = 1;

/// The measured window of a bulk load.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of this form.
    pub schema: u32,
    /// Connections asked for.
    pub connections: u32,
    /// `send` or `receive`, as seen from here.
    pub direction: &'static str,
    /// Payload bytes of a segment, as asked for.
    pub segment_bytes: u32,
    /// Payload bytes of a full segment, as the kernel has them (median over connections).
    pub kernel_segment_bytes: u32,
    /// Bits a second asked for on all connections together; nothing if unlimited.
    pub rate_bps: Option<f64>,
    /// Longest time over which a sender with a rate gathers segments to send together, in
    /// microseconds.
    pub burst_us: f64,
    /// Threads.
    pub threads: u32,
    /// Length of the window, in seconds.
    pub duration_s: f64,
    /// Bytes that arrived: acknowledged (sending) or read (receiving).
    pub bytes: u64,
    /// Bits of them a second.
    pub goodput_bps: f64,
    /// Data segments, those sent again included.
    pub segments: u64,
    /// Segments this machine sent again; a receiver cannot know the far end's.
    pub retransmissions: u64,
    /// Smoothed round-trip times, sampled every 100 ms, in microseconds.
    pub rtt_us: RoundTrip,
    /// Processor time of the threads, in seconds.
    pub cpu_s: f64,
    /// The same for one data segment, in microseconds.
    pub cpu_us_per_segment: f64,
    /// Congestion control in force.
    pub congestion_control: String,
    /// Broken connections by kind.
    pub errors: BTreeMap<&'static str, u64>,
    /// Connections still open at the end.
    pub connections_open: u64,
    /// The run was ended from outside.
    pub interrupted: bool,
    /// What to know when reading these figures.
    pub notes: Vec<String>,
}

impl Report {
    /// Why the run counts as failed, if it does.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let broken: u64 = self.errors.values().sum();
        (self.connections_open == 0 && broken > 0).then(|| {
            let kinds = self.errors.keys().copied().collect::<Vec<_>>().join(", ");
            format!("all {broken} connections broke ({kinds}): is the far end gone?")
        })
    }
}

/// Round-trip times in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct RoundTrip {
    /// Half are at most this.
    pub p50: f64,
    /// 99 %.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

/// What a far end did.
#[derive(Clone, Debug, Serialize)]
pub struct FarEndReport {
    /// Version of this form.
    pub schema: u32,
    /// Where it listened.
    pub listened: String,
    /// Connections it had.
    pub connections: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Bytes handed to the kernel to be sent.
    pub bytes_sent: u64,
    /// From its start, in seconds.
    pub duration_s: f64,
    /// Processor time of its threads, in seconds.
    pub cpu_s: f64,
    /// Broken connections by kind.
    pub errors: BTreeMap<&'static str, u64>,
}
