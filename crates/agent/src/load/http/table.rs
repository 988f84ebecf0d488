//! The table and the progress line of `load http`.

use std::fmt::Write;

use perpacket_load::LatencySummary;
use perpacket_load::http::{Progress, Report};

use crate::table::{columns, rows};

/// The report as lines and a table of percentiles.
pub fn table(report: &Report) -> String {
    let mut text = format!(
        "{} ({}; {}; {} threads, {:.2} s)\n\n",
        report.url,
        report.workload,
        arrivals(report),
        report.threads,
        report.duration_s
    );
    if report.is_no_result() {
        text.push_str("no result: more than one answer in a thousand is wrong\n\n");
        text.push_str(&pages(report));
        return text + &problems(report);
    }
    text.push_str(&rows(&counted(report)));
    text.push('\n');
    let latencies = [
        ("service", &report.latency_us.service),
        ("response", &report.latency_us.response),
        ("schedule lag", &report.schedule_lag_us),
    ];
    let shown: Vec<_> = latencies
        .into_iter()
        .filter(|(name, latency)| *name != "schedule lag" || latency.count > 0)
        .map(|(name, latency)| (name, values(latency)))
        .collect();
    let names = ["mean", "p50", "p90", "p99", "p99.9", "p99.999", "max"];
    text.push_str(&columns("latency [us]", names, &shown));
    if !report.pages.is_empty() {
        text.push('\n');
        text.push_str(&pages(report));
    }
    text + &problems(report)
}

/// The answers by page of an application; latencies are response times in microseconds.
fn pages(report: &Report) -> String {
    let mut text = format!(
        "{:<22}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}\n",
        "pages [us]", "requests", "wrong", "right/s", "p50", "p95", "p99"
    );
    for page in &report.pages {
        let times = &page.response_us;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:<22}{:>11}{:>11}{:>11.1}{:>11.1}{:>11.1}{:>11.1}",
            page.page,
            page.requests,
            page.wrong,
            page.requests_per_s,
            times.p50,
            times.p95,
            times.p99
        );
    }
    text
}

/// The errors and notes.
fn problems(report: &Report) -> String {
    let mut text = String::new();
    if !report.errors.is_empty() {
        text.push_str("\nerrors\n");
    }
    for (kind, count) in &report.errors {
        let examples = report.error_examples.get(kind);
        let first = examples.and_then(|texts| texts.first());
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "  {kind:<18} {count:>10}  {}",
            first.map_or("", String::as_str)
        );
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// The arrivals in words.
fn arrivals(report: &Report) -> String {
    let per_s = report.arrivals_per_s.unwrap_or_default();
    let most = format!("at most {} connections", report.connections);
    match report.arrivals {
        "requests" => format!("open loop, {per_s} requests per second, {most}"),
        "sessions" => format!("partly open loop, {per_s} sessions per second, {most}"),
        "recorded" => match report.speed {
            Some(speed) if speed != 1.0 => {
                format!("{speed} times as fast as the log's times, {most}")
            }
            _ => format!("at the log's times, {most}"),
        },
        _ if !report.pages.is_empty() => format!("closed loop, {} clients", report.connections),
        _ => format!("closed loop, {} connections", report.connections),
    }
}

fn counted(report: &Report) -> Vec<(&'static str, String)> {
    let statuses = report.statuses.iter();
    let statuses: Vec<String> = statuses
        .map(|(status, count)| format!("{status}: {count}"))
        .collect();
    let mut rows = vec![
        (
            "requests",
            format!(
                "{}   {:.1} /s   {:.2} Mb/s of content (10^6)",
                report.requests, report.requests_per_s, report.content_mbps
            ),
        ),
        ("statuses", statuses.join(", ")),
        (
            "client CPU",
            format!(
                "{:.2} s   {:.2} us per request",
                report.client_cpu_s, report.client_cpu_us_per_request
            ),
        ),
        (
            "connections",
            format!(
                "{} opened, {} requests sent again on a new connection",
                report.connections_opened, report.reopened
            ),
        ),
    ];
    if let Some(conforming) = report.conforming {
        rows.push((
            "conforming",
            format!("{conforming} of {}", report.connections),
        ));
    }
    rows.push(("load factor", format!("{:.2}", report.load_factor)));
    let rest = format!("{} unsent, {} unfinished", report.unsent, report.unfinished);
    rows.push(("left over", rest));
    rows
}

fn values(latency: &LatencySummary) -> [f64; 7] {
    [
        latency.mean,
        latency.p50,
        latency.p90,
        latency.p99,
        latency.p999,
        latency.p99999,
        latency.max,
    ]
}

pub fn progress_line(progress: &Progress) -> String {
    format!(
        "{:>6.1} s {} {:>9.0} requests/s  response {:>9.1} us  {} errors  lag up to {:.0} us",
        progress.elapsed_s,
        if progress.warming_up {
            "warm-up"
        } else {
            "       "
        },
        progress.requests_per_s,
        progress.response_us,
        progress.errors,
        progress.lag_max_us
    )
}
