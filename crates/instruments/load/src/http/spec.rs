//! What `load http` is asked to do: every option once, with its default, range, help and needs.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use perpacket_spec::{
    BitRate, Period, Rate, RunsOn, Seed, Share, SpecError, Switch, Time, Whole, Window,
};
use perpacket_workload::{JsonFields, Stream};
use schemars::JsonSchema;
use serde::Serialize;

use super::arrivals::{Arrivals, Process, Speed};
use super::log::LogFile;
use super::shard::Shard;
use super::target::Target;
use super::workload::{Spread, Workload, WorkloadName};
use crate::sources::SourceAddresses;

/// Line speed of SPECweb99's clients.
const SPECWEB99_LINE: BitRate = BitRate(400_000);
/// Default number of connections in a closed loop, and in an open loop.
const CONNECTIONS: u32 = 64;
const OPEN_CONNECTIONS: u32 = 1024;
/// Default number of connections of WebStone: its smallest number of clients.
const WEBSTONE_CLIENTS: u32 = 20;
/// Default polling time with `--cpus`.
const SPIN: Time = Time(std::time::Duration::from_micros(60));
/// Slowest line, in bits per second. A slower one would not finish a response.
const SLOWEST_LINE_BPS: u64 = 100;
/// Most arrivals per second.
const RATE_LIMIT: f64 = 1e8;

/// Number of connections or clients at a time.
pub type Connections = Whole<1, 1_000_000>;

