//! `load stream`.

use std::fmt::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use perpacket_load::stream::{self, Direction, FarEnd, FarEndReport, Progress, Report, Settings};
use serde::Serialize;

use super::failure;
use crate::options::{BitRate, Named, RunsOn, Size, Time, Window, one_of, refuse_ignored};
use crate::output::Shared;
use crate::status::{Failure, Status};
use crate::stop;
use crate::table::rows;

const EXAMPLE: &str = "Examples:
  perpacket-agent load stream --listen 127.0.0.1:5001          (the far end)
  perpacket-agent load stream --to 127.0.0.1:5001 --connections 2048 --bit-rate 1Gb/s
                                                               (the machine under test)";

const DIRECTIONS: &[Named<Direction>] = &[
    ("send", Direction::Send, "This machine sends"),
    ("receive", Direction::Receive, "The far end sends"),
];

/// Default number of connections.
const DEFAULT_CONNECTIONS: u32 = 1;
/// Default payload bytes of a segment.
const DEFAULT_SEGMENT_BYTES: u32 = 1460;

/// Options of `load stream`.
#[derive(Clone, Debug, clap::Args, Serialize)]
#[command(after_help = EXAMPLE)]
#[serde(rename_all = "kebab-case")]
pub struct Arguments {
    /// Run the far end at this address until a signal.
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "to")]
    listen: Option<String>,
    /// The far end to send to or receive from.
    #[arg(long, value_name = "ADDR:PORT")]
    to: Option<String>,
    /// With --listen: end when all connections have closed.
    #[arg(long)]
    once: bool,
    /// Number of connections [default: 1].
    #[arg(long, value_name = "N")]
    connections: Option<u32>,
    /// Payload bytes of a segment [default: 1460].
    #[arg(long, value_name = "SIZE")]
    segment_size: Option<Size>,
    /// Payload rate of all connections together; without it, as fast as possible.
    #[arg(long, value_name = "BIT-RATE")]
    bit_rate: Option<BitRate>,
    /// Who sends [default: send].
    #[arg(long, value_parser = one_of(DIRECTIONS))]
    direction: Option<Direction>,
    #[command(flatten)]
    #[serde(flatten)]
    window: Window,
    /// Congestion control [default: that of the machine].
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    runs_on: RunsOn,
    /// Number of threads [default: one per CPU].
    #[arg(long, value_name = "N")]
    threads: Option<u32>,
    /// Source addresses of the connections.
    #[arg(long, value_name = "ADDR[-ADDR]")]
    source: Option<String>,
    #[command(flatten)]
    #[serde(skip)]
    shared: Shared,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<Status, Failure> {
    let cpus = arguments.runs_on.list();
    arguments.refuse_ignored()?;
    match (&arguments.listen, &arguments.to) {
        (Some(listen), _) => serve(arguments, address("listen", listen)?, cpus),
        (None, Some(to)) => load(arguments, address("to", to)?, cpus),
        (None, None) => Err(Failure::usage(
            "load stream: expected --listen ADDR:PORT or --to ADDR:PORT",
        )
        .with_hint(
            "start the far end with --listen, then this one with --to and the address of the far end",
        )),
    }
}

impl Arguments {
    /// Refuses options of the other end.
    fn refuse_ignored(&self) -> Result<(), Failure> {
        let listens = self.listen.is_some();
        let why = "with --listen: it is an option of the end with --to";
        refuse_ignored(&[
            (
                self.once && !listens && self.to.is_some(),
                "once",
                "without --listen",
            ),
            (listens && self.connections.is_some(), "connections", why),
            (listens && self.segment_size.is_some(), "segment-size", why),
            (listens && self.bit_rate.is_some(), "bit-rate", why),
            (listens && self.direction.is_some(), "direction", why),
            (listens && self.window.duration.is_some(), "duration", why),
            (listens && self.window.warmup.is_some(), "warmup", why),
            (listens && self.source.is_some(), "source", why),
            (
                listens && self.threads.is_some(),
                "threads",
                "with --listen: the far end has one thread, or one for each of --cpus",
            ),
            (
                self.threads.is_some() && self.runs_on.cpus.is_some(),
                "threads",
                "with --cpus, each of which has one thread",
            ),
        ])
    }

    fn segment_bytes(&self) -> Result<u32, Failure> {
        self.segment_size.map_or(Ok(DEFAULT_SEGMENT_BYTES), |size| {
            u32::try_from(size.0).map_err(|_| {
                Failure::usage(format!("--segment-size {size}: expected less than 4GiB"))
            })
        })
    }

