//! Puts cases to a real router and has the oracle judge what it does.
//!
//! Each interface of the router is named together with that of the host on its other end. Addresses,
//! networks and sizes are asked of the kernel, so that the model is of the router as it is. Frames go
//! in from one host; what comes out is watched at all of them.
//!
//! A router that limits its messages about trouble, as Linux does by default, leaves some out: let it
//! send all (`net.ipv4.icmp_ratemask=0`).

use std::io;
use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use perpacket_linux::interface::{self, Hardware};
use perpacket_linux::packet::{BATCH, PacketSocket};
use serde::Serialize;

use crate::checksum::checksum;
use crate::error::RouterError;
use crate::frame::{
    CHECK_SEQUENCE_BYTES, ETHERNET_BYTES, ICMP, IPV4_BYTES, Packet, UDP_BYTES, UdpFrame, word,
};
use crate::model::{Interface, Martians, Neighbour, Prefix, Router, Verdict};
use crate::oracle::{Seen, judge};

/// An interface of the router and that of the host on its other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The router's.
    pub router: interface::Interface,
    /// The host's.
    pub host: interface::Interface,
}

/// Longest wait for the one frame that must come.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Time a router is watched that must do nothing, or send an unknown number of pieces.
const WATCHED: Duration = Duration::from_millis(60);

/// An address of TEST-NET-1 (RFC 5737), to which nobody has a route.
const NOWHERE: [u8; 4] = [192, 0, 2, 1];

/// What a case was and how the router did.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// What is asked of the router.
    pub case: String,
    /// Number of the port the frame went in by.
    pub ingress: usize,
    /// What must happen.
    pub expected: String,
    /// Frames that came out.
    pub frames: usize,
    /// What was wrong; none if all was well.
    pub breach: Option<String>,
}

/// A real router with what is known of it.
pub struct Probe {
    model: Router,
    hosts: Vec<(PacketSocket, Hardware)>,
    identification: u16,
}

/// A case: what it asks, and the frame.
struct Case {
    name: String,
    frame: Vec<u8>,
}

/// What a case asks, before it is a frame.
#[derive(Clone)]
struct Ask {
    name: String,
    source: Ipv4Addr,
    target: Ipv4Addr,
    ttl: u8,
    dont_fragment: bool,
    /// Bytes of the UDP payload.
    bytes: usize,
    /// What is done to the finished frame.
    change: fn(&mut [u8]),
}

impl Ask {
    fn named(&self, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..self.clone()
        }
    }

    fn with_ttl(self, ttl: u8) -> Self {
        Self { ttl, ..self }
    }

    fn with_bytes(self, bytes: usize, dont_fragment: bool) -> Self {
        Self {
            bytes,
            dont_fragment,
            ..self
        }
    }

    fn from(self, source: impl Into<Ipv4Addr>) -> Self {
        Self {
            source: source.into(),
            ..self
        }
    }

    fn to(self, target: impl Into<Ipv4Addr>) -> Self {
        Self {
            target: target.into(),
            ..self
        }
    }

    fn changed(self, change: fn(&mut [u8])) -> Self {
        Self { change, ..self }
    }
}

/// Packets to forward, and those that have made their hops.
fn sizes_and_hops(ordinary: &Ask, longest: usize, egress: usize) -> Vec<Ask> {
    let next = format!("to port {egress}");
    let long = ordinary.named(format!("longest frame {next}"));
    vec![
        ordinary.named(format!("shortest frame {next}")),
        long.clone().with_bytes(longest, true),
        long.named(format!("longest frame {next}, may be cut"))
            .with_bytes(longest, false),
        ordinary.named("two hops left").with_ttl(2),
        ordinary.named("255 hops left").with_ttl(255),
        ordinary.named("one hop left").with_ttl(1),
        ordinary.named("no hop left").with_ttl(0),
    ]
}

/// Addresses without a route, of more than one host, and of none.
fn addresses(ordinary: &Ask, everybody: Ipv4Addr) -> Vec<Ask> {
    let mut asks = vec![
        ordinary.named("to nowhere").to(NOWHERE),
        ordinary.named("to all of the next network").to(everybody),
        ordinary.named("to everybody").to(Ipv4Addr::BROADCAST),
    ];
    for source in [
        [0, 0, 0, 0],
        [0, 0, 0, 1],
        [127, 0, 0, 1],
        [224, 0, 0, 1],
        [240, 0, 0, 1],
        [255, 255, 255, 255],
    ] {
        let name = format!("from {}", Ipv4Addr::from(source));
        asks.push(ordinary.named(name).from(source));
    }
    for target in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 5]] {
        let name = format!("to {}", Ipv4Addr::from(target));
        asks.push(ordinary.named(name).to(target));
    }
    asks
}

