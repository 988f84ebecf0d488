//! `load stream`.

use std::fmt::Write;
use std::net::SocketAddr;

use perpacket_load::stream::{self, FarEndReport, Progress, Report, Spec};

use super::failure;
use crate::output::Output;
use crate::status::{Failure, Status};
use crate::stop;
use crate::table::rows;

pub const EXAMPLE: &str = "Examples:
  perpacket-agent load stream --listen 127.0.0.1:5001          (the far end)
  perpacket-agent load stream --to 127.0.0.1:5001 --connections 2048 --bit-rate 1Gb/s
                                                               (the machine under test)";

/// Runs one end.
pub fn run(spec: Spec, output: &Output) -> Result<Status, Failure> {
    match spec.listen {
        Some(_) => serve(&spec, output),
        None => load(&spec, output),
    }
}

fn serve(spec: &Spec, output: &Output) -> Result<Status, Failure> {
    let stop = stop::on_signals()?;
    let mut listening = |address: SocketAddr| {
        if !output.quiet {
            message!("listening on {address}");
        }
    };
    let report = stream::serve(spec, &stop, &mut listening).map_err(failure)?;
    output.print(&report, far_end_table)?;
    Ok(Status::Done)
}

fn load(spec: &Spec, output: &Output) -> Result<Status, Failure> {
    let stop = stop::on_signals()?;
    let shows_progress = output.shows_progress();
    let mut show = |progress: &Progress| {
        if shows_progress {
            eprint!(
                "\r\x1b[K{:>6.1} s  {} connections open  {} broken",
                progress.elapsed_s, progress.open, progress.errors
            );
        }
    };
    let result = stream::run(spec, &stop, &mut show);
    if shows_progress {
        eprint!("\r\x1b[K");
    }
    let report = result.map_err(failure)?;
    output.print(&report, table)?;
    match (report.failure(), report.interrupted) {
        (Some(text), _) => Err(Failure::failed(text)),
        (None, true) => Ok(Status::Interrupted),
        (None, false) => Ok(Status::Done),
    }
}

fn table(report: &Report) -> String {
    let mut text = format!(
        "{} connections, {}, {} threads, {:.2} s, {}\n\n",
        report.connections,
        report.direction,
        report.threads,
        report.duration_s,
        report.congestion_control
    );
    let rtt = &report.rtt_us;
    let mut all = vec![
        (
            "goodput",
            format!("{:.2} Mb/s (10^6)", report.goodput_bps / 1e6),
        ),
        (
            "segments",
            format!(
                "{} of {} bytes (kernel: {}), {} retransmitted",
                report.segments,
                report.segment_bytes,
                report.kernel_segment_bytes,
                report.retransmissions
            ),
        ),
        (
            "round trip [us]",
            format!("p50 {:.0}  p99 {:.0}  max {:.0}", rtt.p50, rtt.p99, rtt.max),
        ),
        (
            "CPU",
            format!(
                "{:.3} s, {:.3} us per segment",
                report.cpu_s, report.cpu_us_per_segment
            ),
        ),
    ];
    let errors = report.errors.iter();
    all.extend(errors.map(|(kind, count)| ("error", format!("{kind}: {count}"))));
    text.push_str(&rows(&all));
    for note in &report.notes {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn far_end_table(report: &FarEndReport) -> String {
    format!(
        "{}: {} connections, {} bytes received and {} sent in {:.1} s, {:.2} s of CPU\n",
        report.listened,
        report.connections,
        report.bytes,
        report.bytes_sent,
        report.duration_s,
        report.cpu_s
    )
}
