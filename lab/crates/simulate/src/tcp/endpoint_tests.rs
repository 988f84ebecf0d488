use super::*;
use crate::time::Span;
use proptest::prelude::*;

const MSS: u32 = 1460;

fn settings() -> Settings {
    Settings {
        mss_bytes: MSS,
        send_buffer_bytes: 32_768,
        receive_buffer_bytes: 65_535,
        initial_window_segments: 4,
        minimum_rto: Span::from_ms(1_000.0),
        rto_slop: Span::from_ms(200.0),
        maximum_rto: Span::from_ms(64_000.0),
        syn_rto: Span::from_ms(3_000.0),
        delayed_ack: false,
        ack_delay: Span::from_ms(200.0),
    }
}

/// Two endpoints and the segments between them; a closure decides which copies of a segment arrive.
struct Pair {
    settings: Settings,
    client: Endpoint,
    server: Option<Endpoint>,
    now: Time,
    /// Arrival time, order, to the server?, segment.
    wire: Vec<(Time, u64, bool, Segment)>,
    sent: u64,
    received: [u32; 2],
}

impl Pair {
    fn new(settings: Settings) -> Self {
        Self {
            settings,
            // Close to the wrap, so that every transfer crosses it.
            client: Endpoint::connect(&settings, Sequence(u32::MAX - 700)),
            server: None,
            now: Time::ZERO,
            wire: Vec::new(),
            sent: 0,
            received: [0, 0],
        }
    }

    fn transmit(&mut self, arrivals_us: &mut impl FnMut(u64) -> Vec<u64>) {
        for to_server in [true, false] {
            loop {
                let endpoint = if to_server {
                    Some(&mut self.client)
                } else {
                    self.server.as_mut()
                };
                let Some(segment) = endpoint.and_then(|end| end.transmit(&self.settings, self.now))
                else {
                    break;
                };
                for delay_us in arrivals_us(self.sent) {
                    self.wire.push((
                        self.now + Span::from_us(delay_us),
                        self.sent,
                        to_server,
                        segment,
                    ));
                }
                self.sent += 1;
            }
        }
    }

    /// Delivers the next segment or fires the next timer; false when nothing is left.
    fn step(&mut self) -> bool {
        let timer = [Some(&self.client), self.server.as_ref()]
            .into_iter()
            .flatten()
            .filter_map(Endpoint::timer)
            .min();
        let next =
            (0..self.wire.len()).min_by_key(|&index| (self.wire[index].0, self.wire[index].1));
        match (next, timer) {
            (Some(index), timer) if timer.is_none_or(|time| self.wire[index].0 <= time) => {
                let (time, _, to_server, segment) = self.wire.remove(index);
                self.now = time;
                self.deliver(to_server, &segment);
            }
            (_, Some(time)) => {
                self.now = time;
                self.client.on_timer(&self.settings, time);
                if let Some(server) = self.server.as_mut() {
                    server.on_timer(&self.settings, time);
                }
            }
            _ => return false,
        }
        true
    }

    fn deliver(&mut self, to_server: bool, segment: &Segment) {
        if to_server && self.server.is_none() {
            if segment.flags.has(Flags::SYN) {
                self.server = Some(Endpoint::accept(&self.settings, Sequence(99), segment));
            }
            return;
        }
        let endpoint = if to_server {
            self.server.as_mut().unwrap()
        } else {
            &mut self.client
        };
        let reaction = endpoint.on_segment(&self.settings, segment, self.now);
        endpoint.read(&self.settings, reaction.received_bytes);
        self.received[usize::from(to_server)] += reaction.received_bytes;
    }

    fn establish(settings: Settings) -> Self {
        let mut pair = Self::new(settings);
        for _ in 0..4 {
            pair.transmit(&mut |_| vec![10]);
            pair.step();
        }
        assert_eq!(pair.client.state(), State::Established);
        assert_eq!(pair.server.as_ref().unwrap().state(), State::Established);
        pair
    }

    fn server(&mut self) -> &mut Endpoint {
        self.server.as_mut().unwrap()
    }

    fn burst(&mut self) -> Vec<Segment> {
        let settings = self.settings;
        let now = self.now;
        let server = self.server();
        std::iter::from_fn(|| server.transmit(&settings, now)).collect()
    }

    fn acknowledge(&mut self, acknowledgment: Sequence) {
        self.acknowledge_with_window(acknowledgment, 65_535);
    }

