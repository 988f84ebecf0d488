//! `load http`: its options. `settings` turns them into a load, `table` prints the report.

mod settings;
mod table;

use std::path::PathBuf;

use perpacket_load::http::{
    Check, Process, Progress, Report, Spread, TlsVersion, Version, run as run_load,
};
use serde::Serialize;

use super::failure;
use crate::options::{BitRate, Named, Rate, RunsOn, Seed, Switch, Time, Window, one_of};
use crate::output::{ResultFile, Shared};
use crate::status::{Failure, Status};
use crate::stop;

const EXAMPLE: &str = "Examples:
  perpacket-agent load http http://127.0.0.1:8080/index.html --connections 64 --duration 10
  perpacket-agent load http http://127.0.0.1:8080/ --rate 1000 --duration 10 --format json
  perpacket-agent load http http://127.0.0.1:8080 --workload specweb99 --connections 100
  perpacket-agent load http http://127.0.0.1:8080 --application application.toml --clients 20
  perpacket-agent load http http://127.0.0.1:8080 --replay access.log --speed 10 --spread uniform

A response time counts from the intended start of its request, a service time from the send.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum WorkloadName {
    /// The URL, repeatedly.
    File,
    /// SPECweb99: files of four classes, Zipf popularity, clients with slow lines.
    #[value(name = "specweb99")]
    SpecWeb99,
    /// Surge: users that read pages and think.
    Surge,
    /// WebStone 2.5: five files, one request per connection.
    #[value(name = "webstone")]
    WebStone,
    /// Sessions like those of the 1998 World Cup site.
    #[value(name = "worldcup")]
    WorldCup,
    /// Sessions like those of IBM's site.
    Ibm,
    /// The sessions of a log, without its times, repeatedly.
    Trace,
}

const ARRIVALS: &[Named<Process>] = &[
    ("fixed", Process::Fixed, ""),
    ("poisson", Process::Poisson, ""),
];

const SPREADS: &[Named<Spread>] = &[
    ("none", Spread::None, ""),
    ("uniform", Spread::Uniform, ""),
    ("poisson", Spread::Poisson, ""),
];

const CHECKS: &[Named<Check>] = &[
    (
        "length",
        Check::Length,
        "Its length, which must be that of the workload's file",
    ),
    (
        "digest",
        Check::Digest,
        "Its length, and that every body of an object is the same",
    ),
    ("none", Check::None, "Nothing"),
];

const VERSIONS: &[Named<Version>] = &[("1.0", Version::Http10, ""), ("1.1", Version::Http11, "")];

const TLS_VERSIONS: &[Named<TlsVersion>] = &[
    ("1.2", TlsVersion::Tls12, ""),
    ("1.3", TlsVersion::Tls13, ""),
];

/// Options of `load http`.
#[derive(Clone, Debug, clap::Args, Serialize)]
#[command(after_help = EXAMPLE)]
#[serde(rename_all = "kebab-case")]
pub struct Arguments {
    /// http://HOST:PORT/PATH. The files of a workload are below the path.
    url: String,

