//! `add-cost`: spends a known processor time on every packet of an interface.

use std::io::{self, BufRead, Write};

use perpacket_linux::interface::Interface;
use perpacket_router::added_cost::AddedCost;
use serde::Serialize;

use crate::output::Shared;
use crate::route;
use crate::status::{Failure, Status};

/// Shown after the options.
const EXAMPLE: &str = "\
Example: 500 ns for every packet of eth0, for ten seconds:

  (echo 500; sleep 10) | perpacket-agent add-cost --interface eth0

Each line of standard input has a number of nanoseconds, 0 to 50000. After each line it prints the
processor time that the previous line added. It needs root and Linux 6.6.";

/// Options of `add-cost`.
#[derive(Debug, clap::Args, Serialize)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    /// The interface, in both directions.
    #[arg(long, value_name = "[NETNS:]IFNAME")]
    interface: String,
    #[command(flatten)]
    #[serde(skip)]
    shared: Shared,
}

/// Runs the verb until standard input ends.
pub fn run(arguments: &Arguments) -> Result<Status, Failure> {
    if arguments.shared.shows_config(arguments)? {
        return Ok(Status::Done);
    }
    let interface: Interface = arguments.interface.parse().map_err(Failure::usage)?;
    let cost = AddedCost::attach(&interface).map_err(route::failure)?;
    let mut printed = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let line = line.map_err(Failure::failed)?;
        let nanoseconds = line
            .trim()
            .parse()
            .map_err(|_| Failure::usage(format!("{line:?}: expected a number of nanoseconds")))?;
        let spent = cost.set(nanoseconds).map_err(route::failure)?;
        let text = serde_json::to_string(&spent).map_err(Failure::failed)?;
        writeln!(printed, "{text}")
            .and_then(|()| printed.flush())
            .map_err(Failure::failed)?;
    }
    Ok(Status::Done)
}
