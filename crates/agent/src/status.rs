//! How a verb ends: its exit status, and what it says when it failed.

use std::fmt;
use std::process::ExitCode;

use crate::program::as_typed;

/// How a verb ended. The numbers are those of the `perpacket` command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It did what was asked.
    Done = 0,
    /// It ran, and a check did not hold.
    Unmet = 1,
    /// Options or configuration were wrong.
    Usage = 2,
    /// The machine lacks something that was demanded.
    Lacking = 3,
    /// The run failed.
    Failed = 4,
    /// A signal ended it; what was measured until then was printed.
    Interrupted = 130,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status as u8)
    }
}

/// Why a verb could not do what was asked, and what to do about it.
#[derive(Debug)]
pub struct Failure {
    /// The exit status it ends with.
    pub status: Status,
    /// The thing, the place, and what was expected.
    pub message: String,
    /// The next step, where there is one.
    pub hint: Option<String>,
}

impl Failure {
    /// A mistake in what was asked.
    pub fn usage(message: impl fmt::Display) -> Self {
        Self::new(Status::Usage, message)
    }

    /// Something the machine lacks.
    pub fn lacking(message: impl fmt::Display) -> Self {
        Self::new(Status::Lacking, message)
    }

    /// A run that failed.
    pub fn failed(message: impl fmt::Display) -> Self {
        Self::new(Status::Failed, message)
    }

    /// A check that did not hold.
    pub fn unmet(message: impl fmt::Display) -> Self {
        Self::new(Status::Unmet, message)
    }

    /// The same failure with a next step.
    #[must_use]
    pub fn with_hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    fn new(status: Status, message: impl fmt::Display) -> Self {
        Self {
            status,
            message: message.to_string(),
            hint: None,
        }
    }

    /// Say it on standard error: an error, a blank line, a hint.
    pub fn show(&self) {
        eprintln!("error: {}", as_typed(&self.message));
        if let Some(hint) = &self.hint {
            eprintln!("\nhint: {}", as_typed(hint));
        }
    }
}
