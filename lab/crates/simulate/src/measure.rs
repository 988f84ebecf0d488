//! Counters of a run. Most counters are reset to 0 when the warm-up ends. The balance of frames
//! covers the whole run.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::host::cost::{Cost, Costs};
use crate::host::footprint::Operation;
use crate::nic::work::WorkCounts;
use crate::time::{Span, Time};
use perpacket_cost::named;

/// Frames of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    pub sent: u64,
    pub delivered: u64,
    pub dropped: u64,
}

/// Frames of both directions since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    pub to_server: Balance,
    pub to_client: Balance,
}

named! {
    /// A queue in front of a processor.
    pub enum Queue {
        NicReceive = "nic: received frames",
        NicSecond = "nic: frames of its connections (host first)",
        NicSend = "nic: frames that the host sends",
        NicTransmit = "nic: frames that the host sends (second pass)",
        NicCommands = "nic: commands of the host",
        NicTimers = "nic: timers",
        HostKernel = "host: kernel jobs",
        HostUser = "host: jobs of the server",
    }
}

/// The jobs that have left a queue, and the time that they waited there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wait {
    pub jobs: u64,
    pub sum: Span,
    pub longest: Span,
}

/// The counters.
pub struct Measure {
    pub frames: Frames,
    pub since: Time,
    /// Host costs when the window began.
    pub costs_before: Costs,
    /// The NIC's work when the window began.
    pub nic_work_before: WorkCounts,
    pub packets: u64,
    pub nic_packets: u64,
    pub responses: u64,
    pub content_bytes: u64,
    pub established: u64,
    pub handed_off: u64,
    pub drops: u64,
    pub retransmissions: u64,
    pub timeouts: u64,
    pub nic_busy: Span,
    /// Messages from the NIC to the host, and additions to messages that were still unread.
    pub messages: u64,
    pub merged: u64,
    /// Integral over time of the number of connections on the NIC.
    on_nic_ps: u128,
    /// The time up to which the integral is computed, and the number since then.
    on_nic_last: (Time, u32),
    waits: [Wait; Queue::ALL.len()],
    send_delay_ns: Histogram<u64>,
    receive_delay_ns: Histogram<u64>,
    response_ns: Histogram<u64>,
}

/// Three significant digits up to a day.
fn histogram() -> Histogram<u64> {
    const DAY_NS: u64 = 86_400_000_000_000;
    // The bounds are constants that the library accepts, so this cannot fail.
    Histogram::new_with_bounds(1, DAY_NS, 3).unwrap_or_else(|_| unreachable!("constant bounds"))
}

/// The mean and percentiles of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Statistics {
    pub mean: f64,
    pub median: f64,
    pub p99: f64,
}

impl Statistics {
    /// Those of a histogram of nanoseconds, in another unit. `None` without samples.
    fn of(histogram: &Histogram<u64>, unit_ns: f64) -> Option<Self> {
        (!histogram.is_empty()).then(|| Self {
            mean: histogram.mean() / unit_ns,
            median: histogram.value_at_quantile(0.5) as f64 / unit_ns,
            p99: histogram.value_at_quantile(0.99) as f64 / unit_ns,
        })
    }
}

impl Measure {
    /// Counters at zero at time zero.
    pub fn new() -> Self {
        Self {
            frames: Frames::default(),
            since: Time::ZERO,
            costs_before: [Cost::default(); Operation::ALL.len()],
            nic_work_before: WorkCounts::default(),
            waits: [Wait::default(); Queue::ALL.len()],
            packets: 0,
            nic_packets: 0,
            responses: 0,
            content_bytes: 0,
            established: 0,
            handed_off: 0,
            drops: 0,
            retransmissions: 0,
            timeouts: 0,
            nic_busy: Span::ZERO,
            messages: 0,
            merged: 0,
            on_nic_ps: 0,
            on_nic_last: (Time::ZERO, 0),
            send_delay_ns: histogram(),
            receive_delay_ns: histogram(),
            response_ns: histogram(),
        }
    }

    /// The warm-up has ended: all counters but the frames' balance start again at 0.
    pub fn begin_window(&mut self, now: Time, costs: &Costs, nic_work: &WorkCounts) {
        *self = Self {
            frames: self.frames,
            since: now,
            costs_before: *costs,
            nic_work_before: *nic_work,
            on_nic_last: (now, self.on_nic_last.1),
            ..Self::new()
        };
    }

    /// A job that waited in `queue` begins.
    #[inline]
    pub fn waited(&mut self, queue: Queue, span: Span) {
        let wait = &mut self.waits[queue as usize];
        wait.jobs += 1;
        wait.sum += span;
        wait.longest = wait.longest.max(span);
    }

    pub const fn wait(&self, queue: Queue) -> Wait {
        self.waits[queue as usize]
    }

    /// A frame to the server was dropped.
    pub const fn dropped_to_server(&mut self) {
        self.drops += 1;
        self.frames.to_server.dropped += 1;
    }

    /// A frame to a client was dropped.
    pub const fn dropped_to_client(&mut self) {
        self.drops += 1;
        self.frames.to_client.dropped += 1;
    }

    /// A response has been received completely.
    pub fn response(&mut self, time: Span) {
        self.responses += 1;
        self.response_ns.saturating_record(time.as_ns());
    }

    /// A host packet has crossed the NIC towards the wire.
    pub fn send_delay(&mut self, delay: Span) {
        self.send_delay_ns.saturating_record(delay.as_ns());
    }

    /// A host packet has crossed the NIC towards the host.
    pub fn receive_delay(&mut self, delay: Span) {
        self.receive_delay_ns.saturating_record(delay.as_ns());
    }

    pub fn on_nic(&mut self, now: Time, connections: u32) {
        let (last, count) = self.on_nic_last;
        self.on_nic_ps += u128::from(now.since(last).0) * u128::from(count);
        self.on_nic_last = (now, connections);
    }

    /// Mean number of connections on the NIC over the window up to `now`.
    pub fn on_nic_mean(&self, now: Time) -> f64 {
        let (last, count) = self.on_nic_last;
        let integral = self.on_nic_ps + u128::from(now.since(last).0) * u128::from(count);
        integral as f64 / now.since(self.since).0.max(1) as f64
    }

    /// Delays of sent and of received packets in microseconds, and response times in milliseconds.
    pub fn statistics(&self) -> [Option<Statistics>; 3] {
        [
            Statistics::of(&self.send_delay_ns, 1e3),
            Statistics::of(&self.receive_delay_ns, 1e3),
            Statistics::of(&self.response_ns, 1e6),
        ]
    }
}
