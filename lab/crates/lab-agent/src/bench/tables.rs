//! The reports of `bench` as text and as comma-separated values.

use std::fmt::Write as _;

use perpacket_microbench::machine::Machine;
use perpacket_microbench::memory::{self, Operation};
use perpacket_microbench::switch;

use perpacket_spec::Size;

/// All rows of `bench memory`, with the latencies.
pub fn memory_csv(report: &memory::Report) -> String {
    let mut text = "measure,working_set_bytes,stride_words,unit,value,low,high,n\n".to_owned();
    for row in &report.surface {
        let _ = writeln!(
            text,
            "{},{},{},MB/s,{:.1},{:.1},{:.1},{}",
            row.operation.name(),
            row.working_set_bytes,
            row.stride_words,
            row.mbytes_per_s,
            row.low,
            row.high,
            row.n
        );
    }
    for row in &report.chain {
        let _ = writeln!(
            text,
            "latency,{},,ns,{:.3},{:.3},{:.3},{}",
            row.working_set_bytes, row.ns, row.low, row.high, row.n
        );
    }
    text
}

/// All rows of `bench switch`.
pub fn switch_csv(report: &switch::Report) -> String {
    let mut text = "kind,members,working_set_bytes,pinned,ns_per_switch,low,high,n,pass_ns,\
                    passing_alone_ns,departures_per_round\n"
        .to_owned();
    for row in &report.rows {
        let _ = writeln!(
            text,
            "{},{},{},{},{:.1},{:.1},{:.1},{},{:.1},{:.1},{:.3}",
            row.kind.name(),
            row.members,
            row.working_set_bytes,
            row.pinned,
            row.ns_per_switch,
            row.low,
            row.high,
            row.n,
            row.pass_ns,
            row.passing_alone_ns,
            row.departures_per_round
        );
    }
    text
}

/// The line about the machine above every table.
fn machine_lines(machine: &Machine) -> String {
    let caches: Vec<String> = machine
        .caches
        .iter()
        .map(|cache| format!("L{} {}", cache.level, Size(cache.size_bytes as u64)))
        .collect();
    format!(
        "processor {} ({}), caches {}, pages of {} B, clock {} ({}, {:.0} ns a reading)\n",
        machine.cpu,
        machine.processor.as_deref().unwrap_or("unknown"),
        if caches.is_empty() {
            "unknown".to_owned()
        } else {
            caches.join(", ")
        },
        machine.page_bytes,
        machine.clock.name,
        machine.clock.source.as_deref().unwrap_or("unknown"),
        machine.clock.read_ns,
    )
}

/// The report of `bench memory` as text.
pub fn memory_table(report: &memory::Report) -> String {
    let mut text = machine_lines(&report.machine);
    let _ = writeln!(text, "counted: {}", report.counting);
    for operation in Operation::ALL {
        surface_table(&mut text, report, operation);
    }
    if !report.chain.is_empty() {
        let pages = report.chain_pages.unwrap_or("base").replace('_', " ");
        let _ = writeln!(text, "\nlatency of dependent loads in ns ({pages} pages)");
        for row in &report.chain {
            let size = Size(row.working_set_bytes as u64).to_string();
            let _ = writeln!(
                text,
                "{size:>9}{:>9.2} [{:.2}, {:.2}]",
                row.ns, row.low, row.high
            );
        }
        let _ = writeln!(text, "\ncaches that the latency shows");
        for edge in &report.edges {
            let level = edge
                .level
                .map_or("no cache known".to_owned(), |level| format!("L{level}"));
            let size = Size(edge.working_set_bytes as u64).to_string();
            let _ = writeln!(
                text,
                "{size:>9}: {:.2} ns before, {:.2} ns after ({level})",
                edge.before_ns, edge.after_ns
            );
        }
    }
    let _ = writeln!(
        text,
        "\n{} of {} bandwidths have intervals wider than {} %; {:.0} s",
        report.imprecise_points,
        report.surface.len(),
        report.precision * 100.0,
        report.duration_s
    );
    text
}

/// One operation, with a row for each working set and a column for each stride.
fn surface_table(text: &mut String, report: &memory::Report, operation: Operation) {
    let rows: Vec<_> = report
        .surface
        .iter()
        .filter(|row| row.operation == operation)
        .collect();
    let mut strides: Vec<usize> = rows.iter().map(|row| row.stride_words).collect();
    strides.sort_unstable();
    strides.dedup();
    let mut sizes: Vec<usize> = rows.iter().map(|row| row.working_set_bytes).collect();
    sizes.dedup();
    if rows.is_empty() {
        return;
    }
    let _ = write!(
        text,
        "\n{} in MB/s by stride in words\n{:>9}",
        operation.name(),
        ""
    );
    for stride in &strides {
        let _ = write!(text, "{stride:>9}");
    }
    text.push('\n');
    for bytes in sizes {
        let _ = write!(text, "{:>9}", Size(bytes as u64).to_string());
        for &stride in &strides {
            let row = rows
                .iter()
                .find(|row| row.working_set_bytes == bytes && row.stride_words == stride);
            let _ = match row {
                Some(row) => write!(text, "{:>9.0}", row.mbytes_per_s),
                None => write!(text, "{:>9}", "-"),
            };
        }
        text.push('\n');
    }
}

/// The report of `bench switch` as text.
pub fn switch_table(report: &switch::Report) -> String {
    let mut text = machine_lines(&report.machine);
    let _ = writeln!(text, "cost of a switch: {}", report.method);
    let _ = writeln!(
        text,
        "\n{:<10}{:>8}{:>12}{:>8}{:>12}{:>20}{:>10}{:>12}",
        "kind",
        "members",
        "working set",
        "pinned",
        "switch ns",
        "interval",
        "pass ns",
        "departures"
    );
    for row in &report.rows {
        let _ = writeln!(
            text,
            "{:<10}{:>8}{:>12}{:>8}{:>12.0}{:>20}{:>10.0}{:>12.2}",
            row.kind.name(),
            row.members,
            Size(row.working_set_bytes as u64).to_string(),
            if row.pinned { "yes" } else { "no" },
            row.ns_per_switch,
            format!("[{:.0}, {:.0}]", row.low, row.high),
            row.pass_ns,
            row.departures_per_round
        );
    }
    let _ = writeln!(
        text,
        "\n{} of {} intervals are wider than {} %; {:.0} s. departures: context switches of \
         the first member for each round",
        report.imprecise_points,
        report.rows.len(),
        report.precision * 100.0,
        report.duration_s
    );
    text
}
