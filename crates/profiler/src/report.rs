//! A profile as one result that can be written as JSON.
//!
//! Shares are of busy processor time: the idle loop is told apart. Where there are counters, shares
//! are of cycles and each event is divided by the packets of its own pass; where there are none,
//! everything is time and no field speaks of cycles.

use std::collections::BTreeMap;

use perpacket_cost::{Category, EventKind, HostStack, Kind, Layer, Region};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::breakdown::{modules, processes, top_leaves};
use crate::count::{Drops, Interface, TICKS_PER_S};
use crate::limits;
use crate::profiler::PassResult;
use crate::statistics::share;
use crate::tally::{Collector, Sums, Tally, busy, measured_layers, of_kind};

/// Nanoseconds of a second.
const SECOND_NS: f64 = 1e9;

/// The backend that samples time by a timer.
pub(crate) const CLOCK: &str = "cpu-clock";

/// The backend that reads the kernel's accounts and samples nothing.
pub(crate) const ACCOUNTS: &str = "accounts";

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
    /// Where samples come from: `cpu-clock` or `pmu`.
    pub backend: &'static str,
    /// Length of the window, over all passes.
    pub window_s: f64,
    /// The processors.
    pub cpus: Vec<u32>,
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

/// What a report needs besides the passes.
pub struct Context<'a> {
    /// Where samples come from.
    pub backend: &'static str,
    /// The processors.
    pub cpus: &'a [u32],
    /// Whether they are all that run.
    pub all_cpus: bool,
    /// Symbols, processes and stacks.
    pub collector: &'a Collector,
    /// Processor time of the profiling process over the window.
    pub own_cpu_s: f64,
    /// The server, where one was named.
    pub server_pid: Option<u32>,
    /// Exit status of the command.
    pub exit_status: Option<i32>,
    /// Passes that were to be made.
    pub planned_passes: usize,
    /// Samples a second and processor.
    pub frequency_hz: u32,
}

/// The passes with the one that shares come from.
pub(crate) struct Passes<'a> {
    pub all: &'a [PassResult],
    pub main: &'a PassResult,
}

impl<'a> Passes<'a> {
    /// Shares come from cycles where they were counted, else from time.
    fn new(all: &'a [PassResult]) -> Option<Self> {
        let of = |event| all.iter().find(|pass| pass.tally.event == event);
        let main = of(EventKind::Cycles)
            .or_else(|| of(EventKind::CpuNs))
            .or(all.first())?;
        Some(Self { all, main })
    }

    pub fn of(&self, event: EventKind) -> Option<&'a PassResult> {
        self.all.iter().find(|pass| pass.tally.event == event)
    }

    /// The cost of whatever `select` picks out of the sums.
    fn cost(&self, select: &dyn Fn(&Sums) -> f64) -> Cost {
        let slices = self.main.tally.slices.values();
        let estimate = share(slices.map(|sums| (select(sums), busy(sums))));
        Cost {
            share: estimate.value,
            low: estimate.bounds.map(|(low, _)| low),
            high: estimate.bounds.map(|(_, high)| high),
            ..self.amounts(&|tally| select(&tally.sums))
        }
    }

    /// Amounts of every event by packet and request.
    pub fn amounts(&self, amount: &dyn Fn(&Tally) -> f64) -> Cost {
        let per_packet = |event| {
            let pass = self.of(event)?;
            per(amount(&pass.tally), pass.happened.window.packets.total())
        };
        let time = self.of(EventKind::CpuNs);
        Cost {
            cpu_s: time.map(|pass| amount(&pass.tally) / SECOND_NS),
            cpu_ns_per_packet: per_packet(EventKind::CpuNs),
            cpu_ns_per_request: time
                .and_then(|pass| per(amount(&pass.tally), pass.happened.window.requests?)),
            cycles_per_packet: per_packet(EventKind::Cycles),
            instructions_per_packet: per_packet(EventKind::Instructions),
            llc_misses_per_packet: per_packet(EventKind::LlcMisses),
            ..Cost::default()
        }
    }

    fn sum(&self, count: impl Fn(&PassResult) -> u64) -> u64 {
        self.all.iter().map(count).sum()
    }
}

/// A quotient, or nothing where the divisor is nothing.
fn per(amount: f64, number: u64) -> Option<f64> {
    (number > 0).then(|| amount / number as f64)
}

/// A share of something that may be nothing.
pub(crate) fn part(amount: f64, whole: f64) -> f64 {
    if whole > 0.0 { amount / whole } else { 0.0 }
}

