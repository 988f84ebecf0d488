//! Computes the report from the passes.

use std::collections::BTreeMap;

use perpacket_cost::{Category, EventKind, HostStack, Kind, Layer, Region};

use crate::breakdown::{modules, parts, processes, top_leaves};
use crate::by_cpu::{closure, imbalance, processors, queues};
use crate::capture::Backend;
use crate::count::Connections;
use crate::limits;
use crate::passes::{Context, PassResult, Passes, part, per};
use crate::report::{
    Bytes, Cost, GroupTime, Idle, Interrupts, Named, Overhead, Packets, Report, ServerTime,
};
use crate::sums::{Sums, busy, measured_layers, of_kind};
use crate::tally::Tally;

/// Computes a report. If there is no pass, all its numbers are zero.
#[must_use]
pub fn report(context: &Context<'_>, results: &[PassResult]) -> Report {
    let empty = PassResult::empty();
    let passes = Passes::new(results).unwrap_or_else(|| Passes::none(&empty));
    let main = &passes.main.tally;
    let activity = &passes.main.activity;
    let processors = processors(&passes);
    let mut report = Report {
        schema: 1,
        backend: context.backend,
        window_s: passes.windows().map(|window| window.duration_s).sum(),
        cpus: context.cpus.to_vec(),
        frequency_hz: context.frequency_hz,
        samples: passes.sum(|pass| pass.tally.samples),
        lost: passes.sum(|pass| pass.tally.lost),
        throttled: passes.sum(|pass| pass.tally.throttled),
        missing_share: missing_share(&passes, context),
        recorded_on: None,
        packets: packets(&passes),
        bytes: Bytes {
            sent: passes.sum_windows(|window| window.bytes.sent),
            received: passes.sum_windows(|window| window.bytes.received),
        },
        requests: passes.windows().map(|window| window.requests).sum(),
        connections: Connections {
            accepted: passes.sum(|pass| pass.activity.connections.accepted),
            opened: passes.sum(|pass| pass.activity.connections.opened),
        },
        context_switches: passes.sum_windows(|window| window.context_switches),
        page_faults: passes.sum_windows(|window| window.page_faults),
        drops: passes.sum_windows(|window| window.drops),
        drops_by: activity.drops,
        softirqs: activity.softirqs.clone(),
        interrupts: interrupts(&passes),
        interfaces: activity.interfaces.clone(),
        total: passes.cost(&busy),
        idle: idle(&passes),
        layers: layers(&passes),
        kinds: kinds(&passes),
        layer_kinds: layer_kinds(main),
        regions: regions(&passes),
        categories: categories(&passes),
        modules: modules(&passes, context.collector),
        parts: (context.names_parts && context.server_pid.is_some())
            .then(|| parts(&passes, context.collector)),
        host_stack: host_stack(&passes),
        server: context.server_pid.map(|pid| ServerTime {
            pid,
            user: passes.cost(&|sums| sums.server_user),
        }),
        group: context.selector.map(|selector| GroupTime {
            name: selector.option().1.to_owned(),
            own: passes.cost(&|sums| sums.chosen),
            shared: passes.cost(&|sums| sums.shared),
        }),
        processes: processes(&passes, context.collector),
        unclaimed_share: part(main.unclaimed, main.kernel),
        unclaimed_top: top_leaves(main, context.collector, |charge| !charge.claimed),
        skid_share: part(main.skid, main.kernel),
        skid_top: top_leaves(main, context.collector, |charge| charge.skid),
        counters: counters(passes.all),
        queues: queues(&passes, &processors),
        findings: imbalance(&processors).into_iter().collect(),
        processors,
        closure: closure(&passes),
        overhead: overhead(&passes, context),
        exit_status: context.exit_status,
        limits: Vec::new(),
    };
    report.limits = limits::of(&report, context, results);
    report
}

/// Share of the expected timer samples that neither arrived nor were counted as lost.
fn missing_share(passes: &Passes<'_>, context: &Context<'_>) -> Option<f64> {
    let is_sampled = context.backend != Backend::Accounts && context.samples_all;
    let time = passes.of(EventKind::CpuNs).filter(|_| is_sampled)?;
    // The periods of the processors' timers differ, so weights are compared, not numbers.
    let expected_s = time.activity.window.duration_s * context.cpus.len() as f64;
    let sampled = time.tally.processors.values();
    let sampled_s: f64 = sampled
        .map(|(_, calibration)| calibration.sampled_s + calibration.sampled_idle_s)
        .sum();
    let lost_s = time.tally.lost as f64 / f64::from(context.frequency_hz);
    (expected_s > 0.0).then(|| (1.0 - (sampled_s + lost_s) / expected_s).max(0.0))
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
        sent: passes.sum_windows(|window| window.packets.sent),
        received: passes.sum_windows(|window| window.packets.received),
        segments_sent: passes.sum_windows(|window| window.segments.sent),
        segments_received: passes.sum_windows(|window| window.segments.received),
        segments_retransmitted: passes.sum(|pass| pass.activity.retransmitted),
        datagrams_sent: passes.sum(|pass| pass.activity.datagrams.sent),
        datagrams_received: passes.sum(|pass| pass.activity.datagrams.received),
    }
}

fn interrupts(passes: &Passes<'_>) -> Interrupts {
    let (source, _) = passes.main.activity.interrupts();
    let count = passes.sum(|pass| pass.activity.interrupts().1);
    let seconds: f64 = passes.windows().map(|window| window.duration_s).sum();
    Interrupts {
        source,
        count,
        per_s: part(count as f64, seconds),
        per_packet: per(
            count as f64,
            passes.sum_windows(|window| window.packets.total()),
        ),
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

fn kinds(passes: &Passes<'_>) -> Named<Cost> {
    named(Kind::ALL, Kind::name, |kind| {
        passes.cost(&|sums| of_kind(sums, kind))
    })
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

/// The idle category has a time and no share, because shares are of busy time.
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

/// Time in the idle loop as a share of all time. It is computed from samples, because idle
/// processors are sampled too.
fn idle(passes: &Passes<'_>) -> Idle {
    let Some(pass) = passes.of(EventKind::CpuNs) else {
        return Idle::default();
    };
    let sums = &pass.tally.sums;
    let idle_ns: f64 = sums.cells[Layer::Idle].iter().map(|(_, &one)| one).sum();
    Idle {
        cpu_s: passes.seconds(idle_ns),
        share_of_time: part(idle_ns, idle_ns + pass.tally.busy()),
    }
}

/// The counts of the counter groups. A pass that samples processor time has none.
fn counters(passes: &[PassResult]) -> Vec<BTreeMap<String, u64>> {
    let counted = passes
        .iter()
        .filter(|pass| pass.tally.event != EventKind::CpuNs);
    counted
        .map(|pass| pass.group.counts.iter().cloned().collect())
        .collect()
}

fn overhead(passes: &Passes<'_>, context: &Context<'_>) -> Overhead {
    let busy_s: f64 = passes
        .of(EventKind::CpuNs)
        .map_or(0.0, |pass| passes.seconds(pass.tally.busy()));
    Overhead {
        profiler_cpu_s: context.own_cpu_s,
        share: part(context.own_cpu_s, busy_s),
        note: "the profiling process alone; sampling interrupts slow down the load too: \
               benches/profiler_overhead.py measures throughput with and without them",
    }
}