/// Frames that are damaged, or not for the router.
fn damages(ordinary: &Ask) -> Vec<Ask> {
    vec![
        ordinary
            .named("wrong header checksum")
            .changed(|frame| frame[ETHERNET_BYTES + 10] ^= 1),
        ordinary.named("another version").changed(|frame| {
            frame[ETHERNET_BYTES] = 0x55;
            repair(frame);
        }),
        ordinary.named("longer than its frame").changed(|frame| {
            frame[ETHERNET_BYTES + 2] = 5;
            repair(frame);
        }),
        ordinary
            .named("frame for another host")
            .changed(|frame| frame[5] ^= 0x55),
        ordinary
            .named("frame for everybody")
            .changed(|frame| frame[..6].fill(0xff)),
    ]
}

impl Probe {
    /// Learns the router and opens the hosts' interfaces.
    ///
    /// # Errors
    /// An interface cannot be used, or has no address.
    pub fn open(ports: &[Port]) -> Result<Self, RouterError> {
        let mut model = Router {
            martians: Martians::Linux,
            ..Router::default()
        };
        let mut hosts = Vec::new();
        for port in ports {
            let ours = port.router.hardware()?;
            let (socket, theirs) = PacketSocket::open(&port.host, true)?;
            model.interfaces.push(Interface {
                mac: ours.mac,
                network: Prefix {
                    address: address_of(&port.router, &ours)?,
                    bits: ours.network_bits,
                },
                mtu_bytes: ours.mtu_bytes,
            });
            model.neighbours.push(Neighbour {
                address: address_of(&port.host, &theirs)?,
                mac: theirs.mac,
            });
            hosts.push((socket, theirs));
        }
        Ok(Self {
            model,
            hosts,
            identification: 0,
        })
    }

    /// Puts all cases to the router, from each port to the next.
    ///
    /// # Errors
    /// Frames cannot be sent or received.
    pub fn run(
        &mut self,
        mut may_continue: impl FnMut() -> bool,
    ) -> Result<Vec<Judged>, RouterError> {
        let mut judged = Vec::new();
        for ingress in 0..self.hosts.len() {
            for case in self.cases(ingress) {
                if !may_continue() {
                    return Ok(judged);
                }
                judged.push(self.put(ingress, &case)?);
            }
        }
        Ok(judged)
    }

    /// The cases for frames that go in by a port and are for the host at the next one.
    fn cases(&mut self, ingress: usize) -> Vec<Case> {
        let egress = (ingress + 1) % self.hosts.len();
        let network = self.model.interfaces[egress].network;
        let host_bits = u32::MAX.checked_shr(u32::from(network.bits)).unwrap_or(0);
        let ordinary = Ask {
            name: String::new(),
            source: self.model.neighbours[ingress].address,
            target: self.model.neighbours[egress].address,
            ttl: 64,
            dont_fragment: true,
            bytes: 64 - CHECK_SEQUENCE_BYTES - ETHERNET_BYTES - IPV4_BYTES - UDP_BYTES,
            change: |_| (),
        };
        let longest = self.hosts[ingress].1.mtu_bytes.min(1500) - IPV4_BYTES - UDP_BYTES;
        let everybody = Ipv4Addr::from_bits(network.address.to_bits() | host_bits);
        let asks = [
            sizes_and_hops(&ordinary, longest, egress),
            addresses(&ordinary, everybody),
            damages(&ordinary),
        ];
        let made = asks
            .iter()
            .flatten()
            .filter_map(|ask| self.case(ingress, ask));
        made.collect()
    }