    fn acknowledge_with_window(&mut self, acknowledgment: Sequence, window_bytes: u32) {
        let segment = Segment {
            sequence: self.client.sender().max,
            acknowledgment,
            window_bytes,
            length_bytes: 0,
            flags: Flags::ACK,
        };
        let (settings, now) = (self.settings, self.now);
        self.server().on_segment(&settings, &segment, now);
    }

    /// A server whose initial window was acknowledged and that has sent the next flight.
    fn second_flight() -> (Self, Vec<Segment>) {
        let mut pair = Self::establish(settings());
        pair.server().enqueue(20 * MSS, false);
        for segment in &pair.burst() {
            pair.acknowledge(segment.sequence + MSS);
        }
        let flight = pair.burst();
        (pair, flight)
    }
}

#[test]
fn slow_start_sends_the_initial_window_and_one_more_for_each_acknowledgment() {
    let mut pair = Pair::establish(settings());
    pair.server().enqueue(30_000, false);
    let first = pair.burst();
    assert_eq!(first.len(), 4);
    assert!(first.iter().all(|segment| segment.length_bytes == 1460));
    pair.acknowledge(first[0].sequence + MSS);
    assert_eq!(
        pair.burst().len(),
        2,
        "RFC 5681, 3.1: one for the segment acknowledged, one for the larger window"
    );
}

#[test]
fn three_duplicates_repair_the_loss_and_halve_the_window() {
    let (mut pair, flight) = Pair::second_flight();
    let lost = flight[0].sequence;
    let outstanding = pair.server().sender().max - lost;
    for _ in 0..2 {
        pair.acknowledge(lost);
        assert!(pair.burst().is_empty(), "two duplicates are reordering");
    }
    pair.acknowledge(lost);
    let repair = pair.burst();
    assert_eq!(repair[0].sequence, lost, "RFC 5681, 3.2, step 3");
    let all = pair.server().sender().max;
    pair.acknowledge(all);
    assert_eq!(
        pair.server().sender().congestion_window_bytes(),
        outstanding / 2,
        "step 6"
    );
}

#[test]
fn a_partial_acknowledgment_repairs_the_next_loss_at_once() {
    let (mut pair, flight) = Pair::second_flight();
    for _ in 0..3 {
        pair.acknowledge(flight[0].sequence);
    }
    pair.burst();
    pair.acknowledge(flight[2].sequence);
    assert_eq!(
        pair.burst()[0].sequence,
        flight[2].sequence,
        "RFC 6582, 3.2, step 3"
    );
}

#[test]
fn a_timeout_waits_at_least_a_second_doubles_and_goes_back_to_one_segment() {
    let mut pair = Pair::establish(settings());
    pair.server().enqueue(4 * MSS, false);
    let first = pair.burst();
    let settings = pair.settings;
    let sent = pair.now;
    let mut waits = Vec::new();
    for _ in 0..3 {
        let due = pair.server().timer().unwrap();
        waits.push(due.since(pair.now));
        pair.now = due;
        assert!(pair.server().on_timer(&settings, due));
        let again = pair.burst();
        assert_eq!(
            again.len(),
            1,
            "RFC 5681, 3.1: the loss window is one segment"
        );
        assert_eq!(again[0].sequence, first[0].sequence);
    }
    assert!(sent < pair.now && waits[0] >= settings.minimum_rto);
    assert_eq!(waits[1].0, 2 * waits[0].0, "RFC 6298, 5.5");
    assert_eq!(waits[2].0, 4 * waits[0].0);
}

#[test]
fn a_lost_syn_is_sent_again_after_three_seconds() {
    let mut pair = Pair::new(settings());
    pair.transmit(&mut |_| vec![]);
    assert_eq!(
        pair.client.timer(),
        Some(Time::ZERO + Span::from_ms(3_000.0))
    );
}

#[test]
fn every_segment_is_acknowledged_unless_acknowledgments_are_delayed() {
    for (delayed_ack, expected) in [(false, 4), (true, 2)] {
        let mut pair = Pair::establish(Settings {
            delayed_ack,
            ..settings()
        });
        pair.server().enqueue(4 * MSS, false);
        let flight = pair.burst();
        let mut acknowledgments = 0;
        for segment in &flight {
            pair.deliver(false, segment);
            while pair.client.transmit(&pair.settings, pair.now).is_some() {
                acknowledgments += 1;
            }
        }
        assert_eq!(acknowledgments, expected);
    }
}

