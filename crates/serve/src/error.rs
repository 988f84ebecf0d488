//! Why a server cannot run: the user's mistakes apart from what the machine lacks and from faults.

use std::io;
use std::path::PathBuf;

/// Why a server could not be made, or stopped by itself.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A setting is out of range, or two do not go together.
    #[error("{setting}: {problem}")]
    Setting {
        /// The option, as on the command line.
        setting: &'static str,
        /// What it is, and what was expected.
        problem: String,
    },
    /// The root folder cannot be served.
    #[error("--root {}: cannot be opened: {source}", path.display())]
    Root {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The user that root becomes cannot read the root folder.
    #[error("--root {}: user {user} cannot read it: {source}", path.display())]
    Unreadable {
        /// The folder.
        path: PathBuf,
        /// The user.
        user: String,
        /// Why.
        source: io::Error,
    },
    /// A file that was named cannot be used.
    #[error("{option} {}: {problem}", path.display())]
    File {
        /// The option that named it.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        problem: String,
    },
    /// The address cannot be listened on.
    #[error("--listen {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The kernel or the machine lacks something that was demanded.
    #[error("{what}: {problem}")]
    Lacking {
        /// What was demanded.
        what: &'static str,
        /// What the machine says.
        problem: String,
    },
    /// A system call failed that should not.
    #[error("{action}: {source}")]
    System {
        /// What was being done.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl ServeError {
    /// For `map_err`: the failure of `action`.
    pub(crate) fn system<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::System {
            action,
            source: error.into(),
        }
    }
}
