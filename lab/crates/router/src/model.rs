//! A model of a router with static routes, after RFC 1812. It has no clock and no queue.
//!
//! It decides what a router must do with a frame, and makes the frame that a router forwards. The
//! oracle compares real routers with the model. If the RFC leaves a choice, the model behaves like
//! Linux.

use std::net::Ipv4Addr;

use crate::checksum::updated;
use crate::frame::{ETHERNET_BYTES, ICMP, Mac, Malformed, Packet, read_u16, write_u16};

/// A block of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Any address of the block, usually the first.
    pub address: Ipv4Addr,
    /// Number of leading bits that all addresses of the block have in common, up to 32.
    pub bits: u8,
}

impl Prefix {
    /// Whether the block contains an address.
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        (self.address.to_bits() ^ address.to_bits()) & self.mask() == 0
    }

    /// Whether an address is the last of the block: its broadcast address.
    pub fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        self.bits < 31 && self.contains(address) && address.to_bits() | self.mask() == u32::MAX
    }

    fn mask(&self) -> u32 {
        u32::MAX
            .checked_shl(32 - u32::from(self.bits.min(32)))
            .unwrap_or(0)
    }
}

/// An interface of the router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The Ethernet address of the interface.
    pub mac: Mac,
    /// The IPv4 address and the network of the interface.
    pub network: Prefix,
    /// Bytes of the largest packet that it sends, without the Ethernet header.
    pub mtu_bytes: usize,
}

/// A route to a network behind another router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The network.
    pub to: Prefix,
    /// The next router.
    pub via: Ipv4Addr,
}

/// A neighbour whose Ethernet address is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    pub address: Ipv4Addr,
    /// Its Ethernet address.
    pub mac: Mac,
}

/// The addresses that are invalid on a wire. RFC 1812, section 5.3.7, lists addresses that a router
/// SHOULD NOT forward. Linux treats most addresses of two of these blocks as ordinary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Martians {
    /// All addresses that the RFC lists: this network (0/8), loopback, multicast sources, the
    /// reserved class (240/4).
    #[default]
    Rfc1812,
    /// The addresses that Linux rejects. Of 0/8 it rejects only 0.0.0.0 (since 5.3), and of 240/4
    /// only 255.255.255.255 (since 2.6.25).
    Linux,
}

impl Martians {
    /// Whether an address is invalid as a source and as a target. Multicast is checked elsewhere.
    fn include(self, address: Ipv4Addr) -> bool {
        let first = address.octets()[0];
        address.is_unspecified()
            || first == 127
            || self == Self::Rfc1812 && (first == 0 || first >= 240 && !address.is_broadcast())
    }
}

/// A router: interfaces, routes, neighbours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Router {
    /// The interfaces. The ingress and the egress of a frame are indices of this list.
    pub interfaces: Vec<Interface>,
    /// Routes to networks beyond those of the interfaces.
    pub routes: Vec<Route>,
    pub neighbours: Vec<Neighbour>,
    /// Invalid addresses, which the router rejects.
    pub martians: Martians,
}

/// The reason why a router drops a frame without an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The frame has no well-formed IPv4 packet.
    Malformed(Malformed),
    /// The frame is for another host, or an Ethernet broadcast (RFC 1812, section 5.3.4).
    NotForRouter,
    /// The source or the target is invalid on a wire (RFC 1812, section 5.3.7).
    Martian,
    /// A broadcast or multicast packet, which must not leave its network (RFC 1812, section 5.3.5;
    /// RFC 2644).
    Broadcast,
    /// Forwarding failed, but no ICMP error may be sent for this packet (RFC 1812, section 4.3.2.7).
    NoErrorAllowed,
    /// The next hop's Ethernet address is unknown. The model has no ARP.
    NoNeighbour,
}

/// An ICMP error about a packet that the router cannot forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpError {
    /// Type 11, code 0: the packet has no hops left.
    TimeExceeded,
    /// Type 3, code 0: there is no route.
    NetworkUnreachable,
    /// Type 3, code 4: the packet is too long for the next network, and has the flag "don't
    /// fragment".
    FragmentationNeeded {
        /// The next network's MTU (RFC 1191).
        mtu_bytes: usize,
    },
}

impl IcmpError {
    /// Type and code of the ICMP message.
    pub const fn type_and_code(self) -> (u8, u8) {
        match self {
            Self::TimeExceeded => (11, 0),
            Self::NetworkUnreachable => (3, 0),
            Self::FragmentationNeeded { .. } => (3, 4),
        }
    }
}

/// The required action of a router for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Forward {
        /// The interface to send by.
        egress: usize,
        /// Target Ethernet address.
        next_mac: Mac,
    },
    /// Forward it in fragments.
    Fragment {
        /// The interface to send by.
        egress: usize,
        /// Target Ethernet address.
        next_mac: Mac,
    },
    /// Drop it and send an ICMP error to its source.
    SendError(IcmpError),
    /// Deliver it to the router itself.
    Deliver,
    /// Drop it silently.
    Drop(DropReason),
}

