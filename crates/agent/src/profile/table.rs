//! A profile as text: counts, a table of costs, and notes.

use std::fmt::Write;

use perpacket_profiler::Report;
use perpacket_profiler::capture::Backend;
use perpacket_profiler::count::InterruptSource;
use perpacket_profiler::limits::FEW;
use perpacket_profiler::report::{Cost, Named, SymbolShare};

use perpacket_profiler::spec::Taxonomy;

use super::by_cpu;

/// Categories and modules below this share become one row `misc`, as in the paper
/// *Communication Breakdown*.
const MISC_SHARE: f64 = 0.01;

/// Smallest difference of shares that is visible in a row.
const SHOWN_SHARE: f64 = 0.0005;

/// Number of unclaimed functions that the text lists.
const NAMED_SYMBOLS: usize = 5;

/// The text for a taxonomy.
pub fn render(report: &Report, taxonomy: Taxonomy, by_cpu: bool) -> String {
    let mut text = header(report);
    let columns = Columns::of(report);
    match taxonomy {
        Taxonomy::Layers => {
            columns.table(&mut text, "layer", &report.layers, None);
            text.push('\n');
            columns.table(&mut text, "kind", &report.kinds, None);
        }
        Taxonomy::Regions => columns.table(&mut text, "region", &report.regions, None),
        Taxonomy::Modules => columns.table(&mut text, "module", &report.modules, Some(MISC_SHARE)),
        Taxonomy::Categories => {
            columns.table(&mut text, "category", &report.categories, Some(MISC_SHARE));
        }
        Taxonomy::Parts => columns.parts(&mut text, report),
        Taxonomy::HostStack => columns.table(&mut text, "host stack", &report.host_stack, None),
    }
    columns.row(&mut text, "total", &report.total);
    if let Some(server) = &report.server
        && differs_visibly(&server.user, report.layers.get("user"))
    {
        columns.row(&mut text, "user: the server", &server.user);
    }
    if let Some(group) = &report.group {
        columns.row(&mut text, "the group's own", &group.own);
        columns.row(&mut text, "shared by groups", &group.shared);
    }
    if by_cpu {
        by_cpu::render(&mut text, &report.processors, &report.queues);
    }
    footer(&mut text, report);
    text
}

/// Whether the row of the server's user code would differ from the row of all user code.
fn differs_visibly(server: &Cost, all: Option<&Cost>) -> bool {
    all.is_none_or(|all| (all.share - server.share).abs() >= SHOWN_SHARE)
}

fn header(report: &Report) -> String {
    let counted = report.packets;
    let mut text = format!(
        "{} s on {} CPUs, {} samples of {}\n",
        seconds(report.window_s),
        report.cpus.len(),
        report.samples,
        report.backend
    );
    let is_counted = report.recorded_on.is_none() || packets(report) > 0;
    let counts = match is_counted {
        true => format!("{} sent, {} received", counted.sent, counted.received),
        false => "not counted; --packets or --links has them".to_owned(),
    };
    let _ = write!(text, "packets: {counts} (frames at the interfaces)");
    if let Some(machine) = &report.recorded_on {
        let _ = writeln!(text, "\nrecorded by perf on {machine}");
    } else {
        let requests = report
            .requests
            .map_or_else(|| "not counted".to_owned(), |requests| requests.to_string());
        let interrupts = report.interrupts.per_packet;
        let per_packet = interrupts
            .filter(|_| packets(report) >= FEW)
            .map_or_else(String::new, |number| format!("{number:.3} a packet, "));
        let _ = writeln!(
            text,
            "; TCP segments: {} sent, {} received\n\
             requests: {requests}; context switches: {}; page faults: {}; drops: {}\n\
             {}: {per_packet}{:.0}/s",
            counted.segments_sent,
            counted.segments_received,
            report.context_switches,
            report.page_faults,
            report.drops,
            match report.interrupts.source {
                InterruptSource::Interfaces => "interrupts of the interfaces",
                InterruptSource::NetRx => "runs of the softirq NET_RX",
            },
            report.interrupts.per_s
        );
    }
    let unit = match report.total.cycles_per_packet {
        Some(_) => "cycles",
        None => "time",
    };
    let _ = match report.total.cpu_s {
        Some(busy_s) => writeln!(
            text,
            "busy {} s; idle {} s, {:.1} % of the time; shares are of busy {unit}\n",
            seconds(busy_s),
            seconds(report.idle.cpu_s),
            100.0 * report.idle.share_of_time
        ),
        None => writeln!(text, "no pass sampled time, so there are no seconds\n"),
    };
    text
}

