//! The place in the stack where a cost arises, and the mapping to the seven regions of TR05-450.

use std::fmt;
use std::ops::{Index, IndexMut};

/// The place in the stack where code runs.
///
/// `Bypass` exists only on hosts that offload connections to their NIC: it is the thin layer under
/// the sockets that forwards their operations to the NIC (Kim and Rixner, OSDI 2006, section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Layer {
    User,
    Syscall,
    Socket,
    Tcp,
    Udp,
    Ip,
    Ethernet,
    Driver,
    Bypass,
    Interrupt,
    Scheduler,
    Idle,
    Other,
}

impl Layer {
    /// Every layer, from the application down.
    pub const ALL: [Self; 13] = [
        Self::User,
        Self::Syscall,
        Self::Socket,
        Self::Tcp,
        Self::Udp,
        Self::Ip,
        Self::Ethernet,
        Self::Driver,
        Self::Bypass,
        Self::Interrupt,
        Self::Scheduler,
        Self::Idle,
        Self::Other,
    ];

    /// The name in files, tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Syscall => "syscall",
            Self::Socket => "socket",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Ip => "ip",
            Self::Ethernet => "ethernet",
            Self::Driver => "driver",
            Self::Bypass => "bypass",
            Self::Interrupt => "interrupt",
            Self::Scheduler => "scheduler",
            Self::Idle => "idle",
            Self::Other => "other",
        }
    }

    /// The layer with this name, if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|layer| layer.name() == name)
    }

    /// The region of TR05-450, section 3, that contains this layer.
    #[must_use]
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
    #[must_use]
    pub const fn is_below_system_calls(self) -> bool {
        matches!(
            self,
            Self::Tcp | Self::Udp | Self::Ip | Self::Ethernet | Self::Driver | Self::Bypass
        )
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The seven regions of TR05-450's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Region {
    User,
    SystemCall,
    Tcp,
    Ip,
    Ethernet,
    Driver,
    Other,
}

impl Region {
    /// Every region, from the application down.
    pub const ALL: [Self; 7] = [
        Self::User,
        Self::SystemCall,
        Self::Tcp,
        Self::Ip,
        Self::Ethernet,
        Self::Driver,
        Self::Other,
    ];

    /// The name in files, tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::SystemCall => "system_call",
            Self::Tcp => "tcp",
            Self::Ip => "ip",
            Self::Ethernet => "ethernet",
            Self::Driver => "driver",
            Self::Other => "other",
        }
    }
}

/// One value for each layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerLayer<T>([T; Layer::ALL.len()]);

impl<T> PerLayer<T> {
    /// The layers with their values, from the application down.
    pub fn iter(&self) -> impl Iterator<Item = (Layer, &T)> {
        Layer::ALL.into_iter().zip(self.0.iter())
    }
}

impl<T> Index<Layer> for PerLayer<T> {
    type Output = T;

    fn index(&self, layer: Layer) -> &T {
        &self.0[layer as usize]
    }
}

impl<T> IndexMut<Layer> for PerLayer<T> {
    fn index_mut(&mut self, layer: Layer) -> &mut T {
        &mut self.0[layer as usize]
    }
}

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
    fn a_value_belongs_to_its_layer_alone() {
        let mut cycles = PerLayer::<u64>::default();
        cycles[Layer::Tcp] += 7;
        assert_eq!(cycles[Layer::Tcp], 7);
        assert_eq!(cycles.iter().map(|(_, value)| value).sum::<u64>(), 7);
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