impl Router {
    /// The required action for a frame that the router receives on interface `ingress`.
    ///
    /// The checks are in the order of Linux: addresses and route (`ip_route_input_slow`), then hops
    /// and size (`ip_forward`).
    pub fn decide(&self, ingress: usize, frame: &[u8]) -> Verdict {
        let packet = match Packet::parse(frame) {
            Ok(packet) => packet,
            Err(error) => return Verdict::Drop(DropReason::Malformed(error)),
        };
        let ours = self.interfaces.get(ingress).map(|interface| interface.mac);
        if ours != Some(packet.target_mac()) {
            return Verdict::Drop(DropReason::NotForRouter);
        }
        if self.is_martian_source(packet.source()) || self.martians.include(packet.target()) {
            return Verdict::Drop(DropReason::Martian);
        }
        let target = packet.target();
        if self.owns(target) {
            return Verdict::Deliver;
        }
        // Multicast packets stay in their network, because there is no multicast routing.
        if target.is_multicast() || self.is_broadcast(target) {
            return Verdict::Drop(DropReason::Broadcast);
        }
        let Some((egress, next)) = self.next_hop(target) else {
            return self.icmp_error(packet, IcmpError::NetworkUnreachable);
        };
        if packet.ttl() <= 1 {
            return self.icmp_error(packet, IcmpError::TimeExceeded);
        }
        let mtu_bytes = self.interfaces[egress].mtu_bytes;
        let fits = packet.bytes().len() <= mtu_bytes;
        if !fits && packet.dont_fragment() {
            return self.icmp_error(packet, IcmpError::FragmentationNeeded { mtu_bytes });
        }
        match self.neighbour(next) {
            Some(next_mac) if fits => Verdict::Forward { egress, next_mac },
            Some(next_mac) => Verdict::Fragment { egress, next_mac },
            None => Verdict::Drop(DropReason::NoNeighbour),
        }
    }

    /// If the router forwards `frame` in one piece, the egress and the frame that it sends.
    pub fn forwarded(&self, ingress: usize, frame: &[u8]) -> Option<(usize, Vec<u8>)> {
        let Verdict::Forward { egress, next_mac } = self.decide(ingress, frame) else {
            return None;
        };
        let mut sent =
            frame[..ETHERNET_BYTES + usize::from(read_u16(frame, ETHERNET_BYTES + 2))].to_vec();
        sent[..6].copy_from_slice(&next_mac);
        sent[6..12].copy_from_slice(&self.interfaces[egress].mac);
        let hops = ETHERNET_BYTES + 8;
        let sum = ETHERNET_BYTES + 10;
        let before = read_u16(&sent, hops);
        sent[hops] -= 1;
        let after = read_u16(&sent, hops);
        let updated = updated(read_u16(&sent, sum), before, after);
        write_u16(&mut sent, sum, updated);
        Some((egress, sent))
    }

    /// The verdict that sends an ICMP error, or drops the packet if no error may be sent for it.
    fn icmp_error(&self, packet: Packet<'_>, error: IcmpError) -> Verdict {
        let is_error = packet.protocol() == ICMP
            && packet
                .payload()
                .first()
                // Echo, router discovery, timestamp, information and mask messages are not errors.
                .is_none_or(|kind| !matches!(kind, 0 | 8 | 9 | 10 | 13..=18));
        let source = packet.source();
        let reachable = self.next_hop(source).is_some();
        if is_error || packet.fragment_offset_bytes() > 0 || source.is_unspecified() || !reachable {
            return Verdict::Drop(DropReason::NoErrorAllowed);
        }
        Verdict::SendError(error)
    }

    /// The interface and the next hop for an address. The longest prefix has priority. If two
    /// prefixes have the same length, the network of an interface has priority over a route.
    pub fn next_hop(&self, target: Ipv4Addr) -> Option<(usize, Ipv4Addr)> {
        let direct = self
            .interfaces
            .iter()
            .enumerate()
            .filter(|(_, interface)| interface.network.contains(target))
            .max_by_key(|(_, interface)| interface.network.bits);
        let route = self
            .routes
            .iter()
            .filter(|route| route.to.contains(target))
            .max_by_key(|route| route.to.bits);
        match (direct, route) {
            (Some((egress, interface)), route)
                if route.is_none_or(|route| route.to.bits <= interface.network.bits) =>
            {
                Some((egress, target))
            }
            (_, Some(route)) => {
                let via = |interface: &Interface| interface.network.contains(route.via);
                Some((self.interfaces.iter().position(via)?, route.via))
            }
            _ => None,
        }
    }

    fn neighbour(&self, address: Ipv4Addr) -> Option<Mac> {
        self.neighbours
            .iter()
            .find(|neighbour| neighbour.address == address)
            .map(|neighbour| neighbour.mac)
    }

    /// Whether an address is invalid as a source: a martian, a multicast or broadcast address, or one
    /// of the router's own.
    fn is_martian_source(&self, address: Ipv4Addr) -> bool {
        self.martians.include(address)
            || address.is_multicast()
            || self.is_broadcast(address)
            || self.owns(address)
    }

    /// Whether an address is one of the router's own.
    pub fn owns(&self, address: Ipv4Addr) -> bool {
        let is_own = |interface: &Interface| interface.network.address == address;
        self.interfaces.iter().any(is_own)
    }

    /// Whether an address is the limited broadcast address, or the broadcast address of an
    /// interface's network.
    fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        let is_in = |interface: &Interface| interface.network.is_broadcast(address);
        address.is_broadcast() || self.interfaces.iter().any(is_in)
    }
}
