//! What a link carried, what it dropped, and what it could not keep.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Version of the report's layout.
pub const SCHEMA: u32 = 1;

/// A frame delivered later than this after its time counts as late, in microseconds.
pub const LATE_US: f64 = 200.0;

/// A link has kept its delays if half of the frames came within this of their time, in
/// microseconds, and 99 of 100 within [`LATE_US`].
pub const KEPT_MEDIAN_US: f64 = 50.0;

/// What a link did since it was set up.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of this layout.
    pub schema: u32,
    /// Time since the link was set up.
    pub elapsed_s: f64,
    /// What went from the left host to the right one.
    pub left_to_right: OneWay,
    /// What went from the right host to the left one.
    pub right_to_left: OneWay,
    /// Processor time the link used. What the kernel does for a receiving host before the frame is
    /// handed to another processor is in it.
    pub cpu_s: f64,
    /// The part of it spent waiting for a time too near to sleep.
    pub spin_s: f64,
    /// Whether the link's thread ran before all that are scheduled in the usual way.
    pub runs_first: bool,
    /// Whether both ways kept their delays and no frame was dropped for want of time or memory.
    pub kept: bool,
}

/// One way of a link. Packets are wire frames; bytes include the Ethernet header.
#[derive(Clone, Debug, Serialize)]
pub struct OneWay {
    /// What the link was asked to do.
    pub settings: crate::direction::Settings,
    /// Frames delivered.
    pub packets: u64,
    /// Bytes delivered.
    pub bytes: u64,
    /// Frames not delivered.
    pub dropped: Dropped,
    /// Delivery after the intended time.
    pub delay_error_us: Errors,
    /// Frames delivered more than 200 us after their time.
    pub late_packets: u64,
}

/// Frames not delivered, by reason.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Dropped {
    /// They found the queue before the wire full.
    pub queue: u64,
    /// They were lost as asked for.
    pub loss: u64,
    /// The link could not take or deliver them: the device's queue was full because it was not
    /// read in time, too many frames were on the way, or the receiving device refused them.
    pub not_kept: u64,
}

/// How late frames were, in microseconds, from the time the link read them: what a frame waited to
/// be read is not in it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Errors {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

impl Errors {
    /// The errors of a histogram in nanoseconds; zeros if it is empty.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let microseconds = |time_ns: u64| time_ns as f64 / 1e3;
        Self {
            p50: microseconds(histogram.value_at_quantile(0.5)),
            p99: microseconds(histogram.value_at_quantile(0.99)),
            max: microseconds(histogram.max()),
        }
    }
}

impl OneWay {
    /// Whether the delays were kept and nothing was dropped that should not have been.
    pub fn kept(&self) -> bool {
        self.delay_error_us.p50 <= KEPT_MEDIAN_US
            && self.delay_error_us.p99 <= LATE_US
            && self.dropped.not_kept == 0
    }
}