/// Send HTTP requests to a web server and measure the responses.
#[derive(Args, Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Spec {
    /// http://HOST:PORT/PATH. The files of a workload are below the path.
    #[arg(required_unless_present = "application")]
    pub url: Option<String>,

    /// Connections at a time [default: 64]; with a rate or a log, the maximum number [default: 1024].
    #[arg(long, value_name = "N", help_heading = "Load")]
    #[schemars(extend("x-excludes" = "workload=surge: each of its --users has one"))]
    pub connections: Option<Connections>,
    /// Requests per second of an open loop; may be a fraction.
    #[arg(long, value_name = "RATE", help_heading = "Load", conflicts_with_all = ["sessions_rate", "replay"])]
    #[schemars(extend("x-excludes" = "workload=surge: the think times of its users determine the rate"))]
    pub rate: Option<Rate>,
    /// Sessions per second of a partly open loop: each waits for its responses.
    #[arg(
        long,
        value_name = "RATE",
        help_heading = "Load",
        conflicts_with = "replay"
    )]
    #[schemars(extend("x-excludes" = "workload=surge: the think times of its users determine the rate"))]
    pub sessions_rate: Option<Rate>,
    /// Distribution of the times between arrivals [default: fixed].
    #[arg(long, value_enum, help_heading = "Load")]
    #[schemars(extend("x-needs" = "rate, sessions-rate"))]
    pub arrivals: Option<Process>,
    /// The measured window.
    #[command(flatten, next_help_heading = "Load")]
    #[serde(flatten)]
    pub window: Window,
    /// End after this number of requests; without --duration, nothing else ends the run.
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub requests: Option<Whole<1, 4_294_967_295>>,

    /// What to request [default: file, or trace with --trace].
    #[arg(long, value_enum, help_heading = "Workload")]
    #[schemars(extend("x-excludes" = "replay: a replayed log is the workload"))]
    pub workload: Option<WorkloadName>,
    /// The log of the workload `trace`. The workload repeats the log and ignores its times.
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Workload",
        conflicts_with = "replay"
    )]
    pub trace: Option<PathBuf>,
    /// Replay a log once, at its own times. Formats: Common, Combined, JSON, World Cup 1998; plain, .gz or .zst.
    #[arg(long, value_name = "FILE", help_heading = "Workload")]
    pub replay: Option<PathBuf>,
    /// Paths of the objects of a World Cup 1998 log.
    #[arg(long, value_name = "FILE", help_heading = "Workload")]
    #[schemars(extend("x-needs" = "replay, trace"))]
    pub object_mappings: Option<PathBuf>,
    /// Fields of a JSON log, such as `time=when,uri=req.path`; those of Caddy, Traefik and nginx are known.
    #[arg(long, value_name = "PART=FIELD,...", help_heading = "Workload")]
    #[schemars(with = "Option<String>", extend("x-needs" = "replay, trace"))]
    pub log_fields: Option<JsonFields>,
    /// Factor by which the run is faster than the log; `max` ignores its times [default: 1].
    #[arg(long, value_name = "X|max", help_heading = "Workload")]
    #[schemars(extend("x-needs" = "replay"))]
    pub speed: Option<Speed>,
    /// Repeat the log until --duration or --requests.
    #[arg(long, help_heading = "Workload")]
    #[schemars(extend("x-needs" = "speed=max"))]
    pub repeat: bool,
    /// When requests start within their second, if the times in the log are whole seconds
    /// [default: uniform].
    #[arg(long, value_enum, help_heading = "Workload")]
    #[schemars(extend("x-needs" = "replay", "x-excludes" = "speed=max: it ignores the log's times"))]
    pub spread: Option<Spread>,
    /// Include the dynamic operations of SPECweb99.
    #[arg(long, help_heading = "Workload")]
    #[schemars(extend("x-needs" = "workload=specweb99"))]
    pub dynamic: bool,
    /// Walk through the pages of an application and check every answer. The value is its file,
    /// `application.toml`. `perpacket load http` also accepts the name of an application, without a URL,
    /// and starts it.
    #[arg(long, value_name = "FILE", help_heading = "Workload",
          conflicts_with_all = ["workload", "trace", "replay", "connections"])]
    pub application: Option<PathBuf>,
    /// Number of clients of the application [default: 10].
    #[arg(long, value_name = "N", help_heading = "Workload")]
    #[schemars(extend("x-needs" = "application"))]
    pub clients: Option<Connections>,
    /// End when each thread has requested each page of the application this number of times.
    #[arg(long, value_name = "N", help_heading = "Workload")]
    #[schemars(extend("x-needs" = "application"))]
    pub each: Option<u64>,
    /// Number of users of Surge [default: 100].
    #[arg(long, value_name = "N", help_heading = "Workload")]
    #[schemars(extend("x-needs" = "workload=surge"))]
    pub users: Option<Connections>,
    /// Share of conditional requests (If-Modified-Since), 0 to 1.
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "0",
        help_heading = "Workload"
    )]
    #[schemars(extend("x-excludes" = "application: its pages have their own requests"))]
    pub conditional: Share,
    /// Rate at which each connection reads; 400kb/s with SPECweb99. 0 is no limit.
    #[arg(long, value_name = "BIT-RATE", help_heading = "Workload")]
    pub line_speed: Option<BitRate>,
    /// The seed.
    #[command(flatten, next_help_heading = "Workload")]
    #[serde(flatten)]
    pub seed: Seed,

    /// HTTP version.
    #[arg(long, value_enum, default_value = "1.1", help_heading = "Protocol")]
    pub http: Version,
    /// Share of requests on persistent connections, 0 to 1.
    #[arg(long, value_name = "SHARE", help_heading = "Protocol")]
    pub keep_alive: Option<Share>,
    /// Requests per persistent connection: `10`, or `uniform:5-15`.
    #[arg(long, value_name = "DIST", help_heading = "Protocol")]
    pub requests_per_connection: Option<RequestsPerConnection>,
    /// A header field of every request; may be repeated.
    #[arg(long, value_name = "K: V", help_heading = "Protocol", value_parser = header)]
    pub header: Vec<String>,
    /// A request fails if nothing is sent or received for this time.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "30s",
        help_heading = "Protocol"
    )]
    pub timeout: Period,
    /// What to check of a body.
    #[arg(long, value_enum, default_value = "length", help_heading = "Protocol")]
    pub check: Check,
    /// Resume TLS sessions [default: on].
    #[arg(long, value_enum, help_heading = "Protocol")]
    #[schemars(extend("x-needs" = "url=https:*"))]
    pub tls_resumption: Option<Switch>,
    /// The only version of TLS [default: 1.3 where the server has it, else 1.2].
    #[arg(long, value_enum, help_heading = "Protocol")]
    #[schemars(extend("x-needs" = "url=https:*"))]
    pub tls_version: Option<TlsVersion>,
    /// Trust any certificate.
    #[arg(long, help_heading = "Protocol", conflicts_with = "ca")]
    #[schemars(extend("x-needs" = "url=https:*"))]
    pub insecure: bool,
    /// Certificates to trust (PEM) instead of those of the system.
    #[arg(long, value_name = "FILE", help_heading = "Protocol")]
    #[schemars(extend("x-needs" = "url=https:*"))]
    pub ca: Option<PathBuf>,

    /// Number of threads [default: one per CPU].
    #[arg(long, value_name = "N", help_heading = "Client")]
    pub threads: Option<Whole<1, 4096>>,
    /// The CPUs.
    #[command(flatten, next_help_heading = "Client")]
    #[serde(flatten)]
    pub runs_on: RunsOn,
    /// Poll for this time before a request is due, because waking up takes tens of microseconds
    /// [default: 60us with --cpus, else 0s].
    #[arg(long, value_name = "TIME", help_heading = "Client")]
    #[schemars(extend(
        "x-needs" = "rate, sessions-rate, replay",
        "x-excludes" = "speed=max: no request has a time at which it is due"
    ))]
    pub spin: Option<Time>,
    /// Source addresses of the connections.
    #[arg(long, value_name = "ADDR[-ADDR]", help_heading = "Client")]
    pub source: Option<SourceAddresses>,
    /// Number I, from 1, of this process among N processes of one load: `I/N`. Divides rates,
    /// connections and the clients of a log.
    #[arg(long, value_name = "I/N", help_heading = "Client")]
    pub shard: Option<Shard>,

    /// File for the histograms, as JSON.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub histograms: Option<PathBuf>,
    /// File for one line per request, as CSV.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub request_log: Option<PathBuf>,
}

