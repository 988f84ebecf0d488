//! Everything that can go wrong in a microbenchmark.

use std::io;

use thiserror::Error;

/// Why a microbenchmark could not run.
#[derive(Debug, Error)]
pub enum BenchError {
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
    /// The kernel gave no memory.
    #[error("cannot get {bytes} bytes of memory: {source}")]
    Memory {
        /// How much was asked for.
        bytes: usize,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The thread could not be kept on a processor.
    #[error("cannot run on processor {cpu}: {source}")]
    Pin {
        /// Number of the processor.
        cpu: usize,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A member of the ring could not be started.
    #[error("cannot start member {member} of the ring of {members}: {source}")]
    Member {
        /// Its number in the ring, from 1.
        member: usize,
        /// Members of the ring.
        members: usize,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The token did not come back.
    #[error("the ring of {members} lost its token: a member ended early")]
    Lost {
        /// Members of the ring.
        members: usize,
    },
}

impl BenchError {
    /// The error of a kernel that has no memory left.
    pub(crate) fn memory(bytes: usize) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Memory { bytes, source }
    }

    /// Whether another machine or another user might do it, so that the demand was right.
    #[must_use]
    pub fn is_lack_of_machine(&self) -> bool {
        matches!(
            self,
            Self::Memory { .. } | Self::Pin { .. } | Self::Member { .. }
        )
    }
}
