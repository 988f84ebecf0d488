//! Runs the agent as a shell does.

#![expect(clippy::unwrap_used, reason = "tests panic on errors")]

use std::process::{Command, Output};

/// The agent's exit status and output.
pub fn agent(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_perpacket-lab-agent"))
        .args(arguments)
        .output()
        .unwrap()
}

/// The agent's standard error.
pub fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
