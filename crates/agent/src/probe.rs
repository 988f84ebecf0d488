//! `probe`: what this machine can do, and what each missing capability costs.

use std::fmt::Write;

use perpacket_profiler::{Capabilities, probe};
use serde::Serialize;

use crate::output::Shared;
use crate::status::{Failure, Status};

/// Options of `probe`.
#[derive(Debug, clap::Args, Serialize)]
#[command(after_help = "Example:\n  perpacket-agent probe --format json")]
pub struct Arguments {
    #[command(flatten)]
    #[serde(skip)]
    shared: Shared,
}

/// Prints the capabilities.
pub fn run(arguments: &Arguments) -> Result<Status, Failure> {
    if arguments.shared.shows_config(arguments)? {
        return Ok(Status::Done);
    }
    arguments.shared.print(&probe(), table)?;
    Ok(Status::Done)
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
