//! Samples and counts from the kernel, per processor and never per process: interrupt work runs on
//! top of whatever process is there, and a profile of one process would lose it.
//!
//! What comes out is a stream of [`Record`]s behind the trait [`EventSource`], so that recorded
//! samples and made-up ones go the same way as real ones.

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
    /// When, on the monotonic clock.
    pub time_ns: u64,
    /// Where.
    pub cpu: u32,
    /// The process; 0 is the idle loop's.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// How much of the event it stands for.
    pub weight: u64,
    /// Whether the processor was in user mode.
    pub user: bool,
    /// The instruction.
    pub address: u64,
    /// The kernel's call chain, leaf first; empty in user mode.
    pub chain: &'a [u64],
}

/// What an event source has to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A sample.
    Sample(Sample<'a>),
    /// Time whose layer the kernel's accounts say.
    Account {
        /// When it was read, on the monotonic clock.
        time_ns: u64,
        /// The layer; `Other` is the kernel, whatever it did.
        layer: Layer,
        /// Nanoseconds.
        weight: u64,
    },
    /// Records that did not fit the ring.
    Lost {
        /// How many.
        records: u64,
    },
    /// The kernel stopped sampling for a while, as it took too long.
    Throttled,
    /// A process began another program or renamed itself.
    Command {
        /// The process.
        pid: u32,
        /// Whether its thread is the process's first.
        leader: bool,
        /// Its name.
        name: String,
        /// Whether it began another program: what was mapped is gone.
        executed: bool,
    },
    /// A file was mapped for execution.
    Mapped {
        /// The process.
        pid: u32,
        /// First address.
        start: u64,
        /// Bytes.
        length: u64,
        /// Place in the file of the first address.
        offset: u64,
        /// The file.
        path: String,
    },
    /// A process began as a copy of another.
    Forked {
        /// The new process.
        pid: u32,
        /// The one it is a copy of.
        parent: u32,
    },
}

/// What a group of events counted on all processors between start and stop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupCounts {
    /// Event names with their counts, the sampled event first.
    pub counts: Vec<(String, u64)>,
}

/// Somewhere samples come from.
pub trait EventSource {
    /// Begins to sample and count.
    ///
    /// # Errors
    /// The kernel refuses.
    fn start(&mut self) -> Result<(), ProfileError>;

    /// Hands over what has come since the last call, in the order of time.
    ///
    /// # Errors
    /// The records cannot be read.
    fn drain(&mut self, sink: &mut dyn FnMut(&Record<'_>)) -> Result<(), ProfileError>;

    /// Ends sampling and says what the group counted. Records may be left to drain.
    ///
    /// # Errors
    /// The counters had to share the hardware, so that their values are no counts.
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
    /// The name used in reports.
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

/// Opens event sources: the kernel's, or a test's.
pub trait EventProvider {
    /// How its sources measure time.
    fn backend(&self) -> Backend;

    /// Opens the events of a pass on some processors, not yet started.
    ///
    /// # Errors
    /// The kernel forbids it or an event does not open.
    fn open(&self, pass: &Pass, cpus: &[usize]) -> Result<Box<dyn EventSource>, ProfileError>;
}
