//! The oracle and the model router share no code that makes or checks frames. The oracle must accept
//! what the model forwards, and nothing else.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::net::Ipv4Addr;

use perpacket_router::frame::{ETHERNET_BYTES, UdpFrame};
use perpacket_router::model::{
    DropReason, IcmpError, Interface, Martians, Neighbour, Prefix, Route, Router, Verdict,
};
use perpacket_router::oracle::{Breach, OutputFrame, check};
use proptest::prelude::*;

const TTL: usize = ETHERNET_BYTES + 8;
const CHECKSUM: usize = ETHERNET_BYTES + 10;

fn mac(last: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, last]
}

/// A router with four networks 10.0.N.0/24. Each has a host with the address 10.0.N.2, and
/// 172.16/12 is behind the host of network 3. The MTU of network 3 is 576 bytes, and that of the
/// other networks is 1500.
fn router() -> Router {
    let network = |n: u8, host: u8| Ipv4Addr::new(10, 0, n, host);
    Router {
        interfaces: (0..4)
            .map(|n| Interface {
                mac: mac(n),
                network: Prefix {
                    address: network(n, 1),
                    bits: 24,
                },
                mtu_bytes: if n == 3 { 576 } else { 1500 },
            })
            .collect(),
        routes: vec![Route {
            to: Prefix {
                address: Ipv4Addr::new(172, 16, 0, 0),
                bits: 12,
            },
            via: network(3, 2),
        }],
        neighbours: (0..4)
            .map(|n| Neighbour {
                address: network(n, 2),
                mac: mac(16 + n),
            })
            .collect(),
        martians: Martians::Rfc1812,
    }
}

fn frame(source: [u8; 4], target: [u8; 4], ttl: u8, dont_fragment: bool, bytes: usize) -> Vec<u8> {
    UdpFrame {
        source_mac: mac(16),
        target_mac: mac(0),
        source: source.into(),
        target: target.into(),
        source_port: 1024,
        target_port: 9,
        ttl,
        identification: 77,
        dont_fragment,
    }
    .build(&vec![0x5a; bytes])
    .unwrap()
}

fn addresses() -> impl Strategy<Value = [u8; 4]> {
    prop_oneof![
        (0_u8..4, 0_u8..4).prop_map(|(network, host)| [10, 0, network, host]),
        (0_u8..4).prop_map(|network| [10, 0, network, 255]),
        Just([172, 20, 1, 2]),
        Just([127, 0, 0, 1]),
        Just([255, 255, 255, 255]),
        any::<[u8; 4]>(),
    ]
}

proptest! {
    #[test]
    fn the_oracle_accepts_what_the_model_forwards_or_drops(
        source in addresses(), target in addresses(), ttl: u8, dont_fragment: bool,
        bytes in 0_usize..1400,
    ) {
        let router = router();
        let sent = frame(source, target, ttl, dont_fragment, bytes);
        if let Some((egress, frame)) = router.forwarded(0, &sent) {
            let outputs = [OutputFrame { egress, frame }];
            prop_assert!(check(&router, 0, &sent, &outputs).is_ok());
            prop_assert!(check(&router, 0, &sent, &[]).is_err());
            let twice = [outputs[0].clone(), outputs[0].clone()];
            prop_assert!(check(&router, 0, &sent, &twice).is_err());
        } else if matches!(router.decide(0, &sent), Verdict::Drop(_)) {
            prop_assert!(check(&router, 0, &sent, &[]).is_ok());
            let echo = OutputFrame { egress: 0, frame: sent.clone() };
            prop_assert!(check(&router, 0, &sent, &[echo]).is_err());
        }
    }

    #[test]
    fn the_oracle_finds_any_flipped_bit_of_a_forwarded_frame(
        ttl in 2_u8.., bytes in 0_usize..500, place in any::<proptest::sample::Index>(), bit in 0..8,
    ) {
        let router = router();
        let sent = frame([10, 0, 0, 2], [10, 0, 1, 2], ttl, true, bytes);
        let (egress, mut frame) = router.forwarded(0, &sent).unwrap();
        let at = place.index(frame.len());
        frame[at] ^= 1_u8 << bit;
        prop_assert!(check(&router, 0, &sent, &[OutputFrame { egress, frame }]).is_err(), "byte {}", at);
    }

    #[test]
    fn any_bytes_are_checked_without_a_panic(sent: Vec<u8>, frame: Vec<u8>, egress in 0_usize..4) {
        let _ = check(&router(), 0, &sent, &[OutputFrame { egress, frame }]);
    }
}

