//! The reasons why a link cannot be set up or cannot continue.

use std::io;

use perpacket_linux::interface::InterfaceError;

/// The reason why a link cannot be set up or cannot continue.
#[derive(Debug, thiserror::Error)]
#[allow(
    missing_docs,
    reason = "the message of each variant explains its fields"
)]
pub enum LinkError {
    /// The namespace of an end does not exist, or the text that names it is wrong.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// The address of an end is wrong.
    #[error("{text}: expected an IPv4 address with its prefix length, such as 10.0.0.1/24")]
    Address { text: String },
    /// A setting is out of range.
    #[error("{setting} {value}: expected {expected}")]
    Setting {
        setting: &'static str,
        value: f64,
        expected: &'static str,
    },
    /// A device cannot be created or configured.
    #[error("device {device}: cannot {action}: {source}")]
    Device {
        device: String,
        action: &'static str,
        source: io::Error,
    },
    /// The thread cannot be bound to CPUs.
    #[error("CPUs {cpus:?}: {source}")]
    Cpus { cpus: Vec<usize>, source: io::Error },
    /// A device was removed while the link ran.
    #[error("device {device} was removed while the link ran")]
    DeviceRemoved { device: String },
    /// Waiting for frames failed.
    #[error("cannot wait for frames: {0}")]
    Wait(io::Error),
    /// A histogram of delay errors cannot be created.
    #[error("cannot record delay errors: {0}")]
    Histogram(#[from] hdrhistogram::CreationError),
}

impl LinkError {
    /// Whether the machine or its permissions are the cause: this process may not create devices,
    /// or the kernel has no TAP devices.
    #[must_use]
    pub fn is_lack_of_machine(&self) -> bool {
        match self {
            Self::Interface(error) => error.is_denied(),
            Self::Device { action, source, .. } => {
                *action == OPEN_TUN || source.kind() == io::ErrorKind::PermissionDenied
            }
            _ => false,
        }
    }
}

/// The action that fails in a kernel without TAP devices.
pub(crate) const OPEN_TUN: &str = "open /dev/net/tun";
