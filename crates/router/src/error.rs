//! Why a measurement of a router fails.

use std::io;

use perpacket_linux::interface::InterfaceError;
use thiserror::Error;

/// Why a measurement fails.
#[derive(Debug, Error)]
pub enum RouterError {
    /// An interface or its namespace cannot be used.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// A BPF program or map that the kernel refuses.
    #[error(transparent)]
    Bpf(#[from] perpacket_linux::bpf::BpfError),
    /// Frames cannot be sent or received.
    #[error("cannot {what}: {source}")]
    Traffic {
        /// What failed.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// A setting is out of range.
    #[error("{name} = {value}: expected {expected}")]
    Setting {
        /// The setting's name.
        name: &'static str,
        /// Its value.
        value: String,
        /// The allowed range.
        expected: &'static str,
    },
}

impl RouterError {
    /// Makes the error of an action with frames, for `map_err`.
    pub(crate) fn traffic(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Traffic { what, source }
    }
}
