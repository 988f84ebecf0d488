//! `serve media`: stored media over RTP, until a signal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use perpacket_agent::message;
use perpacket_agent::output::Output;
use perpacket_agent::status::{Failure, Status};
use perpacket_agent::stop;
use perpacket_agent::verb::Verb;
use perpacket_media::server::{Error, Report, Server, Spec};
use signal_hook::consts::SIGUSR1;

const EXAMPLE: &str = "Example:\n  perpacket-agent media synthesize --into media --files 1\n  \
    perpacket-agent serve media --root media --listen 127.0.0.1:8554\n\n\
    Prints its report on SIGUSR1 and when it ends.";

/// Time between two checks for signals.
const SIGNAL_CHECK: Duration = Duration::from_millis(50);

pub fn verb() -> Verb {
    Verb::new("serve media", EXAMPLE, run)
}

/// Serves until a signal.
fn run(spec: Spec, output: &Output) -> Result<Status, Failure> {
    let stop = stop::on_signals()?;
    let report_requested = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGUSR1, Arc::clone(&report_requested))
        .map_err(|error| Failure::failed(format!("cannot handle SIGUSR1: {error}")))?;
    let server = Server::start(spec).map_err(|error| match &error {
        Error::Root { .. } => Failure::usage(&error),
        Error::Listen { .. } => Failure::usage(&error)
            .with_hint("name another address with --listen; port 0 selects a free one"),
        Error::Core { .. } => Failure::lacking(&error).with_hint("--cpus names CPUs from 0"),
        Error::User(_) => Failure::usage(&error).with_hint("--user names a user of /etc/passwd"),
        Error::Unreadable { user, .. } => {
            let hint = format!(
                "make the folder readable for {user} (chmod o+rx), or name another user with \
                 --user; `--user root` stays root"
            );
            Failure::usage(&error).with_hint(hint)
        }
        Error::System(_) => Failure::failed(&error),
    })?;
    if !output.quiet {
        message!("listening on rtsp://{}", server.address());
    }
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(SIGNAL_CHECK);
        if report_requested.swap(false, Ordering::Relaxed) {
            output.print(&server.report(), table)?;
        }
    }
    output.print(&server.report(), table)?;
    Ok(Status::Done)
}

fn table(report: &Report) -> String {
    let late = &report.lateness_us;
    let rows = [
        ("sessions", report.sessions.to_string()),
        ("  refused", report.refused.to_string()),
        ("  timed out", report.timed_out.to_string()),
        ("  receiver gone", report.unreachable.to_string()),
        ("streams playing", report.playing.to_string()),
        ("  finished", report.finished.to_string()),
        ("  failed", report.failed.to_string()),
        ("packets", report.packets.to_string()),
        ("  dropped", report.dropped.to_string()),
        (
            "  a send",
            format!("{:.2}", report.packets as f64 / report.sends.max(1) as f64),
        ),
        ("payload bytes", report.bytes.to_string()),
        ("lateness p50 (us)", format!("{:.0}", late.p50)),
        ("  p99", format!("{:.0}", late.p99)),
        ("  p99.9", format!("{:.0}", late.p999)),
        ("  max", format!("{:.0}", late.max)),
        ("late for lack of data", report.starved.to_string()),
        ("reads", report.reads.to_string()),
        ("  mean (us)", format!("{:.0}", report.read_mean_us)),
        ("cpu (s)", format!("{:.2}", report.cpu_s)),
        (
            "page faults",
            (report.page_faults.minor + report.page_faults.major).to_string(),
        ),
        (
            "context switches",
            (report.context_switches.voluntary + report.context_switches.involuntary).to_string(),
        ),
    ];
    rows.iter()
        .map(|(name, value)| format!("{name:<20}{value:>16}\n"))
        .collect()
}