impl perpacket_spec::Spec for Spec {
    fn resolved(mut self) -> Result<Self, SpecError> {
        if self.url.is_none() {
            return Err(SpecError::new("load http: no URL").with_hint(
                "name the application's URL; `perpacket load http --application NAME` starts it",
            ));
        }
        let target = Target::parse(self.url()).map_err(|error| {
            let hint = error.hint().unwrap_or_default();
            SpecError::new(error.to_string()).with_hint(hint)
        })?;
        if self.workload.is_none() && self.replay.is_none() && self.application.is_none() {
            self.workload = Some(match self.trace {
                Some(_) => WorkloadName::Trace,
                None => WorkloadName::File,
            });
        }
        self.refuse_contradictions(&target)?;
        let ends_by_itself = self.requests.is_some() || self.workload().is_finite();
        self.window.resolve(Time::from_secs(0), ends_by_itself);
        if self.rate.or(self.sessions_rate).is_some() {
            self.arrivals.get_or_insert(Process::Fixed);
        }
        if self.replay.is_some() {
            self.speed.get_or_insert(Speed::Times(1.0));
        }
        let arrivals = self.arrivals();
        if arrivals.are_open() {
            let spins = self.runs_on.cpus.is_some();
            self.spin
                .get_or_insert(if spins { SPIN } else { Time::from_secs(0) });
        }
        match self.workload() {
            Workload::SpecWeb99 { .. } => drop(self.line_speed.get_or_insert(SPECWEB99_LINE)),
            Workload::Trace { .. } if arrivals.speed().is_some() => {
                self.spread.get_or_insert(Spread::Uniform);
            }
            _ => (),
        }
        match self.workload() {
            Workload::Surge { .. } => drop(self.users.get_or_insert(Whole::nearest(100))),
            Workload::Application { .. } => drop(self.clients.get_or_insert(Whole::nearest(10))),
            workload => {
                let default = match (&workload, arrivals) {
                    (Workload::WebStone, Arrivals::Closed) => WEBSTONE_CLIENTS,
                    (_, Arrivals::Closed) => CONNECTIONS,
                    _ => OPEN_CONNECTIONS,
                };
                self.connections.get_or_insert(Whole::nearest(default));
            }
        }
        if self.shard().share(self.connections().into()) == 0 {
            return Err(SpecError::new(format!(
                "--connections {}: expected at least one for each process (--shard)",
                self.connections()
            )));
        }
        self.threads = Some(Whole::nearest(super::threads(&self)));
        Ok(self)
    }
}

