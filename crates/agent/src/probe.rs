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

fn table(machine: &Capabilities) -> String {
    let mut text = format!(
        "Linux {}, CPUs {}; a profile would use: {}\n\n",
        machine.kernel, machine.cpus, machine.backend
    );
    for capability in &machine.capabilities {
        let mark = if capability.available { "yes" } else { "no" };
        let _ = writeln!(
            text,
            "{:<20}{mark:<5}{}",
            capability.name, capability.detail
        );
        if !capability.available {
            let _ = writeln!(text, "{:<25}without it: {}", "", capability.cost_of_lack);
            let _ = writeln!(text, "{:<25}to get it:  {}", "", capability.next_step);
        }
    }
    text
}
