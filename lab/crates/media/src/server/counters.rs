//! The server's counters and its report.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use perpacket_linux::usage::Usage;
use serde::Serialize;

use super::lateness::Lateness;
use super::readers::ReadCounts;
use super::{Buffering, Spec};
use crate::percentiles::Percentiles;

/// Counters that all threads of the server share.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) connections: AtomicU64,
    pub(super) connections_open: AtomicU64,
    pub(super) connections_refused: AtomicU64,
    pub(super) requests: AtomicU64,
    pub(super) malformed: AtomicU64,
    pub(super) errors: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) sessions: AtomicU64,
    pub(super) sessions_open: AtomicU64,
    pub(super) timed_out: AtomicU64,
    pub(super) unreachable: AtomicU64,
    pub(super) playing: AtomicU64,
    pub(super) rate_bps: AtomicU64,
    pub(super) finished: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) packets: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) sends: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) starved: AtomicU64,
    pub(super) sender_reports: AtomicU64,
    pub(super) receiver_reports: AtomicU64,
    pub(super) reported_lost: AtomicU64,
    pub(super) reported_jitter_us: AtomicU64,
    pub(super) lateness: Lateness,
}

impl Counters {
    /// Counters at zero. Packets later than `limit_ns` count as overload.
    pub(super) fn new(limit_ns: u64) -> Self {
        Self {
            lateness: Lateness::new(limit_ns),
            ..Self::default()
        }
    }
}

/// Adds one to a counter.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// The report of a server since its start.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of this format.
    pub schema: u32,
    /// How the server moves media from the disk to the sender.
    pub buffering: Buffering,
    /// Packets in a buffer of `single` and `double`.
    pub buffer_packets: u32,
    /// Emulated delay of a disk read in milliseconds.
    pub read_delay_ms: u64,
    /// Rate of the emulated disk in bits a second.
    pub disk_rate_bps: Option<u64>,
    /// CPUs of the event loops; empty if they are not bound.
    pub cores: Vec<usize>,
    /// Seconds since the start.
    pub uptime_s: f64,
    /// RTSP connections accepted.
    pub connections: u64,
    pub connections_open: u64,
    /// Connections closed at once because too many were open.
    pub connections_refused: u64,
    /// Well-formed requests.
    pub requests: u64,
    /// Connections closed because of malformed input.
    pub malformed: u64,
    /// Responses with a status of 400 or more, 453 included.
    pub errors: u64,
    /// Responses with status 453: too many sessions or too high a rate.
    pub refused: u64,
    /// Sessions set up.
    pub sessions: u64,
    pub sessions_open: u64,
    /// Sessions and connections that timed out.
    pub timed_out: u64,
    /// Sessions whose receiver's port was closed.
    pub unreachable: u64,
    /// Streams that play now.
    pub playing: u64,
    /// Payload rate of these streams in bits a second.
    pub rate_bps: u64,
    /// Streams sent to their end.
    pub finished: u64,
    /// Streams that ended because their file could not be read.
    pub failed: u64,
    /// RTP packets sent.
    pub packets: u64,
    /// Payload bytes in these packets.
    pub bytes: u64,
    /// System calls that sent packets.
    pub sends: u64,
    /// Packets dropped because the socket was full.
    pub dropped: u64,
    /// Lateness of packets in microseconds after they were due.
    pub lateness_us: Percentiles,
    /// Number of times that a packet was due before its data had been read.
    pub starved: u64,
    /// Reads from files.
    pub reads: u64,
    /// Bytes read from files.
    pub read_bytes: u64,
    /// Mean time of a read in microseconds, with the emulated delay.
    pub read_mean_us: f64,
    pub reads_failed: u64,
    /// RTCP reports.
    pub rtcp: Rtcp,
    /// CPU time in seconds.
    pub cpu_s: f64,
    pub page_faults: PageFaults,
    pub context_switches: ContextSwitches,
}

/// RTCP reports.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Rtcp {
    /// Sender reports sent.
    pub sender_reports: u64,
    /// Receiver reports read.
    pub receiver_reports: u64,
    /// Lost packets, as the receiver reports count them.
    pub lost: u64,
    /// Largest interarrival jitter in a report, in microseconds.
    pub max_jitter_us: u64,
}

/// Page faults of the process.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PageFaults {
    /// Faults that were resolved without disk access.
    pub minor: u64,
    /// Faults with disk access.
    pub major: u64,
}

/// Context switches of the process.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ContextSwitches {
    /// Switches because a thread waited.
    pub voluntary: u64,
    /// Switches because the scheduler preempted a thread.
    pub involuntary: u64,
}

impl Counters {
    /// The report at this time.
    pub(super) fn report(&self, spec: &Spec, started: Instant, reads: &ReadCounts) -> Report {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        let usage = Usage::of_process();
        Report {
            schema: 1,
            buffering: spec.buffering,
            buffer_packets: spec.buffer_packets(),
            read_delay_ms: spec.read_delay.0.as_millis() as u64,
            disk_rate_bps: spec.disk_rate.map(|rate| rate.0),
            cores: spec.runs_on.list().to_vec(),
            uptime_s: started.elapsed().as_secs_f64(),
            connections: read(&self.connections),
            connections_open: read(&self.connections_open),
            connections_refused: read(&self.connections_refused),
            requests: read(&self.requests),
            malformed: read(&self.malformed),
            errors: read(&self.errors),
            refused: read(&self.refused),
            sessions: read(&self.sessions),
            sessions_open: read(&self.sessions_open),
            timed_out: read(&self.timed_out),
            unreachable: read(&self.unreachable),
            playing: read(&self.playing),
            rate_bps: read(&self.rate_bps),
            finished: read(&self.finished),
            failed: read(&self.failed),
            packets: read(&self.packets),
            bytes: read(&self.bytes),
            sends: read(&self.sends),
            dropped: read(&self.dropped),
            lateness_us: self.lateness.percentiles(),
            starved: read(&self.starved),
            reads: read(&reads.reads),
            read_bytes: read(&reads.bytes),
            read_mean_us: reads.mean_ns() as f64 / 1e3,
            reads_failed: read(&reads.failed),
            rtcp: Rtcp {
                sender_reports: read(&self.sender_reports),
                receiver_reports: read(&self.receiver_reports),
                lost: read(&self.reported_lost),
                max_jitter_us: read(&self.reported_jitter_us),
            },
            cpu_s: usage.cpu_ns() as f64 / 1e9,
            page_faults: PageFaults {
                minor: usage.minor_faults,
                major: usage.major_faults,
            },
            context_switches: ContextSwitches {
                voluntary: usage.voluntary_switches,
                involuntary: usage.involuntary_switches,
            },
        }
    }
}
