//! The report of a profile. Each field is in the JSON document.
//!
//! Shares are of busy CPU time, without the idle loop. With performance counters, shares are of
//! cycles, and each event is divided by the packets of its pass. Without counters, fields of cycles
//! are absent.

use std::collections::BTreeMap;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::capture::Backend;
use crate::count::{Connections, Drops, Interface, InterruptSource, Queue};

/// Named values in a fixed order. They become a JSON object.
#[derive(Clone, Debug, PartialEq)]
pub struct Named<T>(pub Vec<(String, T)>);

impl<T> Named<T> {
    /// The value with this name.
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

/// The cost of one layer, kind, region, category or module.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    /// Processor time.
    pub cpu_s: Option<f64>,
    /// Share of busy time, or of busy cycles if they were counted.
    pub share: f64,
    /// Lower bound of the share's 95 % interval. It is computed from the spread over slices of 100
    /// ms, because single samples are not independent. Absent in windows with fewer than four
    /// slices.
    pub low: Option<f64>,
    /// Upper bound of that interval.
    pub high: Option<f64>,
    /// Processor time for each packet sent or received.
    pub cpu_ns_per_packet: Option<f64>,
    /// Processor time for each request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ns_per_request: Option<f64>,
    /// Cycles for each packet, if counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycles_per_packet: Option<f64>,
    /// Instructions for each packet, if counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions_per_packet: Option<f64>,
    /// Misses of instruction fetches in the level-1 cache for each packet, if counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l1i_misses_per_packet: Option<f64>,
    /// Misses of reads in the level-1 data cache for each packet, if counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l1d_misses_per_packet: Option<f64>,
    /// Last-level cache misses for each packet, if counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llc_misses_per_packet: Option<f64>,
    /// Misses in the translation buffer of instructions for each packet, if counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub itlb_misses_per_packet: Option<f64>,
    /// Misses of reads in the translation buffer of data for each packet, if counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtlb_misses_per_packet: Option<f64>,
    /// Mispredicted branches for each packet, if counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch_misses_per_packet: Option<f64>,
}

/// The server's user code by part of the application: interpreter, database, TLS and others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parts {
    /// Each part, and `unclaimed`.
    pub costs: Named<Cost>,
    /// Share of the server's user code that no rule assigns to a part.
    pub unclaimed_share: f64,
    /// The files with most of that code.
    pub unclaimed_files: Vec<String>,
}

/// Packets, counted as frames at the interfaces and as segments and datagrams by the protocols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Packets {
    /// Frames sent by all interfaces of the namespace. A loopback frame is both sent and received.
    pub sent: u64,
    /// Frames received.
    pub received: u64,
    /// TCP segments sent, as links carry them, without retransmitted data (RFC 4022).
    pub segments_sent: u64,
    /// TCP segments received, after receive offload has merged them.
    pub segments_received: u64,
    /// Retransmitted segments.
    pub segments_retransmitted: u64,
    /// UDP datagrams sent.
    pub datagrams_sent: u64,
    /// UDP datagrams received.
    pub datagrams_received: u64,
}

/// Bytes of frames, headers included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bytes {
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
}

/// The interrupts or softirqs that announced received packets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interrupts {
    /// The source that was counted.
    pub source: InterruptSource,
    /// Number of interrupts or softirqs.
    pub count: u64,
    /// Number per second of the window.
    pub per_s: f64,
    /// Number per packet sent or received.
    pub per_packet: Option<f64>,
}

/// A function and its share of the busy kernel time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SymbolShare {
    /// Name of the leaf function, or `[unresolved]`.
    pub symbol: String,
    /// Share of the kernel's busy time.
    pub share: f64,
}

/// The idle loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Idle {
    /// Time in the idle loop.
    pub cpu_s: f64,
    /// Share of all time of the processors.
    pub share_of_time: f64,
}

/// Busy time compared with the run time of the processors.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Closure {
    /// The sum of the layers.
    pub profile_cpu_s: f64,
    /// The window less the idle and stolen time of `/proc/stat`, over all processors. Its busy
    /// columns are not used, because they count ticks.
    pub stat_cpu_s: f64,
    /// `profile_cpu_s / stat_cpu_s - 1`.
    pub difference: f64,
    /// Largest error of `stat_cpu_s`, as a share: idle times are in ticks of 10 ms.
    pub resolution: f64,
    /// Busy time according to the samples, before each processor's samples were calibrated by its
    /// run time.
    pub sampled_cpu_s: f64,
}

/// One processor: its time, its samples and its packets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Processor {
    /// Its number.
    pub cpu: usize,
    /// The window less its idle and stolen time.
    pub run_s: f64,
    /// `run_s` as a share of the window.
    pub run_share: f64,
    /// Busy time according to its samples.
    pub sampled_s: f64,
    /// The factor by which its busy samples were multiplied, so that they sum to `run_s`. Absent if
    /// it ran less than 0.1 s, or had too few samples for its run time, which then are in no sum.
    pub calibration: Option<f64>,
    /// Share of each layer in its busy samples, without zeros.
    pub layers: Named<f64>,
    /// Share of softirqs in its busy time. Absent without calibration.
    pub softirq_share: Option<f64>,
    /// Packets that it received in softirqs, loopback included.
    pub packets: u64,
    /// Its share of the packets that all processors received.
    pub packet_share: f64,
    /// Its busy time for each packet that it received. Absent without calibration.
    pub cpu_ns_per_packet: Option<f64>,
    /// How many times the softirq `NET_RX` stopped before its work was done.
    pub squeezes: u64,
    /// Packets dropped because its backlog was full.
    pub drops: u64,
}

