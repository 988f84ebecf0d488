//! `load stream`.

use std::fmt::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use perpacket_load::stream::{self, Direction, FarEnd, FarEndReport, Progress, Report, Settings};
use serde::Serialize;

use super::{failure, http};
use crate::output::Shared;
use crate::status::{Failure, Status};
use crate::{config, stop};

const EXAMPLE: &str = "Examples:
  perpacket-agent load stream --listen 127.0.0.1:5001          (the far end)
  perpacket-agent load stream --to 127.0.0.1:5001 --connections 2048 --rate 1000000000
                                                               (the machine under test)";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum DirectionName {
    /// This machine sends.
    Send,
    /// The far end sends.
    Receive,
}

/// Options of `load stream`.
#[derive(Debug, clap::Args, Serialize)]
#[command(after_help = EXAMPLE)]
#[serde(rename_all = "kebab-case")]
pub struct Arguments {
    /// Be the far end, at this address, until a signal.
    #[arg(
        long,
        value_name = "ADDR:PORT",
        required_unless_present = "to",
        conflicts_with = "to"
    )]
    listen: Option<String>,
    /// The far end to send to or receive from.
    #[arg(long, value_name = "ADDR:PORT")]
    to: Option<String>,
    /// As a far end: end when all connections it had have closed.
    #[arg(long)]
    once: bool,
    /// Connections.
    #[arg(long, value_name = "N", default_value_t = 1)]
    connections: u32,
    /// Payload bytes of a segment.
    #[arg(long, value_name = "BYTES", default_value_t = 1460)]
    segment_bytes: u32,
    /// Bits of payload a second on all connections together; as fast as it goes if nothing is said.
    #[arg(long, value_name = "BPS")]
    rate: Option<f64>,
    /// Who sends.
    #[arg(long, value_enum, default_value = "send")]
    direction: DirectionName,
    /// Seconds to measure for.
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    duration: f64,
    /// Seconds before the measured window.
    #[arg(long, value_name = "S", default_value_t = 0.0)]
    warmup: f64,
    /// Congestion control; the machine's own if nothing is said.
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// Processors to bind threads to, one thread each: `0,2-3`.
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
    /// Threads; one a processor if nothing is said.
    #[arg(long, value_name = "N")]
    threads: Option<u32>,
    /// Addresses that connections come from.
    #[arg(long, value_name = "ADDR[-ADDR]")]
    source: Option<String>,
    #[command(flatten)]
    #[serde(skip)]
    shared: Shared,
}

/// Run it.
pub fn run(arguments: &Arguments) -> Result<Status, Failure> {
    let cpus = arguments
        .cpus
        .as_deref()
        .map(http::cpu_list)
        .transpose()?
        .unwrap_or_default();
    if arguments.shared.show_config {
        print!("{}", config::to_toml(arguments)?);
        return Ok(Status::Done);
    }
    match (&arguments.listen, &arguments.to) {
        (Some(listen), _) => serve(arguments, address("listen", listen)?, cpus),
        (None, Some(to)) => load(arguments, address("to", to)?, cpus),
        (None, None) => Err(Failure::usage(
            "--listen or --to: one of them has to be named",
        )),
    }
}

fn serve(arguments: &Arguments, listen: SocketAddr, cpus: Vec<usize>) -> Result<Status, Failure> {
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
            eprintln!("listening on {address}");
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
        segment_bytes: arguments.segment_bytes,
        rate_bps: arguments.rate,
        direction: match arguments.direction {
            DirectionName::Send => Direction::Send,
            DirectionName::Receive => Direction::Receive,
        },
        duration: seconds("duration", arguments.duration)?,
        warmup: seconds("warmup", arguments.warmup)?,
        cpus,
        threads: arguments.threads,
        congestion: arguments.congestion.clone(),
        sources,
        ..Settings::new(to, arguments.connections)
    };
    let stop = stop::on_signals()?;
    let shows = arguments.shared.shows_progress();
    let mut show = |progress: &Progress| {
        if shows {
            eprint!(
                "\r\x1b[K{:>6.1} s  {} connections open  {} broken",
                progress.elapsed_s, progress.open, progress.errors
            );
        }
    };
    let result = stream::run(&settings, &stop, &mut show);
    if shows {
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

fn seconds(option: &str, value: f64) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(value)
        .map_err(|_| Failure::usage(format!("--{option} {value}: expected seconds, 0 or more")))
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
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "goodput          {:.2} Mb/s (10^6)",
        report.goodput_bps / 1e6
    );
    let _ = writeln!(
        text,
        "segments         {} of {} bytes (kernel: {}), {} sent again",
        report.segments, report.segment_bytes, report.kernel_segment_bytes, report.retransmissions
    );
    let rtt = &report.rtt_us;
    let _ = writeln!(
        text,
        "round trip [us]  p50 {:.0}  p99 {:.0}  max {:.0}",
        rtt.p50, rtt.p99, rtt.max
    );
    let _ = writeln!(
        text,
        "CPU              {:.3} s, {:.3} us a segment",
        report.cpu_s, report.cpu_us_per_segment
    );
    for (kind, count) in &report.errors {
        let _ = writeln!(text, "error            {kind}: {count}");
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn far_end_table(report: &FarEndReport) -> String {
    format!(
        "{}: {} connections, {} bytes received in {:.1} s, {:.2} s of CPU\n",
        report.listened, report.connections, report.bytes, report.duration_s, report.cpu_s
    )
}
