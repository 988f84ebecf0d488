//! `link`: latency, bandwidth and loss between two network namespaces.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;

use perpacket_link::{Address, Ends, Link, LinkError, OneWay, Place, Report, Settings};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};

use crate::options::{BitRate, RunsOn, Seed, Time, Until};
use crate::output::Shared;
use crate::status::{Failure, Status};
use crate::stop;

/// Shown after the options.
const EXAMPLE: &str = "\
Example: 5 ms each way and 100 Mb/s from server to client, until Ctrl-C:

  perpacket-agent link --left server --right client --delay 5ms \\
      --left-address 10.0.0.1/24 --right-address 10.0.0.2/24 \\
      --left-to-right-bit-rate 100Mb/s

SIGUSR1 prints a report of what was carried until then.";

/// Options of `link`.
#[derive(Debug, clap::Args, Serialize)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    /// Network namespace of the left host, by name or by path, and the TAP device to make in it.
    #[arg(long, value_name = "NETNS[:IFNAME]")]
    left: String,
    /// The same of the right host.
    #[arg(long, value_name = "NETNS[:IFNAME]")]
    right: String,
    /// IPv4 address of the left device; without one the device is only brought up.
    #[arg(long, value_name = "CIDR")]
    left_address: Option<String>,
    /// The same of the right device.
    #[arg(long, value_name = "CIDR")]
    right_address: Option<String>,
    /// Time each frame travels, one way.
    #[arg(long, value_name = "TIME", default_value = "0s")]
    delay: Time,
    /// Draw each frame's delay evenly from this much less to this much more; the order stays.
    #[arg(long, value_name = "TIME", default_value = "0s")]
    jitter: Time,
    /// Bits a second each way carries, Ethernet headers included; without it, any number.
    #[arg(long, value_name = "BIT-RATE")]
    bit_rate: Option<BitRate>,
    /// Frames that may wait for a way with a rate.
    #[arg(long, value_name = "N", default_value_t = Settings::default().queue_packets)]
    queue_packets: usize,
    /// Share of frames lost each way, from 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    loss: f64,
    #[command(flatten)]
    #[serde(flatten)]
    left_to_right: LeftToRight,
    #[command(flatten)]
    #[serde(flatten)]
    right_to_left: RightToLeft,
    #[command(flatten)]
    #[serde(flatten)]
    seed: Seed,
    #[command(flatten)]
    #[serde(flatten)]
    runs_on: RunsOn,
    #[command(flatten)]
    #[serde(flatten)]
    until: Until,
    #[command(flatten)]
    #[serde(skip)]
    shared: Shared,
}

/// What differs from left to right.
#[derive(Debug, clap::Args, Serialize)]
#[command(next_help_heading = "From left to right, where it differs")]
struct LeftToRight {
    /// Instead of --delay.
    #[arg(long, value_name = "TIME")]
    left_to_right_delay: Option<Time>,
    /// Instead of --jitter.
    #[arg(long, value_name = "TIME")]
    left_to_right_jitter: Option<Time>,
    /// Instead of --bit-rate.
    #[arg(long, value_name = "BIT-RATE")]
    left_to_right_bit_rate: Option<BitRate>,
    /// Instead of --queue-packets.
    #[arg(long, value_name = "N")]
    left_to_right_queue_packets: Option<usize>,
    /// Instead of --loss.
    #[arg(long, value_name = "SHARE")]
    left_to_right_loss: Option<f64>,
}

/// What differs from right to left.
#[derive(Debug, clap::Args, Serialize)]
#[command(next_help_heading = "From right to left, where it differs")]
struct RightToLeft {
    /// Instead of --delay.
    #[arg(long, value_name = "TIME")]
    right_to_left_delay: Option<Time>,
    /// Instead of --jitter.
    #[arg(long, value_name = "TIME")]
    right_to_left_jitter: Option<Time>,
    /// Instead of --bit-rate.
    #[arg(long, value_name = "BIT-RATE")]
    right_to_left_bit_rate: Option<BitRate>,
    /// Instead of --queue-packets.
    #[arg(long, value_name = "N")]
    right_to_left_queue_packets: Option<usize>,
    /// Instead of --loss.
    #[arg(long, value_name = "SHARE")]
    right_to_left_loss: Option<f64>,
}

