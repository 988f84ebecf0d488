//! What the server counts while it runs, and the report made of it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use perpacket_linux::usage::Usage;
use serde::Serialize;

use super::blocks::ReadCounts;
use super::lateness::{Lateness, Percentiles};
use super::{Buffering, Options};

/// Counts that every thread of the server adds to.
#[derive(Debug)]
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
    /// Nothing counted yet.
    pub(super) fn new(limit_ns: u64) -> Self {
        let zero = AtomicU64::default;
        Self {
            connections: zero(),
            connections_open: zero(),
            connections_refused: zero(),
            requests: zero(),
            malformed: zero(),
            errors: zero(),
            refused: zero(),
            sessions: zero(),
            sessions_open: zero(),
            timed_out: zero(),
            unreachable: zero(),
            playing: zero(),
            rate_bps: zero(),
            finished: zero(),
            failed: zero(),
            packets: zero(),
            bytes: zero(),
            sends: zero(),
            dropped: zero(),
            starved: zero(),
            sender_reports: zero(),
            receiver_reports: zero(),
            reported_lost: zero(),
            reported_jitter_us: zero(),
            lateness: Lateness::new(limit_ns),
        }
    }
}

/// Adds one, in a word.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// What the server did, from its start to the moment of the report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of this form.
    pub schema: u32,
    /// How media reach the sender.
    pub buffering: Buffering,
    /// Packets in a buffer of `single` and `double`.
    pub buffer_packets: u32,
    /// Emulated delay of a disk read, in milliseconds: none if 0.
    pub read_delay_ms: u64,
    /// CPUs the event loops are bound to; empty if to none.
    pub cores: Vec<usize>,
    /// Seconds since the start.
    pub uptime_s: f64,
    /// RTSP connections taken.
    pub connections: u64,
    /// Connections that are open.
    pub connections_open: u64,
    /// Connections closed at once, because there were too many.
    pub connections_refused: u64,
    /// Requests understood.
    pub requests: u64,
    /// Connections that sent something else, and were closed.
    pub malformed: u64,
    /// Answers with a status from 400 up, refusals for lack of capacity included.
    pub errors: u64,
    /// Answers 453: more sessions or rate than are admitted.
    pub refused: u64,
    /// Sessions set up.
    pub sessions: u64,
    /// Sessions that exist.
    pub sessions_open: u64,
    /// Sessions and connections nothing was heard of for too long.
    pub timed_out: u64,
    /// Sessions whose receiver's port was closed.
    pub unreachable: u64,
    /// Streams being sent.
    pub playing: u64,
    /// Their rate, in payload bits a second.
    pub rate_bps: u64,
    /// Streams that reached their end.
    pub finished: u64,
    /// Streams that ended because their file could not be read on.
    pub failed: u64,
    /// RTP packets sent.
    pub packets: u64,
    /// Payload bytes in them.
    pub bytes: u64,
    /// System calls that sent them.
    pub sends: u64,
    /// Packets that found no room in the socket.
    pub dropped: u64,
    /// How late packets left, in microseconds after they were due.
    pub lateness_us: Percentiles,
    /// Times a stream was due and its data had not come from the disk.
    pub starved: u64,
    /// Reads from files.
    pub reads: u64,
    /// Bytes read from files.
    pub read_bytes: u64,
    /// What a read took in the mean, in microseconds, an emulated delay included.
    pub read_mean_us: f64,
    /// Reads that failed.
    pub reads_failed: u64,
    /// Reports sent and received.
    pub rtcp: Rtcp,
    /// Seconds of processor time.
    pub cpu_s: f64,
    /// Page faults.
    pub page_faults: PageFaults,
    /// Context switches.
    pub context_switches: ContextSwitches,
}

/// What RTCP told.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Rtcp {
    /// Sender reports sent.
    pub sender_reports: u64,
    /// Receiver reports read.
    pub receiver_reports: u64,
    /// Packets that receivers said they lost, summed over their reports.
    pub lost: u64,
    /// Largest interarrival jitter in a report, in microseconds.
    pub max_jitter_us: u64,
}

/// Page faults of the process.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PageFaults {
    /// Served from memory.
    pub minor: u64,
    /// Served from disk.
    pub major: u64,
}

/// Context switches of the process.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ContextSwitches {
    /// A thread waited.
    pub voluntary: u64,
    /// A thread was made to wait.
    pub involuntary: u64,
}

impl Counters {
    /// The report of this moment.
    pub(super) fn report(&self, options: &Options, started: Instant, reads: &ReadCounts) -> Report {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        let usage = Usage::of_process();
        Report {
            schema: 1,
            buffering: options.buffering,
            buffer_packets: options.buffer_packets,
            read_delay_ms: options.read_delay.as_millis() as u64,
            cores: options.cores.clone(),
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
