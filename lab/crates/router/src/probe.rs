//! Sends test cases to a real router and checks each output with the oracle.
//!
//! A port is an interface of the router and the host's interface on the other end of the link. The
//! probe reads addresses, networks and MTUs from the kernel, so that the model describes the real
//! router. One host sends a frame, and the probe receives on all hosts.
//!
//! By default, Linux limits the rate of ICMP errors, and then cases fail. Turn the limit off with
//! `net.ipv4.icmp_ratemask=0`.

use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use perpacket_linux::interface::{self, Hardware};
use perpacket_linux::packet::{PacketSocket, ReceiveBuffers};
use serde::Serialize;

use crate::checksum::checksum;
use crate::error::RouterError;
use crate::frame::{
    CHECK_SEQUENCE_BYTES, ETHERNET_BYTES, ICMP, IPV4_BYTES, Packet, UDP_BYTES, UdpFrame, read_u16,
    write_u16,
};
use crate::model::{Interface, Martians, Neighbour, Prefix, Router, Verdict};
use crate::oracle::{self, OutputFrame};

/// An interface of the router, and the host's interface on the other end of the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The router's interface.
    pub router: interface::Interface,
    /// The host's interface.
    pub host: interface::Interface,
}

/// Longest wait for an output of one frame.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// How long the probe receives if the router must send nothing, or an unknown number of fragments.
const RECEIVE_TIME: Duration = Duration::from_millis(60);

/// Length of the longest frame in bytes: a frame with the longest IPv4 packet, rounded up.
const LONGEST_FRAME_BYTES: usize = 1 << 16;

/// An address of TEST-NET-1 (RFC 5737), to which no router has a route.
const UNREACHABLE: [u8; 4] = [192, 0, 2, 1];

#[derive(Clone, Debug, Serialize)]
pub struct CaseResult {
    /// Name of the case.
    pub case: String,
    /// Index of the port that the frame was sent to.
    pub ingress: usize,
    /// The required action.
    pub expected: String,
    /// Frames that the router sent.
    pub frames: usize,
    /// The rule that the output breaks; `None` if the case passed.
    pub breach: Option<String>,
}

/// A real router, its model and the sockets of its hosts.
pub struct Probe {
    model: Router,
    hosts: Vec<(PacketSocket, Hardware)>,
    identification: u16,
}

/// A case with its frame.
struct Case {
    name: String,
    frame: Vec<u8>,
}

/// The fields of a case's frame.
#[derive(Clone)]
struct Template {
    name: String,
    source: Ipv4Addr,
    target: Ipv4Addr,
    ttl: u8,
    dont_fragment: bool,
    /// Bytes of the UDP payload.
    bytes: usize,
    /// A function that changes the finished frame.
    change: fn(&mut [u8]),
}

impl Template {
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

    fn with_change(self, change: fn(&mut [u8])) -> Self {
        Self { change, ..self }
    }
}

/// Packets of the smallest and the largest size, and packets with few and many hops left.
fn sizes_and_hops(ordinary: &Template, longest_bytes: usize, egress: usize) -> Vec<Template> {
    let next = format!("to port {egress}");
    let long = ordinary.named(format!("longest frame {next}"));
    vec![
        ordinary.named(format!("shortest frame {next}")),
        long.clone().with_bytes(longest_bytes, true),
        long.named(format!("longest frame {next}, may be fragmented"))
            .with_bytes(longest_bytes, false),
        ordinary.named("two hops left").with_ttl(2),
        ordinary.named("255 hops left").with_ttl(255),
        ordinary.named("one hop left").with_ttl(1),
        ordinary.named("no hop left").with_ttl(0),
    ]
}

/// Addresses without a route, broadcast and multicast addresses, and martians.
fn addresses(ordinary: &Template, broadcast: Ipv4Addr) -> Vec<Template> {
    let mut templates = vec![
        ordinary.named("without a route").to(UNREACHABLE),
        ordinary
            .named("broadcast of the next network")
            .to(broadcast),
        ordinary.named("limited broadcast").to(Ipv4Addr::BROADCAST),
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
        templates.push(ordinary.named(name).from(source));
    }
    for target in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 5]] {
        let name = format!("to {}", Ipv4Addr::from(target));
        templates.push(ordinary.named(name).to(target));
    }
    templates
}

/// Malformed packets, and frames that are not for the router.
fn malformed(ordinary: &Template) -> Vec<Template> {
    vec![
        ordinary
            .named("wrong header checksum")
            .with_change(|frame| frame[ETHERNET_BYTES + 10] ^= 1),
        ordinary.named("wrong version").with_change(|frame| {
            frame[ETHERNET_BYTES] = 0x55;
            update_checksum(frame);
        }),
        ordinary
            .named("packet longer than its frame")
            .with_change(|frame| {
                frame[ETHERNET_BYTES + 2] = 5;
                update_checksum(frame);
            }),
        ordinary
            .named("frame for another host")
            .with_change(|frame| frame[5] ^= 0x55),
        ordinary
            .named("Ethernet broadcast")
            .with_change(|frame| frame[..6].fill(0xff)),
    ]
}

impl Probe {
    /// Reads the router's interfaces and opens those of the hosts.
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

    /// Runs all cases, from each port to the next. Before each case `may_continue` decides whether to
    /// go on.
    ///
    /// # Errors
    /// Frames cannot be sent or received.
    pub fn run(
        &mut self,
        mut may_continue: impl FnMut() -> bool,
    ) -> Result<Vec<CaseResult>, RouterError> {
        let mut results = Vec::new();
        for ingress in 0..self.hosts.len() {
            for case in self.cases(ingress) {
                if !may_continue() {
                    return Ok(results);
                }
                results.push(self.run_case(ingress, &case)?);
            }
        }
        Ok(results)
    }

