//! Notes of a report: what the load omitted or changed, and which numbers have no published source.

use super::arrivals::Arrivals;
use super::counts::Counts;
use super::errors::RequestError;
use super::report::TraceReport;
use super::session::Operation;
use super::shard::Shard;
use super::spec::Spec;
use super::workload::Workload;

/// Requests that were left when the window ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unfinished {
    /// Requests (or sessions) that were due and not sent.
    pub unsent: u64,
    /// Requests without a complete response.
    pub unfinished: u64,
    /// Whether all connections were busy at the last arrival.
    pub all_busy: bool,
    /// Whether the server was gone.
    pub server_gone: bool,
}

/// The notes of a load.
pub(crate) fn notes(
    spec: &Spec,
    counts: &Counts,
    trace: Option<&TraceReport>,
    left: Unfinished,
) -> Vec<String> {
    let mut notes = about_workload(spec, counts);
    if let Some(trace) = trace {
        about_log(spec, trace, &mut notes);
    }
    if left.unsent > 0 {
        notes.push(about_unsent(spec, counts, left));
    }
    if left.unfinished > 0 && spec.arrivals().are_open() {
        notes.push(format!(
            "{} requests had no complete response at the end; no latency includes them",
            left.unfinished
        ));
    }
    let redirects = counts.redirects();
    if redirects > 0 && counts.errors.count(RequestError::UnexpectedStatus) > 0 {
        notes.push(format!(
            "{redirects} responses are redirects, which a load does not follow: request their location \
             instead"
        ));
    }
    if counts.errors.count(RequestError::NoPort) > 0 {
        notes
            .push("the client had no free port left: name more addresses with --source".to_owned());
    }
    notes
}

/// A note on why requests were not sent. All connections are busy both when the server is missing
/// and when it is slow.
fn about_unsent(spec: &Spec, counts: &Counts, left: Unfinished) -> String {
    let unsent = left.unsent;
    let refused = counts.errors.count(RequestError::Refused);
    if left.server_gone {
        format!("{unsent} were not sent: the server was gone")
    } else if refused > 0 {
        format!("{unsent} were not sent: the server refused {refused} connections")
    } else if left.all_busy {
        format!(
            "{unsent} were not sent: all {} connections were busy; allow more connections or lower the rate",
            spec.connections()
        )
    } else {
        format!("{unsent} were not sent: they were due just before the end of the run")
    }
}

/// Notes on the requests of a log that the load omitted, and on how much of the log it sent.
fn about_log(spec: &Spec, trace: &TraceReport, notes: &mut Vec<String>) {
    if trace.rejected > 0 {
        let mut lines: Vec<String> = trace
            .rejected_lines
            .iter()
            .map(|rejected| format!("line {}: {}", rejected.line, rejected.reason.reason()))
            .collect();
        if trace.rejected > lines.len() as u64 {
            lines.push("and more".to_owned());
        }
        notes.push(format!(
            "{} invalid lines of the log were left out ({})",
            trace.rejected,
            lines.join("; ")
        ));
    }
    if trace.skipped > 0 {
        notes.push(format!(
            "{} requests of the log were left out: only GET, HEAD and POST are replayed",
            trace.skipped
        ));
    }
    let (begun, requests) = (trace.begun, trace.requests);
    if spec.shard() != Shard::WHOLE {
        return;
    }
    if begun < requests {
        notes.push(format!(
            "the run ended after {begun} of the log's {requests} requests"
        ));
    } else if begun > requests {
        notes.push(format!(
            "the log was repeated: its {requests} requests were sent {:.1} times",
            begun as f64 / requests as f64
        ));
    } else if spec.arrivals() == Arrivals::Closed && spec.workload().is_finite() {
        notes.push(format!(
            "the log's {requests} requests were sent once, without pauses; --repeat begins the log again"
        ));
    }
}

/// Notes on assumptions of a workload that affect the results.
fn about_workload(spec: &Spec, counts: &Counts) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |text: &str| notes.push(text.to_owned());
    match spec.workload() {
        Workload::SpecWeb99 { .. } => note(
            "SPECweb99: shares of dynamic operations, and the limits of conformance (320,000 b/s, 1 % of \
             failures), are from general knowledge of the benchmark",
        ),
        Workload::WebStone => {
            note("WebStone: the mix of files is from general knowledge of the benchmark")
        }
        Workload::Surge { .. } => {
            let surge = perpacket_workload::Surge::default();
            notes.push(format!(
                "Surge: values are limited: files to {:.0} B, pages to {} files, pauses to {} s, think times \
                 to {} s; {:.2} % of the files are in the tail, so that all files together have \
                 {} MB",
                surge.tail_limit_bytes,
                surge.page_limit,
                surge.active_off_limit_s,
                surge.think_limit_s,
                surge.tail_share() * 100.0,
                surge.total_bytes / 1_000_000,
            ));
        }
        Workload::Trace { .. } if counts.operations[Operation::Post as usize] > 0 => {
            note("POST requests of the log were sent without a body");
        }
        _ => {}
    }
    if spec.conditional.0 > 0.0 && matches!(spec.workload(), Workload::SpecWeb99 { .. }) {
        notes.push("SPECweb99 has no conditional requests".to_owned());
    }
    notes
}
