//! The document that a profile is: every field that the JSON has.
//!
//! Shares are of busy CPU time, which excludes the idle loop. With performance counters, shares are of
//! cycles, and each event is divided by the packets of its own pass. Without counters everything is
//! time, and no field is named after cycles.

use std::collections::BTreeMap;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::capture::Backend;
use crate::count::{Drops, Interface};

/// Names with values in a fixed order, written as a JSON object.
#[derive(Clone, Debug, PartialEq)]
pub struct Named<T>(pub Vec<(String, T)>);

impl<T> Named<T> {
    /// The value of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&T> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value)
    }
}

impl<T: Serialize> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// What one layer, kind, region, category or module cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    /// Processor time.
    pub cpu_s: Option<f64>,
    /// Share of the busy time (of the busy cycles where they were counted).
    pub share: f64,
    /// Lower bound of the share's 95 % interval, from the spread over slices of 100 ms: samples are
    /// not independent, batches of them nearly are. Absent in windows of less than four slices.
    pub low: Option<f64>,
    /// Upper bound of that interval.
    pub high: Option<f64>,
    /// Processor time by packet, sent or received.
    pub cpu_ns_per_packet: Option<f64>,
    /// Processor time by request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ns_per_request: Option<f64>,
    /// Cycles by packet; only where cycles were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycles_per_packet: Option<f64>,
    /// Instructions by packet; only where they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions_per_packet: Option<f64>,
    /// Last-level cache misses by packet; only where they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llc_misses_per_packet: Option<f64>,
}

/// Packets, counted as frames at the interfaces and as segments and datagrams by the protocols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Packets {
    /// Frames sent by all interfaces of the namespace; one over loopback is sent and received.
    pub sent: u64,
    /// Frames received.
    pub received: u64,
    /// TCP segments sent, before segmentation offload, retransmissions included.
    pub segments_sent: u64,
    /// TCP segments received, before they were merged.
    pub segments_received: u64,
    /// Segments sent again.
    pub segments_retransmitted: u64,
    /// UDP datagrams sent.
    pub datagrams_sent: u64,
    /// UDP datagrams received.
    pub datagrams_received: u64,
}

/// Bytes of frames, headers included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bytes {
    /// Sent.
    pub sent: u64,
    /// Received.
    pub received: u64,
}

/// A function and its share of the busy kernel time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SymbolShare {
    /// The leaf's name, or `[unresolved]`.
    pub symbol: String,
    /// Share of the kernel's busy time.
    pub share: f64,
}

/// The idle loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Idle {
    /// Time in it.
    pub cpu_s: f64,
    /// Share of all time of the processors.
    pub share_of_time: f64,
}

/// Whether busy time agrees with `/proc/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Closure {
    /// Busy time by samples.
    pub profile_cpu_s: f64,
    /// User, nice, system, interrupt and softirq time by `/proc/stat`.
    pub stat_cpu_s: f64,
    /// The first over the second, less one.
    pub difference: f64,
    /// What `/proc/stat` can tell apart here: it counts ticks, so on partly busy processors it is an
    /// estimate itself (two standard deviations).
    pub resolution: f64,
}

/// What the profiler itself cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Overhead {
    /// Processor time of the profiling process.
    pub profiler_cpu_s: f64,
    /// Its share of the busy time.
    pub share: f64,
    /// What that leaves out.
    pub note: &'static str,
}

/// User code of the server, where one was named.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServerTime {
    /// Its process.
    pub pid: u32,
    /// User time of the processes that began from what was started as the server.
    pub user: Cost,
}

/// A process and the time it ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcessTime {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub command: String,
    /// Time in its own code.
    pub user_cpu_s: f64,
    /// Time in the kernel while it was there, interrupts on top of it included.
    pub kernel_cpu_s: f64,
}

/// What every packet cost, layer by layer, in one window.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of this document.
    pub schema: u32,
    /// Where samples come from.
    pub backend: Backend,
    /// Length of the window, over all passes.
    pub window_s: f64,
    /// The processors.
    pub cpus: Vec<usize>,
    /// Samples a second and processor.
    pub frequency_hz: u32,
    /// Samples, idle ones included.
    pub samples: u64,
    /// Records the kernel had no room for.
    pub lost: u64,
    /// Times the kernel stopped sampling.
    pub throttled: u64,
    /// Share of the clock's samples that never came: some machines sample no processor at rest.
    /// Only where time is sampled, as a clock alone says how many there should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_share: Option<f64>,
    /// Packets.
    pub packets: Packets,
    /// Bytes.
    pub bytes: Bytes,
    /// Requests, where somebody counted them.
    pub requests: Option<u64>,
    /// Switches from thread to thread, on the whole machine.
    pub context_switches: u64,
    /// Page faults, on the whole machine.
    pub page_faults: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Where they were dropped.
    pub drops_by: Drops,
    /// Softirqs by name on these processors.
    pub softirqs: BTreeMap<String, u64>,
    /// What each interface counted.
    pub interfaces: BTreeMap<String, Interface>,
    /// Everything but idle time.
    pub total: Cost,
    /// The idle loop.
    pub idle: Idle,
    /// By layer.
    pub layers: Named<Cost>,
    /// By kind of work.
    pub kinds: Named<Cost>,
    /// Shares of the busy time by layer and kind, zeros left out.
    pub layer_kinds: Named<Named<f64>>,
    /// The seven regions of TR05-450.
    pub regions: Named<Cost>,
    /// The categories of *Communication Breakdown*, idle among them without a share of busy time.
    pub categories: Named<Cost>,
    /// Kernel, kernel modules and files of user code.
    pub modules: Named<Cost>,
    /// The eight categories of the SIGCOMM 2021 study.
    pub host_stack: Named<Cost>,
    /// The server's user code, where one was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerTime>,
    /// The processes that took most.
    pub processes: Vec<ProcessTime>,
    /// Share of the kernel's busy time that no rule claimed.
    pub unclaimed_share: f64,
    /// The functions it ended in.
    pub unclaimed_top: Vec<SymbolShare>,
    /// Share of the kernel's busy time whose leaf is only where a clock lands.
    pub skid_share: f64,
    /// The functions it landed on.
    pub skid_top: Vec<SymbolShare>,
    /// Counts of the counter groups, where there were counters, the sampled event of each first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<BTreeMap<String, u64>>,
    /// Whether the sum agrees with what the kernel says.
    pub closure: Option<Closure>,
    /// What measuring cost.
    pub overhead: Overhead,
    /// Exit status of the command, where there was one and it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<i32>,
    /// What has to be known to read this.
    pub limits: Vec<String>,
}
