//! What is counted, and what the code that caused it was doing.

use std::fmt;

/// What is counted for a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum EventKind {
    Cycles,
    Instructions,
    L1dMisses,
    L2Misses,
    LlcMisses,
    DtlbMisses,
    BranchMisses,
    CpuNs,
}

impl EventKind {
    /// Every event.
    pub const ALL: [Self; 8] = [
        Self::Cycles,
        Self::Instructions,
        Self::L1dMisses,
        Self::L2Misses,
        Self::LlcMisses,
        Self::DtlbMisses,
        Self::BranchMisses,
        Self::CpuNs,
    ];

    /// The name used in files, tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cycles => "cycles",
            Self::Instructions => "instructions",
            Self::L1dMisses => "l1d_misses",
            Self::L2Misses => "l2_misses",
            Self::LlcMisses => "llc_misses",
            Self::DtlbMisses => "dtlb_misses",
            Self::BranchMisses => "branch_misses",
            Self::CpuNs => "cpu_ns",
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// What code was doing, whatever its layer. Known from the leaf function, where the layer is
/// known from the call chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Kind {
    Protocol,
    Copy,
    Checksum,
    Allocation,
    Lock,
    Wakeup,
    Other,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::Protocol,
        Self::Copy,
        Self::Checksum,
        Self::Allocation,
        Self::Lock,
        Self::Wakeup,
        Self::Other,
    ];

    /// The name used in files, tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Protocol => "protocol",
            Self::Copy => "copy",
            Self::Checksum => "checksum",
            Self::Allocation => "allocation",
            Self::Lock => "lock",
            Self::Wakeup => "wakeup",
            Self::Other => "other",
        }
    }
}