impl Spec {
    /// Refuses options that contradict each other in ways that no list of needs describes.
    fn refuse_contradictions(&self, target: &Target) -> Result<(), SpecError> {
        let refuse = |text: String| Err(SpecError::new(text));
        let of = |names: &[WorkloadName]| self.workload.is_some_and(|own| names.contains(&own));
        let is_file = of(&[WorkloadName::File]);
        if !is_file && target.path.contains('?') {
            return refuse(
                "url: the files of a workload cannot be below a query; leave it out".to_owned(),
            );
        }
        if of(&[WorkloadName::Trace]) && self.trace.is_none() {
            return Err(
                SpecError::new("--workload trace: no log to replay").with_hint(
                    "name it with `--trace FILE`, or with `--replay FILE` to keep its times",
                ),
            );
        }
        if self.trace.is_some() && !of(&[WorkloadName::Trace]) {
            return refuse("--trace: only --workload trace reads a log".to_owned());
        }
        if self.requests_per_connection.is_some() && self.keep_alive == Some(Share(0.0)) {
            return refuse(
                "--requests-per-connection has no effect with --keep-alive 0: each connection has one \
                 request"
                    .to_owned(),
            );
        }
        if self.requests_per_connection.is_some() && !is_file {
            return refuse(
                "--requests-per-connection: only the workload `file` has this option".to_owned(),
            );
        }
        if self.keep_alive.is_some() && !of(&[WorkloadName::File, WorkloadName::SpecWeb99]) {
            return refuse(
                "--keep-alive: only the workloads `file` and `specweb99` have this option"
                    .to_owned(),
            );
        }
        if self.application.is_some() && self.check == Check::Digest {
            return refuse(
                "--check digest: an application's pages have their own checks".to_owned(),
            );
        }
        for (option, rate) in [("rate", self.rate), ("sessions-rate", self.sessions_rate)] {
            if let Some(Rate(per_s)) = rate
                && !(per_s > 0.0 && per_s <= RATE_LIMIT)
            {
                return refuse(format!(
                    "--{option} {per_s}: expected more than 0 and at most 10^8 a second"
                ));
            }
        }
        match self.line_speed {
            Some(speed) if (1..SLOWEST_LINE_BPS).contains(&speed.0) => refuse(format!(
                "--line-speed {speed}: expected 0 or at least {SLOWEST_LINE_BPS} b/s"
            )),
            _ => Ok(()),
        }
    }

    /// The URL. The files of every workload except [`Workload::File`] are below its path.
    pub fn url(&self) -> &str {
        self.url.as_deref().unwrap_or_default()
    }

    /// When requests start.
    pub fn arrivals(&self) -> Arrivals {
        let process = self.arrivals.unwrap_or(Process::Fixed);
        if self.replay.is_some() {
            return match self.speed {
                Some(Speed::Max) => Arrivals::Closed,
                Some(Speed::Times(speed)) => Arrivals::Recorded { speed },
                None => Arrivals::Recorded { speed: 1.0 },
            };
        }
        match (self.rate, self.sessions_rate) {
            (Some(Rate(per_s)), _) => Arrivals::Requests { per_s, process },
            (None, Some(Rate(per_s))) => Arrivals::Sessions { per_s, process },
            (None, None) => Arrivals::Closed,
        }
    }

    /// The requests of the load.
    pub fn workload(&self) -> Workload<'_> {
        let log = |path, repeats| Workload::Trace {
            log: LogFile {
                path,
                objects: self.object_mappings.as_deref(),
                fields: self.log_fields.as_ref(),
            },
            spread: self.spread.unwrap_or(Spread::Uniform),
            repeats,
        };
        if let Some(file) = &self.application {
            return Workload::Application {
                file,
                each: self.each,
            };
        }
        if let Some(file) = &self.replay {
            return log(file, self.repeat);
        }
        match (self.workload, &self.trace) {
            (_, Some(file)) => log(file, true),
            (Some(WorkloadName::SpecWeb99), _) => Workload::SpecWeb99 {
                dynamic: self.dynamic,
            },
            (Some(WorkloadName::Surge), _) => Workload::Surge {
                users: self.users.map_or(0, Whole::get),
            },
            (Some(WorkloadName::WebStone), _) => Workload::WebStone,
            (Some(WorkloadName::WorldCup), _) => Workload::WorldCup,
            (Some(WorkloadName::Ibm), _) => Workload::Ibm,
            (Some(WorkloadName::File | WorkloadName::Trace) | None, _) => Workload::File,
        }
    }

    /// The maximum number of connections at a time.
    pub fn connections(&self) -> u32 {
        let number = self.users.or(self.clients).or(self.connections);
        number.map_or(CONNECTIONS, Whole::get)
    }

    /// Bits per second at which each connection reads; `None` is unlimited.
    pub fn line_speed_bps(&self) -> Option<u64> {
        self.line_speed.map(|speed| speed.0).filter(|bps| *bps > 0)
    }

    /// Source addresses of the connections.
    pub fn sources(&self) -> SourceAddresses {
        self.source.unwrap_or_default()
    }

    /// The share of the load that this process runs.
    pub fn shard(&self) -> Shard {
        self.shard.unwrap_or(Shard::WHOLE)
    }
}

