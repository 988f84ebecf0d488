//! What can keep a load from being run at all; what goes wrong with single requests is counted in
//! the report instead.

use std::io;
use std::path::{Path, PathBuf};

use perpacket_workload::{ParameterError, TraceError};

/// A load that could not be run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Two options contradict each other, or one has a value it cannot have.
    #[error("{0}")]
    Usage(String),
    /// The URL is none that can be asked.
    #[error("{url}: {reason}")]
    Url {
        /// As given.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A workload's parameter is out of its range.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// A trace cannot be used.
    #[error("{path}: {source}")]
    Trace {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: TraceError,
    },
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The machine allows too little of something.
    #[error("{resource}: {needed} needed, {available} available")]
    Limit {
        /// What there is too little of.
        resource: &'static str,
        /// How much the run takes.
        needed: u64,
        /// How much the machine allows.
        available: u64,
        /// What to do about it.
        hint: String,
    },
    /// The host's name has no address.
    #[error("{host}: cannot be resolved: {source}")]
    Resolve {
        /// Name or address as given.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// Nobody answers at the address.
    #[error("{address}: cannot connect: {source}")]
    Unreachable {
        /// Address and port.
        address: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// TLS cannot be set up.
    #[error("tls: {0}")]
    Tls(String),
    /// The operating system refused something the run needs.
    #[error("{action}: {source}")]
    System {
        /// What was being done.
        action: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
}

impl LoadError {
    /// Wraps an error of the operating system with the file.
    pub(crate) fn file(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::File {
            path: path.to_owned(),
            source,
        }
    }

    /// Wraps an error of the operating system with what was being done.
    pub(crate) fn system(action: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::System { action, source }
    }

    /// The next step, where there is one.
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
            } => Some("`perpacket trace info FILE` says what is in it".to_owned()),
            _ => None,
        }
    }
}
