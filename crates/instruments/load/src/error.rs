//! Errors that prevent a load. Reports count the errors of single requests instead.

use std::io;
use std::path::{Path, PathBuf};

use perpacket_workload::{ParameterError, TraceError};

/// The reason why a load cannot run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Options contradict each other, or one is invalid.
    #[error("{0}")]
    Usage(String),
    /// The URL is invalid.
    #[error("{url}: {reason}")]
    Url {
        /// The URL.
        url: String,
        /// What was expected.
        reason: &'static str,
    },
    /// A workload's parameter is out of its range.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// A trace cannot be read.
    #[error("{path}: {source}")]
    Trace {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: TraceError,
    },
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A limit of the machine is too low.
    #[error("{resource}: {needed} needed, {available} available")]
    Limit {
        /// The limited resource.
        resource: &'static str,
        /// Amount that the run needs.
        needed: u64,
        /// Amount that the machine allows.
        available: u64,
        /// How to change it.
        hint: String,
    },
    /// The host name has no address.
    #[error("{host}: cannot be resolved: {source}")]
    Resolve {
        /// Name or address, as in the URL.
        host: String,
        /// Error of the resolver.
        source: io::Error,
    },
    /// Connecting to the address failed.
    #[error("{address}: cannot connect: {source}")]
    Unreachable {
        /// Address and port.
        address: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// TLS cannot be set up.
    #[error("tls: {0}")]
    Tls(String),
    /// A system call failed.
    #[error("{action}: {source}")]
    System {
        /// The operation.
        action: &'static str,
        /// Error of the operating system.
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
    #[must_use]
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
