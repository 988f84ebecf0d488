//! The reasons why a microbenchmark fails.

use std::io;

use thiserror::Error;

/// The reason why a microbenchmark fails.
#[derive(Debug, Error)]
pub enum BenchError {
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
    /// The kernel has not enough memory.
    #[error("cannot map {bytes} bytes of memory: {source}")]
    Memory {
        /// The size of the request.
        bytes: usize,
        /// The kernel's error.
        source: io::Error,
    },
    /// The thread cannot be bound to a CPU.
    #[error("cannot run on CPU {cpu}: {source}")]
    Pin {
        /// The CPU.
        cpu: usize,
        /// The kernel's error.
        source: io::Error,
    },
    /// A member of the ring cannot be started.
    #[error("cannot start member {member} of the ring of {members}: {source}")]
    Member {
        /// Number of the member in the ring, from 1.
        member: usize,
        /// Members of the ring.
        members: usize,
        /// The kernel's error.
        source: io::Error,
    },
    /// The token did not return to member 0.
    #[error("the ring of {members} lost its token: a member ended early")]
    Lost {
        /// Members of the ring.
        members: usize,
    },
}

impl BenchError {
    /// Makes the error of a failed mapping of `bytes`, for `map_err`.
    pub(crate) fn memory(bytes: usize) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Memory { bytes, source }
    }
}
