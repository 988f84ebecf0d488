//! Whether what a router did with a frame is what it must do.
//!
//! The model says what must happen; here every byte of what did happen is judged by rules of its
//! own, not by comparing with a frame that the model made, so that a slip in one does not hide in
//! the other. A well-known forwarder lowered the wrong field for years: nothing is taken on trust.

use std::net::Ipv4Addr;

use thiserror::Error;

use crate::checksum::checksum;
use crate::frame::{ICMP, Mac, Malformed, Packet, word};
use crate::model::{Router, Trouble, Verdict};

/// A frame that left the router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The interface it left by.
    pub egress: usize,
    /// Its bytes.
    pub frame: Vec<u8>,
}

/// What was wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Breach {
    /// Nothing came.
    #[error("nothing came, expected {0:?}")]
    Missing(Verdict),
    /// Something came that must not.
    #[error("{frames} frames came, expected {verdict:?}")]
    Unexpected {
        /// How many.
        frames: usize,
        /// What must happen.
        verdict: Verdict,
    },
    /// It left by the wrong interface.
    #[error("left by interface {egress}, expected {expected}")]
    Egress {
        /// Where it left.
        egress: usize,
        /// Where it must.
        expected: usize,
    },
    /// It is no packet.
    #[error("what came is {0}")]
    Malformed(Malformed),
    /// Whom it is for.
    #[error("for {target:02x?}, expected {expected:02x?}")]
    TargetMac {
        /// Whom it is for.
        target: Mac,
        /// Whom it must be for.
        expected: Mac,
    },
    /// Who sent it.
    #[error("from {source_mac:02x?}, expected the interface's own {expected:02x?}")]
    SourceMac {
        /// Who sent it.
        source_mac: Mac,
        /// The interface's own address.
        expected: Mac,
    },
    /// Hops are not one fewer.
    #[error("{ttl} hops left, expected {expected}")]
    Ttl {
        /// As it is.
        ttl: u8,
        /// As it must be.
        expected: u8,
    },
    /// A byte changed that must not.
    #[error("byte {at} of the packet changed from {before:#04x} to {after:#04x}")]
    Changed {
        /// Place in the packet.
        at: usize,
        /// What was sent.
        before: u8,
        /// What came.
        after: u8,
    },
    /// Its length changed.
    #[error("{bytes} bytes came, expected {expected}")]
    Length {
        /// As it is.
        bytes: usize,
        /// As it must be.
        expected: usize,
    },
    /// It is longer than the interface may send.
    #[error("a packet of {bytes} bytes on an interface of {mtu_bytes}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// What may be sent.
        mtu_bytes: usize,
    },
    /// Fragments that do not make the packet.
    #[error("the fragments do not make up the packet: {0}")]
    Fragments(&'static str),
    /// A message about trouble that is wrong.
    #[error("the ICMP message has a wrong {0}")]
    Message(&'static str),
}

/// Judges what a router sent after `sent` came in by `ingress`; the verdict if all is well.
///
/// # Errors
/// The first thing wrong.
pub fn judge(
    router: &Router,
    ingress: usize,
    sent: &[u8],
    seen: &[Seen],
) -> Result<Verdict, Breach> {
    let verdict = router.decide(ingress, sent);
    match verdict {
        // What the router itself answers, if anything, is between it and the sender.
        Verdict::Deliver => Ok(verdict),
        Verdict::Nothing(_) if seen.is_empty() => Ok(verdict),
        Verdict::Nothing(_) => Err(Breach::Unexpected {
            frames: seen.len(),
            verdict,
        }),
        Verdict::Forward { egress, next_mac } => {
            let one = only(seen, verdict)?;
            let before = Packet::parse(sent).map_err(Breach::Malformed)?;
            let after = outgoing(router, one, egress, next_mac)?;
            same_packet(before, after).map(|()| verdict)
        }
        Verdict::Fragment { egress, next_mac } => {
            if seen.is_empty() {
                return Err(Breach::Missing(verdict));
            }
            let before = Packet::parse(sent).map_err(Breach::Malformed)?;
            let pieces: Result<Vec<_>, _> = seen
                .iter()
                .map(|one| outgoing(router, one, egress, next_mac))
                .collect();
            whole(before, &pieces?).map(|()| verdict)
        }
        Verdict::Answer(trouble) => {
            let one = only(seen, verdict)?;
            let before = Packet::parse(sent).map_err(Breach::Malformed)?;
            answer(router, before, one, trouble).map(|()| verdict)
        }
    }
}

/// The only frame there must be.
fn only(seen: &[Seen], verdict: Verdict) -> Result<&Seen, Breach> {
    match seen {
        [] => Err(Breach::Missing(verdict)),
        [one] => Ok(one),
        _ => Err(Breach::Unexpected {
            frames: seen.len(),
            verdict,
        }),
    }
}

/// A frame that left, if it left by the right way, well-formed, short enough and well addressed.
fn outgoing<'a>(
    router: &Router,
    one: &'a Seen,
    expected: usize,
    next_mac: Mac,
) -> Result<Packet<'a>, Breach> {
    if one.egress != expected {
        return Err(Breach::Egress {
            egress: one.egress,
            expected,
        });
    }
    let packet = Packet::parse(&one.frame).map_err(Breach::Malformed)?;
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

