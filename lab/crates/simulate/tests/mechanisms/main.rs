//! Tests mechanisms of the simulator. Each is compared with a closed form.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod clients;
mod host;
mod interrupts;
mod nic;

use perpacket_simulate::{Explanation, OperationCost, Outcome, Progress, Simulation};
use perpacket_workload::Replay;

fn run(configuration: &str, overrides: &[(&str, &str)], trace: Option<Replay>) -> Outcome {
    explained(configuration, overrides, trace).0
}

fn explained(
    configuration: &str,
    overrides: &[(&str, &str)],
    trace: Option<Replay>,
) -> (Outcome, Explanation) {
    let simulation = Simulation::new(configuration, &owned(overrides), trace).unwrap();
    let simulated = simulation.run(1, false, &Progress::default()).unwrap();
    (simulated.outcome, simulated.explanation)
}

fn owned(overrides: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    overrides.iter().map(owned).collect()
}

fn cost<'a>(explanation: &'a Explanation, operation: &str) -> Option<&'a OperationCost> {
    (explanation.host.iter()).find(|cost| cost.operation == operation)
}

/// Calls of an operation per request, or per packet of the bulk sender.
fn calls(explanation: &Explanation, operation: &str) -> f64 {
    cost(explanation, operation).map_or(0.0, |cost| cost.calls)
}

/// Second-level misses of one call.
fn misses_of_call(explanation: &Explanation, operation: &str) -> f64 {
    let cost = cost(explanation, operation).unwrap();
    cost.l2_misses / cost.calls
}

/// A trace of one client; all responses have this size.
fn trace_of(size_bytes: u32) -> Replay {
    let line = |second: u32| {
        format!(
            "host - - [01/Jul/1995:00:00:{second:02} -0400] \"GET /a HTTP/1.0\" 200 {size_bytes}\n"
        )
    };
    let log: String = (0..60).map(line).collect();
    Replay::read(log.as_bytes(), None, 15.0).unwrap()
}

const SMALL: [(&str, &str); 4] = [
    ("workload.connections", "4"),
    ("client.start_spread_ms", "1"),
    ("run.warmup_packets", "2000"),
    ("run.packets", "10000"),
];

/// The overrides of a small run, and more.
fn small<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [&SMALL, more].concat()
}
