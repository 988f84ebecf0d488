//! `load media`: clients of an RTSP server.

use perpacket_agent::output::Output;
use perpacket_agent::status::{Failure, Status};
use perpacket_agent::stop;
use perpacket_agent::verb::Verb;
use perpacket_media::client::{self, Error, Progress, Report, Spec, StreamReport};

const EXAMPLE: &str = "Example:\n  perpacket-agent load media rtsp://127.0.0.1:8554/stream-{}.ts \
    --clients 100 --ramp 2s --duration 10 --check";

/// Highest number of reasons in the table.
const REASON_ROWS: usize = 8;

pub fn verb() -> Verb {
    Verb::new("load media", EXAMPLE, run)
}

/// Runs the clients and prints their report.
fn run(spec: Spec, output: &Output) -> Result<Status, Failure> {
    let stop = stop::on_signals()?;
    let shows_progress = output.shows_progress();
    let mut on_progress = |progress: Progress| {
        if shows_progress {
            let Progress {
                elapsed_s,
                total_s,
                playing,
            } = progress;
            eprint!("\r{elapsed_s:.0} of {total_s:.0} s, {playing} clients play ");
        }
    };
    let report = client::run(&spec, &stop, &mut on_progress).map_err(|error| match error {
        Error::Url { .. } | Error::Host { .. } => Failure::usage(&error),
        Error::Cpus { .. } => Failure::lacking(&error).with_hint("--cpus names CPUs from 0"),
        Error::Descriptors { .. } => Failure::lacking(&error).with_hint(
            "raise the hard limit (ulimit -Hn), or start several loads with fewer clients each",
        ),
        Error::System(_) => Failure::failed(&error),
    })?;
    if shows_progress {
        eprintln!();
    }
    output.print(&report, table)?;
    if report.interrupted {
        return Ok(Status::Interrupted);
    }
    if report.played == 0 {
        let first = report.reasons.first();
        let why = first.map_or(String::new(), |reason| format!(": {reason}"));
        return Err(Failure::failed(format!("no client received anything{why}"))
            .with_hint("check the URL, and that the server runs"));
    }
    if report.content_errors > 0 {
        let Report {
            content_errors,
            packets_checked,
            ..
        } = report;
        return Err(Failure::unmet(format!(
            "{content_errors} of {packets_checked} packets compared differ from the synthesized stream"
        ))
        .with_hint("--check needs files of `media synthesize`"));
    }
    Ok(Status::Done)
}

fn table(report: &Report) -> String {
    let refused: usize = report.refused.values().sum();
    let late = &report.lateness_us;
    let mut rows = vec![
        ("clients", report.clients.to_string()),
        ("  played", report.played.to_string()),
        ("  refused", refused.to_string()),
        ("  timed out", report.timed_out.to_string()),
        ("  failed", report.failed.to_string()),
        ("measured (s)", format!("{:.1}", report.window_s)),
        (
            "throughput (Mb/s)",
            format!("{:.3}", report.throughput_bps / 1e6),
        ),
        ("packets", report.packets.to_string()),
        ("  lost", report.lost.to_string()),
        ("  reordered", report.reordered.to_string()),
        ("  duplicates", report.duplicates.to_string()),
        ("lateness p50 (us)", format!("{:.0}", late.p50)),
        ("  p99", format!("{:.0}", late.p99)),
        ("  p99.9", format!("{:.0}", late.p999)),
        ("  max", format!("{:.0}", late.max)),
        ("jitter, mean (us)", format!("{:.0}", report.jitter_us.mean)),
        (
            "gap difference (us)",
            format!("{:.0}", report.mean_gap_difference_us.mean),
        ),
        (
            "start-up p50 (ms)",
            format!("{:.1}", report.start_up_ms.p50),
        ),
        ("  p99", format!("{:.1}", report.start_up_ms.p99)),
    ];
    if report.checked {
        rows.push(("packets compared", report.packets_checked.to_string()));
        rows.push(("  wrong", report.content_errors.to_string()));
    }
    let mut text: String = rows
        .iter()
        .map(|(name, value)| format!("{name:<20}{value:>16}\n"))
        .collect();
    for reason in report.reasons.iter().take(REASON_ROWS) {
        text.push_str(&format!("{reason}\n"));
    }
    if report.reasons.len() > REASON_ROWS {
        let rest = report.reasons.len() - REASON_ROWS;
        text.push_str(&format!("{rest} more reasons, in --format json\n"));
    }
    if let Some(latest) = latest_stream(&report.streams) {
        let lateness = latest.lateness_us.p99;
        text.push_str(&format!(
            "latest stream: {} (p99 {lateness:.0} us)\n",
            latest.url
        ));
    }
    text
}

/// The stream with the highest lateness.
fn latest_stream(streams: &[StreamReport]) -> Option<&StreamReport> {
    let played = streams.iter().filter(|stream| stream.packets > 0);
    played.max_by(|a, b| a.lateness_us.p99.total_cmp(&b.lateness_us.p99))
}
