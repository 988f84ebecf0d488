//! What to know when reading a load's figures: sentences, each about something that was not asked, was
//! asked otherwise than one may think, or is from general knowledge.

use super::counts::Counts;
use super::errors::RequestError;
use super::report::TraceReport;
use super::session::Operation;
use super::settings::{Arrivals, Part, Settings, Workload};

/// What was left when the window ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unfinished {
    /// Requests (or sessions) whose time came and that were not sent.
    pub unsent: u64,
    /// Requests under way.
    pub unfinished: u64,
    /// No connection was free for what arrived last.
    pub all_busy: bool,
    /// The server was gone.
    pub server_gone: bool,
}

/// The sentences.
pub(crate) fn of(
    settings: &Settings,
    counts: &Counts,
    trace: Option<&TraceReport>,
    left: Unfinished,
) -> Vec<String> {
    let mut notes = about_workload(settings, counts);
    if let Some(trace) = trace {
        about_log(settings, trace, &mut notes);
    }
    if left.unsent > 0 {
        notes.push(about_unsent(settings, counts, left));
    }
    if left.unfinished > 0 && settings.arrivals.are_open() {
        notes.push(format!(
            "{} requests were under way at the end and are in no latency figure",
            left.unfinished
        ));
    }
    let redirects = counts.redirects();
    if redirects > 0 && counts.errors.count(RequestError::UnexpectedStatus) > 0 {
        notes.push(format!(
            "{redirects} responses are redirects, which a load does not follow: ask for the location \
             that they name"
        ));
    }
    if counts.errors.count(RequestError::NoPort) > 0 {
        notes.push("client ports ran out: name more source addresses".to_owned());
    }
    notes
}

/// Why requests were not sent: a server that is gone keeps connections as busy as a slow one.
fn about_unsent(settings: &Settings, counts: &Counts, left: Unfinished) -> String {
    let unsent = left.unsent;
    let refused = counts.errors.count(RequestError::Refused);
    if left.server_gone {
        format!("{unsent} were not sent: the server was gone")
    } else if refused > 0 {
        format!("{unsent} were not sent: the server refused {refused} connections")
    } else if left.all_busy {
        format!(
            "{unsent} were not sent: all {} connections were busy; allow more connections, or ask less",
            settings.connections
        )
    } else {
        format!("{unsent} were not sent: the run ended when their time had just come")
    }
}

/// What was left out of a log, and how much of the rest was asked.
fn about_log(settings: &Settings, trace: &TraceReport, notes: &mut Vec<String>) {
    if trace.rejected > 0 {
        let mut told: Vec<String> = trace
            .rejected_lines
            .iter()
            .map(|one| format!("line {}: {}", one.line, one.reason.reason()))
            .collect();
        if trace.rejected > told.len() as u64 {
            told.push("and so on".to_owned());
        }
        notes.push(format!(
            "{} lines of the log are no requests and were left out ({})",
            trace.rejected,
            told.join("; ")
        ));
    }
    if trace.skipped > 0 {
        notes.push(format!(
            "{} requests of the log were left out: only GET, HEAD and POST are replayed",
            trace.skipped
        ));
    }
    let (begun, requests) = (trace.begun, trace.requests);
    if settings.part != Part::WHOLE {
        return;
    }
    if begun < requests {
        notes.push(format!(
            "the run ended after {begun} of the log's {requests} requests"
        ));
    } else if begun > requests {
        notes.push(format!(
            "the log was begun again and again: its {requests} requests were asked {:.1} times",
            begun as f64 / requests as f64
        ));
    } else if settings.arrivals == Arrivals::Closed && settings.workload.is_finite() {
        notes.push(format!(
            "the log's {requests} requests were asked once, as fast as they were answered; --repeat \
             begins the log again"
        ));
    }
}

/// What a workload's figures hang on.
fn about_workload(settings: &Settings, counts: &Counts) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |text: &str| notes.push(text.to_owned());
    match &settings.workload {
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
                "Surge: draws are capped: files at {:.0} B, {} files a page, pauses at {} s, thought at \
                 {} s; {:.2} % of the files are in the tail, so that all have {} MB together",
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
    if settings.conditional_share > 0.0 && matches!(settings.workload, Workload::SpecWeb99 { .. }) {
        notes.push("conditional requests are no part of SPECweb99".to_owned());
    }
    notes
}
