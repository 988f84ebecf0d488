//! What a load is, as its caller says it.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use perpacket_workload::Stream;

use super::target::Target;
use crate::error::LoadError;
use crate::sources::SourceAddresses;

/// A load on one server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The URL; but for [`Workload::File`] its path is what all others are beneath.
    pub url: String,
    /// Connections at a time; the most there may be where requests arrive from outside.
    pub connections: u32,
    /// When requests start.
    pub arrivals: Arrivals,
    /// What is asked.
    pub workload: Workload,
    /// How long the measured window is; without it a run ends with its requests or its trace.
    pub duration: Option<Duration>,
    /// Requests after which the run ends.
    pub requests: Option<u64>,
    /// What passes before the window: it counts nowhere.
    pub warmup: Duration,
    /// Threads; one a processor without.
    pub threads: Option<u32>,
    /// Processors the threads are bound to, in turn.
    pub cpus: Vec<usize>,
    /// How long before a request is due the thread polls instead of sleeping: waking up takes tens of
    /// microseconds, which a request at its time cannot wait for. It takes the whole processor where
    /// requests are closer together than this.
    pub spin: Duration,
    /// Version of HTTP.
    pub version: Version,
    /// Share of requests on connections that are kept; without it all, or the workload's own.
    pub keep_alive_share: Option<f64>,
    /// Requests of a kept connection; without end when not given.
    pub requests_per_connection: Option<RequestsPerConnection>,
    /// Share of requests that are conditional, 0 to 1.
    pub conditional_share: f64,
    /// Bits a second that each connection reads at; without it as fast as they come.
    pub line_speed_bps: Option<u64>,
    /// How long a request may go without a byte moving.
    pub timeout: Duration,
    /// What is checked of a body.
    pub check: Check,
    /// Resume TLS sessions.
    pub tls_resumption: bool,
    /// Trust whatever certificate the server has.
    pub insecure: bool,
    /// File of certificates to trust instead of the system's.
    pub trusted: Option<PathBuf>,
    /// Where connections come from.
    pub sources: SourceAddresses,
    /// This process's part of the load.
    pub part: Part,
    /// Seed of everything random.
    pub seed: u64,
    /// One line a request goes here.
    pub request_log: Option<PathBuf>,
    /// More header fields, as `Name: value`.
    pub headers: Vec<String>,
}

impl Settings {
    /// One file over kept connections, as fast as it is answered, for ten seconds.
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
            insecure: false,
            trusted: None,
            sources: SourceAddresses::default(),
            part: Part::WHOLE,
            seed: 1,
            request_log: None,
            headers: Vec::new(),
        }
    }
}

/// When requests start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Each connection asks again once it was answered.
    Closed,
    /// Requests arrive, whatever the server does (open).
    Requests {
        /// How many a second; may be a fraction.
        per_s: f64,
        /// How they are spaced.
        process: Process,
    },
    /// Sessions arrive; in each the next request follows the answer (partly open).
    Sessions {
        /// How many a second; may be a fraction.
        per_s: f64,
        /// How they are spaced.
        process: Process,
    },
    /// Requests come when the log says, so many times as fast.
    Recorded {
        /// Factor of speed.
        speed: f64,
    },
}

impl Arrivals {
    /// Whether requests have times that do not hang on the server.
    #[must_use]
    pub fn are_open(self) -> bool {
        self != Self::Closed
    }
}

/// How arrivals are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// Evenly.
    Fixed,
    /// Independently of each other.
    Poisson,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// The URL, again and again.
    File,
    /// SPECweb99 on `connections` connections.
    SpecWeb99 {
        /// With its dynamic operations.
        dynamic: bool,
    },
    /// Surge: user equivalents that read pages and think.
    Surge {
        /// How many.
        users: u32,
    },
    /// WebStone's files, one request a connection.
    WebStone,
    /// Sessions like the 1998 World Cup's.
    WorldCup,
    /// Sessions like IBM's site's.
    Ibm,
    /// The requests of a log.
    Trace {
        /// The log.
        file: PathBuf,
        /// Object mappings of a World Cup 1998 log.
        objects: Option<PathBuf>,
        /// Where requests lie within their second.
        spread: Spread,
        /// Begin the log again when it ends; without it the run ends with the log.
        repeats: bool,
    },
}

impl Workload {
    /// Whether there is an end to what it asks.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        matches!(self, Self::Trace { repeats: false, .. })
    }

    /// The word for it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::File => "file",
            Self::SpecWeb99 { .. } => "specweb99",
            Self::Surge { .. } => "surge",
            Self::WebStone => "webstone",
            Self::WorldCup => "worldcup",
            Self::Ibm => "ibm",
            Self::Trace { .. } => "trace",
        }
    }
}