/// Run it.
pub fn run(arguments: &Arguments) -> Result<Status, Failure> {
    if arguments.shared.shows_config(arguments)? {
        return Ok(Status::Done);
    }
    let ends = Ends {
        left: end(&arguments.left, arguments.left_address.as_deref())?,
        right: end(&arguments.right, arguments.right_address.as_deref())?,
    };
    let stop = stop::on_signals()?;
    let (interrupt, wake) = UnixStream::pair().map_err(Failure::failed)?;
    interrupt.set_nonblocking(true).map_err(Failure::failed)?;
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGUSR1] {
        let wake = wake.try_clone().map_err(Failure::failed)?;
        signal_hook::low_level::pipe::register(signal, wake).map_err(Failure::failed)?;
    }
    let mut link = Link::open(
        &ends,
        arguments.left_to_right(),
        arguments.right_to_left(),
        arguments.seed.seed,
        &arguments.runs_on.list(),
    )
    .map_err(failure)?;
    if !arguments.shared.quiet {
        eprintln!("ready: {} and {}", arguments.left, arguments.right);
    }
    let mut unprinted = None;
    let report = link
        .run(arguments.until.duration(), interrupt.as_fd(), |report| {
            if stop.load(Ordering::Relaxed) {
                return ControlFlow::Break(());
            }
            unprinted = arguments.shared.print(&report, table).err();
            unprinted
                .as_ref()
                .map_or(ControlFlow::Continue(()), |_| ControlFlow::Break(()))
        })
        .map_err(failure)?;
    if let Some(failure) = unprinted {
        return Err(failure);
    }
    arguments.shared.print(&report, table)?;
    Ok(if stop.load(Ordering::Relaxed) {
        Status::Interrupted
    } else {
        Status::Done
    })
}

impl Arguments {
    fn left_to_right(&self) -> Settings {
        let own = &self.left_to_right;
        Settings {
            delay_us: microseconds(own.left_to_right_delay.unwrap_or(self.delay)),
            jitter_us: microseconds(own.left_to_right_jitter.unwrap_or(self.jitter)),
            rate_bps: own
                .left_to_right_bit_rate
                .or(self.bit_rate)
                .map(|rate| rate.0),
            queue_packets: own
                .left_to_right_queue_packets
                .unwrap_or(self.queue_packets),
            loss: own.left_to_right_loss.unwrap_or(self.loss),
        }
    }

    fn right_to_left(&self) -> Settings {
        let own = &self.right_to_left;
        Settings {
            delay_us: microseconds(own.right_to_left_delay.unwrap_or(self.delay)),
            jitter_us: microseconds(own.right_to_left_jitter.unwrap_or(self.jitter)),
            rate_bps: own
                .right_to_left_bit_rate
                .or(self.bit_rate)
                .map(|rate| rate.0),
            queue_packets: own
                .right_to_left_queue_packets
                .unwrap_or(self.queue_packets),
            loss: own.right_to_left_loss.unwrap_or(self.loss),
        }
    }
}

fn microseconds(time: Time) -> f64 {
    time.0.as_secs_f64() * 1e6
}

/// A place and perhaps an address, from their options.
fn end(place: &str, address: Option<&str>) -> Result<(Place, Option<Address>), Failure> {
    let address = address.map(str::parse).transpose().map_err(failure)?;
    Ok((place.parse().map_err(failure)?, address))
}

/// The link's error with the status it deserves.
fn failure(error: LinkError) -> Failure {
    if error.is_lack_of_machine() {
        return Failure::lacking(error)
            .with_hint("run as root, in a kernel with TAP devices (modprobe tun)");
    }
    match error {
        LinkError::Place { .. }
        | LinkError::Address { .. }
        | LinkError::Setting { .. }
        | LinkError::Processors { .. } => Failure::usage(error),
        LinkError::Namespace { .. } => {
            Failure::usage(error).with_hint("`ip netns list` names those that are there")
        }
        _ => Failure::failed(error),
    }
}

/// The report for people.
fn table(report: &Report) -> String {
    let mut text = format!(
        "{:<15} {:>12} {:>15} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
        "wire frames",
        "packets",
        "bytes",
        "full",
        "lost",
        "not kept",
        "p50 us",
        "p99 us",
        "max us",
        "late"
    );
    for (name, way) in [
        ("left to right", &report.left_to_right),
        ("right to left", &report.right_to_left),
    ] {
        let OneWay {
            packets,
            bytes,
            dropped,
            delay_error_us: errors,
            late_packets,
            ..
        } = way;
        let _ = writeln!(
            text,
            "{name:<15} {packets:>12} {bytes:>15} {:>9} {:>9} {:>9} {:>9.1} {:>9.1} {:>9.1} \
             {late_packets:>9}",
            dropped.queue, dropped.loss, dropped.not_kept, errors.p50, errors.p99, errors.max
        );
    }
    let _ = writeln!(
        text,
        "delays {}: late by at most 50 us at the median and 200 us at the 99th percentile, none \
         dropped for want of time\n{:.2} s of processor time in {:.2} s, {:.2} s of it spinning{}",
        if report.kept { "kept" } else { "NOT kept" },
        report.cpu_s,
        report.elapsed_s,
        report.spin_s,
        if report.runs_first {
            ""
        } else {
            "; it was not allowed to run before other work"
        }
    );
    text
}
