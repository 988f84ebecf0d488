//! Settings of a load.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use perpacket_workload::Stream;
use serde::Serialize;

use super::target::Target;
use crate::error::LoadError;
use crate::sources::SourceAddresses;

/// Settings of a load on one server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The URL. The files of every workload except [`Workload::File`] are below its path.
    pub url: String,
    /// Number of connections at a time. In an open loop, the maximum number.
    pub connections: u32,
    /// When requests start.
    pub arrivals: Arrivals,
    /// The requests of the load.
    pub workload: Workload,
    /// Length of the measured window. If `None`, the run ends with its requests or its log.
    pub duration: Option<Duration>,
    /// Number of requests after which the run ends.
    pub requests: Option<u64>,
    /// Time before the window. Nothing in it counts.
    pub warmup: Duration,
    /// Number of threads; `None` is one per CPU.
    pub threads: Option<u32>,
    /// CPUs to bind the threads to. The threads use the CPUs in order, and then from the first
    /// again.
    pub cpus: Vec<usize>,
    /// For this time before a request is due, the thread polls instead of sleeping, because waking
    /// up takes tens of microseconds. If the interval between requests is shorter, the thread
    /// always polls and its CPU is always busy.
    pub spin: Duration,
    /// HTTP version.
    pub version: Version,
    /// Share of requests on persistent connections. `None` is the workload's own share, or else
    /// all.
    pub keep_alive_share: Option<f64>,
    /// Requests per persistent connection; `None` is unlimited.
    pub requests_per_connection: Option<RequestsPerConnection>,
    /// Share of requests that are conditional, 0 to 1.
    pub conditional_share: f64,
    /// Bits per second at which each connection reads; `None` is unlimited.
    pub line_speed_bps: Option<u64>,
    /// The longest time in which no byte is transferred in either direction.
    pub timeout: Duration,
    /// The check of a response body.
    pub check: Check,
    /// Whether to resume TLS sessions.
    pub tls_resumption: bool,
    /// The only version of TLS to offer. If `None`, 1.3 is used if the server has it, and 1.2
    /// otherwise.
    pub tls_version: Option<TlsVersion>,
    /// Whether to accept any certificate.
    pub insecure: bool,
    /// File of certificates to trust instead of those of the system.
    pub trusted: Option<PathBuf>,
    /// Source addresses of the connections.
    pub sources: SourceAddresses,
    /// The share of the load that this process runs.
    pub shard: Shard,
    /// Seed of all random choices.
    pub seed: u64,
    /// File that receives one line per request.
    pub request_log: Option<PathBuf>,
    /// Additional header fields, as `Name: value`.
    pub headers: Vec<String>,
}

impl Settings {
    /// A closed loop that requests one file over persistent connections for ten seconds.
    #[must_use]
    pub fn new(url: &str, connections: u32) -> Self {
        Self {
            url: url.to_owned(),
            connections,
            arrivals: Arrivals::Closed,
            workload: Workload::File,
            duration: Some(Duration::from_secs(10)),
            requests: None,
            warmup: Duration::ZERO,
            threads: None,
            cpus: Vec::new(),
            spin: Duration::ZERO,
            version: Version::Http11,
            keep_alive_share: None,
            requests_per_connection: None,
            conditional_share: 0.0,
            line_speed_bps: None,
            timeout: Duration::from_secs(30),
            check: Check::Length,
            tls_resumption: true,
            tls_version: None,
            insecure: false,
            trusted: None,
            sources: SourceAddresses::default(),
            shard: Shard::WHOLE,
            seed: 1,
            request_log: None,
            headers: Vec::new(),
        }
    }
}

/// The start times of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Closed loop: a connection sends its next request after the response.
    Closed,
    /// Open loop: requests arrive independently of the responses.
    Requests {
        /// Arrivals per second; may be a fraction.
        per_s: f64,
        /// Distribution of the times between arrivals.
        process: Process,
    },
    /// Partly open loop: sessions arrive. Within a session, the next request follows the response.
    Sessions {
        /// Arrivals per second; may be a fraction.
        per_s: f64,
        /// Distribution of the times between arrivals.
        process: Process,
    },
    /// Requests start at the times of the log, divided by the speed.
    Recorded {
        /// Factor by which the run is faster than the log.
        speed: f64,
    },
}

impl Arrivals {
    /// Whether start times are independent of the responses.
    #[must_use]
    pub fn are_open(self) -> bool {
        self != Self::Closed
    }

    /// Name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Requests { .. } => "requests",
            Self::Sessions { .. } => "sessions",
            Self::Recorded { .. } => "recorded",
        }
    }

    /// Arrivals per second, in an open loop.
    #[must_use]
    pub fn per_s(self) -> Option<f64> {
        match self {
            Self::Requests { per_s, .. } | Self::Sessions { per_s, .. } => Some(per_s),
            Self::Closed | Self::Recorded { .. } => None,
        }
    }

    /// Factor by which the run is faster than the log, if the run uses the log's times.
    #[must_use]
    pub fn speed(self) -> Option<f64> {
        match self {
            Self::Recorded { speed } => Some(speed),
            _ => None,
        }
    }
}