    /// A case, with a number of its own to know its frames by.
    fn case(&mut self, ingress: usize, ask: &Ask) -> Option<Case> {
        self.identification = self.identification.wrapping_add(1).max(1);
        let mut frame = UdpFrame {
            source_mac: self.hosts[ingress].1.mac,
            target_mac: self.model.interfaces[ingress].mac,
            source: ask.source,
            target: ask.target,
            source_port: 40_000,
            target_port: 9,
            ttl: ask.ttl,
            identification: self.identification,
            dont_fragment: ask.dont_fragment,
        }
        .build(&vec![0xa5; ask.bytes])?;
        (ask.change)(&mut frame);
        Some(Case {
            name: ask.name.clone(),
            frame,
        })
    }

    fn put(&self, ingress: usize, case: &Case) -> Result<Judged, RouterError> {
        self.watch(&case.frame)?;
        let sent = self.hosts[ingress]
            .0
            .send(std::slice::from_ref(&case.frame))
            .map_err(|source| RouterError::Traffic {
                what: "send a frame",
                source,
            })?;
        let expected = self.model.decide(ingress, &case.frame);
        let begin = Instant::now();
        let mut seen = Vec::new();
        let (enough, limit) = match expected {
            Verdict::Forward { .. } | Verdict::Answer(_) => (1, LONGEST_WAIT),
            _ => (usize::MAX, WATCHED),
        };
        while sent == 1 && seen.len() < enough && begin.elapsed() < limit {
            thread::sleep(Duration::from_millis(1));
            seen.extend(self.watch(&case.frame)?);
        }
        let breach = judge(&self.model, ingress, &case.frame, &seen).err();
        Ok(Judged {
            case: case.name.clone(),
            ingress,
            expected: format!("{expected:?}"),
            frames: seen.len(),
            breach: breach.map(|breach| breach.to_string()),
        })
    }

    /// What came to the hosts that has to do with a frame.
    fn watch(&self, sent: &[u8]) -> Result<Vec<Seen>, RouterError> {
        let mut buffers = vec![vec![0; 1 << 16]; BATCH];
        let mut lengths = vec![0; BATCH];
        let mut seen = Vec::new();
        for (egress, (socket, _)) in self.hosts.iter().enumerate() {
            loop {
                let count = match socket.receive(&mut buffers, &mut lengths) {
                    Ok(count) => count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(source) => {
                        return Err(RouterError::Traffic {
                            what: "receive frames",
                            source,
                        });
                    }
                };
                for (buffer, &length) in buffers.iter().zip(&lengths[..count]) {
                    let frame = &buffer[..length.min(buffer.len())];
                    if concerns(frame, sent) && !self.is_hosts_own(frame) {
                        seen.push(Seen {
                            egress,
                            frame: frame.to_vec(),
                        });
                    }
                }
            }
        }
        Ok(seen)
    }
}

impl Probe {
    /// Whether a frame is a message from one of the hosts, which have opinions on what they get.
    fn is_hosts_own(&self, frame: &[u8]) -> bool {
        Packet::parse(frame).is_ok_and(|packet| {
            let source = packet.source();
            let is_host = |neighbour: &Neighbour| neighbour.address == source;
            packet.protocol() == ICMP && self.model.neighbours.iter().any(is_host)
        })
    }
}

/// Whether a frame is one that was sent, a piece of it, or a message about it: it has its number and
/// protocol, or quotes them.
fn concerns(frame: &[u8], sent: &[u8]) -> bool {
    let of = |packet: &[u8]| (packet.len() >= IPV4_BYTES).then(|| (word(packet, 4), packet[9]));
    let wanted = of(&sent[ETHERNET_BYTES..]);
    let own = frame.get(ETHERNET_BYTES..).and_then(of);
    let quoted = Packet::parse(frame)
        .ok()
        .and_then(|packet| packet.payload().get(8..).and_then(of));
    own == wanted || quoted == wanted
}

/// Puts the right checksum on a header that was changed.
fn repair(frame: &mut [u8]) {
    frame[ETHERNET_BYTES + 10..ETHERNET_BYTES + 12].fill(0);
    let sum = checksum(&frame[ETHERNET_BYTES..ETHERNET_BYTES + IPV4_BYTES]);
    frame[ETHERNET_BYTES + 10..ETHERNET_BYTES + 12].copy_from_slice(&sum.to_be_bytes());
}

fn address_of(
    interface: &interface::Interface,
    hardware: &Hardware,
) -> Result<Ipv4Addr, RouterError> {
    hardware.address.ok_or_else(|| RouterError::Setting {
        name: "port",
        value: interface.to_string(),
        expected: "an interface with an IPv4 address",
    })
}
