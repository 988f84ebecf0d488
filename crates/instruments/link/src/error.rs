//! The reasons why a link cannot be set up or cannot continue.

use std::io;

use perpacket_linux::interface::InterfaceError;

/// The reason why a link cannot be set up or cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    #[error("{text}: expected an IPv4 address with its prefix length, such as 10.0.0.1/24")]
    Address { text: String },
    #[error("{setting} {value}: expected {expected}")]
    Setting {
        setting: &'static str,
        value: f64,
        expected: &'static str,
    },
    #[error("device {device}: cannot {action}: {source}")]
    Device {
        device: String,
        action: &'static str,
        source: io::Error,
    },
    #[error("CPUs {cpus:?}: {source}")]
    Cpus { cpus: Vec<usize>, source: io::Error },
    #[error("device {device} was removed while the link ran")]
    DeviceRemoved { device: String },
    #[error("cannot wait for frames: {0}")]
    Wait(io::Error),
    #[error("cannot record delay errors: {0}")]
    Histogram(#[from] hdrhistogram::CreationError),
}

impl LinkError {
    /// Whether the machine or its permissions are the cause: this process may not create devices,
    /// or the kernel has no TAP devices.
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
