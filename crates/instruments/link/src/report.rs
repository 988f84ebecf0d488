//! The report of a link: the frames that it carried and dropped, and the errors of its delays.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::schedule::DirectionSpec;

/// Version of the report's layout.
pub const SCHEMA: u32 = 1;

/// A frame is late if its delivery is more than this after its due time.
pub const LATE_US: f64 = 200.0;

/// The delays of a link are exact enough if the median error is at most this, and the 99th
/// percentile at most [`LATE_US`].
const EXACT_MEDIAN_US: f64 = 50.0;

/// The counts of a link since it started.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of this layout.
    pub schema: u32,
    /// Time since the link started.
    pub elapsed_s: f64,
    /// Counts from the left host to the right host.
    pub left_to_right: OneWay,
    /// From the right host to the left one.
    pub right_to_left: OneWay,
    /// CPU time of the link. The kernel begins a receiving host's work in the link's thread. This
    /// time includes that work until another CPU continues it.
    pub cpu_s: f64,
    /// The part of `cpu_s` in which the link spun, because the next frame was due too soon to
    /// sleep.
    pub spin_s: f64,
    /// Whether the link's thread had real-time priority.
    pub runs_first: bool,
    /// Whether the delays of both directions were exact enough, and no frame was dropped for lack
    /// of time or memory.
    pub kept: bool,
}

/// One direction of a link. Packets are frames on a wire; bytes include the Ethernet header.
#[derive(Clone, Debug, Serialize)]
pub struct OneWay {
    pub settings: DirectionSpec,
    /// Frames delivered.
    pub packets: u64,
    /// Bytes delivered.
    pub bytes: u64,
    /// Frames not delivered.
    pub dropped: Dropped,
    /// Time between the due time of a frame and its delivery.
    pub delay_error_us: Errors,
    /// Frames delivered more than 200 us after their time.
    pub late_packets: u64,
}

/// Frames not delivered, by reason.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Dropped {
    /// The queue before the wire was full.
    pub queue: u64,
    /// The frame was lost, as configured.
    pub loss: u64,
    /// The link could not carry the frame: the device's queue was full because the link read too
    /// late, too many frames were in flight, the frame was too long, or the receiving device
    /// refused it.
    pub not_kept: u64,
}

/// Lateness of frames after their due time. It excludes the time that a frame waits in the device
/// until the link reads it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Errors {
    /// Median, in microseconds.
    pub p50: f64,
    /// 99th percentile, in microseconds.
    pub p99: f64,
    /// Maximum, in microseconds.
    pub max: f64,
}

impl Errors {
    /// The errors of a histogram in nanoseconds; zeros if it is empty.
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        let microseconds = |time_ns: u64| time_ns as f64 / 1e3;
        Self {
            p50: microseconds(histogram.value_at_quantile(0.5)),
            p99: microseconds(histogram.value_at_quantile(0.99)),
            max: microseconds(histogram.max()),
        }
    }
}

impl OneWay {
    /// Whether the delays of the direction were exact enough, and it dropped no frame that it
    /// should have carried.
    pub(crate) fn is_kept(&self) -> bool {
        self.delay_error_us.p50 <= EXACT_MEDIAN_US
            && self.delay_error_us.p99 <= LATE_US
            && self.dropped.not_kept == 0
    }
}
