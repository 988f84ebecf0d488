//! One direction of a link. It decides whether and when a frame is delivered.
//!
//! A frame may be lost. Otherwise it waits until the frames before it are on the wire, then for its
//! length divided by the rate, then for the delay with its jitter. Frames never overtake each
//! other, because a wire does not reorder and TCP would treat reordering as loss. Nothing here
//! reads a clock, so tests check the rules to the nanosecond.

use std::collections::VecDeque;

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use crate::error::LinkError;

/// Longest delay and jitter: an hour. A longer time is a mistake in the unit.
const LONGEST_US: f64 = 3_600e6;

/// Nanoseconds in a second.
const SECOND_NS: u128 = 1_000_000_000;

/// The settings of one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DirectionSpec {
    /// Time between the departure of a frame and its delivery.
    pub delay_us: f64,
    /// Largest deviation of a frame's delay from `delay_us`. Delays are uniformly distributed.
    pub jitter_us: f64,
    /// Bits a second that the wire carries. As in netem, Ethernet headers count, and preamble and
    /// check sequence do not. `None` is a wire without limit.
    pub rate_bps: Option<u64>,
    /// Maximum number of frames that wait for the wire, including the frame on the wire. Without a
    /// rate no frame waits.
    pub queue_packets: usize,
    /// Share of frames that are lost, independently of each other.
    pub loss: f64,
}

impl Default for DirectionSpec {
    /// A wire without delay, limit or loss, with netem's queue.
    fn default() -> Self {
        Self {
            delay_us: 0.0,
            jitter_us: 0.0,
            rate_bps: None,
            queue_packets: 1000,
            loss: 0.0,
        }
    }
}

impl DirectionSpec {
    /// Checks the ranges.
    ///
    /// # Errors
    /// [`LinkError::Setting`] for the first value out of range.
    pub fn check(&self) -> Result<(), LinkError> {
        let refuse = |setting, value, expected| {
            Err(LinkError::Setting {
                setting,
                value,
                expected,
            })
        };
        let time = "microseconds from 0 to an hour";
        if !(0.0..=LONGEST_US).contains(&self.delay_us) {
            return refuse("delay", self.delay_us, time);
        }
        if !(0.0..=LONGEST_US).contains(&self.jitter_us) {
            return refuse("jitter", self.jitter_us, time);
        }
        if !(0.0..=1.0).contains(&self.loss) {
            return refuse("loss", self.loss, "a share from 0 to 1");
        }
        if self.rate_bps == Some(0) {
            return refuse("rate", 0.0, "bits a second, at least 1");
        }
        if self.queue_packets == 0 {
            return refuse("queue", 0.0, "frames, at least 1");
        }
        Ok(())
    }
}

/// The decision about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The link delivers it.
    Deliver {
        /// Due time of the delivery, on the clock of the arrivals.
        due_ns: u64,
    },
    /// The queue is full.
    Full,
    /// The frame is lost.
    Lost,
}

/// The state of one direction.
#[derive(Debug)]
pub struct Schedule {
    delay_ns: u64,
    jitter_ns: u64,
    rate_bps: Option<u64>,
    queue_packets: usize,
    loss: f64,
    losses: Pcg64Mcg,
    jitters: Pcg64Mcg,
    /// Departure times of frames that may still wait for the wire.
    departures_ns: VecDeque<u64>,
    /// The time at which the wire is free again.
    free_ns: u64,
    last_due_ns: u64,
}

impl Schedule {
    /// An empty direction. Losses and jitter have separate random streams, so a change of one
    /// setting does not change the random numbers of the other.
    pub fn new(settings: &DirectionSpec, seed: u64) -> Self {
        Self {
            delay_ns: nanoseconds(settings.delay_us),
            jitter_ns: nanoseconds(settings.jitter_us),
            rate_bps: settings.rate_bps,
            queue_packets: settings.queue_packets,
            loss: settings.loss,
            losses: Pcg64Mcg::seed_from_u64(seed ^ 0x6c6f_7373),
            jitters: Pcg64Mcg::seed_from_u64(seed ^ 0x6a69_7474_6572),
            departures_ns: VecDeque::new(),
            free_ns: 0,
            last_due_ns: 0,
        }
    }

    /// Decides about a frame. The caller must pass frames in order of arrival.
    pub fn admit(&mut self, arrival_ns: u64, length_bytes: usize) -> Verdict {
        if self.loss > 0.0 && share(&mut self.losses) < self.loss {
            return Verdict::Lost;
        }
        let Some(departure_ns) = self.departure_ns(arrival_ns, length_bytes) else {
            return Verdict::Full;
        };
        let jittered_ns = if self.jitter_ns == 0 {
            self.delay_ns
        } else {
            let drawn = share(&mut self.jitters) * 2.0 * self.jitter_ns as f64;
            (self.delay_ns + drawn as u64).saturating_sub(self.jitter_ns)
        };
        self.last_due_ns = self.last_due_ns.max(departure_ns + jittered_ns);
        Verdict::Deliver {
            due_ns: self.last_due_ns,
        }
    }

