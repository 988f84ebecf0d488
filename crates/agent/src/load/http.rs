//! `load http`.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use perpacket_load::SourceAddresses;
use perpacket_load::http::{
    Arrivals, Check, Lengths, Part, Process, Progress, Report, Settings, Spread, Version, Workload,
    run as run_load,
};
use serde::Serialize;

use super::{failure, http_table};
use crate::output::Shared;
use crate::status::{Failure, Status};
use crate::{config, stop};

const EXAMPLE: &str = "Examples:
  perpacket-agent load http http://127.0.0.1:8080/index.html --connections 64 --duration 10
  perpacket-agent load http http://127.0.0.1:8080/ --rate 1000 --duration 10 --format json
  perpacket-agent load http http://127.0.0.1:8080 --workload specweb99 --connections 100
  perpacket-agent load http http://127.0.0.1:8080 --replay access.log --speed 10 --spread uniform

A response time counts from when its request was meant to start, a service time from the send.";

/// The line speed of SPECweb99's clients, in bits a second.
const SPECWEB99_LINE_BPS: u64 = 400_000;
/// Connections where the number is not given: at a time, or at most where requests arrive.
const DEFAULT_CONNECTIONS: u32 = 64;
const DEFAULT_OPEN_CONNECTIONS: u32 = 1024;
/// Polling before a request is due, on processors of its own.
const DEFAULT_SPIN_US: u32 = 60;

/// Seconds of a run that nothing else ends.
const DEFAULT_DURATION_S: f64 = 10.0;
/// WebStone's fewest clients.
const WEBSTONE_CLIENTS: u32 = 20;

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
    /// The sessions of a log, as fast as they are answered.
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
#[derive(Debug, clap::Args, Serialize)]
#[command(after_help = EXAMPLE)]
#[serde(rename_all = "kebab-case")]
pub struct Arguments {
    /// What to ask: http://HOST:PORT/PATH; workloads put their files beneath the path.
    #[serde(skip)]
    url: String,

    /// Connections at a time, 64 if nothing is said; with a rate or a log, the most there may be
    /// (1024).
    #[arg(long, value_name = "N", help_heading = "Load")]
    connections: Option<u32>,
    /// Requests that arrive a second, whatever the server does; may be a fraction.
    #[arg(long, value_name = "R", help_heading = "Load", conflicts_with_all = ["sessions_rate", "replay"])]
    rate: Option<f64>,
    /// Sessions that arrive a second; each waits for its answers.
    #[arg(
        long,
        value_name = "R",
        help_heading = "Load",
        conflicts_with = "replay"
    )]
    sessions_rate: Option<f64>,
    /// How arrivals are spaced.
    #[arg(long, value_enum, default_value = "fixed", help_heading = "Load")]
    arrivals: ArrivalName,
    /// Seconds to measure for: 10, if nothing else ends the run.
    #[arg(long, value_name = "S", help_heading = "Load")]
    duration: Option<f64>,
    /// Requests after which to end.
    #[arg(long, value_name = "N", help_heading = "Load")]
    requests: Option<u64>,
    /// Seconds before the measured window.
    #[arg(long, value_name = "S", default_value_t = 0.0, help_heading = "Load")]
    warmup: f64,

    /// What is asked for.
    #[arg(long, value_enum, default_value = "file", help_heading = "Workload")]
    workload: WorkloadName,
    /// The log of workload `trace`, replayed as fast as the server answers.
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Workload",
        conflicts_with = "replay"
    )]
    trace: Option<PathBuf>,
    /// Replay a log at its own times. Formats: Common, Combined, World Cup 1998; plain, .gz or .zst.
    #[arg(long, value_name = "FILE", help_heading = "Workload")]
    replay: Option<PathBuf>,
    /// The paths of a World Cup 1998 log's objects.
    #[arg(long, value_name = "FILE", help_heading = "Workload")]
    object_mappings: Option<PathBuf>,
    /// How many times as fast as the log; `max` ignores its times.
    #[arg(
        long,
        value_name = "X|max",
        default_value = "1",
        help_heading = "Workload"
    )]
    speed: String,
    /// Where a log's requests lie inside their second.
    #[arg(long, value_enum, default_value = "uniform", help_heading = "Workload")]
    spread: SpreadName,
    /// SPECweb99 with its dynamic operations.
    #[arg(long, help_heading = "Workload")]
    dynamic: bool,
    /// Surge's user equivalents.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        help_heading = "Workload"
    )]
    users: u32,
    /// Share of requests that ask only for what is newer, 0 to 1.
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.0,
        help_heading = "Workload"
    )]
    conditional: f64,
    /// Bits a second that each connection reads at; SPECweb99's is 400000. 0 is no limit.
    #[arg(long, value_name = "BPS", help_heading = "Workload")]
    line_speed: Option<u64>,
    /// Seed of everything random.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Workload")]
    seed: u64,

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
    /// Seconds that a request may go without a byte moving.
    #[arg(
        long,
        value_name = "S",
        default_value_t = 30.0,
        help_heading = "Protocol"
    )]
    timeout_s: f64,
    /// What is checked of a body.
    #[arg(long, value_enum, default_value = "length", help_heading = "Protocol")]
    check: CheckName,
    /// Resume TLS sessions.
    #[arg(long, value_enum, default_value = "on", help_heading = "Protocol")]
    tls_resumption: Switch,
    /// Trust any certificate.
    #[arg(long, help_heading = "Protocol")]
    insecure: bool,
    /// Certificates to trust, in PEM form, instead of the system's.
    #[arg(long, value_name = "FILE", help_heading = "Protocol")]
    ca: Option<PathBuf>,

    /// Threads; one a processor if nothing is said.
    #[arg(long, value_name = "N", help_heading = "Client")]
    threads: Option<u32>,
    /// Processors to bind the threads to: `0,2-3`.
    #[arg(long, value_name = "LIST", help_heading = "Client")]
    cpus: Option<String>,
    /// Poll instead of sleeping so long before a request is due, as waking up takes tens of
    /// microseconds; 60 with --cpus (processors of its own), else 0.
    #[arg(long, value_name = "US", help_heading = "Client")]
    spin_us: Option<u32>,
    /// Addresses that connections come from.
    #[arg(long, value_name = "ADDR[-ADDR]", help_heading = "Client")]
    source: Option<String>,
    /// This process's part of a load that N processes share: `I/N`. Rates, connections and clients of
    /// a log are divided.
    #[arg(long, value_name = "I/N", help_heading = "Client")]
    clients: Option<String>,

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
    if arguments.shared.show_config {
        print!("{}", config::to_toml(arguments)?);
        return Ok(Status::Done);
    }
    let stop = stop::on_signals()?;
    let shows = arguments.shared.shows_progress();
    let mut show = |progress: &Progress| {
        if shows {
            eprint!("\r\x1b[K{}", http_table::progress_line(progress));
        }
    };
    let result = run_load(settings, &stop, &mut show);
    if shows {
        eprint!("\r\x1b[K");
    }
    let report = result.map_err(failure)?;
    if let Some(path) = &arguments.histograms {
        let histograms = report.histograms().map_err(failure)?;
        let text = serde_json::to_string(&histograms).map_err(Failure::failed)?;
        fs::write(path, text)
            .map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
    }
    arguments.shared.print(&report, http_table::table)?;
    ended(&report)
}

