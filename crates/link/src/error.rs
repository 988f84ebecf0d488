//! What can go wrong with a link: all of it while it is set up, or because a device went away.

use std::io;

/// A link that cannot be set up or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The place of an end is not written as it must be.
    #[error("{text}: {problem}; expected NETNS or NETNS:IFNAME, such as server or server:link0")]
    Place {
        /// What was given.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The address of an end is not written as it must be.
    #[error("{text}: expected an IPv4 address with its prefix length, such as 10.0.0.1/24")]
    Address {
        /// What was given.
        text: String,
    },
    /// A setting of a direction is out of range.
    #[error("{setting} {value}: expected {expected}")]
    Setting {
        /// Name of the setting.
        setting: &'static str,
        /// What was given.
        value: f64,
        /// What is allowed.
        expected: &'static str,
    },
    /// The network namespace is not there or cannot be entered.
    #[error("network namespace {namespace}: {source}")]
    Namespace {
        /// Name or path of the namespace.
        namespace: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The device cannot be made or configured.
    #[error("device {device} in {namespace}: cannot {action}: {source}")]
    Device {
        /// Name of the device.
        device: String,
        /// Name or path of the namespace it was to stand in.
        namespace: String,
        /// What was tried.
        action: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The thread cannot be bound to the processors asked for.
    #[error("processors {processors:?}: {source}")]
    Processors {
        /// Those asked for.
        processors: Vec<usize>,
        /// What the kernel said.
        source: io::Error,
    },
    /// A device was removed while the link ran.
    #[error("device {device}: it was removed while the link ran")]
    Gone {
        /// Name of the device.
        device: String,
    },
    /// Waiting for frames failed.
    #[error("waiting for frames: {0}")]
    Wait(io::Error),
    /// A histogram of delay errors could not be made.
    #[error("delay errors cannot be recorded: {0}")]
    Histogram(#[from] hdrhistogram::CreationError),
}

impl LinkError {
    /// Whether the machine, rather than the user, is what stands in the way: no right to make
    /// devices, or no TAP devices in this kernel.
    pub fn is_lack_of_machine(&self) -> bool {
        let (Self::Namespace { source, .. } | Self::Device { source, .. }) = self else {
            return false;
        };
        source.kind() == io::ErrorKind::PermissionDenied
            || matches!(self, Self::Device { action, .. } if *action == OPEN_ACTION)
    }
}

/// The action whose failure means that the kernel has no TAP devices.
pub(crate) const OPEN_ACTION: &str = "open /dev/net/tun";
