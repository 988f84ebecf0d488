//! The reasons why a microbenchmark fails.

use std::io;

use thiserror::Error;

/// The reason why a microbenchmark fails.
#[derive(Debug, Error)]
pub enum BenchError {
    #[error("cannot map {bytes} bytes of memory: {source}")]
    Memory { bytes: usize, source: io::Error },
    #[error("cannot run on CPU {cpu}: {source}")]
    Pin { cpu: usize, source: io::Error },
    #[error("cannot start member {member} of the ring of {members}: {source}")]
    Member {
        member: usize,
        members: usize,
        source: io::Error,
    },
    #[error("the ring of {members} lost its token: a member ended early")]
    Lost { members: usize },
}

impl BenchError {
    /// Makes the error of a failed mapping of `bytes`, for `map_err`.
    pub(crate) fn memory(bytes: usize) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Memory { bytes, source }
    }
}
