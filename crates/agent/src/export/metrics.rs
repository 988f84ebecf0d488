//! The sums as OpenMetrics text (github.com/OpenObservability/OpenMetrics, version 1.0).
//!
//! All but one are counters, so that a monitoring system can compute rates over any window.

use std::fmt::{Display, Write};

use perpacket_cost::{Kind, Layer, PerKind};
use perpacket_profiler::count::Interface;
use perpacket_profiler::tally::measured_layers;
use perpacket_profiler::watch::Totals;

use super::request_total::Requests;

/// Nanoseconds of a second.
const SECOND_NS: f64 = 1e9;

/// The text so far.
#[derive(Default)]
struct Text(String);

/// Names of labels with their values.
type Labels<'a> = &'a [(&'a str, &'a str)];

impl Text {
    /// Begins a metric.
    fn metric(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# TYPE perpacket_{name} {kind}");
        if let Some((_, unit)) = name.rsplit_once('_')
            && unit == "seconds"
        {
            let _ = writeln!(self.0, "# UNIT perpacket_{name} {unit}");
        }
        let _ = writeln!(self.0, "# HELP perpacket_{name} {}", escaped(help));
    }

    fn value(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        let _ = write!(self.0, "perpacket_{name}");
        if !labels.is_empty() {
            let pairs: Vec<String> = labels
                .iter()
                .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
                .collect();
            let _ = write!(self.0, "{{{}}}", pairs.join(","));
        }
        let _ = writeln!(self.0, " {value}");
    }

    fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.metric(name, "counter", help);
        self.value(&format!("{name}_total"), &[], value);
    }
}

/// A label's value or a help text with its special characters escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// The page of all metrics.
pub fn text(totals: &Totals, requests: Option<Requests>, by_cgroup: bool) -> String {
    let mut text = Text::default();
    costs(&mut text, totals, by_cgroup);
    counts(&mut text, totals);
    if let Some(requests) = requests {
        text.counter(
            "requests",
            "Requests that the server answered.",
            requests.answered,
        );
        text.counter(
            "request_read_errors",
            "Reads of the number of requests that failed.",
            requests.failed_reads,
        );
    }
    samples(&mut text, totals);
    about(&mut text, totals);
    text.0.push_str("# EOF\n");
    text.0
}

/// Seconds of processor time of a layer.
fn seconds(kinds: &PerKind<f64>) -> f64 {
    kinds.iter().map(|(_, &ns)| ns).sum::<f64>() / SECOND_NS
}

fn costs(text: &mut Text, totals: &Totals, by_cgroup: bool) {
    text.metric(
        "cpu_seconds",
        "counter",
        "Busy processor time by layer of the network stack and kind of work.",
    );
    for layer in measured_layers() {
        for kind in Kind::ALL {
            let ns = totals.cpu_ns[layer][kind];
            if ns > 0.0 {
                let labels = [("layer", layer.name()), ("kind", kind.name())];
                text.value("cpu_seconds_total", &labels, ns / SECOND_NS);
            }
        }
    }
    if by_cgroup {
        cgroups(text, totals);
    }
    text.counter(
        "idle_seconds",
        "Processor time in the idle loop.",
        seconds(&totals.cpu_ns[Layer::Idle]),
    );
    text.metric(
        "busy_seconds",
        "counter",
        "Time that each processor was busy, by the kernel's accounts.",
    );
    for (cpu, busy_s) in &totals.busy_s {
        text.value("busy_seconds_total", &[("cpu", &cpu.to_string())], busy_s);
    }
    text.counter(
        "unclaimed_seconds",
        "Kernel time that no rule assigned to a layer; it is part of the layer other.",
        totals.unclaimed_ns / SECOND_NS,
    );
    text.counter(
        "overhead_seconds",
        "Processor time of this exporter.",
        totals.overhead_ns as f64 / SECOND_NS,
    );
}

