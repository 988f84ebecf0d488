//! What `serve web` is asked to do: every option once, with its default, range, help and needs.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use perpacket_spec::{RunsOn, Size, SpecError, Switch, Time, Whole};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a server waits for its connections.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    /// A thread per core with its own listener and epoll loop; helper threads read files that are not
    /// cached.
    #[default]
    Events,
    /// The same loop without helper threads: a file that is not cached delays all clients.
    Single,
    /// A pool of threads with one connection at a time each.
    Threads,
    /// Preforked processes with one connection at a time each.
    Processes,
    /// A thread per core with an io_uring.
    Uring,
}

impl Architecture {
    /// Its name on the command line.
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

/// The program that answers SPECweb99's CGI requests. The server starts it for each request.
///
/// Its environment has `QUERY_STRING`, `REMOTE_ADDR`, `SCRIPT_NAME` and `DOCUMENT_ROOT` (RFC 3875). It
/// writes the page, without a head, to standard output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgiProgram {
    /// The executable.
    pub path: PathBuf,
    pub arguments: Vec<String>,
}

/// Serve files and computed responses over HTTP/1.1, in one of five architectures.
#[derive(Args, Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Spec {
    /// The folder whose files are served.
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Where to listen; port 0 picks a free one.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8080")]
    #[schemars(with = "String")]
    pub listen: SocketAddr,
    /// How the server waits for its connections.
    #[arg(long, value_enum, default_value = "events")]
    pub architecture: Architecture,
    /// The CPUs.
    #[command(flatten)]
    #[serde(flatten)]
    pub runs_on: RunsOn,
    /// Threads or processes in the pools of `threads` and `processes` [default: 64].
    #[arg(long, value_name = "N")]
    #[schemars(extend("x-needs" = "architecture=threads, architecture=processes"))]
    pub threads: Option<Whole<1, 10_000>>,
    /// Send files larger than this by sendfile (`uring`: read and sent in parts), smaller ones from
    /// memory [default: 128KiB].
    // `benches/sendfile_threshold.py` measured the CPU time of sendfile divided by that of sending from
    // memory (loopback, Zen 4, Linux 6.18): 1.15 at 10 KB, 0.89 at 64 KiB, 0.70 at 128 KiB, 0.85 at 256 KiB
    // and 0.56 at 1 MiB. The default is a little above the size from which sendfile is cheaper: the server
    // replaces the placeholders of SPECweb99's advertisements only in files in memory, and the files that
    // may contain placeholders have up to 92,160 bytes. An io_uring has no sendfile: it reads such files in
    // parts into a buffer and sends that.
    #[arg(long, value_name = "SIZE")]
    #[schemars(extend("x-needs" = "root"))]
    pub sendfile_above: Option<Size>,
    /// If 64 or more clients are connected and few are ready, wait this long for others: less
    /// processor time, more latency [default: 0s].
    // A NIC does the same with adaptive interrupt coalescing. The wait saves CPU time in a server that is
    // faster than its clients and finds only one or two of them ready at a time.
    // `benches/serve_against_nginx.py` has the figures.
    #[arg(long, value_name = "TIME")]
    #[schemars(extend("x-needs" = "architecture=events, architecture=single"))]
    pub coalesce: Option<Time>,
    /// Memory for files: for each loop, for each process, or for all threads together [default:
    /// 256MiB].
    // Each cache uses up to a sixteenth more for prebuilt responses.
    #[arg(long, value_name = "SIZE")]
    #[schemars(extend("x-needs" = "root"))]
    pub cache_size: Option<Size>,
    /// Serve a cached file for this long before comparing it with the disk again [default: 1s].
    #[arg(long, value_name = "TIME")]
    #[schemars(extend("x-needs" = "root"))]
    pub revalidate: Option<Time>,
    /// Highest number of connections at a time [default: the limit of descriptors less a reserve].
    #[arg(long, value_name = "N")]
    pub max_connections: Option<Whole<1, 10_000_000>>,
    /// Longest head of a request.
    #[arg(long, value_name = "SIZE", default_value = "16KiB")]
    pub max_header_size: Size,
    /// Longest body of a request.
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    pub max_body_size: Size,
    /// Close a connection that is idle for this long.
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub idle_timeout: Time,
    /// Close a connection if a request does not arrive, or the client acknowledges no byte, for
    /// this long.
    #[arg(long, value_name = "TIME", default_value = "20s")]
    pub request_timeout: Time,
    /// Use TLS 1.2 and 1.3 with the certificates of this PEM file. The server's own comes first.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    #[schemars(extend("x-excludes" = "architecture=uring: it speaks no TLS"))]
    pub tls_cert: Option<PathBuf>,
    /// The private key, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Allow TLS sessions to be resumed [default: on].
    #[arg(long, value_enum)]
    #[schemars(extend("x-needs" = "tls-cert"))]
    pub tls_resumption: Option<Switch>,
    /// The user that root becomes after binding [default: nobody].
    #[arg(long, value_name = "NAME|UID")]
    pub user: Option<String>,
    /// Serve computed routes, before files: /work?us=N (N us of processor time, up to 10 s), /bytes/N
    /// (N bytes, up to 1 TiB) and SPECweb99's /specweb99/get, ad, post and cgi.
    #[arg(long)]
    pub routes: bool,
    /// Append SPECweb99's POSTs to this file.
    #[arg(long, value_name = "FILE")]
    #[schemars(extend("x-needs" = "routes"))]
    pub post_log: Option<PathBuf>,
}

