//! The eight categories of the study of host network stack overheads at SIGCOMM 2021 (Cai,
//! Chaudhary, Vuppalapati, Hwang and Agarwal, table 1), computed from layer and kind.
//!
//! The study assigns each function to a category. Here the call chain determines the layer, the
//! leaf function determines the kind, and both together determine the category. Functions of a
//! network layer that no rule matches mostly build and split socket buffers, so their category is
//! `skb`.

use crate::event::Kind;
use crate::layer::Layer;
use crate::named;

named! {
    /// One of the study's eight categories.
    pub enum HostStack {
        /// Copies between user and kernel space, in both directions.
        DataCopy = "data_copy",
        /// TCP, UDP and IP processing, checksums included.
        TcpIp = "tcp_ip",
        /// NAPI, segmentation and receive offload, queueing disciplines, drivers.
        Netdevice = "netdevice",
        /// Building, splitting and releasing socket buffers.
        Skb = "skb",
        /// Allocation and release of memory.
        Memory = "memory",
        /// Locks and unlocks.
        Lock = "lock",
        /// Context switches and wakeups.
        Scheduling = "scheduling",
        /// Everything else, such as interrupts, system calls and user code.
        Other = "other",
    }
}

impl HostStack {
    /// The category of a kind of work in a layer.
    pub const fn of(layer: Layer, kind: Kind) -> Self {
        match (layer, kind) {
            (Layer::User | Layer::Idle, _) => Self::Other,
            (Layer::Scheduler, _) | (_, Kind::Wakeup) => Self::Scheduling,
            (_, Kind::Copy) => Self::DataCopy,
            (_, Kind::Allocation) => Self::Memory,
            (_, Kind::Lock) => Self::Lock,
            (
                Layer::Socket
                | Layer::Tcp
                | Layer::Udp
                | Layer::Ip
                | Layer::Ethernet
                | Layer::Driver,
                Kind::Other,
            ) => Self::Skb,
            (Layer::Tcp | Layer::Udp | Layer::Ip | Layer::Bypass, _) => Self::TcpIp,
            (Layer::Ethernet | Layer::Driver, _) => Self::Netdevice,
            (Layer::Syscall | Layer::Socket | Layer::Interrupt | Layer::Other, _) => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_in_tcp_is_data_copy_and_a_checksum_is_tcp_processing() {
        assert_eq!(HostStack::of(Layer::Tcp, Kind::Copy), HostStack::DataCopy);
        assert_eq!(HostStack::of(Layer::Tcp, Kind::Checksum), HostStack::TcpIp);
        assert_eq!(
            HostStack::of(Layer::Ethernet, Kind::Protocol),
            HostStack::Netdevice
        );
    }
}