#[test]
fn the_oracle_finds_a_forwarder_that_decrements_another_field() {
    // The forwarder decrements the identification instead of the TTL and updates the checksum.
    let router = router();
    let sent = frame([10, 0, 0, 2], [10, 0, 1, 2], 64, true, 100);
    let (egress, mut frame) = router.forwarded(0, &sent).unwrap();
    frame[TTL] += 1;
    frame[ETHERNET_BYTES + 4] += 1;
    frame[CHECKSUM] = 0;
    frame[CHECKSUM + 1] = 0;
    let sum = perpacket_router::checksum::checksum(&frame[ETHERNET_BYTES..ETHERNET_BYTES + 20]);
    frame[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(
        check(&router, 0, &sent, &[OutputFrame { egress, frame }]),
        Err(Breach::Ttl {
            ttl: 64,
            expected: 63
        })
    );
}

#[test]
fn a_last_hop_a_missing_route_and_a_small_mtu_cause_icmp_errors() {
    let router = router();
    let decide =
        |target, ttl, bytes| router.decide(0, &frame([10, 0, 0, 2], target, ttl, true, bytes));
    assert_eq!(
        decide([10, 0, 1, 2], 1, 0),
        Verdict::SendError(IcmpError::TimeExceeded)
    );
    assert_eq!(
        decide([192, 0, 2, 1], 64, 0),
        Verdict::SendError(IcmpError::NetworkUnreachable)
    );
    assert_eq!(
        decide([172, 16, 0, 9], 64, 549),
        Verdict::SendError(IcmpError::FragmentationNeeded { mtu_bytes: 576 })
    );
    assert!(matches!(
        decide([172, 16, 0, 9], 64, 548),
        Verdict::Forward { egress: 3, .. }
    ));
}

#[test]
fn martians_of_rfc_1812_are_dropped() {
    let router = router();
    let martian = Verdict::Drop(DropReason::Martian);
    for source in [
        [0, 0, 0, 1],
        [127, 0, 0, 1],
        [224, 0, 0, 1],
        [255, 255, 255, 255],
        [10, 0, 0, 1],
    ] {
        let sent = frame(source, [10, 0, 1, 2], 64, true, 0);
        assert_eq!(router.decide(0, &sent), martian, "from {source:?}");
    }
    for target in [[127, 0, 0, 1], [0, 1, 2, 3], [240, 0, 0, 1]] {
        let sent = frame([10, 0, 0, 2], target, 64, true, 0);
        assert_eq!(router.decide(0, &sent), martian, "to {target:?}");
    }
}

#[test]
fn linux_treats_two_blocks_of_martians_as_ordinary_addresses() {
    let router = Router {
        martians: Martians::Linux,
        ..router()
    };
    for source in [[0, 0, 0, 1], [240, 0, 0, 1]] {
        let sent = frame(source, [10, 0, 1, 2], 64, true, 0);
        let verdict = router.decide(0, &sent);
        assert!(matches!(verdict, Verdict::Forward { .. }), "{source:?}");
    }
    for source in [[0; 4], [127, 0, 0, 1], [255; 4]] {
        let sent = frame(source, [10, 0, 1, 2], 64, true, 0);
        assert_eq!(router.decide(0, &sent), Verdict::Drop(DropReason::Martian));
    }
}

#[test]
fn fragments_must_make_up_the_packet() {
    let router = router();
    let sent = frame([10, 0, 0, 2], [10, 0, 3, 2], 64, false, 1000);
    let verdict = router.decide(0, &sent);
    assert!(matches!(verdict, Verdict::Fragment { egress: 3, .. }));
    let fragment = |from: usize, to: usize, more: bool| {
        let mut frame = sent[..ETHERNET_BYTES + 20].to_vec();
        frame[..6].copy_from_slice(&mac(19));
        frame[6..12].copy_from_slice(&mac(3));
        let total = u16::try_from(20 + to - from).unwrap();
        frame[16..18].copy_from_slice(&total.to_be_bytes());
        let flags = u16::try_from(from / 8).unwrap() | if more { 0x2000 } else { 0 };
        frame[20..22].copy_from_slice(&flags.to_be_bytes());
        frame[TTL] -= 1;
        frame[CHECKSUM] = 0;
        frame[CHECKSUM + 1] = 0;
        let sum = perpacket_router::checksum::checksum(&frame[ETHERNET_BYTES..]);
        frame[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
        frame.extend(&sent[ETHERNET_BYTES + 20..][from..to]);
        OutputFrame { egress: 3, frame }
    };
    let (first, last) = (fragment(0, 552, true), fragment(552, 1008, false));
    assert_eq!(
        check(&router, 0, &sent, &[last.clone(), first.clone()]),
        Ok(verdict)
    );
    let gap = fragment(560, 1008, false);
    assert!(check(&router, 0, &sent, &[first.clone(), gap]).is_err());
    assert!(check(&router, 0, &sent, &[first]).is_err());
}