/// A header field that a request may have.
fn header(text: &str) -> Result<String, String> {
    let is_named = text
        .split_once(':')
        .is_some_and(|(name, _)| !name.trim().is_empty());
    match is_named && !text.contains(['\r', '\n']) {
        true => Ok(text.to_owned()),
        false => Err("expected 'Name: value'".to_owned()),
    }
}

/// HTTP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, JsonSchema)]
pub enum Version {
    /// HTTP/1.0
    #[serde(rename = "1.0")]
    #[value(name = "1.0")]
    Http10,
    /// HTTP/1.1
    #[serde(rename = "1.1")]
    #[value(name = "1.1")]
    Http11,
}

/// TLS version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, JsonSchema)]
pub enum TlsVersion {
    /// TLS 1.2
    #[serde(rename = "1.2")]
    #[value(name = "1.2")]
    Tls12,
    /// TLS 1.3
    #[serde(rename = "1.3")]
    #[value(name = "1.3")]
    Tls13,
}

/// The check of a response body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Check {
    /// Its length, which must be that of the workload's file.
    Length,
    /// Its length, and that every body of an object is the same.
    Digest,
    /// Nothing, except that it is complete.
    None,
}

/// Distribution of the requests per connection: uniform between two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestsPerConnection {
    minimum: u32,
    maximum: u32,
}

impl RequestsPerConnection {
    pub(crate) fn draw(self, stream: &mut Stream) -> u32 {
        self.minimum + stream.below(self.maximum - self.minimum + 1)
    }

    pub fn mean(self) -> f64 {
        (f64::from(self.minimum) + f64::from(self.maximum)) / 2.0
    }
}

impl FromStr for RequestsPerConnection {
    type Err = String;

    /// `10` or `uniform:5-15`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (minimum, maximum) = match text.strip_prefix("uniform:") {
            Some(range) => range.split_once('-').unwrap_or((range, range)),
            None => (text, text),
        };
        let (minimum, maximum) = (minimum.parse().unwrap_or(0), maximum.parse().unwrap_or(0));
        if minimum == 0 || maximum < minimum || maximum > 1_000_000_000 {
            return Err("expected a number such as 10, or uniform:5-15".to_owned());
        }
        Ok(Self { minimum, maximum })
    }
}

impl fmt::Display for RequestsPerConnection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.minimum, self.maximum) {
            (minimum, maximum) if minimum == maximum => minimum.fmt(formatter),
            (minimum, maximum) => write!(formatter, "uniform:{minimum}-{maximum}"),
        }
    }
}

perpacket_spec::text! {
    RequestsPerConnection, "requests", "uniform:5-15";
}

#[cfg(test)]
mod tests {
    use super::*;
    use perpacket_spec::{document, parse};

    #[test]
    fn an_option_without_effect_is_refused() {
        for (line, expected) in [
            (
                "http://h/ --keep-alive 0 --requests-per-connection 10",
                "--requests-per-connection has no effect with --keep-alive 0",
            ),
            (
                "http://h/ --dynamic",
                "--dynamic has no effect without --workload specweb99",
            ),
            (
                "http://h/ --line-speed 5",
                "--line-speed 5b/s: expected 0 or at least 100 b/s",
            ),
            ("http://h/ --rate 0", "--rate 0: expected more than 0"),
            ("http://h/ --shard 3/2", "expected I/N"),
        ] {
            let error = parse::<Spec>(line).unwrap_err().message;
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn the_files_of_a_workload_cannot_be_below_a_query() {
        let error = parse::<Spec>("http://h/a?b=c --workload webstone").unwrap_err();
        assert!(error.message.contains("query"), "{error}");
        assert!(parse::<Spec>("http://h/a?b=c").is_ok());
    }

    #[test]
    fn defaults_depend_on_the_workload_and_the_arrivals() {
        for (line, connections) in [
            ("", 64),
            ("--rate 5", 1024),
            ("--workload webstone", 20),
            ("--workload surge", 100),
            ("--application file", 10),
        ] {
            let spec: Spec = parse(&format!("http://h/ {line}")).unwrap();
            assert_eq!(spec.connections(), connections, "{line}");
        }
    }

    #[test]
    fn values_are_written_as_they_are_typed() {
        let line = "http://h/ --replay log --speed 2.5 --shard 2/4 --header a:b";
        let written = document::to_toml(&parse::<Spec>(line).unwrap()).unwrap();
        for text in ["speed = \"2.5\"", "shard = \"2/4\"", "header = [\"a:b\"]"] {
            assert!(written.contains(text), "{written}");
        }
    }
}
