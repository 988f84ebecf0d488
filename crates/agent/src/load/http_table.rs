//! What `load http` shows people.

use std::fmt::Write;

use perpacket_load::LatencySummary;
use perpacket_load::http::{Progress, Report};

/// The result as lines and a table of percentiles.
pub fn table(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{} ({}, {} arrivals, {} connections, {} threads, {:.2} s)\n",
        report.url,
        report.workload,
        report.arrivals,
        report.connections,
        report.threads,
        report.duration_s
    );
    let _ = writeln!(
        text,
        "requests        {}   {:.1} /s   {:.2} Mb/s of content (10^6)",
        report.requests, report.requests_per_s, report.content_mbps
    );
    let _ = writeln!(
        text,
        "client CPU      {:.2} s   {:.2} us a request",
        report.client_cpu_s, report.client_cpu_us_per_request
    );
    let _ = writeln!(
        text,
        "connections     {} opened, {} requests sent again on a new one",
        report.connections_opened, report.reopened
    );
    if let Some(conforming) = report.conforming {
        let _ = writeln!(
            text,
            "conforming      {conforming} of {}",
            report.connections
        );
    }
    let _ = writeln!(text, "load factor     {:.2}", report.load_factor);
    let _ = writeln!(
        text,
        "left over       {} unsent, {} unfinished\n",
        report.unsent, report.unfinished
    );
    let columns = ["mean", "p50", "p90", "p99", "p99.9", "p99.999", "max"];
    let _ = write!(text, "{:<16}", "latency [us]");
    for column in columns {
        let _ = write!(text, "{column:>11}");
    }
    text.push('\n');
    row(&mut text, "service", &report.latency_us.service);
    row(&mut text, "response", &report.latency_us.response);
    if report.schedule_lag_us.count > 0 {
        row(&mut text, "schedule lag", &report.schedule_lag_us);
    }
    if !report.errors.is_empty() {
        let _ = writeln!(text, "\nerrors");
        for (kind, count) in &report.errors {
            let example = report
                .error_examples
                .get(kind)
                .and_then(|texts| texts.first());
            let _ = writeln!(
                text,
                "  {kind:<18} {count:>10}  {}",
                example.map_or("", String::as_str)
            );
        }
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn row(text: &mut String, name: &str, latency: &LatencySummary) {
    let values = [
        latency.mean,
        latency.p50,
        latency.p90,
        latency.p99,
        latency.p999,
        latency.p99999,
        latency.max,
    ];
    let _ = write!(text, "{name:<16}");
    for value in values {
        let _ = write!(text, "{value:>11.1}");
    }
    text.push('\n');
}

/// The progress in one line.
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
