//! The sums as metrics: what the page of [`super::openmetrics`] and the pushes of [`super::otlp`]
//! have in common.
//!
//! All but a few are counters, so that a monitoring system can compute rates over any window.

use perpacket_cost::{Directions, Kind, Layer, PerKind};
use perpacket_profiler::count::Interface;
use perpacket_profiler::sums::measured_layers;
use perpacket_profiler::watch::Totals;

use super::request_total::Requests;

/// Nanoseconds of a second.
const SECOND_NS: f64 = 1e9;

/// A metric with its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// The name without prefix and suffix. It ends in its unit, if it has one.
    pub name: &'static str,
    /// How the values change.
    pub form: Form,
    /// What it counts.
    pub help: &'static str,
    /// Its values.
    pub points: Vec<Point>,
}

/// How the values of a metric change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A sum that never falls.
    Counter,
    /// A value at one moment, which may fall.
    Gauge,
    /// The value is 1; the labels are the information.
    Info,
}

/// A value with its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Names and values.
    pub labels: Vec<(&'static str, String)>,
    pub value: Number,
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Whole(u64),
    /// Of a measurement.
    Real(f64),
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl Metric {
    /// The unit; empty for a count.
    pub fn unit(&self) -> &'static str {
        if self.name.ends_with("_seconds") {
            "seconds"
        } else {
            ""
        }
    }

    const fn new(name: &'static str, form: Form, help: &'static str) -> Self {
        Self {
            name,
            form,
            help,
            points: Vec::new(),
        }
    }

    const fn counter(name: &'static str, help: &'static str) -> Self {
        Self::new(name, Form::Counter, help)
    }

    /// Adds a value.
    fn with(mut self, labels: &[(&'static str, &str)], value: impl Into<Number>) -> Self {
        let labels = labels
            .iter()
            .map(|&(label, value)| (label, value.to_owned()))
            .collect();
        self.points.push(Point {
            labels,
            value: value.into(),
        });
        self
    }
}

/// All metrics.
pub fn all(
    totals: &Totals,
    requests: Option<Requests>,
    failed_pushes: Option<u64>,
    by_cgroup: bool,
) -> Vec<Metric> {
    let mut metrics = costs(totals);
    if by_cgroup {
        metrics.push(cgroups(totals));
    }
    metrics.extend(counts(totals));
    if let Some(requests) = requests {
        metrics.push(
            Metric::counter("requests", "Requests that the server answered.")
                .with(&[], requests.answered),
        );
        metrics.push(
            Metric::counter(
                "request_read_errors",
                "Reads of the number of requests that failed.",
            )
            .with(&[], requests.failed_reads),
        );
    }
    if let Some(failed) = failed_pushes {
        let help = "Pushes to the collector that failed.";
        metrics.push(Metric::counter("push_errors", help).with(&[], failed));
    }
    metrics.extend(samples(totals));
    metrics.extend(about(totals));
    metrics
}

/// Seconds of processor time of a layer.
fn seconds(kinds: &PerKind<f64>) -> f64 {
    kinds.iter().map(|(_, &ns)| ns).sum::<f64>() / SECOND_NS
}

fn costs(totals: &Totals) -> Vec<Metric> {
    let mut cpu = Metric::counter(
        "cpu_seconds",
        "Busy processor time by layer of the network stack and kind of work.",
    );
    for layer in measured_layers() {
        for kind in Kind::ALL {
            let ns = totals.cpu_ns[layer][kind];
            if ns > 0.0 {
                let labels = [("layer", layer.name()), ("kind", kind.name())];
                cpu = cpu.with(&labels, ns / SECOND_NS);
            }
        }
    }
    let mut busy = Metric::counter(
        "busy_seconds",
        "Time that each processor ran: its time less idle and stolen time.",
    );
    for (cpu, &busy_s) in &totals.busy_s {
        busy = busy.with(&[("cpu", &cpu.to_string())], busy_s);
    }
    vec![
        cpu,
        Metric::counter("idle_seconds", "Processor time in the idle loop.")
            .with(&[], seconds(&totals.cpu_ns[Layer::Idle])),
        busy,
        Metric::counter(
            "unclaimed_seconds",
            "Kernel time that no rule assigned to a layer; it is part of the layer other.",
        )
        .with(&[], totals.unclaimed_ns / SECOND_NS),
        Metric::counter("overhead_seconds", "Processor time of this exporter.")
            .with(&[], totals.overhead_ns as f64 / SECOND_NS),
    ]
}

/// Busy time of the control groups. `shared` is work in interrupts, softirqs and kernel threads.
fn cgroups(totals: &Totals) -> Metric {
    let mut metrics = Metric::counter(
        "cgroup_cpu_seconds",
        "Busy processor time by container, unit or control group, and layer.",
    );
    let rest = [
        ("other", totals.cgroups.other()),
        ("shared", &totals.shared),
    ];
    for (name, layers) in totals.cgroups.iter().chain(rest) {
        for (layer, &ns) in layers.iter().filter(|&(_, &ns)| ns > 0.0) {
            let labels = [("cgroup", name), ("layer", layer.name())];
            metrics = metrics.with(&labels, ns / SECOND_NS);
        }
    }
    metrics
}

fn counts(totals: &Totals) -> Vec<Metric> {
    let directions = |name, help, counted: Directions| {
        Metric::counter(name, help)
            .with(&[("direction", "sent")], counted.sent)
            .with(&[("direction", "received")], counted.received)
    };
    let drops = totals.drops;
    vec![
        by_interface(
            totals,
            Metric::counter("packets", "Frames at the interfaces of the namespace."),
            |counts| [counts.packets_sent, counts.packets_received],
        ),
        by_interface(
            totals,
            Metric::counter("bytes", "Bytes of the frames, headers included."),
            |counts| [counts.bytes_sent, counts.bytes_received],
        ),
        directions(
            "segments",
            "TCP segments: sent ones as links carry them, received ones after receive offload.",
            totals.segments,
        ),
        directions("datagrams", "UDP datagrams.", totals.datagrams),
        Metric::counter("retransmitted_segments", "TCP segments sent again.")
            .with(&[], totals.retransmitted),
        Metric::counter(
            "dropped_packets",
            "Packets dropped, by the place of the full queue or buffer.",
        )
        .with(&[("place", "interface")], drops.interfaces)
        .with(&[("place", "backlog")], drops.backlog)
        .with(&[("place", "tcp")], drops.tcp)
        .with(&[("place", "udp")], drops.udp),
    ]
}

/// A count of each interface in both directions.
fn by_interface(
    totals: &Totals,
    mut metric: Metric,
    count: impl Fn(&Interface) -> [u64; 2],
) -> Metric {
    let other = [("other", totals.interfaces.other())];
    for (interface, counts) in totals.interfaces.iter().chain(other) {
        for (direction, number) in ["sent", "received"].into_iter().zip(count(counts)) {
            let labels = [("direction", direction), ("interface", interface)];
            metric = metric.with(&labels, number);
        }
    }
    metric
}

fn samples(totals: &Totals) -> Vec<Metric> {
    let mut metrics = vec![
        Metric::counter("samples", "Samples, idle ones included.").with(&[], totals.samples),
        Metric::counter(
            "expected_samples",
            "Samples that the timers of all processors should have delivered.",
        )
        .with(&[], totals.expected_samples),
        Metric::counter(
            "lost_samples",
            "Records that were lost because a ring was full.",
        )
        .with(&[], totals.lost),
        Metric::counter(
            "throttles",
            "Times the kernel stopped sampling because it took too long.",
        )
        .with(&[], totals.throttled),
        Metric::counter(
            "reopens",
            "Times the events were opened again, such as after a processor came online.",
        )
        .with(&[], totals.reopened),
    ];
    if let Some(share) = totals.missing_share {
        let help = "Share of the expected samples that were missing in the last minute.";
        metrics.push(Metric::new("missing_share", Form::Gauge, help).with(&[], share));
    }
    metrics
}

fn about(totals: &Totals) -> [Metric; 2] {
    let build = [
        ("version", env!("CARGO_PKG_VERSION")),
        ("backend", totals.backend.name()),
    ];
    let mut limits = Metric::new("limit", Form::Info, "What cannot be measured now, and why.");
    for limit in &totals.limits {
        let labels = [("limit", limit.name), ("meaning", limit.meaning.as_str())];
        limits = limits.with(&labels, 1_u64);
    }
    [
        Metric::new(
            "build",
            Form::Info,
            "This exporter and how it measures time.",
        )
        .with(&build, 1_u64),
        limits,
    ]
}
