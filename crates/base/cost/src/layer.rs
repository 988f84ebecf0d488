//! The place in the stack where a cost arises, and the mapping to the seven regions of TR05-450.

use crate::named;

named! {
    /// The place in the stack where code runs.
    ///
    /// `Bypass` exists only on hosts that offload connections to their NIC: it is the thin layer under
    /// the sockets that forwards their operations to the NIC (Kim and Rixner, OSDI 2006, section 2).
    #[derive(enum_map::Enum)]
    pub enum Layer {
        User = "user",
        Syscall = "syscall",
        Socket = "socket",
        Tcp = "tcp",
        Udp = "udp",
        Ip = "ip",
        Ethernet = "ethernet",
        Driver = "driver",
        Bypass = "bypass",
        Interrupt = "interrupt",
        Scheduler = "scheduler",
        Idle = "idle",
        Other = "other",
    }
}

impl Layer {
    /// The region of TR05-450, section 3, that contains this layer.
    pub const fn region(self) -> Region {
        match self {
            Self::User => Region::User,
            Self::Syscall | Self::Socket => Region::SystemCall,
            Self::Tcp => Region::Tcp,
            Self::Ip => Region::Ip,
            Self::Ethernet => Region::Ethernet,
            Self::Driver | Self::Bypass => Region::Driver,
            Self::Udp | Self::Interrupt | Self::Scheduler | Self::Idle | Self::Other => {
                Region::Other
            }
        }
    }

    /// Whether the layer is in the network stack below the system calls. The handoff of a
    /// connection to the NIC can save this part (OSDI 2006, section 5.1: 57 % of the baseline's
    /// host cycles).
    pub const fn is_below_system_calls(self) -> bool {
        matches!(
            self,
            Self::Tcp | Self::Udp | Self::Ip | Self::Ethernet | Self::Driver | Self::Bypass
        )
    }
}

named! {
    /// The seven regions of TR05-450's tables.
    pub enum Region {
        User = "user",
        SystemCall = "system_call",
        Tcp = "tcp",
        Ip = "ip",
        Ethernet = "ethernet",
        Driver = "driver",
        Other = "other",
    }
}

/// One value for each layer.
pub type PerLayer<T> = enum_map::EnumMap<Layer, T>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layer_is_found_by_its_name() {
        for layer in Layer::ALL {
            assert_eq!(Layer::from_name(layer.name()), Some(layer));
        }
        assert_eq!(Layer::from_name("TCP"), None);
    }

    #[test]
    fn the_four_lower_regions_contain_only_layers_that_a_handoff_can_save() {
        for layer in Layer::ALL {
            let lower = matches!(
                layer.region(),
                Region::Tcp | Region::Ip | Region::Ethernet | Region::Driver
            );
            assert!(!lower || layer.is_below_system_calls(), "{layer}");
        }
    }
}
