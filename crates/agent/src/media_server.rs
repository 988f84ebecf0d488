//! `serve media`: stored media over RTP, until a signal.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use perpacket_media::server::{Buffering, Error, Options, Report, Server};
use serde::Serialize;
use signal_hook::consts::SIGUSR1;

use crate::options::{BitRate, Named, RunsOn, Size, Time, one_of, refuse_ignored};
use crate::output::Shared;
use crate::status::{Failure, Status};
use crate::stop;

const EXAMPLE: &str = "Example:\n  perpacket-agent media synthesize --into media --files 1\n  \
    perpacket-agent serve media --root media --listen 127.0.0.1:8554\n\n\
    Prints its report on SIGUSR1 and when it ends.";

/// Longest session timeout: a day.
const SESSION_TIMEOUT_LIMIT: Time = Time::from_secs(86_400);

/// Time between two checks for signals.
const SIGNAL_CHECK: Duration = Duration::from_millis(50);

/// Options of `serve media`.
#[derive(Debug, clap::Args, Serialize)]
#[command(after_help = EXAMPLE)]
#[serde(rename_all = "kebab-case")]
pub struct Arguments {
    /// Folder of the files: .ts, .wav, .pcmu, .pcma, .g722, .gsm.
    #[arg(long, value_name = "DIR")]
    root: PathBuf,
    /// Address for RTSP; port 0 selects a free one.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8554")]
    listen: SocketAddr,
    /// The user that root becomes after binding, by name or number [default: nobody].
    #[arg(long, value_name = "USER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// How media get from the disk to the sender.
    #[arg(long, value_parser = one_of(BUFFERINGS), default_value = "shared")]
    buffering: Buffering,
    /// Packets in a buffer of `single` and `double` [default: 10].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    buffer_packets: Option<u32>,
    #[command(flatten)]
    #[serde(flatten)]
    runs_on: RunsOn,
    /// Highest number of sessions; the response to another SETUP is 453.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    max_sessions: u64,
    /// Highest payload rate of all streams; the response to a PLAY above it is 453.
    #[arg(long, value_name = "BIT-RATE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    max_bit_rate: Option<BitRate>,
    /// The response to PLAY is 453 while more than 1 % of the packets leave later than this.
    #[arg(long, value_name = "TIME", default_value = "50ms")]
    max_lateness: Time,
    /// End a session after this time without a message from its client.
    #[arg(long, value_name = "TIME", default_value_t = Time::from_secs(60))]
    session_timeout: Time,
    /// Emulate a slow disk: delay every read by this time.
    #[arg(long, value_name = "TIME", default_value = "0s")]
    read_delay: Time,
    /// Reader threads of `shared` and `mapped` [default: 8].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    #[serde(skip_serializing_if = "Option::is_none")]
    readers: Option<u16>,
    /// Size of the cache of file contents for later viewers, with `shared` and `mapped`
    /// [default: 256MiB].
    #[arg(long, value_name = "SIZE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_size: Option<Size>,
    /// With `shared` and `mapped`, at high rates, send packets together up to this long before
    /// their due time [default: 250ms].
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    ahead: Option<Time>,
    #[command(flatten)]
    #[serde(skip)]
    shared: Shared,
}

const BUFFERINGS: &[Named<Buffering>] = &[
    (
        "unbuffered",
        Buffering::Unbuffered,
        "One thread per stream reads each packet when it is due, then sends it: the published \
         baseline",
    ),
    (
        "single",
        Buffering::Single,
        "One thread per stream reads a buffer, then sends it",
    ),
    (
        "double",
        Buffering::Double,
        "Two threads and two buffers per stream: the published design",
    ),
    (
        "shared",
        Buffering::Shared,
        "One event loop per CPU; all streams share the blocks of files",
    ),
    (
        "mapped",
        Buffering::Mapped,
        "Like `shared`, from mapped files",
    ),
];

impl Arguments {
    fn refuse_ignored(&self) -> Result<(), Failure> {
        let is_shared = matches!(self.buffering, Buffering::Shared | Buffering::Mapped);
        let shared = "without --buffering shared or mapped";
        refuse_ignored(&[
            (
                self.buffer_packets.is_some()
                    && !matches!(self.buffering, Buffering::Single | Buffering::Double),
                "buffer-packets",
                "without --buffering single or double",
            ),
            (self.readers.is_some() && !is_shared, "readers", shared),
            (
                self.cache_size.is_some() && !is_shared,
                "cache-size",
                shared,
            ),
            (self.ahead.is_some() && !is_shared, "ahead", shared),
        ])
    }

    fn options(&self) -> Options {
        let defaults = Options::new(self.root.clone(), self.listen);
        Options {
            buffering: self.buffering,
            user: self.user.clone(),
            buffer_packets: self.buffer_packets.unwrap_or(defaults.buffer_packets),
            cores: self.runs_on.list(),
            max_sessions: self.max_sessions,
            max_rate_bps: self.max_bit_rate.map_or(u64::MAX, |rate| rate.0),
            max_lateness: self.max_lateness.0,
            session_timeout: self.session_timeout.0,
            read_delay: self.read_delay.0,
            readers: self.readers.map_or(defaults.readers, usize::from),
            cache_bytes: self
                .cache_size
                .map_or(defaults.cache_bytes, |size| size.as_usize()),
            ahead: self.ahead.map_or(defaults.ahead, |time| time.0),
            ..defaults
        }
    }
}

/// Serves until a signal.
pub fn run(arguments: &Arguments) -> Result<Status, Failure> {
    let shared = &arguments.shared;
    if shared.shows_config(arguments)? {
        return Ok(Status::Done);
    }
    arguments.refuse_ignored()?;
    let timeout = arguments.session_timeout;
    if timeout < Time::from_secs(1) || timeout > SESSION_TIMEOUT_LIMIT {
        return Err(Failure::usage(format!(
            "--session-timeout {timeout}: expected 1s to {SESSION_TIMEOUT_LIMIT}"
        )));
    }
    let stop = stop::on_signals()?;
    let report_requested = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGUSR1, Arc::clone(&report_requested))
        .map_err(|error| Failure::failed(format!("cannot handle SIGUSR1: {error}")))?;
    let server = Server::start(arguments.options()).map_err(|error| match &error {
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
    if !shared.quiet {
        message!("listening on rtsp://{}", server.address());
    }
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(SIGNAL_CHECK);
        if report_requested.swap(false, Ordering::Relaxed) {
            shared.print(&server.report(), table)?;
        }
    }
    shared.print(&server.report(), table)?;
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
