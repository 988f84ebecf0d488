//! Events that are counted, and the kind of work that caused them.

use crate::layer::Layer;
use crate::named;

named! {
    /// An event that is counted for a layer.
    pub enum EventKind {
        Cycles = "cycles",
        Instructions = "instructions",
        L1iMisses = "l1i_misses",
        L1dMisses = "l1d_misses",
        L2Misses = "l2_misses",
        LlcMisses = "llc_misses",
        ItlbMisses = "itlb_misses",
        DtlbMisses = "dtlb_misses",
        BranchMisses = "branch_misses",
        CpuNs = "cpu_ns",
    }
}

named! {
    /// The kind of work of code in any layer. The leaf function determines the kind, and the call chain
    /// determines the layer.
    #[derive(enum_map::Enum)]
    pub enum Kind {
        Protocol = "protocol",
        Copy = "copy",
        Checksum = "checksum",
        Allocation = "allocation",
        Lock = "lock",
        Wakeup = "wakeup",
        Dma = "dma",
        Crypto = "crypto",
        Probe = "probe",
        Other = "other",
    }
}

impl Kind {
    /// Whether the kind names what the work is for: DMA mapping, encryption, or a program that
    /// observes. Copies and locks on its behalf count as this work.
    #[must_use]
    pub const fn is_purpose(self) -> bool {
        matches!(self, Self::Dma | Self::Crypto | Self::Probe)
    }

    /// The kind of a layer's code that no rule matches. In a network layer, it is the protocol's
    /// own work.
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

/// One value for each kind.
pub type PerKind<T> = enum_map::EnumMap<Kind, T>;
