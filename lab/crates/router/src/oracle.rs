//! Checks the frames that a router sent.
//!
//! The model decides the required action. The oracle then checks every byte of the router's output
//! by its own rules. It does not compare the output with a frame that the model made, so a fault in
//! the model cannot hide a fault in the router.

use thiserror::Error;

use crate::checksum::checksum;
use crate::frame::{ICMP, Mac, Malformed, Packet, read_u16};
use crate::model::{IcmpError, Router, Verdict};

/// A frame that the router sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputFrame {
    /// The interface that sent it.
    pub egress: usize,
    /// Its bytes.
    pub frame: Vec<u8>,
}

/// A rule that the output breaks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Breach {
    #[error("no frame, expected {0:?}")]
    Missing(Verdict),
    #[error("{frames} frames, expected {verdict:?}")]
    Unexpected { frames: usize, verdict: Verdict },
    #[error("sent by interface {egress}, expected {expected}")]
    Egress { egress: usize, expected: usize },
    #[error("the frame is malformed: {0}")]
    Malformed(Malformed),
    #[error("target address {target:02x?}, expected {expected:02x?}")]
    TargetMac { target: Mac, expected: Mac },
    #[error("source address {source_mac:02x?}, expected the interface's own {expected:02x?}")]
    SourceMac { source_mac: Mac, expected: Mac },
    #[error("{ttl} hops left, expected {expected}")]
    Ttl { ttl: u8, expected: u8 },
    #[error("byte {at} of the packet changed from {before:#04x} to {after:#04x}")]
    Changed { at: usize, before: u8, after: u8 },
    #[error("a packet of {bytes} bytes, expected {expected}")]
    Length { bytes: usize, expected: usize },
    #[error("a packet of {bytes} bytes on an interface with an MTU of {mtu_bytes}")]
    TooLong { bytes: usize, mtu_bytes: usize },
    #[error("the fragments do not make up the packet: {0}")]
    Fragments(&'static str),
    #[error("the ICMP message has a wrong {0}")]
    Message(&'static str),
}

/// Checks the frames that a router sent after it received `sent` on `ingress`. Returns the required
/// action.
///
/// # Errors
/// The error is the first rule that the output breaks.
pub fn check(
    router: &Router,
    ingress: usize,
    sent: &[u8],
    outputs: &[OutputFrame],
) -> Result<Verdict, Breach> {
    let verdict = router.decide(ingress, sent);
    match verdict {
        // A router's responses to packets for itself are not checked.
        Verdict::Deliver => Ok(verdict),
        Verdict::Drop(_) if outputs.is_empty() => Ok(verdict),
        Verdict::Drop(_) => Err(Breach::Unexpected {
            frames: outputs.len(),
            verdict,
        }),
        Verdict::Forward { egress, next_mac } => {
            let output = single(outputs, verdict)?;
            let before = Packet::parse(sent).map_err(Breach::Malformed)?;
            let after = check_output(router, output, egress, next_mac)?;
            check_forwarded(before, after).map(|()| verdict)
        }
        Verdict::Fragment { egress, next_mac } => {
            if outputs.is_empty() {
                return Err(Breach::Missing(verdict));
            }
            let before = Packet::parse(sent).map_err(Breach::Malformed)?;
            let fragments: Result<Vec<_>, _> = outputs
                .iter()
                .map(|output| check_output(router, output, egress, next_mac))
                .collect();
            check_fragments(before, &fragments?).map(|()| verdict)
        }
        Verdict::SendError(error) => {
            let output = single(outputs, verdict)?;
            let before = Packet::parse(sent).map_err(Breach::Malformed)?;
            check_icmp_error(router, before, output, error).map(|()| verdict)
        }
    }
}

/// The single frame of an output that must be one frame.
fn single(outputs: &[OutputFrame], verdict: Verdict) -> Result<&OutputFrame, Breach> {
    match outputs {
        [] => Err(Breach::Missing(verdict)),
        [output] => Ok(output),
        _ => Err(Breach::Unexpected {
            frames: outputs.len(),
            verdict,
        }),
    }
}

/// The packet of an output frame, after checks of its interface, form, addresses and length.
fn check_output<'a>(
    router: &Router,
    output: &'a OutputFrame,
    expected: usize,
    next_mac: Mac,
) -> Result<Packet<'a>, Breach> {
    if output.egress != expected {
        return Err(Breach::Egress {
            egress: output.egress,
            expected,
        });
    }
    let packet = Packet::parse(&output.frame).map_err(Breach::Malformed)?;
    let interface = &router.interfaces[expected];
    if packet.target_mac() != next_mac {
        return Err(Breach::TargetMac {
            target: packet.target_mac(),
            expected: next_mac,
        });
    }
    if packet.source_mac() != interface.mac {
        return Err(Breach::SourceMac {
            source_mac: packet.source_mac(),
            expected: interface.mac,
        });
    }
    let bytes = packet.bytes().len();
    if bytes > interface.mtu_bytes {
        return Err(Breach::TooLong {
            bytes,
            mtu_bytes: interface.mtu_bytes,
        });
    }
    Ok(packet)
}

