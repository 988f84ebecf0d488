//! Errors of a profile: a wrong option, a machine that lacks something, or a failed run.

use std::io;
use std::path::{Path, PathBuf};

use perpacket_cost::RuleError;

/// An error of a profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// A CPU that is not online.
    #[error("--cpus: CPU {missing} is not online, expected CPUs of {online}")]
    Cpus {
        /// The first such CPU.
        missing: usize,
        /// The CPUs that are online, as a list of ranges.
        online: String,
    },
    /// An option out of its range.
    #[error("--{option} {value}: expected {expected}")]
    Option {
        /// The option's name without dashes.
        option: &'static str,
        /// The value.
        value: String,
        /// The expected values.
        expected: &'static str,
    },
    /// A rules or event file with a mistake.
    #[error(transparent)]
    Rules(#[from] RuleError),
    /// A file of an option cannot be read.
    #[error("--{option} {path}: {source}")]
    OptionFile {
        /// The option's name without dashes.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that is no recording.
    #[error("--perf {path}: {reason}")]
    Recording {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A recording of another kernel without that kernel's symbols.
    #[error(
        "--perf {path}: recorded on Linux {recorded}, but this machine runs {own}; expected --kallsyms \
         with the symbols of that kernel"
    )]
    RecordedKernel {
        /// The file.
        path: PathBuf,
        /// The recorded kernel's version.
        recorded: String,
        /// This kernel's version.
        own: String,
    },
    /// A file that is not the output of `ip -s -j link`, or not the later of two.
    #[error(
        "--links {path}: expected the output of `ip -s -j link`, the earlier file first: {reason}"
    )]
    Links {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A process that does not exist.
    #[error("--pid {pid}: no such process")]
    NoProcess {
        /// The process.
        pid: u32,
    },
    /// No control group with a process is chosen.
    #[error("--{option} {value}: no process is in such a control group")]
    NoGroup {
        /// The option's name without dashes.
        option: &'static str,
        /// The value.
        value: String,
    },
    /// The command could not be started.
    #[error("{program}: cannot be started: {source}")]
    Command {
        /// Its name.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// The kernel forbids this user to profile whole processors.
    #[error(
        "perf events on whole processors are forbidden: /proc/sys/kernel/perf_event_paranoid is {paranoid}"
    )]
    Forbidden {
        /// The setting's value, or `unreadable`.
        paranoid: String,
    },
    /// An event does not open.
    #[error("event `{event}` cannot be opened on processor {cpu}: {source}")]
    Open {
        /// The event's name.
        event: String,
        /// The processor.
        cpu: usize,
        /// Why.
        source: io::Error,
    },
    /// Counters shared the hardware, so that their values are scaled.
    #[error(
        "the group {{{group}}} was multiplexed on processor {cpu}: counted {running_ns} ns of {enabled_ns} ns"
    )]
    Multiplexed {
        /// The events of the group.
        group: String,
        /// The processor.
        cpu: usize,
        /// Time that the group was on the hardware.
        running_ns: u64,
        /// Time that it was enabled.
        enabled_ns: u64,
    },
    /// The requests could not be counted.
    #[error("--requests {url}: {reason}")]
    Requests {
        /// The URL of the page.
        url: String,
        /// The reason.
        reason: String,
    },
    /// A file of the kernel or of the user could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kernel refused an operation on open events.
    #[error("{what}: {source}")]
    Kernel {
        /// What was attempted.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

/// The kind of an error, which determines the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An option is wrong.
    Usage,
    /// The machine lacks something that was required.
    Lacking,
    /// The run failed.
    Failed,
}

impl ProfileError {
    /// The kind of the error.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        match self {
            Self::Cpus { .. }
            | Self::Option { .. }
            | Self::Rules(_)
            | Self::OptionFile { .. }
            | Self::Recording { .. }
            | Self::RecordedKernel { .. }
            | Self::Links { .. }
            | Self::NoProcess { .. }
            | Self::NoGroup { .. }
            | Self::Command { .. } => Fault::Usage,
            Self::Forbidden { .. } | Self::Open { .. } | Self::Multiplexed { .. } => Fault::Lacking,
            Self::Requests { .. } | Self::File { .. } | Self::Kernel { .. } => Fault::Failed,
        }
    }

    /// The next step, if there is one.
    #[must_use]
    pub const fn next_step(&self) -> Option<&'static str> {
        match self {
            Self::Forbidden { .. } => Some(
                "run as root, grant the agent CAP_PERFMON (`setcap cap_perfmon,cap_syslog+ep`), or set \
                 `sysctl kernel.perf_event_paranoid=-1`; `--events accounts` needs no permission \
                 and measures user, kernel and interrupt time, without layers",
            ),
            Self::Multiplexed { .. } => Some(
                "count fewer events at once, or free the watchdog's counter with \
                 `sysctl kernel.nmi_watchdog=0`",
            ),
            Self::RecordedKernel { .. } => {
                Some("copy /proc/kallsyms of the recorded machine, read as root in the same boot")
            }
            Self::NoGroup { .. } => {
                Some("`cat /proc/PID/cgroup` prints the control group of a process")
            }
            Self::Open { .. } => Some("`perpacket-agent probe` lists the events that open here"),
            Self::Rules(_) => Some("the file's format is in the documentation of `--rules`"),
            Self::Requests { .. } => Some(
                "name a page with nginx's stub_status text, or with JSON that has a number \
                 `requests`",
            ),
            _ => None,
        }
    }

    /// For `map_err`: the file of an option cannot be read.
    pub(crate) fn option_file(option: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::OptionFile {
            option,
            path,
            source,
        }
    }

    pub(crate) fn file(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::File {
            path: path.into(),
            source,
        }
    }
}