    /// The options with all defaults.
    fn resolved(&self, settings: &Settings) -> Self {
        let mut all = self.clone();
        all.connections = Some(settings.connections);
        all.segment_size = Some(Size(settings.segment_bytes.into()));
        all.direction = Some(settings.direction);
        all.window.duration = Some(Time(settings.duration));
        all.window.warmup = Some(Time(settings.warmup));
        // With --cpus, --threads has no effect.
        all.threads = (self.runs_on.cpus.is_none()).then(|| stream::threads(settings));
        all
    }
}

fn serve(arguments: &Arguments, listen: SocketAddr, cpus: Vec<usize>) -> Result<Status, Failure> {
    if arguments.shared.shows_config(arguments)? {
        return Ok(Status::Done);
    }
    let settings = FarEnd {
        listen,
        once: arguments.once,
        cpus,
        congestion: arguments.congestion.clone(),
    };
    let stop = stop::on_signals()?;
    let quiet = arguments.shared.quiet;
    let mut listening = |address: SocketAddr| {
        if !quiet {
            message!("listening on {address}");
        }
    };
    let report = stream::serve(&settings, &stop, &mut listening).map_err(failure)?;
    arguments.shared.print(&report, far_end_table)?;
    Ok(Status::Done)
}

fn load(arguments: &Arguments, to: SocketAddr, cpus: Vec<usize>) -> Result<Status, Failure> {
    let sources = match &arguments.source {
        None => Default::default(),
        Some(text) => text
            .parse()
            .map_err(|error| Failure::usage(format!("--source {error}")))?,
    };
    let settings = Settings {
        segment_bytes: arguments.segment_bytes()?,
        rate_bps: arguments.bit_rate.map(|rate| rate.0 as f64),
        direction: arguments.direction.unwrap_or(Direction::Send),
        duration: arguments
            .window
            .duration
            .unwrap_or(Window::DEFAULT_DURATION)
            .0,
        warmup: arguments
            .window
            .warmup
            .map_or(Duration::ZERO, |time| time.0),
        cpus,
        threads: arguments.threads,
        congestion: arguments.congestion.clone(),
        sources,
        ..Settings::new(to, arguments.connections.unwrap_or(DEFAULT_CONNECTIONS))
    };
    if arguments
        .shared
        .shows_config(&arguments.resolved(&settings))?
    {
        return Ok(Status::Done);
    }
    let stop = stop::on_signals()?;
    let shows_progress = arguments.shared.shows_progress();
    let mut show = |progress: &Progress| {
        if shows_progress {
            eprint!(
                "\r\x1b[K{:>6.1} s  {} connections open  {} broken",
                progress.elapsed_s, progress.open, progress.errors
            );
        }
    };
    let result = stream::run(&settings, &stop, &mut show);
    if shows_progress {
        eprint!("\r\x1b[K");
    }
    let report = result.map_err(failure)?;
    arguments.shared.print(&report, table)?;
    match (report.failure(), report.interrupted) {
        (Some(text), _) => Err(Failure::failed(text)),
        (None, true) => Ok(Status::Interrupted),
        (None, false) => Ok(Status::Done),
    }
}

fn address(option: &str, text: &str) -> Result<SocketAddr, Failure> {
    let found = text
        .to_socket_addrs()
        .ok()
        .and_then(|mut found| found.next());
    found.ok_or_else(|| {
        Failure::usage(format!(
            "--{option} {text}: expected ADDRESS:PORT, such as 127.0.0.1:5001"
        ))
    })
}

fn table(report: &Report) -> String {
    let mut text = format!(
        "{} connections, {}, {} threads, {:.2} s, {}\n\n",
        report.connections,
        report.direction,
        report.threads,
        report.duration_s,
        report.congestion_control
    );
    let rtt = &report.rtt_us;
    let mut all = vec![
        (
            "goodput",
            format!("{:.2} Mb/s (10^6)", report.goodput_bps / 1e6),
        ),
        (
            "segments",
            format!(
                "{} of {} bytes (kernel: {}), {} retransmitted",
                report.segments,
                report.segment_bytes,
                report.kernel_segment_bytes,
                report.retransmissions
            ),
        ),
        (
            "round trip [us]",
            format!("p50 {:.0}  p99 {:.0}  max {:.0}", rtt.p50, rtt.p99, rtt.max),
        ),
        (
            "CPU",
            format!(
                "{:.3} s, {:.3} us per segment",
                report.cpu_s, report.cpu_us_per_segment
            ),
        ),
    ];
    let errors = report.errors.iter();
    all.extend(errors.map(|(kind, count)| ("error", format!("{kind}: {count}"))));
    text.push_str(&rows(&all));
    for note in &report.notes {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn far_end_table(report: &FarEndReport) -> String {
    format!(
        "{}: {} connections, {} bytes received and {} sent in {:.1} s, {:.2} s of CPU\n",
        report.listened,
        report.connections,
        report.bytes,
        report.bytes_sent,
        report.duration_s,
        report.cpu_s
    )
}
