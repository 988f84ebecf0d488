//! The reasons why a measurement of a router fails.

use std::io;

use perpacket_linux::interface::InterfaceError;
use thiserror::Error;

/// The reason why a measurement fails.
#[derive(Debug, Error)]
pub enum RouterError {
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    #[error(transparent)]
    Bpf(#[from] perpacket_linux::bpf::BpfError),
    #[error("cannot {what}: {source}")]
    Traffic {
        what: &'static str,
        source: io::Error,
    },
    #[error("{name} = {value}: expected {expected}")]
    Setting {
        name: &'static str,
        value: String,
        expected: &'static str,
    },
}

impl RouterError {
    /// Returns a function for `map_err`. It makes the error that sending or receiving frames
    /// failed.
    pub(crate) fn traffic(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Traffic { what, source }
    }
}