/// Checks that only the TTL and the checksum changed, and that the TTL decreased by one. The parser
/// has checked the checksum.
fn check_forwarded(before: Packet<'_>, after: Packet<'_>) -> Result<(), Breach> {
    let (old, new) = (before.bytes(), after.bytes());
    if old.len() != new.len() {
        return Err(Breach::Length {
            bytes: new.len(),
            expected: old.len(),
        });
    }
    let expected = before.ttl() - 1;
    if after.ttl() != expected {
        return Err(Breach::Ttl {
            ttl: after.ttl(),
            expected,
        });
    }
    check_unchanged(old, new, &[8, 10, 11])
}

/// Checks that no byte changed except those at the offsets `except`.
fn check_unchanged(old: &[u8], new: &[u8], except: &[usize]) -> Result<(), Breach> {
    let differs = |&at: &usize| !except.contains(&at) && old[at] != new[at];
    (0..old.len()).find(differs).map_or(Ok(()), |at| {
        Err(Breach::Changed {
            at,
            before: old[at],
            after: new[at],
        })
    })
}

/// Checks that fragments, in any order, make up the packet without gap or overlap (RFC 791,
/// section 3.2).
fn check_fragments(before: Packet<'_>, fragments: &[Packet<'_>]) -> Result<(), Breach> {
    let mut fragments = fragments.to_vec();
    fragments.sort_by_key(Packet::fragment_offset_bytes);
    let first = before.fragment_offset_bytes();
    let mut payload: Vec<u8> = Vec::with_capacity(before.payload().len());
    for (index, fragment) in fragments.iter().enumerate() {
        if fragment.ttl() != before.ttl() - 1 {
            return Err(Breach::Ttl {
                ttl: fragment.ttl(),
                expected: before.ttl() - 1,
            });
        }
        if fragment.fragment_offset_bytes() != first + payload.len() {
            return Err(Breach::Fragments("a gap or an overlap"));
        }
        let is_last = index + 1 == fragments.len();
        if fragment.more_fragments() != (!is_last || before.more_fragments()) {
            return Err(Breach::Fragments("a wrong flag \"more fragments\""));
        }
        // Only length, flags, offset, TTL and checksum may differ.
        let header = &before.header()[..20];
        check_unchanged(
            header,
            &fragment.header()[..20],
            &[0, 2, 3, 6, 7, 8, 10, 11],
        )?;
        payload.extend(fragment.payload());
    }
    if payload == before.payload() {
        Ok(())
    } else {
        Err(Breach::Fragments("different bytes"))
    }
}

/// Checks an ICMP error about a packet (RFC 792; RFC 1812, section 4.3).
fn check_icmp_error(
    router: &Router,
    about: Packet<'_>,
    output: &OutputFrame,
    error: IcmpError,
) -> Result<(), Breach> {
    let wrong = |what| Err(Breach::Message(what));
    let packet = Packet::parse(&output.frame).map_err(Breach::Malformed)?;
    let expected = router.next_hop(about.source()).map(|(egress, _)| egress);
    if expected != Some(output.egress) {
        return wrong("interface");
    }
    if packet.source_mac() != router.interfaces[output.egress].mac {
        return wrong("source Ethernet address");
    }
    if packet.target() != about.source() {
        return wrong("target address");
    }
    if !router.owns(packet.source()) {
        return wrong("source address");
    }
    let message = packet.payload();
    if packet.protocol() != ICMP || message.len() < 8 + 28.min(about.bytes().len()) {
        return wrong("length");
    }
    if checksum(message) != 0 {
        return wrong("checksum");
    }
    if (message[0], message[1]) != error.type_and_code() {
        return wrong("type or code");
    }
    if let IcmpError::FragmentationNeeded { mtu_bytes } = error
        && usize::from(read_u16(message, 6)) != mtu_bytes
    {
        return wrong("MTU");
    }
    // An ICMP error quotes the packet's header and at least eight bytes after it (RFC 792).
    let quoted = &message[8..];
    let length = (about.header().len() + 8).min(about.bytes().len());
    if quoted.len() < length || quoted[..length] != about.bytes()[..length] {
        return wrong("quotation");
    }
    Ok(())
}
