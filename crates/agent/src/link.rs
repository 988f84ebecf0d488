//! `link`: latency, bandwidth and loss between two network namespaces.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;

use perpacket_link::{End, Link, LinkError, OneWay, Report, Spec};
use perpacket_linux::interface::{Interface, InterfaceError};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};

use crate::output::Output;
use crate::status::{Failure, Status};
use crate::stop;
use crate::verb::Verb;

/// Printed after the options.
const EXAMPLE: &str = "\
Example: 5 ms each way and 100 Mb/s from server to client, until Ctrl-C:

  perpacket-agent link --left server --right client --delay 5ms \\
      --left-address 10.0.0.1/24 --right-address 10.0.0.2/24 \\
      --left-to-right-bit-rate 100Mb/s

SIGUSR1 prints a report of what the link has carried until then.";

/// Default name of a device.
const DEFAULT_DEVICE: &str = "link0";

pub fn verb() -> Verb {
    Verb::new("link", EXAMPLE, run)
}

fn run(spec: Spec, output: &Output) -> Result<Status, Failure> {
    let left = end(&spec.left, spec.left_address.as_deref())?;
    let right = end(&spec.right, spec.right_address.as_deref())?;
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
        spec.left_to_right(),
        spec.right_to_left(),
        spec.seed.seed,
        spec.runs_on.list(),
    )
    .map_err(failure)?;
    if !output.quiet {
        message!("ready: {} and {}", spec.left, spec.right);
    }
    let mut print_failure = None;
    let report = link
        .run(spec.until.duration(), interrupt.as_fd(), |report| {
            if stop.load(Ordering::Relaxed) {
                return ControlFlow::Break(());
            }
            match output.print(&report, table) {
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
    output.print(&report, table)?;
    Ok(if stop.load(Ordering::Relaxed) {
        Status::Interrupted
    } else {
        Status::Done
    })
}

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
