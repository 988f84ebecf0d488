//! What a profile is taken of and how.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::ProfileError;

/// Samples a second and processor unless told otherwise. Prime, so that it keeps no step with the
/// kernel's ticks or a load that repeats. Low, because in a virtual machine a timer's interrupt can
/// cost more than 100 us: there 499 a second left 0.94 of the throughput, and 97 a second 1.00
/// (`benches/profiler_overhead.py`, whose README has the intervals).
pub const DEFAULT_FREQUENCY_HZ: u32 = 97;

/// Fastest sampling: beyond it the samples are the load.
const FREQUENCY_LIMIT_HZ: u32 = 20_000;

/// How long a profile takes unless told otherwise.
pub const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// Longest window, a day.
const DURATION_LIMIT: Duration = Duration::from_secs(86_400);

/// Which events are sampled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Events {
    /// Counters where they open, else the clock.
    #[default]
    Best,
    /// Processor time alone.
    Clock,
    /// Counters, or an error.
    Counters,
    /// The kernel's own accounts, which need no right and know no layers.
    Accounts,
    /// A set of the user's own.
    File(PathBuf),
}

/// What a profile is taken of and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long; none means until the command ends or somebody stops it.
    pub duration: Option<Duration>,
    /// Processors as a list such as `0-3,8`; none means all that run.
    pub cpus: Option<Vec<usize>>,
    /// The server: its network namespace is counted in, its user code told from others'.
    pub pid: Option<u32>,
    /// A command whose life is the window.
    pub command: Vec<String>,
    /// Samples a second and processor.
    pub frequency_hz: u32,
    /// Where the number of answered requests is asked for.
    pub requests: Option<String>,
    /// Rules that go before the compiled-in ones.
    pub rules: Option<PathBuf>,
    /// Which events are sampled.
    pub events: Events,
    /// Where the kernel's symbols are read.
    pub kallsyms: PathBuf,
    /// The measuring process, whose work is kept apart; none where it is itself the subject.
    pub own_pid: Option<u32>,
    /// Whether user code is kept by instruction, to be named in folded stacks.
    pub keeps_offsets: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            duration: Some(DEFAULT_DURATION),
            cpus: None,
            pid: None,
            command: Vec::new(),
            frequency_hz: DEFAULT_FREQUENCY_HZ,
            requests: None,
            rules: None,
            events: Events::Best,
            kallsyms: PathBuf::from("/proc/kallsyms"),
            own_pid: Some(std::process::id()),
            keeps_offsets: false,
        }
    }
}

/// The length of a profile or of a window, if it is in range.
///
/// # Errors
/// It is zero or longer than a day.
pub fn checked_duration(option: &'static str, length: Duration) -> Result<Duration, ProfileError> {
    if !length.is_zero() && length <= DURATION_LIMIT {
        return Ok(length);
    }
    Err(ProfileError::Option {
        option,
        value: format!("{} s", length.as_secs_f64()),
        expected: "more than 0 and at most 24 h",
    })
}

impl Settings {
    /// Whether the numbers are in range and the process is there.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), ProfileError> {
        if self.frequency_hz == 0 || self.frequency_hz > FREQUENCY_LIMIT_HZ {
            return Err(ProfileError::Option {
                option: "frequency",
                value: self.frequency_hz.to_string(),
                expected: "1 to 20000 samples a second",
            });
        }
        match self.pid {
            Some(pid) if !std::path::Path::new(&format!("/proc/{pid}")).exists() => {
                Err(ProfileError::NoProcess { pid })
            }
            _ => Ok(()),
        }
    }
}