/// Every byte as it was but hops, one fewer, and the checksum, which parsing found right.
fn same_packet(before: Packet<'_>, after: Packet<'_>) -> Result<(), Breach> {
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
    unchanged(old, new, &[8, 10, 11])
}

/// Every byte as it was but those at the places named.
fn unchanged(old: &[u8], new: &[u8], but: &[usize]) -> Result<(), Breach> {
    let differs = |&at: &usize| !but.contains(&at) && old[at] != new[at];
    (0..old.len()).find(differs).map_or(Ok(()), |at| {
        Err(Breach::Changed {
            at,
            before: old[at],
            after: new[at],
        })
    })
}

/// Fragments in any order that make up the packet without gap or overlap (RFC 791, section 3.2).
fn whole(before: Packet<'_>, pieces: &[Packet<'_>]) -> Result<(), Breach> {
    let mut pieces = pieces.to_vec();
    pieces.sort_by_key(Packet::fragment_offset_bytes);
    let first = before.fragment_offset_bytes();
    let mut payload: Vec<u8> = Vec::with_capacity(before.payload().len());
    for (index, piece) in pieces.iter().enumerate() {
        if piece.ttl() != before.ttl() - 1 {
            return Err(Breach::Ttl {
                ttl: piece.ttl(),
                expected: before.ttl() - 1,
            });
        }
        if piece.fragment_offset_bytes() != first + payload.len() {
            return Err(Breach::Fragments("a gap or an overlap"));
        }
        let is_last = index + 1 == pieces.len();
        if piece.more_fragments() != (!is_last || before.more_fragments()) {
            return Err(Breach::Fragments("a wrong mark of the last"));
        }
        // Length, flags and offset, hops and checksum differ; type of service, number, protocol
        // and addresses do not.
        let header = &before.header()[..20];
        unchanged(header, &piece.header()[..20], &[0, 2, 3, 6, 7, 8, 10, 11])?;
        payload.extend(piece.payload());
    }
    if payload == before.payload() {
        Ok(())
    } else {
        Err(Breach::Fragments("other bytes"))
    }
}

/// A message about trouble with a packet, as RFC 792 and RFC 1812, section 4.3 want it.
fn answer(router: &Router, about: Packet<'_>, one: &Seen, trouble: Trouble) -> Result<(), Breach> {
    let wrong = |what| Err(Breach::Message(what));
    let packet = Packet::parse(&one.frame).map_err(Breach::Malformed)?;
    let ours = |address: Ipv4Addr| {
        let has = |interface: &crate::model::Interface| interface.network.address == address;
        router.interfaces.iter().any(has)
    };
    let expected = router.next_hop(about.source()).map(|(egress, _)| egress);
    if expected != Some(one.egress) {
        return wrong("interface");
    }
    if packet.source_mac() != router.interfaces[one.egress].mac {
        return wrong("source Ethernet address");
    }
    if packet.target() != about.source() {
        return wrong("target address");
    }
    if !ours(packet.source()) {
        return wrong("source address");
    }
    let message = packet.payload();
    if packet.protocol() != ICMP || message.len() < 8 + 28.min(about.bytes().len()) {
        return wrong("length");
    }
    if checksum(message) != 0 {
        return wrong("checksum");
    }
    if (message[0], message[1]) != trouble.type_and_code() {
        return wrong("type or code");
    }
    if let Trouble::FragmentationNeeded { mtu_bytes } = trouble
        && usize::from(word(message, 6)) != mtu_bytes
    {
        return wrong("size of what fits");
    }
    // The packet as it came in: header and the eight bytes after it at least (RFC 792).
    let quoted = &message[8..];
    let length = (about.header().len() + 8).min(about.bytes().len());
    if quoted.len() < length || quoted[..length] != about.bytes()[..length] {
        return wrong("quotation");
    }
    Ok(())
}
