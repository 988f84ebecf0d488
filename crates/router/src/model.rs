//! A model router: what RFC 1812 asks of a router with static routes, with no clock and no queue.
//!
//! It says what must become of a frame, and makes the frame that a router would send on. The oracle
//! holds real routers against it. Where Linux and the RFC leave a choice, the choice of Linux is
//! taken and named.

use std::net::Ipv4Addr;

use crate::checksum::updated;
use crate::frame::{ETHERNET_BYTES, ICMP, Mac, Malformed, Packet, set_word, word};

/// A block of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Its first address, or any in it.
    pub address: Ipv4Addr,
    /// Bits that all addresses share, up to 32.
    pub bits: u8,
}

impl Prefix {
    /// Whether an address is in it.
    #[must_use]
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        (self.address.to_bits() ^ address.to_bits()) & self.mask() == 0
    }

    /// Whether an address is the last of it, to which all its hosts listen.
    #[must_use]
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
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its address, and the network that hangs on it.
    pub network: Prefix,
    /// Bytes of the largest packet it sends, Ethernet header not counted.
    pub mtu_bytes: usize,
}

/// A route to a network behind another router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where it leads.
    pub to: Prefix,
    /// The next router.
    pub via: Ipv4Addr,
}

/// A neighbour whose Ethernet address is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its address.
    pub address: Ipv4Addr,
    /// Its Ethernet address.
    pub mac: Mac,
}

/// Which addresses may not be on a wire. RFC 1812, section 5.3.7 says what a router SHOULD NOT
/// forward; Linux takes two of its blocks for ordinary addresses, so that they can be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Martians {
    /// All that the RFC names: this network (0/8), loopback, groups as sources, the reserved class
    /// (240/4).
    #[default]
    Rfc1812,
    /// As Linux: of 0/8 only 0.0.0.0 (since 5.3), and of 240/4 only 255.255.255.255 (since 2.6.25).
    Linux,
}

impl Martians {
    /// Whether neither source nor target may be in the block of an address, groups left out.
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
    /// Interfaces, by their place here.
    pub interfaces: Vec<Interface>,
    /// Routes beyond the networks that hang on interfaces.
    pub routes: Vec<Route>,
    /// Neighbours.
    pub neighbours: Vec<Neighbour>,
    /// Addresses it takes for impossible.
    pub martians: Martians,
}

/// Why a frame goes nowhere and nobody is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// Not a packet to forward.
    Malformed(Malformed),
    /// The frame is for another, or for everybody (RFC 1812, section 5.3.4).
    NotForRouter,
    /// An address that may not be on a wire (RFC 1812, section 5.3.7).
    Martian,
    /// A broadcast or a group, which stays in its network (RFC 1812, section 5.3.5; RFC 2644).
    Broadcast,
    /// What would deserve an answer may not have one (RFC 1812, section 4.3.2.7).
    NoAnswer,
    /// The next hop's Ethernet address is unknown; who asks for it is not modelled.
    NoNeighbour,
}

/// What tells a sender of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Type 11, code 0: it made all hops it may.
    TimeExceeded,
    /// Type 3, code 0: no route.
    NetworkUnreachable,
    /// Type 3, code 4: too long for the next network, and not to be cut.
    FragmentationNeeded {
        /// What fits, in bytes (RFC 1191).
        mtu_bytes: usize,
    },
}

impl Trouble {
    /// Type and code of the ICMP message.
    #[must_use]
    pub const fn type_and_code(self) -> (u8, u8) {
        match self {
            Self::TimeExceeded => (11, 0),
            Self::NetworkUnreachable => (3, 0),
            Self::FragmentationNeeded { .. } => (3, 4),
        }
    }
}

/// What must become of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Sent on.
    Forward {
        /// The interface it leaves by.
        egress: usize,
        /// Whom the frame is for.
        next_mac: Mac,
    },
    /// Sent on in pieces.
    Fragment {
        /// The interface they leave by.
        egress: usize,
        /// Whom the frames are for.
        next_mac: Mac,
    },
    /// Not sent on, and the sender is told.
    Answer(Trouble),
    /// For the router itself.
    Deliver,
    /// Nothing happens.
    Nothing(Silence),
}