/// A queue of a network interface, and the processor that serves it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueueLoad {
    /// The queue and its interrupts by processor.
    #[serde(flatten)]
    pub queue: Queue,
    /// Interrupts on all processors.
    pub interrupts: u64,
    /// The processor with the most of its interrupts; `null` if it had none.
    pub served_by: Option<usize>,
    /// Share of softirqs in the busy time of that processor.
    pub softirq_share: Option<f64>,
}

/// The cost of profiling.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Overhead {
    /// Processor time of the profiling process.
    pub profiler_cpu_s: f64,
    /// Its share of the busy time.
    pub share: f64,
    /// Costs that these numbers exclude.
    pub note: &'static str,
}

/// User code of the server that --pid names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServerTime {
    /// Process id of the server.
    pub pid: u32,
    /// User time of the process that was started as the server and of its descendants.
    pub user: Cost,
}

/// The work of chosen control groups.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupTime {
    /// Name of the choice: a path, a unit or a container.
    pub name: String,
    /// Work of the groups themselves: user code, system calls and page faults.
    pub own: Cost,
    /// Interrupts, softirqs and kernel threads. Call chains do not show for which group they work.
    pub shared: Cost,
}

/// A process and its processor time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcessTime {
    /// Its process id.
    pub pid: u32,
    /// Its name.
    pub command: String,
    /// Time in the process's own code.
    pub user_cpu_s: f64,
    /// Time in the kernel while the process ran, including interrupts during that time.
    pub kernel_cpu_s: f64,
}

/// The cost of every packet, layer by layer, in one window.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of this document.
    pub schema: u32,
    /// How processor time was measured.
    pub backend: Backend,
    /// Length of the window, over all passes.
    pub window_s: f64,
    /// The processors.
    pub cpus: Vec<usize>,
    /// Number of samples a second on each processor.
    pub frequency_hz: u32,
    /// Number of samples, idle ones included.
    pub samples: u64,
    /// Records lost because a ring was full.
    pub lost: u64,
    /// How many times the kernel stopped sampling.
    pub throttled: u64,
    /// Share of the expected timer samples that are missing. Some machines do not sample idle
    /// processors. Absent if time was not sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_share: Option<f64>,
    /// The machine on which `perf record` ran, such as `web1, Linux 6.1.0`. Absent in a profile of
    /// this machine. The report of a recording has only the packets that the caller counted:
    /// segments, switches, faults, softirqs and interrupts are 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_on: Option<String>,
    /// Packets.
    pub packets: Packets,
    /// Bytes.
    pub bytes: Bytes,
    /// Requests, if counted.
    pub requests: Option<u64>,
    /// TCP connections that began.
    pub connections: Connections,
    /// Context switches of the whole machine.
    pub context_switches: u64,
    /// Page faults of the whole machine.
    pub page_faults: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Dropped packets by place.
    pub drops_by: Drops,
    /// Softirqs by name on these processors.
    pub softirqs: BTreeMap<String, u64>,
    /// The interrupts or softirqs that announced received packets.
    pub interrupts: Interrupts,
    /// Counts by interface.
    pub interfaces: BTreeMap<String, Interface>,
    /// Everything except idle time.
    pub total: Cost,
    /// The idle loop of the processors.
    pub idle: Idle,
    /// Costs by layer.
    pub layers: Named<Cost>,
    /// Costs by kind of work.
    pub kinds: Named<Cost>,
    /// Shares of the busy time by layer and kind, without zeros.
    pub layer_kinds: Named<Named<f64>>,
    /// The seven regions of TR05-450.
    pub regions: Named<Cost>,
    /// The categories of *Communication Breakdown*. `idle` has a time but no share.
    pub categories: Named<Cost>,
    /// Kernel, kernel modules and files of user code.
    pub modules: Named<Cost>,
    /// The eight categories of the SIGCOMM 2021 study.
    pub host_stack: Named<Cost>,
    /// Parts of the application. They are present if --pid or a command names a server, and the
    /// profile has only one window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<Parts>,
    /// The server's user code, if --pid names a server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerTime>,
    /// The chosen control groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupTime>,
    /// The processes with the most processor time.
    pub processes: Vec<ProcessTime>,
    /// Share of the kernel's busy time that no rule claimed.
    pub unclaimed_share: f64,
    /// The leaf functions in that share.
    pub unclaimed_top: Vec<SymbolShare>,
    /// Share of the kernel's busy time whose samples landed where interrupts are enabled again.
    pub skid_share: f64,
    /// The leaf functions in that share.
    pub skid_top: Vec<SymbolShare>,
    /// Counts of each counter group; empty without counters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<BTreeMap<String, u64>>,
    /// The processors, in the order of their numbers. Empty without the kernel's times.
    pub processors: Vec<Processor>,
    /// The queues of the interfaces, in the order of their interrupts' numbers.
    pub queues: Vec<QueueLoad>,
    /// Conclusions from the numbers, such as an imbalance of the processors.
    pub findings: Vec<String>,
    /// The sum of the layers compared with the run time of the processors.
    pub closure: Option<Closure>,
    /// The cost of profiling.
    pub overhead: Overhead,
    /// Exit status of the command, if one ran and ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<i32>,
    /// Notes on the limits of the numbers.
    pub limits: Vec<String>,
}
