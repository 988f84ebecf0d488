//! `load http`: runs the load and prints its report.

mod table;

use perpacket_load::http::{Progress, Report, Spec, run as run_load};

use super::failure;
use crate::output::{Output, ResultFile};
use crate::status::{Failure, Status};
use crate::stop;

pub const EXAMPLE: &str = "Examples:
  perpacket-agent load http http://127.0.0.1:8080/index.html --connections 64 --duration 10
  perpacket-agent load http http://127.0.0.1:8080/ --rate 1000 --duration 10 --format json
  perpacket-agent load http http://127.0.0.1:8080 --workload specweb99 --connections 100
  perpacket-agent load http http://127.0.0.1:8080 --application application.toml --clients 20
  perpacket-agent load http http://127.0.0.1:8080 --replay access.log --speed 10 --spread uniform

A response time counts from the intended start of its request, a service time from the send.";

/// Runs the subcommand.
pub fn run(spec: Spec, output: &Output) -> Result<Status, Failure> {
    let histograms = ResultFile::of("histograms", spec.histograms.as_deref())?;
    // The load writes this file while it runs. Here the file is only opened, to report an error
    // before the run.
    drop(ResultFile::of("request-log", spec.request_log.as_deref())?);
    let stop = stop::on_signals()?;
    let shows_progress = output.shows_progress();
    let mut show = |progress: &Progress| {
        if shows_progress {
            eprint!("\r\x1b[K{}", table::progress_line(progress));
        }
    };
    let result = run_load(spec, &stop, &mut show);
    if shows_progress {
        eprint!("\r\x1b[K");
    }
    let report = result.map_err(failure)?;
    if let Some(file) = histograms {
        let histograms = report.histograms().map_err(failure)?;
        file.write(&serde_json::to_string(&histograms).map_err(Failure::failed)?)?;
    }
    output.print(&report, table::table)?;
    exit_status(&report)
}

/// The exit status. The result has been printed in each case.
fn exit_status(report: &Report) -> Result<Status, Failure> {
    if let Some(text) = report.failure() {
        return Err(Failure::failed(text).with_hint(match report.server_gone_s {
            Some(_) => {
                "the results cover the time before that; the server's log may have the reason"
            }
            None => "send one such request with `curl -i URL`",
        }));
    }
    Ok(match report.interrupted {
        true => Status::Interrupted,
        false => Status::Done,
    })
}
