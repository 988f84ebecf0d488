//! Errors of a profile: an option is wrong, the machine lacks something, or the run failed.

use std::io;
use std::path::{Path, PathBuf};

use perpacket_cost::RuleError;

/// An error of a profile.
#[derive(Debug, thiserror::Error)]
#[allow(
    missing_docs,
    reason = "the message of each variant explains its fields"
)]
pub enum ProfileError {
    /// A CPU is not online.
    #[error("--cpus: CPU {missing} is not online, expected CPUs of {online}")]
    Cpus { missing: usize, online: String },
    /// An option is out of its range.
    #[error("--{option} {value}: expected {expected}")]
    Option {
        option: &'static str,
        value: String,
        expected: &'static str,
    },
    /// A file of rules or events has a mistake.
    #[error(transparent)]
    Rules(#[from] RuleError),
    /// A file of an option cannot be read.
    #[error("--{option} {path}: {source}")]
    OptionFile {
        option: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// A file is not a recording that can be read.
    #[error("--perf {path}: {reason}")]
    Recording { path: PathBuf, reason: String },
    /// The recording is not of the whole machine.
    #[error("--perf {path}: expected all processes of the machine: {reason}")]
    PartOfMachine { path: PathBuf, reason: String },
    /// The recording does not show when the packets were counted.
    #[error("--links with --perf {path}: {reason}")]
    Window { path: PathBuf, reason: String },
    /// The recording is of another kernel, and that kernel's symbols are missing.
    #[error(
        "--perf {path}: recorded on Linux {recorded}, but this machine runs {own}; expected --kallsyms \
         with the symbols of that kernel"
    )]
    RecordedKernel {
        path: PathBuf,
        recorded: String,
        own: String,
    },
    /// A file that is not a copy of `/proc/kallsyms`.
    #[error("--kallsyms {path}: expected a copy of /proc/kallsyms, found no symbol")]
    Symbols { path: PathBuf },
    /// A file is not the output of `ip -s -j link`, or the second file is older than the first.
    #[error(
        "--links {path}: expected the output of `ip -s -j link`, the earlier file first: {reason}"
    )]
    Links { path: PathBuf, reason: String },
    /// A process does not exist.
    #[error("--pid {pid}: no such process")]
    NoProcess { pid: u32 },
    /// No process is in a chosen control group.
    #[error("--{option} {value}: no process is in such a control group")]
    NoGroup { option: &'static str, value: String },
    /// The identifiers of several containers have the given beginning.
    #[error("--container {value}: expected one container, found {found}")]
    SeveralContainers { value: String, found: String },
    /// The command could not be started.
    #[error("{program}: cannot be started: {source}")]
    Command { program: String, source: io::Error },
    /// The kernel forbids this user to profile whole processors.
    #[error(
        "perf events on whole processors are forbidden: /proc/sys/kernel/perf_event_paranoid is {paranoid}"
    )]
    Forbidden { paranoid: String },
    /// An event cannot be opened.
    #[error("event `{event}` cannot be opened on processor {cpu}: {source}")]
    Open {
        event: String,
        cpu: usize,
        source: io::Error,
    },
    /// Counters shared the hardware, so their values are scaled.
    #[error(
        "the group {{{group}}} was multiplexed on processor {cpu}: counted {running_ns} ns of {enabled_ns} ns"
    )]
    Multiplexed {
        group: String,
        cpu: usize,
        running_ns: u64,
        enabled_ns: u64,
    },
    /// The requests could not be counted.
    #[error("--requests {url}: {reason}")]
    Requests { url: String, reason: String },
    /// A file of the kernel or of the user could not be read or written.
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
    /// The kernel refused an operation on open events.
    #[error("{what}: {source}")]
    Kernel {
        what: &'static str,
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
            | Self::PartOfMachine { .. }
            | Self::Window { .. }
            | Self::RecordedKernel { .. }
            | Self::Links { .. }
            | Self::Symbols { .. }
            | Self::NoProcess { .. }
            | Self::NoGroup { .. }
            | Self::SeveralContainers { .. }
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
                "something else uses the counters: end other profilers, free the watchdog's counter \
                 with `sysctl kernel.nmi_watchdog=0`, or profile with `--events clock`",
            ),
            Self::PartOfMachine { .. } => Some(
                "record with `perf record -a -g`, and name the server when you read the file: \
                 --perf FILE --pid PID",
            ),
            Self::Window { .. } => Some(
                "take both snapshots in the recorded command: `perf record -a -g --namespaces -- sh -c 'ip -s -j \
                 link > before.json; sleep 10; ip -s -j link > after.json'`, or give --packets N",
            ),
            Self::RecordedKernel { .. } => Some(
                "copy /proc/kallsyms of the recorded machine, read as root in the same boot, or run \
                      `perf script` there and read its text in place of the recording",
            ),
            Self::NoGroup { .. } => {
                Some("`cat /proc/PID/cgroup` prints the control group of a process")
            }
            Self::SeveralContainers { .. } => Some("write more letters of the identifier"),
            Self::OptionFile { .. } => Some("check the file's name and its permissions"),
            Self::Symbols { .. } => {
                Some("run `cat /proc/kallsyms > FILE` on the recorded machine, as root")
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

    /// Returns a function for `map_err`. It makes the error that the file of an option cannot be
    /// read.
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
