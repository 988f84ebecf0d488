//! `load http`: its options; what they mean stands in `meaning`, what is shown in `table`.

mod meaning;
mod table;

use std::path::PathBuf;

use perpacket_load::http::{Progress, Report, run as run_load};
use serde::Serialize;

use super::failure;
use crate::options::{BitRate, Rate, RunsOn, Seed, Time, Window};
use crate::output::{ResultFile, Shared};
use crate::status::{Failure, Status};
use crate::stop;

const EXAMPLE: &str = "Examples:
  perpacket-agent load http http://127.0.0.1:8080/index.html --connections 64 --duration 10
  perpacket-agent load http http://127.0.0.1:8080/ --rate 1000 --duration 10 --format json
  perpacket-agent load http http://127.0.0.1:8080 --workload specweb99 --connections 100
  perpacket-agent load http http://127.0.0.1:8080 --replay access.log --speed 10 --spread uniform

A response time counts from when its request was meant to start, a service time from the send.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum WorkloadName {
    /// The URL, again and again.
    File,
    /// SPECweb99: files of four classes, Zipf popularity, clients behind slow lines.
    #[value(name = "specweb99")]
    SpecWeb99,
    /// Surge: users who read pages and think.
    Surge,
    /// WebStone 2.5: five files, one request a connection.
    #[value(name = "webstone")]
    WebStone,
    /// Sessions like the 1998 World Cup's.
    #[value(name = "worldcup")]
    WorldCup,
    /// Sessions like IBM's site's.
    Ibm,
    /// The sessions of a log, as fast as they are answered, over and over.
    Trace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum ArrivalName {
    Fixed,
    Poisson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum SpreadName {
    None,
    Uniform,
    Poisson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum CheckName {
    /// Its length: that of the workload's file.
    Length,
    /// Also that an object's bytes are the same each time.
    Digest,
    /// Nothing.
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Switch {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
enum VersionName {
    #[value(name = "1.0")]
    #[serde(rename = "1.0")]
    Http10,
    #[value(name = "1.1")]
    #[serde(rename = "1.1")]
    Http11,
}

/// Options of `load http`.
#[derive(Clone, Debug, clap::Args, Serialize)]
#[command(after_help = EXAMPLE)]
#[serde(rename_all = "kebab-case")]
pub struct Arguments {
    /// What to ask: http://HOST:PORT/PATH; workloads put their files beneath the path.
    url: String,

    /// Connections at a time, 64 if nothing is said; with a rate or a log, the most there may be
    /// (1024).
    #[arg(long, value_name = "N", help_heading = "Load")]
    connections: Option<u32>,
    /// Requests that arrive a second, whatever the server does; may be a fraction.
    #[arg(long, value_name = "RATE", help_heading = "Load", conflicts_with_all = ["sessions_rate", "replay"])]
    rate: Option<Rate>,
    /// Sessions that arrive a second; each waits for its answers.
    #[arg(
        long,
        value_name = "RATE",
        help_heading = "Load",
        conflicts_with = "replay"
    )]
    sessions_rate: Option<Rate>,
    /// How arrivals are spaced [default: fixed].
    #[arg(long, value_enum, help_heading = "Load")]
    arrivals: Option<ArrivalName>,
    #[command(flatten)]
    #[serde(flatten)]
    window: Window,
    /// End after this number of requests; without --duration, nothing else ends the run.
    #[arg(long, value_name = "N", help_heading = "Load")]
    requests: Option<u64>,

    /// What is asked for [default: file, or trace with --trace].
    #[arg(long, value_enum, help_heading = "Workload")]
    workload: Option<WorkloadName>,
    /// The log of workload `trace`: as fast as the server answers, and begun again when it ends.
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Workload",
        conflicts_with = "replay"
    )]
    trace: Option<PathBuf>,
    /// Replay a log once, at its own times. Formats: Common, Combined, World Cup 1998; plain, .gz or .zst.
    #[arg(long, value_name = "FILE", help_heading = "Workload")]
    replay: Option<PathBuf>,
    /// The paths of a World Cup 1998 log's objects.
    #[arg(long, value_name = "FILE", help_heading = "Workload")]
    object_mappings: Option<PathBuf>,
    /// How many times as fast as the log; `max` ignores its times [default: 1].
    #[arg(long, value_name = "X|max", help_heading = "Workload")]
    speed: Option<String>,
    /// With --speed max: begin the log again when it ends, until --duration or --requests.
    #[arg(long, help_heading = "Workload")]
    repeat: bool,
    /// Where a log's requests lie inside their second [default: uniform].
    #[arg(long, value_enum, help_heading = "Workload")]
    spread: Option<SpreadName>,
    /// SPECweb99 with its dynamic operations.
    #[arg(long, help_heading = "Workload")]
    dynamic: bool,
    /// Surge's user equivalents [default: 100].
    #[arg(long, value_name = "N", help_heading = "Workload")]
    users: Option<u32>,
    /// Share of requests that ask only for what is newer, 0 to 1.
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.0,
        help_heading = "Workload"
    )]
    conditional: f64,
    /// Rate at which each connection reads; 400kb/s with SPECweb99. 0 is no limit.
    #[arg(long, value_name = "BIT-RATE", help_heading = "Workload")]
    line_speed: Option<BitRate>,
    #[command(flatten)]
    #[serde(flatten)]
    seed: Seed,

    /// Version of HTTP.
    #[arg(long, value_enum, default_value = "1.1", help_heading = "Protocol")]
    http: VersionName,
    /// Share of requests on kept connections, 0 to 1.
    #[arg(long, value_name = "SHARE", help_heading = "Protocol")]
    keep_alive: Option<f64>,
    /// Requests of a kept connection: `10`, or `uniform:5-15`.
    #[arg(long, value_name = "DIST", help_heading = "Protocol")]
    requests_per_connection: Option<String>,
    /// A field of every request; may be repeated.
    #[arg(long, value_name = "K: V", help_heading = "Protocol")]
    header: Vec<String>,
    /// Time that a request may go without a byte moving.
    #[arg(
        long,
        value_name = "TIME",
        default_value_t = Time::from_secs(30),
        help_heading = "Protocol"
    )]
    timeout: Time,
    /// What is checked of a body.
    #[arg(long, value_enum, default_value = "length", help_heading = "Protocol")]
    check: CheckName,
    /// Resume TLS sessions [default: on].
    #[arg(long, value_enum, help_heading = "Protocol")]
    tls_resumption: Option<Switch>,
    /// Trust any certificate.
    #[arg(long, help_heading = "Protocol", conflicts_with = "ca")]
    insecure: bool,
    /// Certificates to trust, in PEM form, instead of the system's.
    #[arg(long, value_name = "FILE", help_heading = "Protocol")]
    ca: Option<PathBuf>,

    /// Threads; one a processor if nothing is said.
    #[arg(long, value_name = "N", help_heading = "Client")]
    threads: Option<u32>,
    #[command(flatten, next_help_heading = "Client")]
    #[serde(flatten)]
    runs_on: RunsOn,
    /// Poll for this time before a request is due, because waking up takes tens of microseconds
    /// [default: 60us with --cpus, else 0s].
    #[arg(long, value_name = "TIME", help_heading = "Client")]
    spin: Option<Time>,
    /// Addresses that connections come from.
    #[arg(long, value_name = "ADDR[-ADDR]", help_heading = "Client")]
    source: Option<String>,
    /// This process's part of a load that N processes share: `I/N`. Rates, connections and clients of
    /// a log are divided.
    #[arg(long, value_name = "I/N", help_heading = "Client")]
    shard: Option<String>,

    /// Write the histograms here, as JSON.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    histograms: Option<PathBuf>,
    /// Write one line a request here, as CSV.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    request_log: Option<PathBuf>,
    #[command(flatten)]
    #[serde(skip)]
    shared: Shared,
}

