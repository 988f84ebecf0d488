//! The executable that is copied to the machines under test and runs there alone.

use clap::Parser;

/// Runs beside the server under test. This version tells its version and does nothing else.
#[derive(Parser)]
#[command(name = "perpacket-agent", version, arg_required_else_help = true)]
struct Arguments {}

fn main() {
    Arguments::parse();
}
