//! The settings of a profile.

use std::path::PathBuf;
use std::time::Duration;

use crate::cgroup::Selector;
use crate::error::ProfileError;
use crate::spec::DEFAULT_FREQUENCY;

/// Default length of a profile.
pub const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// The events to sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Events {
    /// Counters if they can be opened, else the clock.
    #[default]
    Best,
    /// Only processor time.
    Clock,
    /// Counters, or an error.
    Counters,
    /// Misses of caches and translation buffers, and mispredicted branches. Events that the machine
    /// does not count are left out.
    Misses,
    /// The kernel's accounts, which need no permission and have no layers.
    Accounts,
    /// The events in a user's file.
    File(PathBuf),
}

/// The settings of a profile.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Length of the profile. `None` means until the command ends or the profile is stopped.
    pub duration: Option<Duration>,
    /// Processors to profile. `None` means all that are online.
    pub cpus: Option<Vec<usize>>,
    /// Process of the server. Packets are counted in its network namespace, and its user code has a
    /// separate sum.
    pub pid: Option<u32>,
    /// Other processes whose user code counts as the server's.
    pub beside: Vec<u32>,
    /// Control groups whose work is profiled. Packets are counted in the network namespace of one of
    /// their processes.
    pub selector: Option<Selector>,
    /// A command to run. The window ends when the command ends.
    pub command: Vec<String>,
    /// Number of samples a second on each processor.
    pub frequency_hz: u32,
    /// URL of the page with the number of answered requests.
    pub requests: Option<String>,
    /// File of rules that have priority over the compiled-in rules.
    pub rules: Option<PathBuf>,
    /// The events to sample.
    pub events: Events,
    /// File of the kernel's symbols.
    pub kallsyms: PathBuf,
    /// The measuring process. Its work has a separate sum. `None` if the measuring process itself
    /// is profiled.
    pub own_pid: Option<u32>,
    /// Whether offsets of user instructions are stored. Folded stacks and the parts of an
    /// application need them.
    pub keeps_offsets: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            duration: Some(DEFAULT_DURATION),
            cpus: None,
            pid: None,
            beside: Vec::new(),
            selector: None,
            command: Vec::new(),
            frequency_hz: DEFAULT_FREQUENCY.get(),
            requests: None,
            rules: None,
            events: Events::Best,
            kallsyms: PathBuf::from("/proc/kallsyms"),
            own_pid: Some(std::process::id()),
            keeps_offsets: false,
        }
    }
}

impl Settings {
    /// Checks that the process exists.
    ///
    /// # Errors
    /// There is no such process.
    pub fn check(&self) -> Result<(), ProfileError> {
        match self.pid {
            Some(pid) if !std::path::Path::new(&format!("/proc/{pid}")).exists() => {
                Err(ProfileError::NoProcess { pid })
            }
            _ => Ok(()),
        }
    }
}
