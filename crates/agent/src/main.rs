//! The executable with the verbs that an operator needs.

use std::process::ExitCode;

fn main() -> ExitCode {
    perpacket_agent::verb::main(&perpacket_agent::GROUPS, &perpacket_agent::verbs())
}
