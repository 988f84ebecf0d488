//! The settings of a server. The defaults are those of the command line.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::ServeError;

/// How a server waits for its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    /// One thread a core with its own listener and epoll loop. Helper threads read cold files.
    #[default]
    Events,
    /// The same loop without helper threads: a cold file delays all clients.
    Single,
    /// A pool of threads. Each thread serves one connection at a time.
    Threads,
    /// Preforked processes. Each process serves one connection at a time.
    Processes,
    /// One thread a core with its own io_uring. Helper threads read cold files.
    Uring,
}

impl Architecture {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 5] = [
        Self::Events,
        Self::Single,
        Self::Threads,
        Self::Processes,
        Self::Uring,
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Single => "single",
            Self::Threads => "threads",
            Self::Processes => "processes",
            Self::Uring => "uring",
        }
    }
}

/// Certificate and key for TLS 1.2 and 1.3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// PEM file with the certificate chain. The server's own certificate comes first.
    pub certificate: PathBuf,
    /// PEM file with the private key.
    pub key: PathBuf,
    /// Whether clients may resume sessions (session IDs, and tickets of TLS 1.3).
    pub resumption: bool,
}

/// The program that answers SPECweb99's CGI requests. The server starts it for each request.
///
/// Its environment has `QUERY_STRING`, `REMOTE_ADDR`, `SCRIPT_NAME` and `DOCUMENT_ROOT` (RFC 3875). It
/// writes the page, without a head, to standard output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgiProgram {
    /// The executable.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
}

/// All settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The folder whose files are served.
    pub root: Option<PathBuf>,
    /// Where to listen; port 0 picks a free one.
    pub listen: SocketAddr,
    /// How a server waits for its connections.
    pub architecture: Architecture,
    /// CPUs to pin to, with one loop each. If empty, the server runs one loop for each usable CPU
    /// and does not pin them.
    pub cores: Vec<usize>,
    /// Number of threads or processes in the pools of `threads` and `processes`.
    pub threads: usize,
    /// Size in bytes. Larger files are sent by sendfile, and smaller files are sent from memory.
    ///
    /// `benches/sendfile_threshold.py` measured the CPU time of sendfile divided by that of sending
    /// from memory (loopback, Zen 4, Linux 6.18). The ratio is 1.15 at 10 KB, 0.89 at 64 KiB, 0.70
    /// at 128 KiB, 0.85 at 256 KiB and 0.56 at 1 MiB. The default is a little above the size from
    /// which sendfile is cheaper. The reason is SPECweb99: the server replaces the placeholders of
    /// advertisements only in files in memory, and the files that may contain placeholders have up
    /// to 92,160 bytes.
    ///
    /// An io_uring has no sendfile: it reads such files in parts into a buffer and sends that.
    pub sendfile_above: u64,
    /// How long a loop waits for more clients to become ready, in microseconds. It waits only if it
    /// has 64 or more clients and few of them are ready. A NIC does the same with adaptive
    /// interrupt coalescing. Only `events` and `single` wait; 0 turns it off.
    ///
    /// The wait saves CPU time in a server that is faster than its clients and finds only one or
    /// two of them ready at a time. `benches/serve_against_nginx.py` has the figures. The wait adds
    /// up to this time to the latency.
    pub coalesce_us: u64,
    /// Size of a file cache, in bytes. Each loop and each process has a cache of its own, but the
    /// threads of `threads` share one cache. Each cache uses up to a sixteenth more for prebuilt
    /// responses.
    pub cache_bytes: u64,
    /// How long a cached file is served before it is compared with the file on disk again, in
    /// milliseconds.
    pub revalidate_ms: u64,
    /// Maximum number of connections at a time. `None` is the limit of descriptors less a reserve.
    pub max_connections: Option<usize>,
    /// Longest request head, in bytes.
    pub max_header_bytes: usize,
    /// Longest request body, in bytes.
    pub max_body_bytes: u64,
    /// How long a connection may be idle between requests, in seconds.
    pub idle_timeout_s: f64,
    /// Longest time for a request to arrive, in seconds. It is also the longest time in which a
    /// client may acknowledge none of the bytes sent.
    pub request_timeout_s: f64,
    /// TLS; `None` for plain HTTP.
    pub tls: Option<TlsSettings>,
    /// The user, by name or number, that the server switches to after binding if root started it.
    /// `None` is `nobody`.
    pub user: Option<String>,
    /// Whether computed routes are served: `/work`, `/bytes` and `/specweb99`. They come before files.
    pub routes: bool,
    /// The log of SPECweb99's POSTs.
    pub post_log: Option<PathBuf>,
    /// The program for SPECweb99's CGI requests.
    pub cgi: Option<CgiProgram>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            root: None,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            architecture: Architecture::Events,
            cores: Vec::new(),
            threads: 64,
            sendfile_above: 128 << 10,
            coalesce_us: 0,
            cache_bytes: 256 << 20,
            revalidate_ms: 1000,
            max_connections: None,
            max_header_bytes: 16_384,
            max_body_bytes: 1 << 20,
            idle_timeout_s: 60.0,
            request_timeout_s: 20.0,
            tls: None,
            user: None,
            routes: false,
            post_log: None,
            cgi: None,
        }
    }
}