/// Arrival process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Process {
    /// Equal times between arrivals.
    Fixed,
    /// Exponential times between arrivals.
    Poisson,
}

/// The requests of a load.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// The URL itself, requested again and again.
    File,
    /// SPECweb99 on `connections` connections.
    SpecWeb99 {
        /// Whether to include its dynamic operations.
        dynamic: bool,
    },
    /// Surge: users that read pages and think.
    Surge {
        /// Number of users.
        users: u32,
    },
    /// The files of WebStone, one request per connection.
    WebStone,
    /// Sessions like those of the 1998 World Cup site.
    WorldCup,
    /// Sessions like those of IBM's site.
    Ibm,
    /// Clients of an application that walk through its pages.
    Application {
        /// The application's file, `application.toml`.
        file: PathBuf,
        /// Number of answers to each page after which the run ends.
        each: Option<u64>,
    },
    /// The requests of a log.
    Trace {
        /// The log.
        file: PathBuf,
        /// Object mappings of a World Cup 1998 log.
        objects: Option<PathBuf>,
        /// The start times of requests within their second.
        spread: Spread,
        /// Whether to begin the log again at its end. If not, the run ends with the log.
        repeats: bool,
    },
}

impl Workload {
    /// Whether the workload ends by itself.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        matches!(
            self,
            Self::Trace { repeats: false, .. } | Self::Application { each: Some(_), .. }
        )
    }

    /// Name in options and reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::File => "file",
            Self::SpecWeb99 { .. } => "specweb99",
            Self::Surge { .. } => "surge",
            Self::WebStone => "webstone",
            Self::WorldCup => "worldcup",
            Self::Ibm => "ibm",
            Self::Application { .. } => "application",
            Self::Trace { .. } => "trace",
        }
    }
}

/// The start times of a log's requests within their second. The times in logs are whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Spread {
    /// All requests start at the beginning of their second.
    None,
    /// Requests start at equal distances, in the order of the log.
    Uniform,
    /// Requests start at independent uniform times, sorted. A Poisson process with this number of
    /// arrivals has such times.
    Poisson,
}

/// HTTP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Version {
    /// HTTP/1.0
    #[serde(rename = "1.0")]
    Http10,
    /// HTTP/1.1
    #[serde(rename = "1.1")]
    Http11,
}

/// TLS version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum TlsVersion {
    /// TLS 1.2
    #[serde(rename = "1.2")]
    Tls12,
    /// TLS 1.3
    #[serde(rename = "1.3")]
    Tls13,
}

/// The check of a response body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Check {
    /// Only that the body is complete.
    None,
    /// The length, which must be that of the workload's file.
    Length,
    /// The length, and that every body of an object is the same.
    Digest,
}

/// The maximum number of processes that share a load.
const MAX_SHARDS: u32 = 4096;

/// The part of a load that one of several processes runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Number of the shard, from 0.
    pub index: u32,
    /// Number of shards.
    pub shards: u32,
}

impl Shard {
    /// The whole load.
    pub const WHOLE: Self = Self {
        index: 0,
        shards: 1,
    };

    /// One of several equal shards of this shard.
    #[must_use]
    pub fn split(self, index: u32, shards: u32) -> Self {
        Self {
            index: self.index * shards + index,
            shards: self.shards * shards,
        }
    }

    /// The share of a count. The shares of all shards add up to the count.
    #[must_use]
    pub fn share(self, count: u64) -> u64 {
        let (index, shards) = (u64::from(self.index), u64::from(self.shards));
        count / shards + u64::from(index < count % shards)
    }
}

impl FromStr for Shard {
    type Err = String;

    /// `I/N`, with I from 1 to N.
    fn from_str(text: &str) -> Result<Self, String> {
        text.split_once('/')
            .and_then(|(index, shards)| Some((index.parse().ok()?, shards.parse().ok()?)))
            .filter(|(index, shards): &(u32, u32)| {
                (1..=*shards).contains(index) && *shards <= MAX_SHARDS
            })
            .map(|(index, shards)| Self {
                index: index - 1,
                shards,
            })
            .ok_or_else(|| {
                format!("{text}: expected I/N with I from 1 to N and N up to {MAX_SHARDS}")
            })
    }
}

/// Distribution of the requests per connection: uniform between two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestsPerConnection {
    minimum: u32,
    maximum: u32,
}

impl RequestsPerConnection {
    /// Draws a number.
    pub(crate) fn draw(self, stream: &mut Stream) -> u32 {
        self.minimum + stream.below(self.maximum - self.minimum + 1)
    }

