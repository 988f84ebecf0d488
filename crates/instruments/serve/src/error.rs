//! Errors of starting a server: mistakes of the user, missing features of the machine, and faults.

use std::io;
use std::path::PathBuf;

/// The reason why a server cannot start, or failed.
#[derive(Debug, thiserror::Error)]
#[allow(
    missing_docs,
    reason = "the message of each variant explains its fields"
)]
pub enum ServeError {
    /// A setting is out of range, or two contradict each other.
    #[error("{setting}: {problem}")]
    Setting {
        setting: &'static str,
        problem: String,
    },
    /// The root folder cannot be served.
    #[error("--root {}: cannot be opened: {source}", path.display())]
    Root { path: PathBuf, source: io::Error },
    /// The user that the server switches to cannot read the root folder.
    #[error("--root {}: user {user} cannot read it: {source}", path.display())]
    Unreadable {
        path: PathBuf,
        user: String,
        source: io::Error,
    },
    /// A file of an option cannot be used.
    #[error("{option} {}: {problem}", path.display())]
    File {
        option: &'static str,
        path: PathBuf,
        problem: String,
    },
    /// Listening on the address failed.
    #[error("--listen {address}: {source}")]
    Listen { address: String, source: io::Error },
    /// The machine lacks a feature that was requested.
    #[error("{what}: {problem}")]
    Lacking { what: &'static str, problem: String },
    /// A system call failed unexpectedly.
    #[error("{action}: {source}")]
    System {
        action: &'static str,
        source: io::Error,
    },
}

impl ServeError {
    /// Makes an error of `action`, for `map_err`.
    pub(crate) fn system<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::System {
            action,
            source: error.into(),
        }
    }
}