#[test]
fn a_shut_window_is_probed_and_opens_by_two_segments() {
    let mut pair = Pair::establish(Settings {
        receive_buffer_bytes: 2 * MSS,
        ..settings()
    });
    let settings = pair.settings;
    pair.server().enqueue(5 * MSS, false);
    for segment in pair.burst() {
        let reaction = pair.client.on_segment(&settings, &segment, pair.now);
        assert_eq!(reaction.received_bytes, MSS);
        let acknowledgment = pair.client.transmit(&settings, pair.now).unwrap();
        pair.deliver(true, &acknowledgment);
    }
    assert!(pair.burst().is_empty());
    let due = pair.server().timer().expect("a probe is scheduled");
    assert!(
        !pair.server().on_timer(&settings, due),
        "a probe is no retransmission"
    );
    pair.now = due;
    assert_eq!(pair.burst()[0].length_bytes, 1);
    pair.client.read(&settings, MSS);
    assert!(
        pair.client.transmit(&settings, due).is_none(),
        "one segment is too little to report"
    );
    pair.client.read(&settings, MSS);
    assert!(pair.client.transmit(&settings, due).is_some());
}

/// A server with data behind a window that has just been shut, and the client's last acknowledgment.
fn shut_window() -> (Pair, Sequence) {
    let mut pair = Pair::establish(Settings {
        receive_buffer_bytes: 2 * MSS,
        ..settings()
    });
    pair.server().enqueue(6 * MSS, false);
    let flight = pair.burst();
    let end = flight[1].sequence + MSS;
    pair.acknowledge_with_window(end, 0);
    assert!(pair.burst().is_empty());
    (pair, end)
}

#[test]
fn a_probe_that_was_not_accepted_leaves_no_hole() {
    let (mut pair, end) = shut_window();
    let settings = pair.settings;
    for _ in 0..2 {
        pair.now = pair.server().timer().expect("a probe is scheduled");
        let now = pair.now;
        let timed_out = pair.server().on_timer(&settings, now);
        assert!(!timed_out, "a probe is no retransmission timeout");
        let probe = pair.burst();
        assert_eq!((probe[0].sequence, probe[0].length_bytes), (end, 1));
        pair.acknowledge_with_window(end, 0);
    }
    pair.acknowledge_with_window(end, 2 * MSS);
    assert_eq!(
        pair.burst()[0].sequence,
        end,
        "RFC 9293, 3.8.6.1: from the first byte not accepted"
    );
}

#[test]
fn data_sent_when_a_window_opens_has_a_timeout_of_its_own() {
    let (mut pair, end) = shut_window();
    let due = pair.server().timer().expect("a probe is scheduled");
    pair.now = Time(due.0 - 1_000_000);
    pair.acknowledge_with_window(end, 2 * MSS);
    assert!(!pair.burst().is_empty());
    let timeout = pair.server().timer().unwrap().since(pair.now);
    assert!(timeout >= pair.settings.minimum_rto, "{timeout:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Every byte arrives in order exactly once and both sides close, whatever is dropped,
    /// duplicated or reordered.
    #[test]
    fn every_byte_arrives_once_whatever_the_wire_does(
        wire in prop::collection::vec((0u8..100, 1u64..3_000), 600),
        up in 0u32..5_000,
        down in 0u32..120_000,
        delayed in any::<bool>(),
    ) {
        let mut pair = Pair::new(Settings {
            delayed_ack: delayed,
            ..settings()
        });
        // After 600 segments the wire loses nothing, so that every run ends.
        let mut arrivals_us = |number: u64| match wire.get(number as usize) {
            Some((0..20, _)) => vec![],
            Some((20..30, delay)) => vec![*delay, delay * 2],
            Some((_, delay)) => vec![*delay],
            None => vec![10],
        };
        pair.client.enqueue(up, false);
        let mut left = down;
        let (mut client_closed, mut server_closed) = (false, false);
        for _ in 0..20_000 {
            if !client_closed && pair.client.state() == State::Established && pair.received[0] == down {
                pair.client.close();
                client_closed = true;
            }
            let settings = pair.settings;
            if let Some(server) = pair.server.as_mut() && server.state() != State::SynReceived {
                let bytes = left.min(server.send_room_bytes(&settings));
                if bytes > 0 {
                    server.enqueue(bytes, false);
                    left -= bytes;
                }
                if !server_closed && server.state() == State::CloseWait {
                    server.close();
                    server_closed = true;
                }
            }
            pair.transmit(&mut arrivals_us);
            if !pair.step() {
                break;
            }
        }
        prop_assert_eq!(pair.received, [down, up]);
        prop_assert_eq!(pair.client.state(), State::TimeWait);
        prop_assert_eq!(pair.server.unwrap().state(), State::Closed);
    }
}
