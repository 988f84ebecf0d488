//! Notes on a report: what was not measured, what was measured indirectly, and what went wrong.

use perpacket_cost::EventKind;

use crate::capture::Backend;
use crate::passes::{Context, PassResult};
use crate::report::Report;

/// Largest difference from `/proc/stat`, and largest unclaimed share, for which there is no note.
const TOLERANCE: f64 = 0.02;

/// Share of missing clock samples above which there is a note. A few samples are always missing at
/// the window's edges.
const MISSING_NOTABLE: f64 = 0.05;

/// Share of stolen time above which there is a note.
const STOLEN_NOTABLE: f64 = 0.01;

/// Number of busy samples below which shares of single layers are imprecise.
const FEW_SAMPLES: f64 = 1000.0;

/// The notes on a report.
#[must_use]
pub fn of(report: &Report, context: &Context<'_>, passes: &[PassResult]) -> Vec<String> {
    let mut limits = Vec::new();
    about_samples(report, context, passes, &mut limits);
    about_symbols(report, context, &mut limits);
    about_closure(report, passes, &mut limits);
    about_counts(report, context, &mut limits);
    limits
}

fn about_samples(
    report: &Report,
    context: &Context<'_>,
    passes: &[PassResult],
    limits: &mut Vec<String>,
) {
    if report.backend == Backend::CpuClock {
        limits.push(
            "no performance counters: a timer sampled the time; cycles and misses were not measured"
                .to_owned(),
        );
    }
    if report.backend == Backend::Accounts {
        limits.push(
            "perf was not used: user, kernel and interrupt time are the kernel's own accounts, in \
             ticks; the accounts do not distinguish layers of the kernel, which count as `other`, or \
             the user code of one program from that of another"
                .to_owned(),
        );
        return;
    }
    if report.lost > 0 {
        limits.push(format!(
            "{} records were lost because the ring was full: sample less often, or fewer CPUs",
            report.lost
        ));
    }
    if report.throttled > 0 {
        limits.push(format!(
            "the kernel stopped sampling {} times because it took too long: sample less often",
            report.throttled
        ));
    }
    if let Some(share) = report
        .missing_share
        .filter(|&share| share > MISSING_NOTABLE)
    {
        limits.push(format!(
            "{:.0} % of the timer's samples are missing: this machine does not sample idle processors, \
             and interrupts on them are missing; a busy loop of lowest priority on each \
             processor (chrt -i 0) makes them visible",
            100.0 * share
        ));
    }
    if !context.lacking.is_empty() {
        let names: Vec<_> = context.lacking.iter().map(|event| event.name()).collect();
        limits.push(format!(
            "this machine does not count {}: they have no pass and no value",
            names.join(", ")
        ));
    }
    if passes.len() < context.planned_passes {
        limits.push(format!(
            "the window ended after {} of {} passes: some events were not sampled",
            passes.len(),
            context.planned_passes
        ));
    }
    let time = passes
        .iter()
        .find(|pass| pass.tally.event == EventKind::CpuNs);
    if let Some(pass) = time {
        let sampled_s = pass.activity.window.duration_s;
        if passes.len() > 1 {
            limits.push(format!(
                "{} passes divide the window: time was sampled for {sampled_s:.2} s, and seconds are \
                 scaled to the window",
                passes.len()
            ));
        }
        let busy = pass.tally.busy() * 1e-9 * f64::from(report.frequency_hz);
        if busy < FEW_SAMPLES {
            limits.push(format!(
                "only about {busy:.0} busy samples: shares of single layers are imprecise"
            ));
        }
    }
}

fn about_symbols(report: &Report, context: &Context<'_>, limits: &mut Vec<String>) {
    if report.backend == Backend::Accounts {
        // The accounts have no functions, so notes on symbols and rules do not apply.
        return;
    }
    let symbols = context.collector.attributor().symbols();
    if symbols.is_empty() {
        let reason = if symbols.are_hidden() {
            "hides its addresses (/proc/sys/kernel/kptr_restrict)"
        } else {
            "does not list its symbols (/proc/kallsyms)"
        };
        limits.push(format!(
            "the kernel {reason}: all kernel time is one unresolved block in `other`, and interrupts \
             of idle processors count as idle"
        ));
    } else if report.unclaimed_share > TOLERANCE {
        limits.push(format!(
            "{:.1} % of kernel time was claimed by no rule; `unclaimed_top` names the functions, and \
             --rules can claim them",
            100.0 * report.unclaimed_share
        ));
    }
    if report.backend == Backend::CpuClock && report.skid_share > TOLERANCE {
        limits.push(format!(
            "{:.1} % of kernel samples had to wait until interrupts were enabled again: their call \
             chains determine the layer; their leaf functions have no meaning",
            100.0 * report.skid_share
        ));
    }
}

fn about_closure(report: &Report, passes: &[PassResult], limits: &mut Vec<String>) {
    match &report.closure {
        Some(closure) if closure.difference.abs() > TOLERANCE.max(closure.resolution) => {
            limits.push(format!(
                "the layers sum to {:.2} s and /proc/stat to {:.2} s: {:+.1} %, more than 2 %",
                closure.profile_cpu_s,
                closure.stat_cpu_s,
                100.0 * closure.difference
            ));
        }
        Some(closure) if closure.difference.abs() > TOLERANCE => limits.push(format!(
            "the layers and /proc/stat differ by {:+.1} %, but the ticks of /proc/stat are too \
             coarse here to show a difference below {:.1} %",
            100.0 * closure.difference,
            100.0 * closure.resolution
        )),
        Some(_) => {}
        None => limits.push("the sum was not compared with /proc/stat".to_owned()),
    }
    let stolen: u64 = passes.iter().map(|pass| pass.activity.ticks.stolen).sum();
    let all: u64 = passes
        .iter()
        .map(|pass| pass.activity.ticks.busy + pass.activity.ticks.idle)
        .sum();
    let share = stolen as f64 / (stolen + all).max(1) as f64;
    if share > STOLEN_NOTABLE {
        limits.push(format!(
            "the hypervisor ran other machines for {:.1} % of the time: costs include only part of the \
             time for which this machine waited",
            100.0 * share
        ));
    }
}

fn about_counts(report: &Report, context: &Context<'_>, limits: &mut Vec<String>) {
    if report.interfaces.contains_key("lo") {
        limits.push(
            "a packet over loopback counts as sent and as received; frames there are as large as \
             segmentation offload makes them"
                .to_owned(),
        );
    }
    let wires = report.interfaces.keys().filter(|name| *name != "lo");
    if wires.count() > 1 {
        limits.push("a packet that passes several interfaces is counted at each".to_owned());
    }
    if report.packets.sent + report.packets.received == 0 {
        limits.push("no packets: there is no cost by packet".to_owned());
    }
    if !context.all_cpus {
        limits.push(
            "packets, context switches and page faults are counted on all processors, costs on the \
             chosen ones only"
                .to_owned(),
        );
    }
    if let Some(group) = &report.group {
        limits.push(format!(
            "{:.1} % of busy time is interrupts, softirqs and kernel threads: they work for all control \
             groups, and their layers include the packets of others",
            100.0 * group.shared.share
        ));
    } else if context.server_pid.is_none() {
        limits.push(
            "no server was named (--pid): user code of every program counts as the server's"
                .to_owned(),
        );
    }
}
