//! `serve web`: the web server under test.

use std::io::{ErrorKind, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use clap::Subcommand;
use perpacket_serve::{
    Architecture, CgiProgram, Report, Reporter, ServeError, Server, Settings, TlsSettings, cgi_page,
};
use serde::Serialize;
use signal_hook::consts::SIGUSR1;
use signal_hook::iterator::Signals;

use crate::options::{Named, RunsOn, Size, Switch, Time, one_of, refuse_ignored};
use crate::output::Shared;
use crate::status::{Failure, Status};
use crate::{stop, table};

/// The commands of `serve`.
#[derive(Subcommand)]
pub enum Verb {
    /// Serve files and computed responses over HTTP/1.1, in one of five architectures.
    #[command(after_help = EXAMPLES)]
    Web(Box<WebArguments>),
    /// The program that `serve web` starts for each of SPECweb99's CGI requests.
    #[command(hide = true)]
    Specweb99Cgi,
    /// Stream stored media over RTSP and RTP, in one of four ways of buffering.
    Media(Box<crate::media_server::Arguments>),
}

const EXAMPLES: &str = "\
Examples:
  perpacket-agent serve web --root site --listen 127.0.0.1:8080 --cpus 0
  perpacket-agent serve web --root site --architecture threads --threads 128
  perpacket-agent serve web --routes --listen 127.0.0.1:0 --format json

It runs until a signal, then prints its report. SIGUSR1 prints the current report as one line of
JSON; `GET /.perpacket/report` returns it. Root becomes another user after binding, see --user.";

/// Options of `serve web`.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct WebArguments {
    /// The folder whose files are served.
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Where to listen; port 0 picks a free one.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// How the server waits for its connections.
    #[arg(long, value_parser = one_of(ARCHITECTURES), default_value = "events")]
    architecture: Architecture,
    #[command(flatten)]
    #[serde(flatten)]
    runs_on: RunsOn,
    /// Threads or processes in the pools of `threads` and `processes` [default: 64].
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Send files larger than this by sendfile (`uring`: read and sent in parts), smaller ones from
    /// memory [default: 128KiB].
    #[arg(long, value_name = "SIZE")]
    sendfile_above: Option<Size>,
    /// If 64 or more clients are connected and few are ready, wait this long for others: less
    /// processor time, more latency [default: 0s].
    #[arg(long, value_name = "TIME")]
    coalesce: Option<Time>,
    /// Memory for files: for each loop, for each process, or for all threads together [default:
    /// 256MiB].
    #[arg(long, value_name = "SIZE")]
    cache_size: Option<Size>,
    /// Serve a cached file for this long before comparing it with the disk again [default: 1s].
    #[arg(long, value_name = "TIME")]
    revalidate: Option<Time>,
    /// Highest number of connections at a time [default: the limit of descriptors less a reserve].
    #[arg(long, value_name = "N")]
    max_connections: Option<usize>,
    /// Longest head of a request.
    #[arg(long, value_name = "SIZE", default_value_t = Size(Settings::default().max_header_bytes as u64))]
    max_header_size: Size,
    /// Longest body of a request.
    #[arg(long, value_name = "SIZE", default_value_t = Size(Settings::default().max_body_bytes))]
    max_body_size: Size,
    /// Close a connection that is idle for this long.
    #[arg(long, value_name = "TIME", default_value = "60s")]
    idle_timeout: Time,
    /// Close a connection if a request does not arrive, or the client acknowledges no byte, for
    /// this long.
    #[arg(long, value_name = "TIME", default_value = "20s")]
    request_timeout: Time,
    /// Use TLS 1.2 and 1.3 with the certificates of this PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Allow TLS sessions to be resumed [default: on].
    #[arg(long, value_enum)]
    tls_resumption: Option<Switch>,
    /// The user that root becomes after binding [default: nobody].
    #[arg(long, value_name = "NAME|UID")]
    user: Option<String>,
    /// Serve computed routes, before files: /work?us=N (N us of processor time, up to 10 s), /bytes/N
    /// (N bytes, up to 1 TiB) and SPECweb99's /specweb99/get, ad, post and cgi.
    #[arg(long)]
    routes: bool,
    /// Append SPECweb99's POSTs to this file; needs --routes.
    #[arg(long, value_name = "FILE")]
    post_log: Option<PathBuf>,
    #[command(flatten)]
    #[serde(skip)]
    shared: Shared,
}

const ARCHITECTURES: &[Named<Architecture>] = &[
    (
        "events",
        Architecture::Events,
        "A thread per core with its own listener and epoll loop; helper threads read files that \
         are not cached",
    ),
    (
        "single",
        Architecture::Single,
        "The same loop without helper threads: a file that is not cached delays all clients",
    ),
    (
        "threads",
        Architecture::Threads,
        "A pool of threads with one connection at a time each",
    ),
    (
        "processes",
        Architecture::Processes,
        "Preforked processes with one connection at a time each",
    ),
    (
        "uring",
        Architecture::Uring,
        "A thread per core with an io_uring",
    ),
];