/// The number of packets, sent and received.
const fn packets(report: &Report) -> u64 {
    report.packets.sent + report.packets.received
}

pub(super) fn seconds(value: f64) -> String {
    format!("{value:.2}")
}

/// The value of a column.
type Value = fn(&Cost) -> Option<f64>;

/// The columns for which a report has values.
struct Columns(Vec<(&'static str, Value)>);

impl Columns {
    fn of(report: &Report) -> Self {
        let all: [(&'static str, Value); 11] = [
            ("ns/packet", |cost| cost.cpu_ns_per_packet),
            ("ns/request", |cost| cost.cpu_ns_per_request),
            ("cycles/packet", |cost| cost.cycles_per_packet),
            ("instr./packet", |cost| cost.instructions_per_packet),
            ("instr./cycle", |cost| {
                Some(cost.instructions_per_packet? / cost.cycles_per_packet?)
            }),
            ("L1i misses/packet", |cost| cost.l1i_misses_per_packet),
            ("L1d misses/packet", |cost| cost.l1d_misses_per_packet),
            ("LLC misses/packet", |cost| cost.llc_misses_per_packet),
            ("iTLB misses/packet", |cost| cost.itlb_misses_per_packet),
            ("dTLB misses/packet", |cost| cost.dtlb_misses_per_packet),
            ("branch misses/packet", |cost| cost.branch_misses_per_packet),
        ];
        let [has_packets, has_requests] =
            [packets(report), report.requests.unwrap_or(0)].map(|count| count >= FEW);
        let filled = all.into_iter().filter(|(name, value)| {
            value(&report.total).is_some()
                && (has_packets || !name.ends_with("/packet"))
                && (has_requests || !name.ends_with("/request"))
        });
        Self(filled.collect())
    }

    fn table(&self, text: &mut String, title: &str, costs: &Named<Cost>, misc: Option<f64>) {
        let _ = write!(
            text,
            "{title:<20}{:>8}{:>16}{:>9}",
            "share", "95 % interval", "CPU s"
        );
        for (name, _) in &self.0 {
            let _ = write!(text, "{name:>width$}", width = name.len().max(9) + 2);
        }
        text.push('\n');
        let mut small = Vec::new();
        for (name, cost) in &costs.0 {
            let is_nothing = cost.share == 0.0 && cost.cpu_s.unwrap_or(0.0) == 0.0;
            let is_idle = name == "idle";
            if is_nothing {
                continue;
            }
            if !is_idle && misc.is_some_and(|limit| cost.share < limit) {
                small.push(cost);
            } else {
                self.row(text, name, cost);
            }
        }
        if !small.is_empty() {
            self.row(text, "misc", &together(&small));
        }
    }

    /// The parts of the application, and the kernel's work.
    fn parts(&self, text: &mut String, report: &Report) {
        let mut rows = Vec::new();
        if let Some(parts) = &report.parts {
            rows.extend(parts.costs.0.iter().cloned());
        }
        let kernel = report.layers.0.iter();
        rows.extend(kernel.filter(|(name, _)| name != "user").cloned());
        self.table(text, "part", &Named(rows), None);
    }

    fn row(&self, text: &mut String, name: &str, cost: &Cost) {
        let interval = match (cost.low, cost.high) {
            (Some(low), Some(high)) => format!("{:.1}-{:.1} %", 100.0 * low, 100.0 * high),
            _ => String::new(),
        };
        let _ = write!(
            text,
            "{name:<20}{:>6.1} %{interval:>16}{:>9}",
            100.0 * cost.share,
            cost.cpu_s
                .map_or_else(String::new, |time| format!("{time:.3}"))
        );
        for (name, value) in &self.0 {
            let shown = value(cost).map_or_else(String::new, |value| format!("{value:.1}"));
            let _ = write!(text, "{shown:>width$}", width = name.len().max(9) + 2);
        }
        text.push('\n');
    }
}

/// The sum of small rows. It has no interval, because bounds cannot be added.
fn together(costs: &[&Cost]) -> Cost {
    let sum = |value: Value| {
        let values: Vec<f64> = costs.iter().filter_map(|cost| value(cost)).collect();
        (!values.is_empty()).then(|| values.iter().sum())
    };
    Cost {
        cpu_s: sum(|cost| cost.cpu_s),
        share: costs.iter().map(|cost| cost.share).sum(),
        low: None,
        high: None,
        cpu_ns_per_packet: sum(|cost| cost.cpu_ns_per_packet),
        cpu_ns_per_request: sum(|cost| cost.cpu_ns_per_request),
        cycles_per_packet: sum(|cost| cost.cycles_per_packet),
        instructions_per_packet: sum(|cost| cost.instructions_per_packet),
        l1i_misses_per_packet: sum(|cost| cost.l1i_misses_per_packet),
        l1d_misses_per_packet: sum(|cost| cost.l1d_misses_per_packet),
        llc_misses_per_packet: sum(|cost| cost.llc_misses_per_packet),
        itlb_misses_per_packet: sum(|cost| cost.itlb_misses_per_packet),
        dtlb_misses_per_packet: sum(|cost| cost.dtlb_misses_per_packet),
        branch_misses_per_packet: sum(|cost| cost.branch_misses_per_packet),
    }
}

fn footer(text: &mut String, report: &Report) {
    text.push('\n');
    for finding in &report.findings {
        let _ = writeln!(text, "{finding}");
    }
    // The kernel's accounts have no functions.
    if report.backend != Backend::Accounts {
        let _ = writeln!(
            text,
            "no rule claimed {:.2} % of kernel time{}",
            100.0 * report.unclaimed_share,
            listed(&report.unclaimed_top)
        );
    }
    if let Some(parts) = &report.parts {
        let _ = writeln!(
            text,
            "no rule claimed {:.2} % of the application's user code{}{}",
            100.0 * parts.unclaimed_share,
            if parts.unclaimed_files.is_empty() {
                ""
            } else {
                ": "
            },
            parts.unclaimed_files.join(", ")
        );
    }
    if report.skid_share > 0.0 {
        let _ = writeln!(
            text,
            "{:.1} % of kernel time was sampled at code that enables interrupts again{}",
            100.0 * report.skid_share,
            listed(&report.skid_top)
        );
    }
    if let Some(closure) = &report.closure {
        let _ = writeln!(
            text,
            "layers sum to {} s, the processors ran for {} s ({:+.1} %); their samples, before calibration, \
             summed to {} s",
            seconds(closure.profile_cpu_s),
            seconds(closure.stat_cpu_s),
            100.0 * closure.difference,
            seconds(closure.sampled_cpu_s)
        );
    }
    // A recording does not show the time of its profiler.
    if report.total.cpu_s.is_none() || report.recorded_on.is_some() {
        return notes(text, report);
    }
    let _ = writeln!(
        text,
        "the profiler used {:.3} s, {:.2} % of busy time, without its interrupts",
        report.overhead.profiler_cpu_s,
        100.0 * report.overhead.share
    );
    notes(text, report);
}

fn notes(text: &mut String, report: &Report) {
    for limit in &report.limits {
        let _ = writeln!(text, "note: {limit}");
    }
}

fn listed(symbols: &[SymbolShare]) -> String {
    let names: Vec<_> = symbols
        .iter()
        .take(NAMED_SYMBOLS)
        .map(|row| format!("{} {:.2} %", row.symbol, 100.0 * row.share))
        .collect();
    if names.is_empty() {
        return String::new();
    }
    format!(": {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_user_code_has_a_row_only_if_other_programs_ran() {
        let of = |share| Cost {
            share,
            ..Cost::default()
        };
        assert!(!differs_visibly(&of(0.25), Some(&of(0.25))));
        assert!(differs_visibly(&of(0.25), Some(&of(0.3))));
        assert!(differs_visibly(&of(0.25), None));
    }
}
