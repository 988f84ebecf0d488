//! When the requests of a load start.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::Serialize;

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
    pub fn are_open(self) -> bool {
        self != Self::Closed
    }

    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Requests { .. } => "requests",
            Self::Sessions { .. } => "sessions",
            Self::Recorded { .. } => "recorded",
        }
    }

    /// Arrivals per second, in an open loop.
    pub fn per_s(self) -> Option<f64> {
        match self {
            Self::Requests { per_s, .. } | Self::Sessions { per_s, .. } => Some(per_s),
            Self::Closed | Self::Recorded { .. } => None,
        }
    }

    /// Factor by which the run is faster than the log, if the run uses the log's times.
    pub fn speed(self) -> Option<f64> {
        match self {
            Self::Recorded { speed } => Some(speed),
            _ => None,
        }
    }
}

/// Arrival process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Process {
    /// Equal times between arrivals.
    Fixed,
    /// Exponential times between arrivals.
    Poisson,
}

/// Factor by which a run is faster than its log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// Ignores the log's times.
    Max,
    /// The times are divided by this.
    Times(f64),
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let factor = text
            .parse()
            .ok()
            .filter(|speed: &f64| *speed > 0.0 && speed.is_finite());
        match (text, factor) {
            ("max", _) => Ok(Self::Max),
            (_, Some(speed)) => Ok(Self::Times(speed)),
            _ => Err("expected a factor such as 10, or max".to_owned()),
        }
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Max => formatter.write_str("max"),
            Self::Times(speed) => speed.fmt(formatter),
        }
    }
}

perpacket_spec::text! {
    Speed, "factor", "10";
}