/// Smallest and largest values of the options.
const HEADER_LIMITS: (usize, usize) = (256, 1 << 20);
const THREAD_LIMITS: (usize, usize) = (1, 10_000);
const COALESCE_LIMITS_US: (u64, u64) = (0, 100_000);
const TIMEOUT_LIMITS_S: (f64, f64) = (0.05, 86_400.0);

impl Settings {
    /// Checks the settings without access to the machine.
    ///
    /// # Errors
    /// The error names the first setting that is out of range.
    pub fn check(&self) -> Result<(), ServeError> {
        let within = |setting, value: usize, (low, high)| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(ServeError::Setting {
                    setting,
                    problem: format!("{value} given, expected {low} to {high}"),
                })
            }
        };
        within("--max-header-size", self.max_header_bytes, HEADER_LIMITS)?;
        within("--threads", self.threads, THREAD_LIMITS)?;
        if let Some(connections) = self.max_connections {
            within("--max-connections", connections, (1, 10_000_000))?;
        }
        let (low, high) = COALESCE_LIMITS_US;
        if !(low..=high).contains(&self.coalesce_us) {
            return Err(ServeError::Setting {
                setting: "--coalesce",
                problem: format!("{} given, expected {low} to {high}", self.coalesce_us),
            });
        }
        for (setting, seconds) in [
            ("--idle-timeout", self.idle_timeout_s),
            ("--request-timeout", self.request_timeout_s),
        ] {
            let (low, high) = TIMEOUT_LIMITS_S;
            if !(low..=high).contains(&seconds) {
                return Err(ServeError::Setting {
                    setting,
                    problem: format!("{seconds} given, expected {low} to {high}"),
                });
            }
        }
        if self.root.is_none() && !self.routes {
            return Err(ServeError::Setting {
                setting: "--root",
                problem: "not given, expected a folder to serve, or --routes".to_owned(),
            });
        }
        if self.post_log.is_some() && !self.routes {
            return Err(ServeError::Setting {
                setting: "--post-log",
                problem: "POSTs go to a computed route, expected --routes too".to_owned(),
            });
        }
        if self.tls.is_some() && self.architecture == Architecture::Uring {
            return Err(ServeError::Setting {
                setting: "--tls-cert",
                problem: "the architecture uring speaks no TLS, expected another".to_owned(),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_out_of_range_is_named() {
        let settings = Settings {
            idle_timeout_s: f64::NAN,
            routes: true,
            ..Settings::default()
        };
        let message = settings.check().unwrap_err().to_string();
        assert!(message.contains("--idle-timeout"), "{message}");
    }
}