    /// Connections at a time [default: 64]; with a rate or a log, the maximum number [default: 1024].
    #[arg(long, value_name = "N", help_heading = "Load")]
    connections: Option<u32>,
    /// Requests per second of an open loop; may be a fraction.
    #[arg(long, value_name = "RATE", help_heading = "Load", conflicts_with_all = ["sessions_rate", "replay"])]
    rate: Option<Rate>,
    /// Sessions per second of a partly open loop: each waits for its responses.
    #[arg(
        long,
        value_name = "RATE",
        help_heading = "Load",
        conflicts_with = "replay"
    )]
    sessions_rate: Option<Rate>,
    /// Distribution of the times between arrivals [default: fixed].
    #[arg(long, value_parser = one_of(ARRIVALS), help_heading = "Load")]
    arrivals: Option<Process>,
    #[command(flatten)]
    #[serde(flatten)]
    window: Window,
    /// End after this number of requests; without --duration, nothing else ends the run.
    #[arg(long, value_name = "N", help_heading = "Load")]
    requests: Option<u64>,

    /// What to request [default: file, or trace with --trace].
    #[arg(long, value_enum, help_heading = "Workload")]
    workload: Option<WorkloadName>,
    /// The log of the workload `trace`. The workload repeats the log and ignores its times.
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
    /// Paths of the objects of a World Cup 1998 log.
    #[arg(long, value_name = "FILE", help_heading = "Workload")]
    object_mappings: Option<PathBuf>,
    /// Factor by which the run is faster than the log; `max` ignores its times [default: 1].
    #[arg(long, value_name = "X|max", help_heading = "Workload")]
    speed: Option<String>,
    /// With --speed max: repeat the log until --duration or --requests.
    #[arg(long, help_heading = "Workload")]
    repeat: bool,
    /// When requests start within their second, because the times in a log are whole seconds
    /// [default: uniform].
    #[arg(long, value_parser = one_of(SPREADS), help_heading = "Workload")]
    spread: Option<Spread>,
    /// Include the dynamic operations of SPECweb99.
    #[arg(long, help_heading = "Workload")]
    dynamic: bool,
    /// Walk through the pages of an application and check every answer. The value
    /// is its file, `application.toml`. `perpacket load http` also accepts the name of an
    /// application, without a URL, and starts it.
    #[arg(long, value_name = "FILE", help_heading = "Workload",
          conflicts_with_all = ["workload", "trace", "replay", "connections"])]
    application: Option<PathBuf>,
    /// Number of clients of the application [default: 10].
    #[arg(
        long,
        value_name = "N",
        help_heading = "Workload",
        requires = "application"
    )]
    clients: Option<u32>,
    /// End when each thread has requested each page of the application this number of times.
    #[arg(
        long,
        value_name = "N",
        help_heading = "Workload",
        requires = "application"
    )]
    each: Option<u64>,
    /// Number of users of Surge [default: 100].
    #[arg(long, value_name = "N", help_heading = "Workload")]
    users: Option<u32>,
    /// Share of conditional requests (If-Modified-Since), 0 to 1.
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

    /// HTTP version.
    #[arg(long, value_parser = one_of(VERSIONS), default_value = "1.1", help_heading = "Protocol")]
    http: Version,
    /// Share of requests on persistent connections, 0 to 1.
    #[arg(long, value_name = "SHARE", help_heading = "Protocol")]
    keep_alive: Option<f64>,
    /// Requests per persistent connection: `10`, or `uniform:5-15`.
    #[arg(long, value_name = "DIST", help_heading = "Protocol")]
    requests_per_connection: Option<String>,
    /// A header field of every request; may be repeated.
    #[arg(long, value_name = "K: V", help_heading = "Protocol")]
    header: Vec<String>,
    /// A request fails if nothing is sent or received for this time.
    #[arg(
        long,
        value_name = "TIME",
        default_value_t = Time::from_secs(30),
        help_heading = "Protocol"
    )]
    timeout: Time,
    /// What to check of a body.
    #[arg(long, value_parser = one_of(CHECKS), default_value = "length", help_heading = "Protocol")]
    check: Check,
    /// Resume TLS sessions [default: on].
    #[arg(long, value_enum, help_heading = "Protocol")]
    tls_resumption: Option<Switch>,
    /// The only version of TLS [default: 1.3 where the server has it, else 1.2].
    #[arg(long, value_parser = one_of(TLS_VERSIONS), help_heading = "Protocol")]
    tls_version: Option<TlsVersion>,
    /// Trust any certificate.
    #[arg(long, help_heading = "Protocol", conflicts_with = "ca")]
    insecure: bool,
    /// Certificates to trust (PEM) instead of those of the system.
    #[arg(long, value_name = "FILE", help_heading = "Protocol")]
    ca: Option<PathBuf>,

    /// Number of threads [default: one per CPU].
    #[arg(long, value_name = "N", help_heading = "Client")]
    threads: Option<u32>,
    #[command(flatten, next_help_heading = "Client")]
    #[serde(flatten)]
    runs_on: RunsOn,
    /// Poll for this time before a request is due, because waking up takes tens of microseconds
    /// [default: 60us with --cpus, else 0s].
    #[arg(long, value_name = "TIME", help_heading = "Client")]
    spin: Option<Time>,
    /// Source addresses of the connections.
    #[arg(long, value_name = "ADDR[-ADDR]", help_heading = "Client")]
    source: Option<String>,
    /// Number I, from 1, of this process among N processes of one load: `I/N`. Divides rates,
    /// connections and the clients of a log.
    #[arg(long, value_name = "I/N", help_heading = "Client")]
    shard: Option<String>,

    /// File for the histograms, as JSON.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    histograms: Option<PathBuf>,
    /// File for one line per request, as CSV.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    request_log: Option<PathBuf>,
    #[command(flatten)]
    #[serde(skip)]
    shared: Shared,
}

/// Runs the subcommand.
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
    // The load writes this file while it runs. Here the file is only opened, to report an error
    // before the run.
    drop(file("request-log", &arguments.request_log)?);
    let stop = stop::on_signals()?;
    let shows_progress = arguments.shared.shows_progress();
    let mut show = |progress: &Progress| {
        if shows_progress {
            eprint!("\r\x1b[K{}", table::progress_line(progress));
        }
    };
    let result = run_load(settings, &stop, &mut show);
    if shows_progress {
        eprint!("\r\x1b[K");
    }
    let report = result.map_err(failure)?;
    if let Some(file) = histograms {
        let found = report.histograms().map_err(failure)?;
        file.write(&serde_json::to_string(&found).map_err(Failure::failed)?)?;
    }
    arguments.shared.print(&report, table::table)?;
    exit_status(&report)
}

/// The exit status. The result has been printed in each case.
fn exit_status(report: &Report) -> Result<Status, Failure> {
    if let Some(text) = report.failure() {
        return Err(Failure::failed(text).with_hint(match report.server_gone_s {
            Some(_) => {
                "the results cover the time before that; the server's log may have the reason"
            }
            None => "send one such request with `curl -i URL`",
        }));
    }
    Ok(match report.interrupted {
        true => Status::Interrupted,
        false => Status::Done,
    })
}
