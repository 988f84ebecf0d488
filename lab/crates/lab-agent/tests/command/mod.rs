//! Runs the agent as a shell does.

#![expect(clippy::unwrap_used, reason = "tests panic on errors")]

use std::process::{Command, Output};

/// The exit status and the output of a command line, whose words are split at spaces.
pub fn agent(line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_perpacket-lab-agent"))
        .args(line.split_whitespace())
        .output()
        .unwrap()
}

/// The agent's standard error.
pub fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
