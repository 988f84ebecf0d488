//! Errors of starting a server: mistakes of the user, missing features of the machine, and faults.

use std::io;
use std::path::PathBuf;

/// The reason why a server cannot start, or failed.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A setting is out of range, or two contradict each other.
    #[error("{setting}: {problem}")]
    Setting {
        /// The option, as on the command line.
        setting: &'static str,
        /// The value, and what was expected.
        problem: String,
    },
    /// The root folder cannot be served.
    #[error("--root {}: cannot be opened: {source}", path.display())]
    Root {
        /// The folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The user that the server switches to cannot read the root folder.
    #[error("--root {}: user {user} cannot read it: {source}", path.display())]
    Unreadable {
        /// The folder.
        path: PathBuf,
        /// The user.
        user: String,
        /// The reason.
        source: io::Error,
    },
    /// A file of an option cannot be used.
    #[error("{option} {}: {problem}", path.display())]
    File {
        /// The option.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        problem: String,
    },
    /// Listening on the address failed.
    #[error("--listen {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// The reason.
        source: io::Error,
    },
    /// The machine lacks a feature that was requested.
    #[error("{what}: {problem}")]
    Lacking {
        /// The feature.
        what: &'static str,
        /// What the machine reports.
        problem: String,
    },
    /// A system call failed unexpectedly.
    #[error("{action}: {source}")]
    System {
        /// The action that failed.
        action: &'static str,
        /// The reason.
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
