//! Errors that prevent a load. Reports count the errors of single requests instead.

use std::io;
use std::path::{Path, PathBuf};

use perpacket_workload::{ParameterError, TraceError};

/// The reason why a load cannot run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("{0}")]
    Usage(String),
    #[error("{url}: {reason}")]
    Url { url: String, reason: &'static str },
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    #[error("{path}: {source}")]
    Trace { path: PathBuf, source: TraceError },
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("{resource}: {needed} needed, {available} available")]
    Limit {
        resource: &'static str,
        needed: u64,
        available: u64,
        hint: String,
    },
    #[error("{host}: cannot be resolved: {source}")]
    Resolve { host: String, source: io::Error },
    #[error("{address}: cannot connect: {source}")]
    Unreachable { address: String, source: io::Error },
    #[error("tls: {0}")]
    Tls(String),
    #[error("{action}: {source}")]
    System {
        action: &'static str,
        source: io::Error,
    },
}

impl LoadError {
    /// Adds the path of a file to an error.
    pub(crate) fn file(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::File {
            path: path.to_owned(),
            source,
        }
    }

    /// Adds the operation to an error.
    pub(crate) fn system(action: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::System { action, source }
    }

    /// The next step for the user, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Limit { hint, .. } => Some(hint.clone()),
            Self::Unreachable { .. } => Some(
                "start the server first, and check its address and port with `ss -ltn`".to_owned(),
            ),
            Self::Url { .. } => Some("write it as http://HOST:PORT/PATH".to_owned()),
            Self::Resolve { .. } => Some("name an address instead of a host".to_owned()),
            Self::Trace {
                source: TraceError::NothingUsable { .. },
                ..
            } => Some("print its contents with `perpacket trace info FILE`".to_owned()),
            _ => None,
        }
    }
}