/// How the verb ends: the result was printed whatever happened.
fn ended(report: &Report) -> Result<Status, Failure> {
    if let Some(text) = report.failure() {
        return Err(Failure::failed(text).with_hint(
            "the figures printed are those until then; look at the server's own log for its end",
        ));
    }
    Ok(match report.interrupted {
        true => Status::Interrupted,
        false => Status::Done,
    })
}

impl Arguments {
    /// What was typed as what it means.
    fn settings(&self) -> Result<Settings, Failure> {
        let workload = self.workload()?;
        let arrivals = self.arrivals()?;
        let default_connections = match (&workload, arrivals) {
            (Workload::WebStone, Arrivals::Closed) => WEBSTONE_CLIENTS,
            (_, Arrivals::Closed) => DEFAULT_CONNECTIONS,
            _ => DEFAULT_OPEN_CONNECTIONS,
        };
        let line_speed_bps = match (self.line_speed, &workload) {
            (Some(0), _) => None,
            (None, Workload::SpecWeb99 { .. }) => Some(SPECWEB99_LINE_BPS),
            (speed, _) => speed,
        };
        let ends_by_itself =
            self.requests.is_some() || matches!(arrivals, Arrivals::Recorded { .. });
        let duration_s = self
            .duration
            .or((!ends_by_itself).then_some(DEFAULT_DURATION_S));
        let connections = match workload {
            Workload::Surge { users } => users,
            _ => self.connections.unwrap_or(default_connections),
        };
        let default_spin_us = if self.cpus.is_some() { DEFAULT_SPIN_US } else { 0 };
        let default = Settings::new(&self.url, connections);
        Ok(Settings {
            arrivals,
            workload,
            duration: duration_s.map(|s| seconds("duration", s)).transpose()?,
            requests: self.requests,
            warmup: seconds("warmup", self.warmup)?,
            threads: self.threads,
            cpus: self
                .cpus
                .as_deref()
                .map(cpu_list)
                .transpose()?
                .unwrap_or_default(),
            spin: Duration::from_micros(self.spin_us.unwrap_or(default_spin_us).into()),
            version: match self.http {
                VersionName::Http10 => Version::Http10,
                VersionName::Http11 => Version::Http11,
            },
            keep_alive_share: self.keep_alive,
            requests_per_connection: self.lengths()?,
            conditional_share: self.conditional,
            line_speed_bps,
            timeout: seconds("timeout-s", self.timeout_s)?,
            check: match self.check {
                CheckName::Length => Check::Length,
                CheckName::Digest => Check::Digest,
                CheckName::None => Check::None,
            },
            tls_resumption: self.tls_resumption == Switch::On,
            insecure: self.insecure,
            trusted: self.ca.clone(),
            sources: self.sources()?,
            part: self.part()?,
            seed: self.seed,
            request_log: self.request_log.clone(),
            headers: self.header.clone(),
            ..default
        })
    }

