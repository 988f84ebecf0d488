//! How a verb ends: its exit status, and the error that it prints.

use std::fmt;
use std::process::ExitCode;

use crate::program::as_typed;

/// The end of a verb. The numbers are the exit statuses of the `perpacket` command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The verb succeeded.
    Done = 0,
    /// The verb ran, and a check or a threshold failed.
    Unmet = 1,
    /// An option or the configuration is wrong.
    Usage = 2,
    /// The machine lacks something that the verb needs.
    Lacking = 3,
    /// The run failed.
    Failed = 4,
    /// A signal ended the run; its results until then were printed.
    Interrupted = 130,
    /// The reader of standard output closed it. A shell reports this number for a program that
    /// SIGPIPE ended.
    Unread = 141,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status as u8)
    }
}

/// An error that ends a verb, with the next step.
#[derive(Debug)]
pub struct Failure {
    /// The exit status.
    pub status: Status,
    /// The fault, its place, and what was expected.
    pub message: String,
    /// The next step, if there is one.
    pub hint: Option<String>,
}

impl Failure {
    /// An option or the configuration is wrong.
    pub fn usage(message: impl fmt::Display) -> Self {
        Self::new(Status::Usage, message)
    }

    /// The machine lacks something that the verb needs.
    pub fn lacking(message: impl fmt::Display) -> Self {
        Self::new(Status::Lacking, message)
    }

    /// The run failed.
    pub fn failed(message: impl fmt::Display) -> Self {
        Self::new(Status::Failed, message)
    }

    /// A check or a threshold failed.
    pub fn unmet(message: impl fmt::Display) -> Self {
        Self::new(Status::Unmet, message)
    }

    /// Nobody reads the output. This is no error, so nothing is printed.
    pub fn unread() -> Self {
        Self::new(Status::Unread, "")
    }

    /// Adds the next step.
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

    /// Prints the error, a blank line and the hint on standard error.
    pub fn print(&self) {
        if self.status == Status::Unread {
            return;
        }
        message!("error: {}", as_typed(&self.message));
        if let Some(hint) = &self.hint {
            message!("\nhint: {}", as_typed(hint));
        }
    }
}

impl From<perpacket_spec::SpecError> for Failure {
    fn from(error: perpacket_spec::SpecError) -> Self {
        let failure = Self::usage(&error);
        match error.hint {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    }
}
