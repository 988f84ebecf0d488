//! From the workload's parameters to a source of sessions.

use perpacket_workload::{
    LognormalSessions, ParameterError, Replay, Sessions, SpecWeb99, SpecWeb99Generator,
};
use serde::Deserialize;

use crate::error::ConfigurationError;
use crate::parameters::ParameterSet;

/// A workload as typed values.
#[derive(Clone, Debug)]
pub enum Workload {
    /// Clients of a web server.
    Web(Web),
    /// The bulk sender.
    Bulk(BulkParameters),
}

/// Clients and their sessions.
#[derive(Clone, Debug)]
pub struct Web {
    pub connections: u32,
    sessions: SessionParameters,
}

#[derive(Clone, Debug)]
enum SessionParameters {
    Lognormal(LognormalSessions),
    SpecWeb99(SpecWeb99),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WebSection<S> {
    #[serde(rename = "name")]
    _name: String,
    connections: u32,
    sessions: S,
}

/// SPECweb99's parameters except its number of connections, which is the workload's.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SpecWeb99Section {
    dynamic_share: f64,
    keep_alive_share: f64,
}

/// The bulk sender's parameters.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BulkParameters {
    #[serde(rename = "name")]
    _name: String,
    pub connections: u32,
    pub rate_mbps: f64,
    pub segment_bytes: u32,
    /// A connection's segments that are due within this time are written together.
    pub burst_us: u32,
    /// The minimum time that the sender sleeps.
    pub sleep_us: u32,
}

impl Workload {
    /// Reads `workload.*`.
    pub fn read(parameters: &ParameterSet) -> Result<Self, ConfigurationError> {
        let workload = match parameters.text("workload.name") {
            Some("bulk") => Self::Bulk(parameters.section("workload")?),
            Some("D" | "S") => {
                let section: WebSection<SpecWeb99Section> = parameters.section("workload")?;
                Self::Web(Web {
                    connections: section.connections,
                    sessions: SessionParameters::SpecWeb99(SpecWeb99 {
                        connections: section.connections,
                        dynamic_share: section.sessions.dynamic_share,
                        keep_alive_share: section.sessions.keep_alive_share,
                    }),
                })
            }
            _ => {
                let section: WebSection<LognormalSessions> = parameters.section("workload")?;
                Self::Web(Web {
                    connections: section.connections,
                    sessions: SessionParameters::Lognormal(section.sessions),
                })
            }
        };
        if let Self::Web(web) = &workload {
            web.check()?;
        }
        Ok(workload)
    }

    /// Concurrent connections.
    pub const fn connections(&self) -> u32 {
        match self {
            Self::Web(web) => web.connections,
            Self::Bulk(bulk) => bulk.connections,
        }
    }
}

/// The error with the parameter's name in a run.
fn renamed(error: ParameterError) -> ConfigurationError {
    let name = format!("workload.sessions.{}", error.parameter);
    ConfigurationError::new(name, error.value, error.allowed)
}

impl Web {
    fn check(&self) -> Result<(), ConfigurationError> {
        match &self.sessions {
            SessionParameters::Lognormal(parameters) => parameters.check(),
            SessionParameters::SpecWeb99(parameters) => parameters.check(),
        }
        .map_err(renamed)
    }

    /// The source of sessions: the trace if there is one, else the generator under `seed`.
    pub fn source(
        &self,
        trace: Option<&Replay>,
        seed: u64,
    ) -> Result<Sessions, ConfigurationError> {
        if let Some(trace) = trace {
            return Ok(Sessions::Replay(trace.clone()));
        }
        Ok(match &self.sessions {
            SessionParameters::Lognormal(parameters) => {
                Sessions::Lognormal(parameters.generator(seed).map_err(renamed)?)
            }
            SessionParameters::SpecWeb99(parameters) => {
                let generator: SpecWeb99Generator = parameters.generator(seed).map_err(renamed)?;
                Sessions::SpecWeb99(generator)
            }
        })
    }

    /// Number of distinct objects that clients may request. Requests for higher numbers use the
    /// same files again.
    pub fn objects(&self, trace: Option<&Replay>) -> u32 {
        /// The World Cup's object numbers end here (its object mappings have 89,997 rows).
        const TRACE_OBJECTS: u32 = 90_000;
        match (&self.sessions, trace) {
            (_, Some(_)) => TRACE_OBJECTS,
            (SessionParameters::Lognormal(parameters), None) => parameters.objects,
            (SessionParameters::SpecWeb99(parameters), None) => parameters.directories() * 36,
        }
    }
}
