//! Everything that can go wrong around a router under test.

use std::io;

use thiserror::Error;

/// Why a measurement could not be made.
#[derive(Debug, Error)]
pub enum RouterError {
    /// A place that is written wrongly.
    #[error("{text}: expected IFNAME or NETNS:IFNAME, NETNS by name or by path")]
    Place {
        /// As it was written.
        text: String,
    },
    /// A network namespace that cannot be entered.
    #[error("network namespace {namespace}: {source}")]
    Namespace {
        /// Its name or path.
        namespace: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// An interface that cannot be used.
    #[error("interface {interface}: cannot {what}: {source}")]
    Interface {
        /// Its name.
        interface: String,
        /// What was to be done.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A BPF program or map that the kernel refuses.
    #[error(transparent)]
    Bpf(#[from] perpacket_linux::bpf::BpfError),
    /// Frames that could not be sent or received.
    #[error("cannot {what}: {source}")]
    Traffic {
        /// What was to be done.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A setting that makes no sense.
    #[error("{name} = {value}: expected {expected}")]
    Setting {
        /// Name of the setting.
        name: &'static str,
        /// What was given.
        value: String,
        /// What would do.
        expected: &'static str,
    },
}

impl RouterError {
    /// Whether another machine or another user might do it, so that the demand was right.
    #[must_use]
    pub fn is_lack_of_machine(&self) -> bool {
        match self {
            Self::Bpf(_) => true,
            Self::Interface { source, .. } | Self::Namespace { source, .. } => {
                source.kind() == io::ErrorKind::PermissionDenied
            }
            _ => false,
        }
    }
}