    /// The mean.
    #[must_use]
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
            return Err(format!(
                "{text}: expected a number such as 10, or uniform:5-15"
            ));
        }
        Ok(Self { minimum, maximum })
    }
}

impl Settings {
    /// Checks everything that does not depend on the machine.
    ///
    /// # Errors
    /// The error names the first invalid option.
    pub fn check(&self) -> Result<(), LoadError> {
        let usage = |text: String| Err(LoadError::Usage(text));
        let share = |value: f64| (0.0..=1.0).contains(&value);
        if !(1..=1_000_000).contains(&self.connections) {
            return usage(format!(
                "connections: {}: expected 1 to 1000000",
                self.connections
            ));
        }
        if self.shard.share(self.connections.into()) == 0 {
            return usage(
                "connections: expected at least one for each process (--shard)".to_owned(),
            );
        }
        if self.threads == Some(0) {
            return usage("threads: 0: expected at least one".to_owned());
        }
        if !share(self.conditional_share) || !share(self.keep_alive_share.unwrap_or(1.0)) {
            return usage("conditional and keep-alive are shares: expected 0 to 1".to_owned());
        }
        if self.line_speed_bps.is_some_and(|speed| speed < 100) {
            return usage("line-speed: expected at least 100 b/s".to_owned());
        }
        if self.timeout.is_zero() {
            return usage("timeout: expected more than 0".to_owned());
        }
        if let Arrivals::Requests { per_s, .. } | Arrivals::Sessions { per_s, .. } = self.arrivals
            && !(per_s > 0.0 && per_s <= 1e8)
        {
            return usage(format!(
                "rate: {per_s}: expected more than 0 and at most 10^8 a second"
            ));
        }
        if let Arrivals::Recorded { speed } = self.arrivals {
            if !(speed > 0.0 && speed.is_finite()) {
                return usage(format!("speed: {speed}: expected more than 0, or max"));
            }
            if !matches!(self.workload, Workload::Trace { repeats: false, .. }) {
                return usage(
                    "replay: expected a log that is played once: no other workload has start times"
                        .to_owned(),
                );
            }
        }
        for header in &self.headers {
            let named = header
                .split_once(':')
                .is_some_and(|(name, _)| !name.trim().is_empty());
            if !named || header.contains(['\r', '\n']) {
                return usage(format!("header: {header:?}: expected 'Name: value'"));
            }
        }
        self.check_workload()
    }

    fn check_workload(&self) -> Result<(), LoadError> {
        let usage = |text: &str| Err(LoadError::Usage(text.to_owned()));
        let is_file = self.workload == Workload::File;
        if !is_file && Target::parse(&self.url)?.path.contains('?') {
            return usage("url: the files of a workload cannot be below a query; leave it out");
        }
        if self.requests_per_connection.is_some() && self.keep_alive_share == Some(0.0) {
            return usage(
                "requests-per-connection: has no effect with keep-alive 0: each connection has one \
                 request",
            );
        }
        if self.requests_per_connection.is_some() && !is_file {
            return usage("requests-per-connection: only the workload `file` has this option");
        }
        let has_share = is_file || matches!(self.workload, Workload::SpecWeb99 { .. });
        if self.keep_alive_share.is_some() && !has_share {
            return usage("keep-alive: only the workloads `file` and `specweb99` have this option");
        }
        if matches!(self.workload, Workload::Surge { .. }) && self.arrivals != Arrivals::Closed {
            return usage(
                "rate: has no effect with surge: the think times of its users determine the rate",
            );
        }
        let is_application = matches!(self.workload, Workload::Application { .. });
        if is_application && (self.conditional_share > 0.0 || self.check == Check::Digest) {
            return usage(
                "conditional and check: an application's pages have their own requests and checks",
            );
        }
        let ends_by_itself = self.workload.is_finite();
        if self.duration.is_none() && self.requests.is_none() && !ends_by_itself {
            return usage("duration or requests: expected one of them to end the run");
        }
        if self.duration.is_some_and(|duration| duration.is_zero()) || self.requests == Some(0) {
            return usage("duration and requests: expected more than 0");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_without_effect_is_refused() {
        let settings = Settings {
            keep_alive_share: Some(0.0),
            requests_per_connection: "10".parse().ok(),
            ..Settings::new("http://h/", 1)
        };
        let error = settings.check().unwrap_err().to_string();
        assert!(error.starts_with("requests-per-connection:"), "{error}");
    }

    #[test]
    fn the_files_of_a_workload_cannot_be_below_a_query() {
        let settings = Settings {
            workload: Workload::WebStone,
            ..Settings::new("http://h/a?b=c", 1)
        };
        let error = settings.check().unwrap_err().to_string();
        assert!(error.contains("query"), "{error}");
        assert!(Settings::new("http://h/a?b=c", 1).check().is_ok());
    }
}