    /// The cases for frames sent to port `ingress`. Ordinary packets go to the host of the next port.
    fn cases(&mut self, ingress: usize) -> Vec<Case> {
        let egress = (ingress + 1) % self.hosts.len();
        let network = self.model.interfaces[egress].network;
        let host_bits = u32::MAX.checked_shr(u32::from(network.bits)).unwrap_or(0);
        let ordinary = Template {
            name: String::new(),
            source: self.model.neighbours[ingress].address,
            target: self.model.neighbours[egress].address,
            ttl: 64,
            dont_fragment: true,
            bytes: 64 - CHECK_SEQUENCE_BYTES - ETHERNET_BYTES - IPV4_BYTES - UDP_BYTES,
            change: |_| (),
        };
        let longest_bytes = self.hosts[ingress].1.mtu_bytes.min(1500) - IPV4_BYTES - UDP_BYTES;
        let broadcast = Ipv4Addr::from_bits(network.address.to_bits() | host_bits);
        let templates = [
            sizes_and_hops(&ordinary, longest_bytes, egress),
            addresses(&ordinary, broadcast),
            malformed(&ordinary),
        ];
        let cases = templates
            .iter()
            .flatten()
            .filter_map(|template| self.case(ingress, template));
        cases.collect()
    }

    /// Builds a case. Its IP identification is unique, so that the probe recognizes related frames.
    fn case(&mut self, ingress: usize, template: &Template) -> Option<Case> {
        self.identification = self.identification.wrapping_add(1).max(1);
        let mut frame = UdpFrame {
            source_mac: self.hosts[ingress].1.mac,
            target_mac: self.model.interfaces[ingress].mac,
            source: template.source,
            target: template.target,
            source_port: 40_000,
            target_port: 9,
            ttl: template.ttl,
            identification: self.identification,
            dont_fragment: template.dont_fragment,
        }
        .build(&vec![0xa5; template.bytes])?;
        (template.change)(&mut frame);
        Some(Case {
            name: template.name.clone(),
            frame,
        })
    }

    fn run_case(&self, ingress: usize, case: &Case) -> Result<CaseResult, RouterError> {
        // Discards the frames that earlier cases left in the sockets.
        self.receive_related(&case.frame)?;
        let sent = self.hosts[ingress]
            .0
            .send(std::slice::from_ref(&case.frame))
            .map_err(RouterError::traffic("send a frame"))?;
        let expected = self.model.decide(ingress, &case.frame);
        let begin = Instant::now();
        let mut outputs = Vec::new();
        let (enough, limit) = match expected {
            Verdict::Forward { .. } | Verdict::SendError(_) => (1, LONGEST_WAIT),
            _ => (usize::MAX, RECEIVE_TIME),
        };
        while sent == 1 && outputs.len() < enough && begin.elapsed() < limit {
            thread::sleep(Duration::from_millis(1));
            outputs.extend(self.receive_related(&case.frame)?);
        }
        let breach = oracle::check(&self.model, ingress, &case.frame, &outputs).err();
        Ok(CaseResult {
            case: case.name.clone(),
            ingress,
            expected: format!("{expected:?}"),
            frames: outputs.len(),
            breach: breach.map(|breach| breach.to_string()),
        })
    }

    /// Reads all frames that wait in the hosts' sockets. Returns those that are related to `sent`.
    fn receive_related(&self, sent: &[u8]) -> Result<Vec<OutputFrame>, RouterError> {
        let mut buffers = ReceiveBuffers::new(LONGEST_FRAME_BYTES);
        let mut outputs = Vec::new();
        for (egress, (socket, _)) in self.hosts.iter().enumerate() {
            let add = |frame: &[u8], _| {
                if is_related(frame, sent) && !self.is_icmp_of_host(frame) {
                    outputs.push(OutputFrame {
                        egress,
                        frame: frame.to_vec(),
                    });
                }
            };
            socket
                .receive_waiting(&mut buffers, add)
                .map_err(RouterError::traffic("receive frames"))?;
        }
        Ok(outputs)
    }

    /// Whether a host's own kernel sent a frame: an ICMP message about what the host received.
    fn is_icmp_of_host(&self, frame: &[u8]) -> bool {
        Packet::parse(frame).is_ok_and(|packet| {
            let source = packet.source();
            let is_host = |neighbour: &Neighbour| neighbour.address == source;
            packet.protocol() == ICMP && self.model.neighbours.iter().any(is_host)
        })
    }
}

/// Whether a frame is a copy of `sent`, a fragment of it or an ICMP error about it. If so, its
/// packet, or the packet that the error quotes, has the same identification and protocol as `sent`.
fn is_related(frame: &[u8], sent: &[u8]) -> bool {
    let identity =
        |packet: &[u8]| (packet.len() >= IPV4_BYTES).then(|| (read_u16(packet, 4), packet[9]));
    let wanted = identity(&sent[ETHERNET_BYTES..]);
    let own = frame.get(ETHERNET_BYTES..).and_then(identity);
    let quoted = Packet::parse(frame)
        .ok()
        .and_then(|packet| packet.payload().get(8..).and_then(identity));
    own == wanted || quoted == wanted
}

/// Computes the checksum of a changed header.
fn update_checksum(frame: &mut [u8]) {
    write_u16(frame, ETHERNET_BYTES + 10, 0);
    let sum = checksum(&frame[ETHERNET_BYTES..ETHERNET_BYTES + IPV4_BYTES]);
    write_u16(frame, ETHERNET_BYTES + 10, sum);
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
