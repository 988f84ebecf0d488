//! `load media`: clients of an RTSP server.

use std::time::Duration;

use perpacket_media::client::{
    self, Distribution, Error, Options, PLACEHOLDER, Progress, Report, StreamReport, Transport,
};
use serde::Serialize;

use crate::options::{Named, RunsOn, Time, Window, one_of, refuse_ignored};
use crate::output::Shared;
use crate::status::{Failure, Status};
use crate::stop;

const EXAMPLE: &str = "Example:\n  perpacket-agent load media rtsp://127.0.0.1:8554/stream-{}.ts \
    --clients 100 --ramp 2s --duration 10 --check";

/// Time between the ramp and the measurement.
const DEFAULT_WARMUP: Time = Time::from_secs(1);

/// Highest number of reasons in the table.
const REASON_ROWS: usize = 8;

/// Options of `load media`.
#[derive(Debug, clap::Args, Serialize)]
#[command(after_help = EXAMPLE)]
#[serde(rename_all = "kebab-case")]
pub struct Arguments {
    /// rtsp://HOST[:PORT]/PATH; the medium's number in five digits replaces {}.
    #[serde(skip)]
    url: String,
    /// Number of clients.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: u32,
    /// Time over which the clients start, before the warm-up.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    ramp: Time,
    #[command(flatten)]
    #[serde(flatten)]
    window: Window,
    /// The media that clients play.
    #[arg(long, value_parser = one_of(DISTRIBUTIONS), default_value = "unique")]
    distribution: Distribution,
    /// Number of media in `multiple` [default: the number of clients].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<u32>,
    /// Number of the first medium [default: 0].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    first_file: Option<u32>,
    /// How RTP packets are carried.
    #[arg(long, value_parser = one_of(TRANSPORTS), default_value = "udp")]
    transport: Transport,
    /// Compare every byte with the stream of `media synthesize`; exit with 1 if one differs.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    #[serde(flatten)]
    runs_on: RunsOn,
    #[command(flatten)]
    #[serde(skip)]
    shared: Shared,
}

const DISTRIBUTIONS: &[Named<Distribution>] = &[
    (
        "unique",
        Distribution::Unique,
        "All clients play the same medium",
    ),
    (
        "multiple",
        Distribution::Multiple,
        "Each client plays the next medium",
    ),
];

const TRANSPORTS: &[Named<Transport>] = &[
    ("udp", Transport::Udp, "UDP datagrams"),
    (
        "tcp",
        Transport::Tcp,
        "Interleaved frames on the RTSP connection",
    ),
];

impl Arguments {
    fn refuse_ignored(&self) -> Result<(), Failure> {
        let plays_one = self.distribution == Distribution::Unique;
        let has_number = self.url.contains(PLACEHOLDER);
        refuse_ignored(&[
            (
                self.files.is_some() && plays_one,
                "files",
                "without --distribution multiple",
            ),
            (
                self.first_file.is_some() && !has_number,
                "first-file",
                "without {} in the URL",
            ),
        ])
    }

    fn options(&self) -> Result<Options, Failure> {
        self.refuse_ignored()?;
        Ok(Options {
            url: self.url.clone(),
            clients: self.clients as usize,
            ramp: self.ramp.0,
            warmup: self.window.warmup.unwrap_or(DEFAULT_WARMUP).0,
            duration: match self.window.duration.unwrap_or(Window::DEFAULT_DURATION).0 {
                Duration::ZERO => return Err(Failure::usage("--duration 0: expected more than 0")),
                duration => duration,
            },
            distribution: self.distribution,
            files: self.files.unwrap_or(self.clients),
            first_file: self.first_file.unwrap_or(0),
            transport: self.transport,
            check: self.check,
            cpus: self.runs_on.list(),
        })
    }
}

/// Runs the clients and prints their report.
pub fn run(arguments: &Arguments) -> Result<Status, Failure> {
    let shared = &arguments.shared;
    let options = arguments.options()?;
    if shared.shows_config(arguments)? {
        return Ok(Status::Done);
    }
    let stop = stop::on_signals()?;
    let shows_progress = shared.shows_progress();
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
    let report = client::run(&options, &stop, &mut on_progress).map_err(|error| match error {
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
    shared.print(&report, table)?;
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
