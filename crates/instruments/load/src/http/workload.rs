//! What a load requests.

use std::path::Path;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::Serialize;

use super::log::LogFile;

/// The name of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lowercase")]
pub enum WorkloadName {
    /// The URL, repeatedly.
    File,
    /// SPECweb99: files of four classes, Zipf popularity, clients with slow lines.
    SpecWeb99,
    /// Surge: users that read pages and think.
    Surge,
    /// WebStone 2.5: five files, one request per connection.
    WebStone,
    /// Sessions like those of the 1998 World Cup site.
    WorldCup,
    /// Sessions like those of IBM's site.
    Ibm,
    /// The sessions of a log, without its times, repeatedly.
    Trace,
}

/// The requests of a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Workload<'a> {
    /// The URL itself, requested again and again.
    File,
    /// SPECweb99.
    SpecWeb99 {
        /// Whether to include its dynamic operations.
        dynamic: bool,
    },
    /// Surge: users that read pages and think.
    Surge { users: u32 },
    /// The files of WebStone, one request per connection.
    WebStone,
    /// Sessions like those of the 1998 World Cup site.
    WorldCup,
    /// Sessions like those of IBM's site.
    Ibm,
    /// Clients of an application that walk through its pages.
    Application {
        /// The application's file, `application.toml`.
        file: &'a Path,
        /// Number of answers to each page after which the run ends.
        each: Option<u64>,
    },
    /// The requests of a log.
    Trace {
        /// The log.
        log: LogFile<'a>,
        /// The start times of requests within their second.
        spread: Spread,
        /// Whether to begin the log again at its end. If not, the run ends with the log.
        repeats: bool,
    },
}

impl Workload<'_> {
    /// Whether the workload ends by itself.
    pub fn is_finite(&self) -> bool {
        matches!(
            self,
            Self::Trace { repeats: false, .. } | Self::Application { each: Some(_), .. }
        )
    }

    /// Name in options and reports.
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

/// The start times of a log's requests within their second. The times in most logs are
/// whole seconds; a log that has parts of seconds keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, JsonSchema)]
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