/// Runs a command of `serve`.
pub fn run(verb: Verb) -> Result<Status, Failure> {
    match verb {
        Verb::Web(arguments) => serve_web(*arguments),
        Verb::Specweb99Cgi => print_cgi_page(),
        Verb::Media(arguments) => crate::media_server::run(&arguments),
    }
}

impl WebArguments {
    /// Whether the architecture has a pool of threads or processes.
    fn has_pool(&self) -> bool {
        matches!(
            self.architecture,
            Architecture::Threads | Architecture::Processes
        )
    }

    /// Whether the architecture has an epoll loop.
    fn has_epoll_loop(&self) -> bool {
        matches!(
            self.architecture,
            Architecture::Events | Architecture::Single
        )
    }

    /// Rejects options without effect.
    fn refuse_ignored(&self) -> Result<(), Failure> {
        let has_files = self.root.is_some();
        let of_files = "without --root: only files are cached";
        refuse_ignored(&[
            (
                self.threads.is_some() && !self.has_pool(),
                "threads",
                "without --architecture threads or processes; the others have one loop for each CPU",
            ),
            (
                self.sendfile_above.is_some() && !has_files,
                "sendfile-above",
                of_files,
            ),
            (
                self.coalesce.is_some() && !self.has_epoll_loop(),
                "coalesce",
                "without --architecture events or single: the others have no epoll loop",
            ),
            (
                self.cache_size.is_some() && !has_files,
                "cache-size",
                of_files,
            ),
            (
                self.revalidate.is_some() && !has_files,
                "revalidate",
                of_files,
            ),
            (
                self.tls_resumption.is_some() && self.tls_cert.is_none(),
                "tls-resumption",
                "without --tls-cert",
            ),
        ])
    }

    /// The settings for these options.
    fn settings(self) -> Settings {
        let default = Settings::default();
        let key = self.tls_key;
        Settings {
            root: self.root,
            listen: self.listen,
            architecture: self.architecture,
            cores: self.runs_on.list(),
            threads: self.threads.unwrap_or(default.threads),
            sendfile_above: self
                .sendfile_above
                .map_or(default.sendfile_above, |size| size.0),
            coalesce_us: self
                .coalesce
                .map_or(default.coalesce_us, |time| time.0.as_micros() as u64),
            cache_bytes: self.cache_size.map_or(default.cache_bytes, |size| size.0),
            revalidate_ms: self
                .revalidate
                .map_or(default.revalidate_ms, |time| time.0.as_millis() as u64),
            max_connections: self.max_connections,
            max_header_bytes: self.max_header_size.as_usize(),
            max_body_bytes: self.max_body_size.0,
            idle_timeout_s: self.idle_timeout.0.as_secs_f64(),
            request_timeout_s: self.request_timeout.0.as_secs_f64(),
            tls: self
                .tls_cert
                .zip(key)
                .map(|(certificate, key)| TlsSettings {
                    certificate,
                    key,
                    resumption: self.tls_resumption != Some(Switch::Off),
                }),
            user: self.user,
            routes: self.routes,
            post_log: self.post_log,
            cgi: cgi_program(),
        }
    }

    /// The options with the server's defaults for those that have an effect.
    fn resolved(mut self) -> Self {
        let settings = self.clone().settings();
        let is_pool = self.has_pool();
        self.threads = is_pool.then_some(settings.threads);
        let is_loop = self.has_epoll_loop();
        self.coalesce = is_loop.then_some(Time(Duration::from_micros(settings.coalesce_us)));
        if settings.root.is_some() {
            self.sendfile_above = Some(Size(settings.sendfile_above));
            self.cache_size = Some(Size(settings.cache_bytes));
            self.revalidate = Some(Time(Duration::from_millis(settings.revalidate_ms)));
        }
        self
    }
}

fn serve_web(arguments: WebArguments) -> Result<Status, Failure> {
    arguments.refuse_ignored()?;
    let shared = arguments.shared.clone();
    if shared.shows_config(&arguments.clone().resolved())? {
        return Ok(Status::Done);
    }
    let settings = arguments.settings();
    let scheme = if settings.tls.is_some() {
        "https"
    } else {
        "http"
    };
    let has_routes = settings.routes;
    let server = Server::bind(settings).map_err(failure)?;
    let stop = stop::on_signals()?;
    print_on_signal(server.reporter())?;
    // With port 0, callers read the port from this line, so it is printed even with --quiet.
    message!("listening on {scheme}://{}", server.local_address());
    if shared.shows_progress() {
        if has_routes {
            message!("computed routes: /work?us=N, /bytes/N, /specweb99/...");
        }
        message!("Ctrl-C stops it and prints its report");
    }
    let report = server.run(&stop).map_err(failure)?;
    shared.print(&report, summary)?;
    Ok(Status::Done)
}

/// This executable, which is also SPECweb99's CGI program.
fn cgi_program() -> Option<CgiProgram> {
    Some(CgiProgram {
        path: std::env::current_exe().ok()?,
        arguments: ["serve", "specweb99-cgi"].map(str::to_owned).to_vec(),
    })
}