/// Busy time of the control groups. `shared` is work in interrupts, softirqs and kernel threads.
fn cgroups(text: &mut Text, totals: &Totals) {
    text.metric(
        "cgroup_cpu_seconds",
        "counter",
        "Busy processor time by container, unit or control group, and layer.",
    );
    let rest = [
        ("other", totals.cgroups.other()),
        ("shared", &totals.shared),
    ];
    for (name, layers) in totals.cgroups.iter().chain(rest) {
        for (layer, &ns) in layers.iter().filter(|&(_, &ns)| ns > 0.0) {
            let labels = [("cgroup", name), ("layer", layer.name())];
            text.value("cgroup_cpu_seconds_total", &labels, ns / SECOND_NS);
        }
    }
}

fn counts(text: &mut Text, totals: &Totals) {
    by_interface(
        text,
        totals,
        ("packets", "Frames at the interfaces of the namespace."),
        |counts| [counts.packets_sent, counts.packets_received],
    );
    by_interface(
        text,
        totals,
        ("bytes", "Bytes of the frames, headers included."),
        |counts| [counts.bytes_sent, counts.bytes_received],
    );
    let pairs = [
        (
            "segments",
            "TCP segments, before send and after receive offload.",
            totals.segments,
        ),
        ("datagrams", "UDP datagrams.", totals.datagrams),
    ];
    for (name, help, counted) in pairs {
        text.metric(name, "counter", help);
        let name = format!("{name}_total");
        text.value(&name, &[("direction", "sent")], counted.sent);
        text.value(&name, &[("direction", "received")], counted.received);
    }
    text.counter(
        "retransmitted_segments",
        "TCP segments sent again.",
        totals.retransmitted,
    );
    text.metric(
        "dropped_packets",
        "counter",
        "Packets dropped, by the place of the full queue or buffer.",
    );
    let drops = totals.drops;
    let places = [
        ("interface", drops.interfaces),
        ("backlog", drops.backlog),
        ("tcp", drops.tcp),
        ("udp", drops.udp),
    ];
    for (place, dropped) in places {
        text.value("dropped_packets_total", &[("place", place)], dropped);
    }
}

/// A count of each interface in both directions.
fn by_interface(
    text: &mut Text,
    totals: &Totals,
    (name, help): (&str, &str),
    count: impl Fn(&Interface) -> [u64; 2],
) {
    text.metric(name, "counter", help);
    let other = [("other", totals.interfaces.other())];
    let total = format!("{name}_total");
    for (interface, counts) in totals.interfaces.iter().chain(other) {
        for (direction, number) in ["sent", "received"].into_iter().zip(count(counts)) {
            let labels = [("direction", direction), ("interface", interface)];
            text.value(&total, &labels, number);
        }
    }
}

fn samples(text: &mut Text, totals: &Totals) {
    text.counter("samples", "Samples, idle ones included.", totals.samples);
    text.counter(
        "expected_samples",
        "Samples that the timers of all processors should have delivered.",
        totals.expected_samples,
    );
    text.counter(
        "lost_samples",
        "Records that were lost because a ring was full.",
        totals.lost,
    );
    text.counter(
        "throttles",
        "Times the kernel stopped sampling because it took too long.",
        totals.throttled,
    );
    text.counter(
        "reopens",
        "Times the events were opened again, such as after a processor came online.",
        totals.reopened,
    );
    if let Some(share) = totals.missing_share {
        text.metric(
            "missing_share",
            "gauge",
            "Share of the expected samples that were missing in the last minute.",
        );
        text.value("missing_share", &[], share);
    }
}

fn about(text: &mut Text, totals: &Totals) {
    text.metric("build", "info", "This exporter and how it measures time.");
    text.value(
        "build_info",
        &[
            ("version", env!("CARGO_PKG_VERSION")),
            ("backend", totals.backend.name()),
        ],
        1,
    );
    text.metric("limit", "info", "What cannot be measured now, and why.");
    for limit in &totals.limits {
        let labels = [("limit", limit.name), ("meaning", limit.meaning.as_str())];
        text.value("limit_info", &labels, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_of_labels_are_escaped() {
        let mut text = Text::default();
        text.value("limit_info", &[("meaning", "a \"b\"\n\\c")], 1);
        assert_eq!(
            text.0,
            "perpacket_limit_info{meaning=\"a \\\"b\\\"\\n\\\\c\"} 1\n"
        );
    }
}