    fn workload(&self) -> Result<Workload, Failure> {
        let spread = match self.spread {
            SpreadName::None => Spread::None,
            SpreadName::Uniform => Spread::Uniform,
            SpreadName::Poisson => Spread::Poisson,
        };
        let of_log = |file: &PathBuf| Workload::Trace {
            file: file.clone(),
            objects: self.object_mappings.clone(),
            spread,
        };
        if let Some(file) = &self.replay {
            if !matches!(self.workload, WorkloadName::File | WorkloadName::Trace) {
                return Err(Failure::usage(
                    "--replay: it is a workload of its own, drop --workload",
                ));
            }
            return Ok(of_log(file));
        }
        if self.dynamic && self.workload != WorkloadName::SpecWeb99 {
            return Err(Failure::usage(
                "--dynamic: only --workload specweb99 has dynamic operations",
            ));
        }
        match (self.workload, &self.trace) {
            (WorkloadName::Trace | WorkloadName::File, Some(file)) => Ok(of_log(file)),
            (WorkloadName::Trace, None) => Err(Failure::usage(
                "--workload trace: no log to replay",
            )
            .with_hint("name it with `--trace FILE`, or with `--replay FILE` to keep its times")),
            (_, Some(_)) => Err(Failure::usage("--trace: only --workload trace reads a log")),
            (WorkloadName::File, None) => Ok(Workload::File),
            (WorkloadName::SpecWeb99, None) => Ok(Workload::SpecWeb99 {
                dynamic: self.dynamic,
            }),
            (WorkloadName::Surge, None) => Ok(Workload::Surge { users: self.users }),
            (WorkloadName::WebStone, None) => Ok(Workload::WebStone),
            (WorkloadName::WorldCup, None) => Ok(Workload::WorldCup),
            (WorkloadName::Ibm, None) => Ok(Workload::Ibm),
        }
    }

    fn arrivals(&self) -> Result<Arrivals, Failure> {
        let process = match self.arrivals {
            ArrivalName::Fixed => Process::Fixed,
            ArrivalName::Poisson => Process::Poisson,
        };
        if self.replay.is_some() {
            return match self.speed.as_str() {
                "max" => Ok(Arrivals::Closed),
                text => text
                    .parse()
                    .map(|speed| Arrivals::Recorded { speed })
                    .map_err(|_| {
                        Failure::usage(format!(
                            "--speed {text}: expected a factor such as 10, or max"
                        ))
                    }),
            };
        }
        Ok(match (self.rate, self.sessions_rate) {
            (Some(per_s), _) => Arrivals::Requests { per_s, process },
            (None, Some(per_s)) => Arrivals::Sessions { per_s, process },
            (None, None) => Arrivals::Closed,
        })
    }

    fn lengths(&self) -> Result<Option<Lengths>, Failure> {
        let parse = |text: &String| {
            text.parse()
                .map_err(|error| Failure::usage(format!("--requests-per-connection {error}")))
        };
        self.requests_per_connection.as_ref().map(parse).transpose()
    }

    fn sources(&self) -> Result<SourceAddresses, Failure> {
        match &self.source {
            None => Ok(SourceAddresses::default()),
            Some(text) => text
                .parse()
                .map_err(|error| Failure::usage(format!("--source {error}"))),
        }
    }

    fn part(&self) -> Result<Part, Failure> {
        match &self.clients {
            None => Ok(Part::WHOLE),
            Some(text) => text
                .parse()
                .map_err(|error| Failure::usage(format!("--clients {error}"))),
        }
    }
}

/// A number of seconds as a time.
fn seconds(option: &str, value: f64) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(value)
        .ok()
        .filter(|duration| duration.as_secs() < 1_000_000_000)
        .ok_or_else(|| Failure::usage(format!("--{option} {value}: expected seconds, 0 or more")))
}

/// `0,2-3` as 0, 2 and 3.
pub fn cpu_list(text: &str) -> Result<Vec<usize>, Failure> {
    let mut cpus = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        match (first.trim().parse::<usize>(), last.trim().parse::<usize>()) {
            (Ok(first), Ok(last)) if first <= last && last < 65_536 => cpus.extend(first..=last),
            _ => {
                return Err(Failure::usage(format!(
                    "--cpus {text}: expected numbers and ranges such as 0,2-3"
                )));
            }
        }
    }
    Ok(cpus)
}
