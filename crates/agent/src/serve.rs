//! `serve web`: the web server under test.

use std::io::{ErrorKind, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::thread;

use perpacket_serve::{CgiProgram, Report, Reporter, ServeError, Server, Spec, cgi_page};
use schemars::JsonSchema;
use serde::Serialize;
use signal_hook::consts::SIGUSR1;
use signal_hook::iterator::Signals;

use crate::output::{self, Output};
use crate::status::{Failure, Status};
use crate::verb::Verb;
use crate::{stop, table};

/// The verbs of the group.
pub fn verbs() -> Vec<Verb> {
    vec![
        Verb::new("serve web", EXAMPLES, serve_web),
        Verb::new("serve specweb99-cgi", "", print_cgi_page).hidden(),
    ]
}

/// The program that `serve web` starts for each of SPECweb99's CGI requests.
#[derive(Clone, Debug, clap::Args, Serialize, JsonSchema)]
struct CgiSpec {}

impl perpacket_spec::Spec for CgiSpec {}

const EXAMPLES: &str = "\
Examples:
  perpacket-agent serve web --root site --listen 127.0.0.1:8080 --cpus 0
  perpacket-agent serve web --root site --architecture threads --threads 128
  perpacket-agent serve web --routes --listen 127.0.0.1:0 --format json

It runs until a signal, then prints its report. SIGUSR1 prints the current report as one line of
JSON; `GET /.perpacket/report` returns it. Root becomes another user after binding, see --user.";

fn serve_web(spec: Spec, output: &Output) -> Result<Status, Failure> {
    let scheme = match spec.tls_cert {
        Some(_) => "https",
        None => "http",
    };
    let has_routes = spec.routes;
    let server = Server::bind(spec, cgi_program()).map_err(failure)?;
    let stop = stop::on_signals()?;
    print_on_signal(server.reporter())?;
    // With port 0, callers read the port from this line, so it is printed even with --quiet.
    message!("listening on {scheme}://{}", server.local_address());
    if output.shows_progress() {
        if has_routes {
            message!("computed routes: /work?us=N, /bytes/N, /specweb99/...");
        }
        message!("Ctrl-C stops it and prints its report");
    }
    let report = server.run(&stop).map_err(failure)?;
    output.print(&report, summary)?;
    Ok(Status::Done)
}

/// This executable, which is also SPECweb99's CGI program.
fn cgi_program() -> Option<CgiProgram> {
    Some(CgiProgram {
        path: std::env::current_exe().ok()?,
        arguments: ["serve", "specweb99-cgi"].map(str::to_owned).to_vec(),
    })
}

fn print_cgi_page(_: CgiSpec, _: &Output) -> Result<Status, Failure> {
    let variable = |name: &str| {
        std::env::var(name).map_err(|error| Failure::usage(format!("environment {name}: {error}")))
    };
    let root = PathBuf::from(variable("DOCUMENT_ROOT")?);
    let query = variable("QUERY_STRING")?;
    let peer: IpAddr = variable("REMOTE_ADDR")?.parse().map_err(Failure::usage)?;
    let page = cgi_page(&root, query.as_bytes(), peer)
        .map_err(|error| Failure::failed(format!("query {query}: {error}")))?;
    output::write_bytes(&page)?;
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
