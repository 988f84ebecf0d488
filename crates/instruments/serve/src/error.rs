//! Errors of starting a server: mistakes of the user, missing features of the machine, and faults.

use std::io;
use std::path::PathBuf;

/// The reason why a server cannot start, or failed.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("{setting}: {problem}")]
    Setting {
        setting: &'static str,
        problem: String,
    },
    #[error("--root {}: cannot be opened: {source}", path.display())]
    Root { path: PathBuf, source: io::Error },
    #[error("--root {}: user {user} cannot read it: {source}", path.display())]
    Unreadable {
        path: PathBuf,
        user: String,
        source: io::Error,
    },
    #[error("{option} {}: {problem}", path.display())]
    File {
        option: &'static str,
        path: PathBuf,
        problem: String,
    },
    #[error("--listen {address}: {source}")]
    Listen { address: String, source: io::Error },
    #[error("{what}: {problem}")]
    Lacking { what: &'static str, problem: String },
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