impl Report {
    /// Puts a report together. Without a pass it is a report of nothing.
    #[must_use]
    pub fn new(context: &Context<'_>, results: &[PassResult]) -> Self {
        let nothing = PassResult::nothing();
        let passes = Passes::new(results).unwrap_or(Passes {
            all: std::slice::from_ref(&nothing),
            main: &nothing,
        });
        let main = &passes.main.tally;
        let window = &passes.main.happened;
        let mut report = Self {
            schema: 1,
            backend: context.backend,
            window_s: passes
                .all
                .iter()
                .map(|pass| pass.happened.window.duration_s)
                .sum(),
            cpus: context.cpus.to_vec(),
            frequency_hz: context.frequency_hz,
            samples: passes.sum(|pass| pass.tally.samples),
            lost: passes.sum(|pass| pass.tally.lost),
            throttled: passes.sum(|pass| pass.tally.throttled),
            missing_share: missing_share(&passes, context),
            packets: packets(&passes),
            bytes: Bytes {
                sent: passes.sum(|pass| pass.happened.window.bytes.sent),
                received: passes.sum(|pass| pass.happened.window.bytes.received),
            },
            requests: passes
                .all
                .iter()
                .map(|pass| pass.happened.window.requests)
                .sum(),
            context_switches: passes.sum(|pass| pass.happened.window.context_switches),
            page_faults: passes.sum(|pass| pass.happened.window.page_faults),
            drops: passes.sum(|pass| pass.happened.window.drops),
            drops_by: window.drops,
            softirqs: window.softirqs.clone(),
            interfaces: window.interfaces.clone(),
            total: passes.cost(&busy),
            idle: idle(&passes),
            layers: layers(&passes),
            kinds: named(Kind::ALL, Kind::name, |kind| {
                passes.cost(&|sums| of_kind(sums, kind))
            }),
            layer_kinds: layer_kinds(main),
            regions: regions(&passes),
            categories: categories(&passes),
            modules: modules(&passes, context.collector),
            host_stack: host_stack(&passes),
            server: context.server_pid.map(|pid| ServerTime {
                pid,
                user: passes.cost(&|sums| sums.server_user),
            }),
            processes: processes(&passes, context.collector),
            unclaimed_share: part(main.unclaimed, main.kernel),
            unclaimed_top: top_leaves(main, context.collector, |place| !place.claimed),
            skid_share: part(main.skid, main.kernel),
            skid_top: top_leaves(main, context.collector, |place| place.skid),
            counters: counters(passes.all),
            closure: closure(&passes),
            overhead: overhead(&passes, context),
            exit_status: context.exit_status,
            limits: Vec::new(),
        };
        report.limits = limits::of(&report, context, results);
        report
    }
}

/// Share of the clock's samples that neither came nor were counted as lost.
fn missing_share(passes: &Passes<'_>, context: &Context<'_>) -> Option<f64> {
    let sampled = context.backend != ACCOUNTS;
    let time = passes.of(EventKind::CpuNs).filter(|_| sampled)?;
    let expected = time.happened.window.duration_s
        * f64::from(context.frequency_hz)
        * context.cpus.len() as f64;
    let came = time.tally.samples + time.tally.lost;
    (expected > 0.0).then(|| (1.0 - came as f64 / expected).max(0.0))
}

impl PassResult {
    fn nothing() -> Self {
        Self {
            tally: Tally::new(EventKind::CpuNs),
            happened: crate::count::Happened::default(),
            group: crate::capture::GroupCounts::default(),
        }
    }
}

fn named<K: Copy, T, const N: usize>(
    keys: [K; N],
    name: impl Fn(K) -> &'static str,
    value: impl Fn(K) -> T,
) -> Named<T> {
    Named(
        keys.into_iter()
            .map(|key| (name(key).to_owned(), value(key)))
            .collect(),
    )
}

fn packets(passes: &Passes<'_>) -> Packets {
    Packets {
        sent: passes.sum(|pass| pass.happened.window.packets.sent),
        received: passes.sum(|pass| pass.happened.window.packets.received),
        segments_sent: passes.sum(|pass| pass.happened.window.segments.sent),
        segments_received: passes.sum(|pass| pass.happened.window.segments.received),
        segments_retransmitted: passes.sum(|pass| pass.happened.retransmitted),
        datagrams_sent: passes.sum(|pass| pass.happened.datagrams.sent),
        datagrams_received: passes.sum(|pass| pass.happened.datagrams.received),
    }
}

