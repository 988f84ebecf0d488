//! `serve web`: the servers under test.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::thread;

use clap::Subcommand;
use perpacket_serve::{
    Architecture, CgiProgram, Report, Reporter, ServeError, Server, Settings, TlsSettings,
    cgi_page, cores_from,
};
use serde::Serialize;
use signal_hook::consts::SIGUSR1;
use signal_hook::iterator::Signals;

use crate::output::Shared;
use crate::status::{Failure, Status};
use crate::{config, stop};

/// What `serve` can do.
#[derive(Subcommand)]
pub enum Verb {
    /// Serve files and computed answers over HTTP/1.1, in one of five architectures.
    #[command(after_help = EXAMPLES)]
    Web(Box<WebArguments>),
    /// The program that `serve web` starts for each of SPECweb99's CGI requests.
    #[command(hide = true)]
    Specweb99Cgi,
    /// Stream stored media over RTSP and RTP, in one of four ways of buffering.
    Media(crate::media_server::Arguments),
}

const EXAMPLES: &str = "\
Examples:
  perpacket-agent serve web --root site --listen 127.0.0.1:8080 --cores 0
  perpacket-agent serve web --root site --architecture threads --threads 128
  perpacket-agent serve web --listen 127.0.0.1:0 --format json    # /work?us=N and /bytes/N alone

It runs until a signal, then prints its report. SIGUSR1 prints the report of now as one line of
JSON; `GET /.perpacket/report` answers it. Root becomes another user after binding: see --user.";

/// Options of `serve web`.
#[derive(Debug, clap::Args, Serialize)]
pub struct WebArguments {
    /// The folder whose files are served; without it only the computed routes are.
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Where to listen; port 0 picks a free one.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// How connections are waited for.
    #[arg(long, value_enum, default_value = "events")]
    architecture: ArchitectureName,
    /// CPUs to pin to, such as 0 or 0-1,3: one loop each [default: all usable ones, not pinned].
    #[arg(long, value_name = "LIST", value_parser = core_list)]
    cores: Option<CoreList>,
    /// Threads or processes in the pools of `threads` and `processes`.
    #[arg(long, value_name = "N", default_value_t = 64)]
    threads: usize,
    /// Send files larger than this by sendfile, smaller ones from memory.
    #[arg(long, value_name = "BYTES", default_value_t = Settings::default().sendfile_above)]
    sendfile_above: u64,
    /// Memory for files: of each loop, each process, or all threads together.
    #[arg(long, value_name = "BYTES", default_value_t = Settings::default().cache_bytes)]
    cache_bytes: u64,
    /// Serve a cached file for so long without asking whether it changed.
    #[arg(long, value_name = "MS", default_value_t = Settings::default().revalidate_ms)]
    revalidate_ms: u64,
    /// Most connections at a time [default: as many as there are descriptors, less a reserve].
    #[arg(long, value_name = "N")]
    max_connections: Option<usize>,
    /// Longest head of a request.
    #[arg(long, value_name = "BYTES", default_value_t = Settings::default().max_header_bytes)]
    max_header_bytes: usize,
    /// Longest body of a request.
    #[arg(long, value_name = "BYTES", default_value_t = Settings::default().max_body_bytes)]
    max_body_bytes: u64,
    /// Close a connection that is idle for so long.
    #[arg(long, value_name = "S", default_value_t = Settings::default().idle_timeout_s)]
    idle_timeout_s: f64,
    /// Close a connection whose request takes so long to come, or that takes no byte for so long.
    #[arg(long, value_name = "S", default_value_t = Settings::default().request_timeout_s)]
    request_timeout_s: f64,
    /// Speak TLS 1.2 and 1.3 with the certificates of this PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Whether TLS sessions may be resumed.
    #[arg(long, value_enum, default_value = "on")]
    tls_resumption: Switch,
    /// Who root becomes after binding [default: nobody].
    #[arg(long, value_name = "NAME|UID")]
    user: Option<String>,
    /// Append SPECweb99's POSTs to this file.
    #[arg(long, value_name = "FILE")]
    post_log: Option<PathBuf>,
    #[command(flatten)]
    #[serde(skip)]
    shared: Shared,
}

/// [`Architecture`] as clap and the configuration file know it.
#[derive(Clone, Copy, Debug, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum ArchitectureName {
    /// A thread a core with its own listener and epoll loop; helpers read cold files.
    Events,
    /// The same loop without helpers: a cold file stalls everyone.
    Single,
    /// A thread a connection, from a pool.
    Threads,
    /// Processes forked beforehand, a connection each at a time.
    Processes,
    /// A thread a core with an io_uring each.
    Uring,
}