/// Ranges of options.
const HEADER_LIMITS: (Size, Size) = (Size(256), Size(1 << 20));
const COALESCE_LIMIT: Time = Time(Duration::from_millis(100));
const TIMEOUT_LIMITS: (Time, Time) = (Time(Duration::from_millis(50)), Time::from_secs(86_400));

impl perpacket_spec::Spec for Spec {
    fn resolved(mut self) -> Result<Self, SpecError> {
        if self.root.is_none() && !self.routes {
            return Err(SpecError::new(
                "--root: not given, expected a folder to serve, or --routes",
            ));
        }
        match self.architecture {
            Architecture::Events | Architecture::Single => {
                let wait = *self.coalesce.get_or_insert(Time::from_secs(0));
                within("coalesce", wait, (Time::from_secs(0), COALESCE_LIMIT))?;
            }
            Architecture::Threads | Architecture::Processes => {
                self.threads.get_or_insert(Whole::nearest(64));
            }
            Architecture::Uring => (),
        }
        within("max-header-size", self.max_header_size, HEADER_LIMITS)?;
        within("idle-timeout", self.idle_timeout, TIMEOUT_LIMITS)?;
        within("request-timeout", self.request_timeout, TIMEOUT_LIMITS)?;
        if self.root.is_some() {
            self.sendfile_above.get_or_insert(Size(128 << 10));
            self.cache_size.get_or_insert(Size(256 << 20));
            self.revalidate.get_or_insert(Time::from_secs(1));
        }
        if self.tls_cert.is_some() {
            self.tls_resumption.get_or_insert(Switch::On);
        }
        Ok(self)
    }
}

/// Checks the range of an option.
fn within<T: PartialOrd + std::fmt::Display>(
    option: &str,
    value: T,
    (low, high): (T, T),
) -> Result<(), SpecError> {
    match value >= low && value <= high {
        true => Ok(()),
        false => Err(SpecError::new(format!(
            "--{option} {value}: expected {low} to {high}"
        ))),
    }
}

impl Spec {
    /// CPUs to pin to, with one loop each. If empty, the server runs one loop for each usable CPU and does
    /// not pin them.
    pub fn cores(&self) -> &[usize] {
        self.runs_on.list()
    }

    /// Size of a file cache, in bytes.
    pub fn cache_bytes(&self) -> u64 {
        self.cache_size.map_or(0, |size| size.0)
    }

    /// Longest request head, in bytes.
    pub fn max_header_bytes(&self) -> usize {
        self.max_header_size.as_usize()
    }

    /// Milliseconds after which a cached file is compared with the file on disk again.
    pub fn revalidate_ms(&self) -> u64 {
        self.revalidate.map_or(0, |time| time.0.as_millis() as u64)
    }

    /// How long a loop waits for more clients to become ready, in microseconds.
    pub fn coalesce_us(&self) -> u64 {
        self.coalesce.map_or(0, |time| time.0.as_micros() as u64)
    }

    /// How long a connection may be idle between requests, in milliseconds.
    pub fn idle_ms(&self) -> u64 {
        self.idle_timeout.0.as_millis() as u64
    }

    /// Longest time for a request to arrive, and in which a client may acknowledge none of the bytes sent,
    /// in milliseconds.
    pub fn request_ms(&self) -> u64 {
        self.request_timeout.0.as_millis() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perpacket_spec::parse;

    #[test]
    fn an_option_out_of_range_or_without_effect_is_named() {
        for (line, expected) in [
            ("", "--root"),
            (
                "--routes --idle-timeout 1ms",
                "--idle-timeout 1ms: expected 50ms to 86400s",
            ),
            (
                "--routes --coalesce 100001us",
                "--coalesce 100001us: expected 0s to 100ms",
            ),
            (
                "--root . --post-log log",
                "--post-log has no effect without --routes",
            ),
            (
                "--routes --threads 5",
                "without --architecture threads or --architecture processes",
            ),
            (
                "--routes --cache-size 5",
                "--cache-size has no effect without --root",
            ),
        ] {
            let message = parse::<Spec>(line).unwrap_err().message;
            assert!(message.contains(expected), "{line}: {message}");
        }
    }
}
