//! Samples and counts of whole processors. An interrupt may run on top of any process, so a profile
//! of a single process would lose that work.
//!
//! The trait [`EventSource`] yields [`Record`]s, so that a test can replay recorded samples.

pub mod accounts;
pub mod events;
pub mod perf;
pub mod record;
pub mod ring;

use std::fmt;

use perpacket_cost::Layer;
use serde::Serialize;

use crate::capture::events::Pass;
use crate::error::ProfileError;

/// One sample of one processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// Time of the sample on the monotonic clock.
    pub time_ns: u64,
    /// The processor.
    pub cpu: u32,
    /// The process; 0 is the idle loop.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Amount of the event that the sample represents.
    pub weight: u64,
    /// The number of the control group; `None` on kernels that do not report it.
    pub cgroup: Option<u64>,
    /// Whether the processor was in user mode.
    pub user: bool,
    /// Address of the instruction.
    pub address: u64,
    /// The kernel's call chain, leaf first; empty in user mode.
    pub chain: &'a [u64],
}

/// A record that an event source returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A sample.
    Sample(Sample<'a>),
    /// Time that the kernel's accounts assign to a layer.
    Account {
        /// Time of the read on the monotonic clock.
        time_ns: u64,
        /// The layer. `Other` is all kernel time outside interrupts.
        layer: Layer,
        /// The time, in nanoseconds.
        weight: u64,
    },
    /// Records were lost because the ring was full.
    Lost {
        /// Number of lost records.
        records: u64,
    },
    /// The kernel paused sampling because it took too long.
    Throttled,
    /// A process executed a program or changed its name.
    Command {
        /// The process.
        pid: u32,
        /// Whether the thread is the first thread of the process.
        leader: bool,
        /// The new name.
        name: String,
        /// Whether the process executed a program. This removes all its maps.
        executed: bool,
    },
    /// A file was mapped for execution.
    Mapped {
        /// The process.
        pid: u32,
        /// First address of the map.
        start: u64,
        /// Length of the map in bytes.
        length: u64,
        /// Offset of the first address in the file.
        offset: u64,
        /// The file.
        path: String,
    },
    /// A control group was created.
    ControlGroup {
        /// Its number.
        number: u64,
        /// Its path.
        path: String,
    },
    /// A process was forked.
    Forked {
        /// The new process.
        pid: u32,
        /// Its parent.
        parent: u32,
    },
}

/// The counts of a group of events on all processors, between start and stop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupCounts {
    /// Event names with their counts, the sampled event first.
    pub counts: Vec<(String, u64)>,
}

/// A source of samples.
pub trait EventSource {
    /// Starts sampling, and counts from zero. It can be called again after `stop` and a last
    /// `drain`.
    ///
    /// # Errors
    /// The kernel refuses to start the events.
    fn start(&mut self) -> Result<(), ProfileError>;

    /// Passes the records since the last call to `sink`, in the order of time.
    ///
    /// # Errors
    /// The records cannot be read.
    fn drain(&mut self, sink: &mut dyn FnMut(&Record<'_>)) -> Result<(), ProfileError>;

    /// Ends sampling and returns the group's counts. The next `drain` may still return records.
    ///
    /// # Errors
    /// The counters shared the hardware, so their values are not exact counts.
    fn stop(&mut self) -> Result<GroupCounts, ProfileError>;
}

/// How processor time is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// Samples of performance counters.
    Pmu,
    /// Samples of a timer.
    CpuClock,
    /// The kernel's accounts, without samples.
    Accounts,
}

impl Backend {
    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pmu => "pmu",
            Self::CpuClock => "cpu-clock",
            Self::Accounts => "accounts",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Opens event sources. The provider is the kernel or a test.
pub trait EventProvider {
    /// The way in which these sources measure time.
    fn backend(&self) -> Backend;

    /// Opens the events of a pass on some processors. The events are not started.
    ///
    /// # Errors
    /// The kernel forbids this, or an event cannot be opened.
    fn open(&self, pass: &Pass, cpus: &[usize]) -> Result<Box<dyn EventSource>, ProfileError>;
}