impl Router {
    /// What must become of a frame that comes in by an interface.
    ///
    /// The order is that of Linux: addresses and route (`ip_route_input_slow`), then hops and size
    /// (`ip_forward`).
    #[must_use]
    pub fn decide(&self, ingress: usize, frame: &[u8]) -> Verdict {
        let packet = match Packet::parse(frame) {
            Ok(packet) => packet,
            Err(slip) => return Verdict::Nothing(Silence::Malformed(slip)),
        };
        let ours = self.interfaces.get(ingress).map(|interface| interface.mac);
        if ours != Some(packet.target_mac()) {
            return Verdict::Nothing(Silence::NotForRouter);
        }
        if self.is_martian_source(packet.source()) || self.martians.include(packet.target()) {
            return Verdict::Nothing(Silence::Martian);
        }
        let target = packet.target();
        if self
            .interfaces
            .iter()
            .any(|interface| interface.network.address == target)
        {
            return Verdict::Deliver;
        }
        // Without a routing protocol for groups they stay in their network, as broadcasts do.
        if target.is_broadcast()
            || target.is_multicast()
            || self
                .interfaces
                .iter()
                .any(|interface| interface.network.is_broadcast(target))
        {
            return Verdict::Nothing(Silence::Broadcast);
        }
        let Some((egress, next)) = self.next_hop(target) else {
            return self.answer(packet, Trouble::NetworkUnreachable);
        };
        if packet.ttl() <= 1 {
            return self.answer(packet, Trouble::TimeExceeded);
        }
        let mtu_bytes = self.interfaces[egress].mtu_bytes;
        let fits = packet.bytes().len() <= mtu_bytes;
        if !fits && packet.dont_fragment() {
            return self.answer(packet, Trouble::FragmentationNeeded { mtu_bytes });
        }
        match self.neighbour(next) {
            Some(next_mac) if fits => Verdict::Forward { egress, next_mac },
            Some(next_mac) => Verdict::Fragment { egress, next_mac },
            None => Verdict::Nothing(Silence::NoNeighbour),
        }
    }

    /// The frame a router sends on in the place of `frame`, if it does so in one piece.
    #[must_use]
    pub fn forwarded(&self, ingress: usize, frame: &[u8]) -> Option<(usize, Vec<u8>)> {
        let Verdict::Forward { egress, next_mac } = self.decide(ingress, frame) else {
            return None;
        };
        let mut sent =
            frame[..ETHERNET_BYTES + usize::from(word(frame, ETHERNET_BYTES + 2))].to_vec();
        sent[..6].copy_from_slice(&next_mac);
        sent[6..12].copy_from_slice(&self.interfaces[egress].mac);
        let hops = ETHERNET_BYTES + 8;
        let sum = ETHERNET_BYTES + 10;
        let before = word(&sent, hops);
        sent[hops] -= 1;
        let after = word(&sent, hops);
        let updated = updated(word(&sent, sum), before, after);
        set_word(&mut sent, sum, updated);
        Some((egress, sent))
    }

    /// An answer, unless the packet may have none.
    fn answer(&self, packet: Packet<'_>, trouble: Trouble) -> Verdict {
        let is_error = packet.protocol() == ICMP
            && packet
                .payload()
                .first()
                // Echo, router discovery, timestamps, information and masks are questions.
                .is_none_or(|kind| !matches!(kind, 0 | 8 | 9 | 10 | 13..=18));
        let told = packet.source();
        let reachable = self.next_hop(told).is_some();
        if is_error || packet.fragment_offset_bytes() > 0 || told.is_unspecified() || !reachable {
            return Verdict::Nothing(Silence::NoAnswer);
        }
        Verdict::Answer(trouble)
    }

    /// The interface and the neighbour that lead to an address: the longest prefix wins, and a
    /// network that hangs on an interface wins over a route of the same length.
    #[must_use]
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

    /// A source that no host on a wire may have: an impossible one, a group, everybody, and the
    /// router's own addresses.
    fn is_martian_source(&self, address: Ipv4Addr) -> bool {
        let broadcast_of = |interface: &Interface| interface.network.is_broadcast(address);
        self.martians.include(address)
            || address.is_multicast()
            || address.is_broadcast()
            || self
                .interfaces
                .iter()
                .any(|interface| interface.network.address == address || broadcast_of(interface))
    }
}
