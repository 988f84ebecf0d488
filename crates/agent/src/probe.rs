//! `probe`: what this machine can do, and what each missing capability costs.

use std::fmt::Write;
use std::path::PathBuf;

use perpacket_profiler::by_cpu::SinceStart;
use perpacket_profiler::{Capabilities, probe};
use serde::Serialize;

use crate::output::Shared;
use crate::profile::by_cpu;
use crate::status::{Failure, Status};

/// Options of `probe`.
#[derive(Debug, clap::Args, Serialize)]
#[command(
    after_help = "Examples:\n  perpacket-agent probe --format json\n  perpacket-agent probe --root /"
)]
pub struct Arguments {
    /// Print the processors and network queues since the machine started instead, from a folder with
    /// its proc and sys: `/`, or a copy.
    #[arg(long, value_name = "FOLDER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    root: Option<PathBuf>,
    #[command(flatten)]
    #[serde(skip)]
    shared: Shared,
}

/// Prints the capabilities.
pub fn run(arguments: &Arguments) -> Result<Status, Failure> {
    if arguments.shared.shows_config(arguments)? {
        return Ok(Status::Done);
    }
    match &arguments.root {
        Some(root) => arguments
            .shared
            .print(&SinceStart::read(root)?, since_start)?,
        None => arguments.shared.print(&probe(), table)?,
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