/// Run it.
pub fn run(arguments: &Arguments) -> Result<Status, Failure> {
    let settings = arguments.settings()?;
    let resolved = arguments.resolved(&settings)?;
    if arguments.shared.shows_config(&resolved)? {
        return Ok(Status::Done);
    }
    let file = |option, path: &Option<PathBuf>| {
        let open = |path: &PathBuf| ResultFile::open(option, path);
        path.as_ref().map(open).transpose()
    };
    let histograms = file("histograms", &arguments.histograms)?;
    // The load writes this one while it runs; here its name is only tried.
    drop(file("request-log", &arguments.request_log)?);
    let stop = stop::on_signals()?;
    let shows = arguments.shared.shows_progress();
    let mut show = |progress: &Progress| {
        if shows {
            eprint!("\r\x1b[K{}", table::progress_line(progress));
        }
    };
    let result = run_load(settings, &stop, &mut show);
    if shows {
        eprint!("\r\x1b[K");
    }
    let report = result.map_err(failure)?;
    if let Some(file) = histograms {
        let found = report.histograms().map_err(failure)?;
        file.write(&serde_json::to_string(&found).map_err(Failure::failed)?)?;
    }
    arguments.shared.print(&report, table::table)?;
    ended(&report)
}

/// How the verb ends: the result was printed whatever happened.
fn ended(report: &Report) -> Result<Status, Failure> {
    if let Some(text) = report.failure() {
        return Err(Failure::failed(text).with_hint(match report.server_gone_s {
            Some(_) => {
                "the figures printed are those until then; look at the server's own log for its end"
            }
            None => "see what the server says to one such request, for example with `curl -i URL`",
        }));
    }
    Ok(match report.interrupted {
        true => Status::Interrupted,
        false => Status::Done,
    })
}
