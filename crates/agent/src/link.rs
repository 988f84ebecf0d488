//! `link`: latency, bandwidth and loss between two network namespaces.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;

use perpacket_link::{End, Link, LinkError, OneWay, Report, Settings};
use perpacket_linux::interface::{Interface, InterfaceError};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};

use crate::options::{BitRate, RunsOn, Seed, Time, Until, refuse_ignored};
use crate::output::Shared;
use crate::status::{Failure, Status};
use crate::stop;

/// Printed after the options.
const EXAMPLE: &str = "\
Example: 5 ms each way and 100 Mb/s from server to client, until Ctrl-C:

  perpacket-agent link --left server --right client --delay 5ms \\
      --left-address 10.0.0.1/24 --right-address 10.0.0.2/24 \\
      --left-to-right-bit-rate 100Mb/s

SIGUSR1 prints a report of what the link has carried until then.";

/// Default name of a device.
const DEFAULT_DEVICE: &str = "link0";

/// Options of `link`.
#[derive(Debug, clap::Args, Serialize)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    /// Network namespace of the left host, by name or by path, and the TAP device to create in it
    /// [default of IFNAME: link0].
    #[arg(long, value_name = "NETNS[:IFNAME]")]
    left: String,
    /// The same for the right host.
    #[arg(long, value_name = "NETNS[:IFNAME]")]
    right: String,
    /// IPv4 address of the left device; without it, the device has none.
    #[arg(long, value_name = "CIDR")]
    left_address: Option<String>,
    /// The same for the right device.
    #[arg(long, value_name = "CIDR")]
    right_address: Option<String>,
    /// Delay of each frame, one way.
    #[arg(long, value_name = "TIME", default_value = "0s")]
    delay: Time,
    /// Make each frame's delay shorter or longer by a uniformly random time up to this one; frames
    /// stay in order.
    #[arg(long, value_name = "TIME", default_value = "0s")]
    jitter: Time,
    /// Bits a second that each direction carries, Ethernet headers included [default: no limit].
    #[arg(long, value_name = "BIT-RATE")]
    bit_rate: Option<BitRate>,
    /// Highest number of frames that wait where --bit-rate limits a direction [default: 1000].
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_packets: Option<usize>,
    /// Share of frames lost in each direction, from 0 to 1.
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

/// Options of the direction from left to right.
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

/// Options of the direction from right to left.
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

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<Status, Failure> {
    if arguments.shared.shows_config(arguments)? {
        return Ok(Status::Done);
    }
    arguments.refuse_queue_without_rate()?;
    let left = end(&arguments.left, arguments.left_address.as_deref())?;
    let right = end(&arguments.right, arguments.right_address.as_deref())?;
    let stop = stop::on_signals()?;
    let (interrupt, wake) = UnixStream::pair().map_err(Failure::failed)?;
    interrupt.set_nonblocking(true).map_err(Failure::failed)?;
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGUSR1] {
        let wake = wake.try_clone().map_err(Failure::failed)?;
        signal_hook::low_level::pipe::register(signal, wake).map_err(Failure::failed)?;
    }
    let mut link = Link::open(
        &left,
        &right,
        arguments.left_to_right(),
        arguments.right_to_left(),
        arguments.seed.seed,
        &arguments.runs_on.list(),
    )
    .map_err(failure)?;
    if !arguments.shared.quiet {
        message!("ready: {} and {}", arguments.left, arguments.right);
    }
    let mut print_failure = None;
    let report = link
        .run(arguments.until.duration(), interrupt.as_fd(), |report| {
            if stop.load(Ordering::Relaxed) {
                return ControlFlow::Break(());
            }
            match arguments.shared.print(&report, table) {
                Ok(()) => ControlFlow::Continue(()),
                Err(failure) => {
                    print_failure = Some(failure);
                    ControlFlow::Break(())
                }
            }
        })
        .map_err(failure)?;
    if let Some(failure) = print_failure {
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
        self.settings(&Differences {
            delay: own.left_to_right_delay,
            jitter: own.left_to_right_jitter,
            bit_rate: own.left_to_right_bit_rate,
            queue_packets: own.left_to_right_queue_packets,
            loss: own.left_to_right_loss,
        })
    }

    fn right_to_left(&self) -> Settings {
        let own = &self.right_to_left;
        self.settings(&Differences {
            delay: own.right_to_left_delay,
            jitter: own.right_to_left_jitter,
            bit_rate: own.right_to_left_bit_rate,
            queue_packets: own.right_to_left_queue_packets,
            loss: own.right_to_left_loss,
        })
    }

    /// The settings of a direction. Options of the direction have priority over options of both
    /// directions.
    fn settings(&self, own: &Differences) -> Settings {
        Settings {
            delay_us: microseconds(own.delay.unwrap_or(self.delay)),
            jitter_us: microseconds(own.jitter.unwrap_or(self.jitter)),
            rate_bps: own.bit_rate.or(self.bit_rate).map(|rate| rate.0),
            queue_packets: own
                .queue_packets
                .or(self.queue_packets)
                .unwrap_or(Settings::default().queue_packets),
            loss: own.loss.unwrap_or(self.loss),
        }
    }

    /// Refuses a length of the queue for directions without a bit rate, in which no frame waits.
    fn refuse_queue_without_rate(&self) -> Result<(), Failure> {
        let (left, right) = (&self.left_to_right, &self.right_to_left);
        let has_rate = |own: Option<BitRate>| own.or(self.bit_rate).is_some();
        let left_to_right = has_rate(left.left_to_right_bit_rate);
        let right_to_left = has_rate(right.right_to_left_bit_rate);
        let why = "without a bit rate, which makes frames wait";
        refuse_ignored(&[
            (
                self.queue_packets.is_some() && !left_to_right && !right_to_left,
                "queue-packets",
                why,
            ),
            (
                left.left_to_right_queue_packets.is_some() && !left_to_right,
                "left-to-right-queue-packets",
                why,
            ),
            (
                right.right_to_left_queue_packets.is_some() && !right_to_left,
                "right-to-left-queue-packets",
                why,
            ),
        ])
    }
}