fn layers(passes: &Passes<'_>) -> Named<Cost> {
    Named(
        measured_layers()
            .map(|layer| {
                let select = |sums: &Sums| sums.cells[layer].iter().map(|(_, &one)| one).sum();
                (layer.name().to_owned(), passes.cost(&select))
            })
            .collect(),
    )
}

/// The sum over the busy cells that `chosen` accepts.
fn cells(sums: &Sums, chosen: impl Fn(Layer, Kind) -> bool) -> f64 {
    let mut sum = 0.0;
    for (layer, kinds) in sums.cells.iter().filter(|(layer, _)| *layer != Layer::Idle) {
        for (kind, &weight) in kinds.iter() {
            if chosen(layer, kind) {
                sum += weight;
            }
        }
    }
    sum
}

fn regions(passes: &Passes<'_>) -> Named<Cost> {
    named(Region::ALL, Region::name, |region| {
        passes.cost(&|sums| cells(sums, |layer, _| layer.region() == region))
    })
}

fn host_stack(passes: &Passes<'_>) -> Named<Cost> {
    named(HostStack::ALL, HostStack::name, |category| {
        passes.cost(&|sums| cells(sums, |layer, kind| HostStack::of(layer, kind) == category))
    })
}

/// The idle category has its time and no share: shares are of busy time.
fn categories(passes: &Passes<'_>) -> Named<Cost> {
    named(Category::ALL, Category::name, |category| {
        let select = |sums: &Sums| sums.categories[category as usize];
        match category {
            Category::Idle => passes.amounts(&|tally| select(&tally.sums)),
            _ => passes.cost(&select),
        }
    })
}

fn layer_kinds(tally: &Tally) -> Named<Named<f64>> {
    let whole = tally.busy();
    let row = |layer: Layer| {
        let shares = tally.sums.cells[layer]
            .iter()
            .filter(|&(_, &weight)| weight > 0.0)
            .map(|(kind, &weight)| (kind.name().to_owned(), part(weight, whole)))
            .collect();
        (layer.name().to_owned(), Named(shares))
    };
    Named(measured_layers().map(row).collect())
}

/// Time in the idle loop as a share of all time: by samples, as they come from idle processors too.
fn idle(passes: &Passes<'_>) -> Idle {
    let Some(pass) = passes.of(EventKind::CpuNs) else {
        return Idle::default();
    };
    let sums = &pass.tally.sums;
    let idle_ns: f64 = sums.cells[Layer::Idle].iter().map(|(_, &one)| one).sum();
    Idle {
        cpu_s: idle_ns / SECOND_NS,
        share_of_time: part(idle_ns, idle_ns + pass.tally.busy()),
    }
}

/// What the groups counted; time alone is no group.
fn counters(passes: &[PassResult]) -> Vec<BTreeMap<String, u64>> {
    let counted = passes
        .iter()
        .filter(|pass| pass.tally.event != EventKind::CpuNs);
    counted
        .map(|pass| pass.group.counts.iter().cloned().collect())
        .collect()
}

fn closure(passes: &Passes<'_>) -> Option<Closure> {
    let pass = passes.of(EventKind::CpuNs)?;
    let ticks = pass.happened.ticks;
    let stat_cpu_s = ticks.busy as f64 / TICKS_PER_S;
    let profile_cpu_s = pass.tally.busy() / SECOND_NS;
    if ticks.busy == 0 {
        return None;
    }
    // A tick finds a processor busy or not: as many tosses of a coin as there were ticks.
    let all = (ticks.busy + ticks.idle).max(1) as f64;
    let busy_share = ticks.busy as f64 / all;
    let deviation = (all * busy_share * (1.0 - busy_share)).sqrt();
    Some(Closure {
        profile_cpu_s,
        stat_cpu_s,
        difference: profile_cpu_s / stat_cpu_s - 1.0,
        resolution: 2.0 * deviation / ticks.busy as f64,
    })
}

fn overhead(passes: &Passes<'_>, context: &Context<'_>) -> Overhead {
    let busy_s: f64 = passes
        .of(EventKind::CpuNs)
        .map_or(0.0, |pass| pass.tally.busy() / SECOND_NS);
    Overhead {
        profiler_cpu_s: context.own_cpu_s,
        share: part(context.own_cpu_s, busy_s),
        note: "the profiling process alone; the sampling interrupts slow down what they interrupt: \
               benches/profiler_overhead.py measures throughput with and without",
    }
}