fn print_cgi_page() -> Result<Status, Failure> {
    let variable = |name: &str| {
        std::env::var(name).map_err(|error| Failure::usage(format!("environment {name}: {error}")))
    };
    let root = PathBuf::from(variable("DOCUMENT_ROOT")?);
    let query = variable("QUERY_STRING")?;
    let peer: IpAddr = variable("REMOTE_ADDR")?.parse().map_err(Failure::usage)?;
    let page = cgi_page(&root, query.as_bytes(), peer)
        .map_err(|error| Failure::failed(format!("query {query}: {error}")))?;
    std::io::stdout()
        .write_all(&page)
        .map_err(|error| Failure::failed(format!("standard output: {error}")))?;
    Ok(Status::Done)
}

/// Prints the report as one line of JSON at each SIGUSR1.
fn print_on_signal(reporter: Reporter) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGUSR1])
        .map_err(|error| Failure::failed(format!("cannot handle SIGUSR1: {error}")))?;
    thread::Builder::new()
        .name("report".to_owned())
        .spawn(move || {
            for _ in signals.forever() {
                // A report always serializes. If the output is closed, the server continues.
                let line = serde_json::to_string(&reporter.report()).unwrap_or_default();
                let mut output = std::io::stdout().lock();
                let _ = writeln!(output, "{line}").and_then(|()| output.flush());
            }
        })
        .map_err(|error| Failure::failed(format!("a thread for reports: {error}")))?;
    Ok(())
}

/// The command's failure for an error of the server.
fn failure(error: ServeError) -> Failure {
    match &error {
        ServeError::Setting { .. } | ServeError::File { .. } => Failure::usage(error),
        ServeError::Root { .. } => Failure::usage(error).with_hint("name a folder that exists"),
        ServeError::Unreadable { user, .. } => {
            let hint = format!(
                "make the folder readable for {user} (chmod o+rx), or name another user with --user; \
                 `--user root` stays root"
            );
            Failure::usage(error).with_hint(hint)
        }
        ServeError::Listen { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            Failure::lacking(error).with_hint(
                "ports below net.ipv4.ip_unprivileged_port_start (1024) need root or \
                 CAP_NET_BIND_SERVICE; name a higher one, such as `--listen 127.0.0.1:8080`",
            )
        }
        ServeError::Listen { .. } => {
            Failure::failed(error).with_hint("`--listen 127.0.0.1:0` picks a free port")
        }
        ServeError::Lacking { .. } => Failure::lacking(error),
        ServeError::System { .. } => Failure::failed(error),
    }
}

/// The report for people.
fn summary(report: &Report) -> String {
    let mut rows = vec![
        ("architecture", report.architecture.name().to_owned()),
        ("uptime", format!("{:.1} s", report.uptime_s)),
        ("requests", report.requests.to_string()),
        ("bytes sent", report.bytes_sent.to_string()),
        (
            "connections accepted",
            report.connections.accepted.to_string(),
        ),
        ("  open", report.connections.open.to_string()),
        ("  shed", report.connections.shed.to_string()),
        ("  timed out", report.connections.timed_out.to_string()),
        (
            "CPU time",
            format!(
                "{:.3} s user, {:.3} s system; {:.3} s of it before the first client",
                report.cpu_s.user, report.cpu_s.system, report.startup.cpu_s
            ),
        ),
        (
            "cache",
            format!(
                "{} hits, {} misses, {} revalidated; {} files, {} bytes",
                report.cache.hits,
                report.cache.misses,
                report.cache.revalidated,
                report.cache.entries,
                report.cache.bytes
            ),
        ),
        ("cold reads", report.helpers.cold_reads.to_string()),
    ];
    if let Some(each) = &report.per_request {
        rows.extend([
            ("per request", format!("{:.2} us CPU time", each.cpu_us)),
            ("", format!("{:.1} bytes", each.bytes)),
            ("", format!("{:.4} page faults", each.page_faults)),
            ("", format!("{:.4} context switches", each.context_switches)),
            ("", format!("{:.4} cache hits", each.cache_hits)),
        ]);
    }
    let statuses = report.responses.iter();
    let statuses: Vec<String> = statuses
        .map(|(code, count)| format!("{code}: {count}"))
        .collect();
    rows.push(("responses", statuses.join(", ")));
    table::rows(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_a_privileged_port_names_an_unprivileged_one() {
        let listen = |kind: ErrorKind| {
            failure(ServeError::Listen {
                address: "127.0.0.1:80".to_owned(),
                source: kind.into(),
            })
        };
        let denied = listen(ErrorKind::PermissionDenied);
        assert_eq!(denied.status, Status::Lacking);
        assert!(denied.hint.unwrap().contains("1024"));
        let used = listen(ErrorKind::AddrInUse);
        assert_eq!(used.status, Status::Failed);
        assert!(used.hint.unwrap().contains("127.0.0.1:0"));
    }
}