    /// The time at which the frame's last bit is on the wire; `None` if the queue is full.
    fn departure_ns(&mut self, arrival_ns: u64, length_bytes: usize) -> Option<u64> {
        let Some(rate_bps) = self.rate_bps else {
            return Some(arrival_ns);
        };
        while self
            .departures_ns
            .front()
            .is_some_and(|departure_ns| *departure_ns <= arrival_ns)
        {
            self.departures_ns.pop_front();
        }
        if self.departures_ns.len() >= self.queue_packets {
            return None;
        }
        let bits = length_bytes as u128 * 8;
        let time_ns = (bits * SECOND_NS).div_ceil(u128::from(rate_bps));
        let start_ns = self.free_ns.max(arrival_ns);
        self.free_ns = start_ns.saturating_add(u64::try_from(time_ns).unwrap_or(u64::MAX));
        self.departures_ns.push_back(self.free_ns);
        Some(self.free_ns)
    }
}

/// Converts microseconds, which [`DirectionSpec::check`] has bounded.
fn nanoseconds(time_us: f64) -> u64 {
    (time_us * 1e3).round() as u64
}

/// A uniform random number that is at least 0 and below 1. It has 53 random bits, as many as a
/// float has.
fn share(random: &mut Pcg64Mcg) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn due_ns(verdict: Verdict) -> u64 {
        match verdict {
            Verdict::Deliver { due_ns } => due_ns,
            other => panic!("not delivered: {other:?}"),
        }
    }

    #[test]
    fn a_frame_of_1250_bytes_takes_100_us_at_100_mb_per_s_and_then_the_delay() {
        let settings = DirectionSpec {
            delay_us: 5_000.0,
            rate_bps: Some(100_000_000),
            ..DirectionSpec::default()
        };
        let mut schedule = Schedule::new(&settings, 1);
        assert_eq!(
            due_ns(schedule.admit(1_000, 1250)),
            1_000 + 100_000 + 5_000_000
        );
        // The second frame waits for the first. The wire is free again for the third.
        assert_eq!(
            due_ns(schedule.admit(1_000, 1250)),
            1_000 + 200_000 + 5_000_000
        );
        assert_eq!(
            due_ns(schedule.admit(900_000, 1250)),
            900_000 + 100_000 + 5_000_000
        );
    }

    #[test]
    fn a_queue_of_two_frames_has_room_again_when_the_first_is_on_the_wire() {
        let settings = DirectionSpec {
            rate_bps: Some(8_000_000),
            queue_packets: 2,
            ..DirectionSpec::default()
        };
        let mut schedule = Schedule::new(&settings, 1);
        let verdicts: Vec<_> = (0..3).map(|_| schedule.admit(0, 1000)).collect();
        assert_eq!(verdicts[2], Verdict::Full);
        assert_eq!(due_ns(verdicts[1]), 2_000_000);
        assert_eq!(due_ns(schedule.admit(1_000_000, 1000)), 3_000_000);
    }

    #[test]
    fn the_share_of_lost_frames_is_the_setting() {
        // For 0.02: four standard deviations of a binomial variable with n = 100,000.
        for (loss, expected) in [(0.02, 1823..=2177), (1.0, 100_000..=100_000), (0.0, 0..=0)] {
            let settings = DirectionSpec {
                loss,
                ..DirectionSpec::default()
            };
            let mut schedule = Schedule::new(&settings, 7);
            let frames = 0..100_000;
            let lost = frames
                .filter(|_| schedule.admit(0, 100) == Verdict::Lost)
                .count();
            assert!(expected.contains(&lost), "{loss}: {lost}");
        }
    }

    #[test]
    fn settings_out_of_range_are_errors() {
        let wrong: [fn(&mut DirectionSpec); 6] = [
            |settings| settings.delay_us = -1.0,
            |settings| settings.delay_us = f64::NAN,
            |settings| settings.jitter_us = 1e10,
            |settings| settings.loss = 1.5,
            |settings| settings.rate_bps = Some(0),
            |settings| settings.queue_packets = 0,
        ];
        for change in wrong {
            let mut settings = DirectionSpec::default();
            assert!(settings.check().is_ok());
            change(&mut settings);
            assert!(settings.check().is_err(), "{settings:?}");
        }
    }

    proptest! {
        #[test]
        fn frames_are_delivered_in_order_and_never_before_the_wire_can_carry_them(
            frames in prop::collection::vec((0_u64..200_000, 60_usize..1515), 1..200),
            jitter_us in 0.0..500.0_f64,
            rate_bps in 1_000_000_u64..1_000_000_000,
            seed: u64,
        ) {
            let settings = DirectionSpec {
                delay_us: 300.0, jitter_us, rate_bps: Some(rate_bps), ..DirectionSpec::default()
            };
            let (mut schedule, mut twin) = (Schedule::new(&settings, seed), Schedule::new(&settings, seed));
            let (mut now_ns, mut last_ns, mut bytes, mut first_ns) = (0, 0, 0_u128, None);
            for (gap_ns, length) in frames {
                now_ns += gap_ns;
                let verdict = schedule.admit(now_ns, length);
                prop_assert_eq!(verdict, twin.admit(now_ns, length));
                if let Verdict::Deliver { due_ns } = verdict {
                    prop_assert!(due_ns >= last_ns);
                    last_ns = due_ns;
                    bytes += length as u128;
                    let first_ns = *first_ns.get_or_insert(now_ns);
                    let least = bytes * 8 * SECOND_NS / u128::from(rate_bps);
                    // From the first arrival to the last delivery, at least this time passes: the
                    // bits divided by the rate, and the shortest delay that jitter allows.
                    let least_delay = nanoseconds((300.0 - jitter_us).max(0.0)).saturating_sub(1);
                    prop_assert!(u128::from(due_ns - first_ns) + 1 >= least.max(u128::from(least_delay)));
                }
            }
        }
    }
}