/// Where the requests of a log lie within their second: stamps have whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// All at its start.
    None,
    /// Evenly over it, in the log's order.
    Uniform,
    /// As the arrivals of a Poisson process, given their number: independent uniform times, sorted.
    Poisson,
}

/// Version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

/// What is checked of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Nothing but that it ends.
    None,
    /// Its length: that of the workload's file.
    Length,
    /// Also that an object's body is the same each time.
    Digest,
}

/// The most processes that share a load.
const MOST_PARTS: u32 = 4096;

/// The part of a load that one of several processes runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Number of the part, from 0.
    pub index: u32,
    /// Number of parts.
    pub parts: u32,
}

impl Part {
    /// The whole load.
    pub const WHOLE: Self = Self { index: 0, parts: 1 };

    /// One of several equal parts of this part.
    #[must_use]
    pub fn split(self, index: u32, parts: u32) -> Self {
        Self {
            index: self.index * parts + index,
            parts: self.parts * parts,
        }
    }

    /// Its share of a count. The shares of all parts add up to the count.
    #[must_use]
    pub fn share(self, count: u64) -> u64 {
        let (index, parts) = (u64::from(self.index), u64::from(self.parts));
        count / parts + u64::from(index < count % parts)
    }
}

impl FromStr for Part {
    type Err = String;

    /// `I/N`, with I from 1 to N.
    fn from_str(text: &str) -> Result<Self, String> {
        text.split_once('/')
            .and_then(|(index, parts)| Some((index.parse().ok()?, parts.parse().ok()?)))
            .filter(|(index, parts): &(u32, u32)| {
                (1..=*parts).contains(index) && *parts <= MOST_PARTS
            })
            .map(|(index, parts)| Self {
                index: index - 1,
                parts,
            })
            .ok_or_else(|| {
                format!("{text}: expected I/N with I from 1 to N and N up to {MOST_PARTS}")
            })
    }
}

/// A distribution of requests per connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestsPerConnection {
    fewest: u32,
    most: u32,
}

impl RequestsPerConnection {
    /// The next draw.
    pub(crate) fn draw(self, stream: &mut Stream) -> u32 {
        self.fewest + stream.below(self.most - self.fewest + 1)
    }

    /// The mean.
    #[must_use]
    pub fn mean(self) -> f64 {
        (f64::from(self.fewest) + f64::from(self.most)) / 2.0
    }
}

impl FromStr for RequestsPerConnection {
    type Err = String;

    /// `10` or `uniform:5-15`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (fewest, most) = match text.strip_prefix("uniform:") {
            Some(range) => range.split_once('-').unwrap_or((range, range)),
            None => (text, text),
        };
        let (fewest, most) = (fewest.parse().unwrap_or(0), most.parse().unwrap_or(0));
        if fewest == 0 || most < fewest || most > 1_000_000_000 {
            return Err(format!(
                "{text}: expected a number such as 10, or uniform:5-15"
            ));
        }
        Ok(Self { fewest, most })
    }
}

impl Settings {
    /// Checks what does not hang on the machine.
    ///
    /// # Errors
    /// Names the first option that cannot be.
    pub fn check(&self) -> Result<(), LoadError> {
        let usage = |text: String| Err(LoadError::Usage(text));
        let share = |value: f64| (0.0..=1.0).contains(&value);
        if !(1..=1_000_000).contains(&self.connections) {
            return usage(format!(
                "connections: {}: expected 1 to 1000000",
                self.connections
            ));
        }
        if self.part.share(self.connections.into()) == 0 {
            return usage("clients: fewer connections than processes: nothing to do".to_owned());
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
            return usage("timeout-s: expected more than 0".to_owned());
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
            if !self.workload.is_finite() {
                return usage(
                    "replay: only a log has times of its own, and it has them once".to_owned(),
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
                "requests-per-connection: has no effect with keep-alive 0: every connection has one",
            );
        }
        if self.requests_per_connection.is_some() && !is_file {
            return usage(
                "requests-per-connection: the workload has its own; only `file` takes it",
            );
        }
        let takes_share = is_file || matches!(self.workload, Workload::SpecWeb99 { .. });
        if self.keep_alive_share.is_some() && !takes_share {
            return usage(
                "keep-alive: the workload has its own; only `file` and `specweb99` take it",
            );
        }
        if matches!(self.workload, Workload::Surge { .. }) && self.arrivals != Arrivals::Closed {
            return usage("surge: users think between requests: it takes no rate");
        }
        let ends_by_itself = self.workload.is_finite();
        if self.duration.is_none() && self.requests.is_none() && !ends_by_itself {
            return usage("duration or requests: one of them has to end the run");
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
