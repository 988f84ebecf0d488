//! Notes on a report: what was not measured, what was measured indirectly, and what went wrong.

use std::collections::BTreeSet;

use perpacket_cost::EventKind;
use perpacket_linux::cpus;

use crate::capture::Backend;
use crate::passes::{Context, PassResult};
use crate::report::Report;

/// Largest difference from the run time, and largest unclaimed share, for which there is no note.
const TOLERANCE: f64 = 0.02;

/// Share of idle time from which the idle loop of a processor must have samples.
const MISSING_NOTABLE: f64 = 0.05;

/// Share of the idle time that samples must show, or the idle loop counts as not sampled.
const UNSAMPLED: f64 = 0.1;

/// Difference of a processor's samples from its run time for which there is no note.
const CALIBRATION_NOTABLE: f64 = 0.03;

/// Longest list of processors in a note.
const ROWS: usize = 8;

/// Share of stolen time above which there is a note.
const STOLEN_NOTABLE: f64 = 0.01;

/// Number of busy samples below which shares of single layers are imprecise.
const FEW_SAMPLES: u64 = 1000;

/// Fewest packets, and fewest requests, from which the cost of one follows. If there are fewer, the
/// time was spent on other work.
pub const FEW: u64 = 100;

/// The notes on a report.
#[must_use]
pub fn of(report: &Report, context: &Context<'_>, passes: &[PassResult]) -> Vec<String> {
    let mut limits = Vec::new();
    about_samples(report, context, passes, &mut limits);
    about_symbols(report, context, &mut limits);
    about_closure(report, passes, &mut limits);
    about_counts(report, context, passes, &mut limits);
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
    about_processors(passes, limits);
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
        let busy = pass.tally.busy_samples;
        if busy < FEW_SAMPLES {
            limits.push(format!(
                "only {busy} busy samples: shares of single layers are imprecise"
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

/// Processors whose samples fell short of their run time, and those whose idle loop has no samples.
fn about_processors(passes: &[PassResult], limits: &mut Vec<String>) {
    let time = passes
        .iter()
        .find(|pass| pass.tally.event == EventKind::CpuNs);
    let Some(processors) = time.map(|pass| &pass.tally.processors) else {
        return;
    };
    let (mut corrected, mut sparse, mut unsampled) = (Vec::new(), Vec::new(), Vec::new());
    for (cpu, (_, calibration)) in processors {
        let Some(activity) = calibration.activity else {
            continue;
        };
        let far = calibration
            .difference()
            .filter(|share| share.abs() > CALIBRATION_NOTABLE);
        let row = format!(
            "{cpu}: {:.2} s of {:.2} s",
            calibration.sampled_s,
            activity.run_s()
        );
        match (far, calibration.factor) {
            _ if calibration.is_excluded => sparse.push(row),
            (Some(_), Some(factor)) => corrected.push(format!("{row}, times {factor:.2}")),
            (_, _) => {}
        }
        let is_idle = activity.idle_s > MISSING_NOTABLE * activity.window_s;
        if is_idle && calibration.sampled_idle_s < UNSAMPLED * activity.idle_s {
            unsampled.push(*cpu);
        }
    }
    if !corrected.is_empty() {
        limits.push(format!(
            "the samples of these processors do not sum to their run time, so they were multiplied \
             by a factor ({})",
            shortened(&corrected)
        ));
    }
    if !sparse.is_empty() {
        limits.push(format!(
            "these processors have too few samples for their run time ({}): they have no number, and are \
             in no sum and no share; sample longer or more often",
            shortened(&sparse)
        ));
    }
    if !unsampled.is_empty() {
        limits.push(format!(
            "this machine does not sample the idle loop of processors {}: interrupts there have no \
             samples, and their time is divided among the layers that have; a busy loop of lowest \
             priority on each processor (chrt -i 0) makes them visible",
            cpus::format(&unsampled)
        ));
    }
}

/// The first rows, and the number of the others.
fn shortened(rows: &[String]) -> String {
    let shown = rows[..rows.len().min(ROWS)].join("; ");
    match rows.len().saturating_sub(ROWS) {
        0 => shown,
        others => format!("{shown}; and {others} more"),
    }
}

fn about_closure(report: &Report, passes: &[PassResult], limits: &mut Vec<String>) {
    match &report.closure {
        Some(closure) if closure.difference.abs() > TOLERANCE.max(closure.resolution) => {
            limits.push(format!(
                "the layers sum to {:.2} s, and the processors ran for {:.2} s: {:+.1} %",
                closure.profile_cpu_s,
                closure.stat_cpu_s,
                100.0 * closure.difference
            ));
        }
        Some(_) => {}
        None => limits.push("the sum was not compared with the processors' run time".to_owned()),
    }
    let times = || {
        passes
            .iter()
            .flat_map(|pass| pass.activity.processors.values())
    };
    let stolen_s: f64 = times().map(|time| time.stolen_s).sum();
    let all_s: f64 = times().map(|time| time.window_s).sum();
    let share = stolen_s / all_s.max(f64::MIN_POSITIVE);
    if share > STOLEN_NOTABLE {
        limits.push(format!(
            "the hypervisor ran other machines for {:.1} % of the time: costs include only part of the \
             time for which this machine waited",
            100.0 * share
        ));
    }
}

fn about_counts(
    report: &Report,
    context: &Context<'_>,
    passes: &[PassResult],
    limits: &mut Vec<String>,
) {
    let missing = passes.iter().flat_map(|pass| &pass.activity.missing);
    let missing: BTreeSet<_> = missing.copied().collect();
    if !missing.is_empty() {
        let names: Vec<_> = missing.into_iter().collect();
        limits.push(format!(
            "not counted here: {}; what the report derives from them is 0 or too low",
            names.join(", ")
        ));
    }
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
    match report.packets.sent + report.packets.received {
        0 => limits.push("no packets: there is no cost by packet".to_owned()),
        few @ 1..FEW => limits.push(format!(
            "only {few} packets, expected {FEW} or more: the tables have no cost by packet"
        )),
        _ => {}
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
