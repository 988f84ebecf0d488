//! The reports of `route` as text.

use std::fmt::Write as _;

use perpacket_router::frame::ETHERNET_BYTES;
use perpacket_router::search::Step;

use super::{CheckReport, PlaneReport, ThroughputReport};

/// The report of `route check` as text.
pub fn check_table(report: &CheckReport) -> String {
    let mut text = format!("{:<5}{:<38}{:<34}result\n", "port", "case", "expected");
    for case in &report.cases {
        let expected: String = case
            .expected
            .split(", next_mac")
            .next()
            .unwrap_or("")
            .into();
        let _ = writeln!(
            text,
            "{:<5}{:<38}{:<34}{}",
            case.ingress,
            case.case,
            expected,
            case.breach.as_deref().unwrap_or("passed")
        );
    }
    let _ = writeln!(
        text,
        "\n{} of {} cases wrong",
        report.wrong,
        report.cases.len()
    );
    text
}

/// The report of `route throughput` or `route self-test` as text.
pub fn throughput_table(report: &ThroughputReport) -> String {
    let mut text = format!(
        "{:>12}{:>12}{:>12}{:>12}{:>9}  {}\n",
        "frames/s", "sent", "received", "not counted", "loss %", "passed"
    );
    for step in &report.search.steps {
        let Step {
            rate_pps,
            outcome,
            loss,
            passed,
        } = step;
        let _ = writeln!(
            text,
            "{rate_pps:>12.0}{:>12}{:>12}{:>12}{:>9.3}  {}",
            outcome.sent,
            outcome.received,
            outcome.not_counted,
            loss * 100.0,
            match (passed, outcome.achieved_rate()) {
                (true, _) => "yes",
                (false, true) => "no",
                (false, false) => "no: the generator did not achieve the rate",
            }
        );
    }
    match report.search.throughput_pps {
        Some(rate_pps) => {
            // On the wire, preamble and gap use another 20 bytes for each frame (IEEE 802.3).
            let bits = (report.frame_bytes + 20) as f64 * 8.0;
            let _ = writeln!(
                text,
                "\nthroughput {rate_pps:.0} frames/s of {} bytes (with check sequence): {:.1} Mb/s \
                 of packets, {:.1} Mb/s of a wire",
                report.frame_bytes,
                rate_pps * (report.frame_bytes - 4 - ETHERNET_BYTES) as f64 * 8.0 / 1e6,
                rate_pps * bits / 1e6
            );
        }
        None if report.search.failed_pps.is_some() => {
            text.push_str("\nno rate without loss, down to the lowest\n");
        }
        None => {}
    }
    if report.search.generator_limited {
        text.push_str("the generator was the limit: the router may carry more\n");
    }
    if let Some(known_pps) = report.known_pps {
        let _ = writeln!(text, "the dropper's known limit is {known_pps:.0} frames/s");
    }
    text
}

/// The report of `route plane` as text.
pub fn plane_table(report: &PlaneReport) -> String {
    let mut text = String::new();
    for (interface, mode) in &report.attached.interfaces {
        let _ = writeln!(
            text,
            "{interface:<24}{}",
            format!("{mode:?}").to_lowercase()
        );
    }
    let _ = writeln!(text, "forwarded for {:.1} s", report.duration_s);
    text
}