/// The options of one direction. They replace the options of both directions.
struct Differences {
    delay: Option<Time>,
    jitter: Option<Time>,
    bit_rate: Option<BitRate>,
    queue_packets: Option<usize>,
    loss: Option<f64>,
}

fn microseconds(time: Time) -> f64 {
    time.0.as_secs_f64() * 1e6
}

/// An end from its options.
fn end(interface: &str, address: Option<&str>) -> Result<End, Failure> {
    let interface = Interface::in_namespace(interface, DEFAULT_DEVICE)
        .map_err(|error| failure(error.into()))?;
    let address = address.map(str::parse).transpose().map_err(failure)?;
    Ok((interface, address))
}

/// The exit status and hint for an error of the link.
fn failure(error: LinkError) -> Failure {
    if error.is_lack_of_machine() {
        return Failure::lacking(error)
            .with_hint("run as root, in a kernel with TAP devices (modprobe tun)");
    }
    match error {
        LinkError::Interface(InterfaceError::Namespace { .. }) => {
            Failure::usage(error).with_hint("`ip netns list` prints the existing namespaces")
        }
        LinkError::Interface(_)
        | LinkError::Address { .. }
        | LinkError::Setting { .. }
        | LinkError::Cpus { .. } => Failure::usage(error),
        _ => Failure::failed(error),
    }
}

/// The report as a table.
fn table(report: &Report) -> String {
    let mut text = format!(
        "{:<15} {:>12} {:>15} {:>9} {:>9} {:>11} {:>9} {:>9} {:>9} {:>9}\n",
        "wire frames",
        "packets",
        "bytes",
        "full",
        "lost",
        "not carried",
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
            "{name:<15} {packets:>12} {bytes:>15} {:>9} {:>9} {:>11} {:>9.1} {:>9.1} {:>9.1} \
             {late_packets:>9}",
            dropped.queue, dropped.loss, dropped.not_kept, errors.p50, errors.p99, errors.max
        );
    }
    let _ = writeln!(
        text,
        "delays {}: exact means late by at most 50 us at the median and 200 us at the 99th \
         percentile, and 0 frames not carried\n{:.2} s of CPU time in {:.2} s, {:.2} s \
         of it spinning{}",
        if report.kept { "exact" } else { "NOT exact" },
        report.cpu_s,
        report.elapsed_s,
        report.spin_s,
        if report.runs_first {
            ""
        } else {
            "; the link may not have real-time priority"
        }
    );
    text
}
