//! `add-cost`: spends a known processor time on every packet of an interface.

use std::io::{self, BufRead};

use perpacket_added_cost::{AddedCost, AddedCostError, Spec};

use crate::output::Output;
use crate::status::{Failure, Status};
use crate::verb::Verb;

/// Shown after the options.
const EXAMPLE: &str = "\
Example: 500 ns for every packet of eth0, for ten seconds:

  (echo 500; sleep 10) | perpacket-agent add-cost --interface eth0

Each line of standard input has a number of nanoseconds, 0 to 50000. After each line it prints the
processor time that the previous line added. It needs root and Linux 6.6.";

pub fn verb() -> Verb {
    Verb::new("add-cost", EXAMPLE, run)
}

/// Runs until standard input ends.
fn run(spec: Spec, _: &Output) -> Result<Status, Failure> {
    let cost = AddedCost::attach(&spec.interface).map_err(failure)?;
    for line in io::stdin().lock().lines() {
        let line = line.map_err(Failure::failed)?;
        let nanoseconds = line
            .trim()
            .parse()
            .map_err(|_| Failure::usage(format!("{line:?}: expected a number of nanoseconds")))?;
        Output::print_line(&cost.set(nanoseconds).map_err(failure)?)?;
    }
    Ok(Status::Done)
}

fn failure(error: AddedCostError) -> Failure {
    match error {
        AddedCostError::TooLong { .. } => Failure::usage(error),
        AddedCostError::Interface(ref denied) if !denied.is_denied() => {
            Failure::usage(error).with_hint("`ip -n NETNS link` prints the existing interfaces")
        }
        AddedCostError::Interface(_) | AddedCostError::Bpf(_) => {
            Failure::lacking(error).with_hint("run as root, on Linux 6.6 or later")
        }
    }
}
