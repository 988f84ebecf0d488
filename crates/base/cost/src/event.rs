//! Events that are counted, and the kind of work that caused them.

use std::fmt;
use std::ops::{Index, IndexMut};

use crate::layer::Layer;

/// An event that is counted for a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum EventKind {
    Cycles,
    Instructions,
    L1iMisses,
    L1dMisses,
    L2Misses,
    LlcMisses,
    ItlbMisses,
    DtlbMisses,
    BranchMisses,
    CpuNs,
}

impl EventKind {
    /// Every event.
    pub const ALL: [Self; 10] = [
        Self::Cycles,
        Self::Instructions,
        Self::L1iMisses,
        Self::L1dMisses,
        Self::L2Misses,
        Self::LlcMisses,
        Self::ItlbMisses,
        Self::DtlbMisses,
        Self::BranchMisses,
        Self::CpuNs,
    ];

    /// The name in files, tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cycles => "cycles",
            Self::Instructions => "instructions",
            Self::L1iMisses => "l1i_misses",
            Self::L1dMisses => "l1d_misses",
            Self::L2Misses => "l2_misses",
            Self::LlcMisses => "llc_misses",
            Self::ItlbMisses => "itlb_misses",
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

/// The kind of work of code in any layer. The leaf function determines the kind, and the call chain
/// determines the layer.
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

    /// The name in files, tables and JSON.
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

impl Kind {
    /// The kind with this name, if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The kind of a layer's code that no rule matches. In a network layer, it is the protocol's
    /// own work.
    #[must_use]
    pub const fn default_in(layer: Layer) -> Self {
        match layer {
            Layer::Socket
            | Layer::Tcp
            | Layer::Udp
            | Layer::Ip
            | Layer::Ethernet
            | Layer::Driver
            | Layer::Bypass => Self::Protocol,
            _ => Self::Other,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl EventKind {
    /// The event with this name, if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.name() == name)
    }
}

/// One value for each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerKind<T>([T; Kind::ALL.len()]);

impl<T> PerKind<T> {
    /// The kinds with their values.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, &T)> {
        Kind::ALL.into_iter().zip(self.0.iter())
    }
}

impl<T> Index<Kind> for PerKind<T> {
    type Output = T;

    fn index(&self, kind: Kind) -> &T {
        &self.0[kind as usize]
    }
}

impl<T> IndexMut<Kind> for PerKind<T> {
    fn index_mut(&mut self, kind: Kind) -> &mut T {
        &mut self.0[kind as usize]
    }
}