impl From<ArchitectureName> for Architecture {
    fn from(name: ArchitectureName) -> Self {
        match name {
            ArchitectureName::Events => Self::Events,
            ArchitectureName::Single => Self::Single,
            ArchitectureName::Threads => Self::Threads,
            ArchitectureName::Processes => Self::Processes,
            ArchitectureName::Uring => Self::Uring,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Switch {
    On,
    Off,
}

/// CPUs, with the text they came from.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
struct CoreList {
    text: String,
    #[serde(skip)]
    cores: Vec<usize>,
}

fn core_list(text: &str) -> Result<CoreList, String> {
    Ok(CoreList {
        text: text.to_owned(),
        cores: cores_from(text)?,
    })
}

/// Run it.
pub fn run(verb: Verb) -> Result<Status, Failure> {
    match verb {
        Verb::Web(arguments) => serve_web(*arguments),
        Verb::Specweb99Cgi => print_cgi_page(),
        Verb::Media(arguments) => crate::media_server::run(&arguments),
    }
}

fn serve_web(arguments: WebArguments) -> Result<Status, Failure> {
    if arguments.shared.show_config {
        print!("{}", config::to_toml(&arguments)?);
        return Ok(Status::Done);
    }
    let shared = arguments.shared;
    let settings = Settings {
        root: arguments.root,
        listen: arguments.listen,
        architecture: arguments.architecture.into(),
        cores: arguments.cores.map(|list| list.cores).unwrap_or_default(),
        threads: arguments.threads,
        sendfile_above: arguments.sendfile_above,
        cache_bytes: arguments.cache_bytes,
        revalidate_ms: arguments.revalidate_ms,
        max_connections: arguments.max_connections,
        max_header_bytes: arguments.max_header_bytes,
        max_body_bytes: arguments.max_body_bytes,
        idle_timeout_s: arguments.idle_timeout_s,
        request_timeout_s: arguments.request_timeout_s,
        tls: arguments
            .tls_cert
            .zip(arguments.tls_key)
            .map(|(certificate, key)| TlsSettings {
                certificate,
                key,
                resumption: arguments.tls_resumption == Switch::On,
            }),
        user: arguments.user,
        post_log: arguments.post_log,
        cgi: cgi_program(),
    };
    let scheme = if settings.tls.is_some() {
        "https"
    } else {
        "http"
    };
    let server = Server::bind(settings).map_err(failure)?;
    let stop = stop::on_signals()?;
    print_on_signal(server.reporter())?;
    // Callers that asked for port 0 read the port here, also with --quiet.
    eprintln!("listening on {scheme}://{}", server.local_address());
    if shared.shows_progress() {
        eprintln!("Ctrl-C stops it and prints its report");
    }
    let report = server.run(&stop).map_err(failure)?;
    shared.print(&report, table)?;
    Ok(Status::Done)
}

/// This executable, which knows how to be SPECweb99's CGI program.
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

/// Prints a report as one line of JSON whenever SIGUSR1 comes.
fn print_on_signal(reporter: Reporter) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGUSR1])
        .map_err(|error| Failure::failed(format!("cannot handle SIGUSR1: {error}")))?;
    thread::Builder::new()
        .name("report".to_owned())
        .spawn(move || {
            for _ in signals.forever() {
                // A report has no keys that JSON cannot hold, and a closed output is no reason to
                // stop serving.
                let line = serde_json::to_string(&reporter.report()).unwrap_or_default();
                let mut output = std::io::stdout().lock();
                let _ = writeln!(output, "{line}").and_then(|()| output.flush());
            }
        })
        .map_err(|error| Failure::failed(format!("a thread for reports: {error}")))?;
    Ok(())
}

/// A server's failure as one of this command.
fn failure(error: ServeError) -> Failure {
    match &error {
        ServeError::Setting { .. } | ServeError::File { .. } => Failure::usage(error),
        ServeError::Root { .. } => Failure::usage(error).with_hint("name a folder that exists"),
        ServeError::Unreadable { user, .. } => {
            let hint = format!(
                "let {user} read the folder (chmod o+rx), or name who may with --user; \
                 `--user root` stays root"
            );
            Failure::usage(error).with_hint(hint)
        }
        ServeError::Listen { .. } => {
            Failure::failed(error).with_hint("`--listen 127.0.0.1:0` picks a free port")
        }
        ServeError::Lacking { .. } => Failure::lacking(error),
        ServeError::System { .. } => Failure::failed(error),
    }
}

/// The report for people.
fn table(report: &Report) -> String {
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
                "{:.3} s user, {:.3} s system",
                report.cpu_s.user, report.cpu_s.system
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
            ("", format!("{:.3} system calls", each.system_calls)),
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
    rows.iter()
        .map(|(name, value)| format!("{name:<22}{value}\n"))
        .collect()
}
