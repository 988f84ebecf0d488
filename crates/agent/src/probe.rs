//! `probe`: what this machine can do, and what each missing capability costs.

use std::fmt::Write;
use std::path::PathBuf;

use perpacket_profiler::by_cpu::SinceStart;
use perpacket_profiler::{Capabilities, probe};
use perpacket_spec::Spec;
use schemars::JsonSchema;
use serde::Serialize;

use crate::output::Output;
use crate::profile::by_cpu;
use crate::status::{Failure, Status};
use crate::verb::Verb;

const EXAMPLE: &str =
    "Examples:\n  perpacket-agent probe --format json\n  perpacket-agent probe --root /";

/// Report what this machine can do, and what each missing capability costs.
#[derive(Clone, Debug, clap::Args, Serialize, JsonSchema)]
pub struct ProbeSpec {
    /// Print the processors and network queues since the machine started instead, from a folder with
    /// its proc and sys: `/`, or a copy.
    #[arg(long, value_name = "FOLDER")]
    root: Option<PathBuf>,
}

impl Spec for ProbeSpec {}

pub fn verb() -> Verb {
    Verb::new("probe", EXAMPLE, run)
}

/// Prints the capabilities.
fn run(spec: ProbeSpec, output: &Output) -> Result<Status, Failure> {
    match &spec.root {
        Some(root) => output.print(&SinceStart::read(root)?, since_start)?,
        None => output.print(&probe(), table)?,
    }
    Ok(Status::Done)
}

fn since_start(machine: &SinceStart) -> String {
    let mut text = String::from("since the machine started\n");
    by_cpu::render(&mut text, &machine.processors, &machine.queues);
    for finding in &machine.findings {
        let _ = writeln!(text, "\n{finding}");
    }
    text
}

fn table(found: &Capabilities) -> String {
    let mut text = format!(
        "Linux {}, CPUs {}; a profile would use: {}\n\n",
        found.kernel, found.cpus, found.backend
    );
    for one in &found.capabilities {
        let mark = if one.available { "yes" } else { "no" };
        let _ = writeln!(text, "{:<20}{mark:<5}{}", one.name, one.detail);
        if !one.available {
            let _ = writeln!(text, "{:<25}without it: {}", "", one.cost_of_lack);
            let _ = writeln!(text, "{:<25}to get it:  {}", "", one.next_step);
        }
    }
    text
}
