//! A histogram of the lateness of packets. Threads update it without locks.
//!
//! The scale is logarithmic with 32 steps per octave, so the error of a percentile is at most 3 %.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;

/// Steps of an octave, and their binary logarithm.
const STEPS: u64 = 32;
const STEP_BITS: u32 = 5;

/// Number of octaves above the first one. In the first octave each value has a step of its own. The
/// last octave ends at 2^44 ns, nearly five hours.
const OCTAVES: u64 = 40;

/// Counts of packets by lateness.
#[derive(Debug)]
pub(super) struct Lateness {
    counts: Vec<AtomicU64>,
    most_ns: AtomicU64,
    /// Packets since the last [`Self::read_overload`], and how many of them were later than the
    /// limit.
    recent: AtomicU64,
    recent_late: AtomicU64,
    limit_ns: u64,
}

/// Percentiles of lateness in microseconds; 0 without packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// Median.
    pub p50: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    pub p999: f64,
    /// Highest.
    pub max: f64,
}

impl Default for Lateness {
    /// An empty histogram without a limit.
    fn default() -> Self {
        Self::new(u64::MAX)
    }
}

impl Lateness {
    /// An empty histogram. Packets later than `limit_ns` count as overload.
    pub(super) fn new(limit_ns: u64) -> Self {
        Self {
            counts: (0..STEPS * (OCTAVES + 1))
                .map(|_| AtomicU64::new(0))
                .collect(),
            most_ns: AtomicU64::new(0),
            recent: AtomicU64::new(0),
            recent_late: AtomicU64::new(0),
            limit_ns,
        }
    }

    /// Counts packets of equal lateness.
    #[inline]
    pub(super) fn add(&self, late_ns: u64, packets: u64) {
        self.counts[index_of(late_ns)].fetch_add(packets, Relaxed);
        self.recent.fetch_add(packets, Relaxed);
        if late_ns > self.limit_ns {
            self.recent_late.fetch_add(packets, Relaxed);
        }
        if late_ns > self.most_ns.load(Relaxed) {
            self.most_ns.fetch_max(late_ns, Relaxed);
        }
    }

    /// Whether more than 1 % of the packets since the last call were later than the limit.
    pub(super) fn read_overload(&self) -> bool {
        let packets = self.recent.swap(0, Relaxed);
        self.recent_late.swap(0, Relaxed) * 100 > packets
    }

    /// The percentiles of all packets.
    pub(super) fn percentiles(&self) -> Percentiles {
        let counts: Vec<u64> = self
            .counts
            .iter()
            .map(|count| count.load(Relaxed))
            .collect();
        let total: u64 = counts.iter().sum();
        let most_ns = self.most_ns.load(Relaxed);
        let at = |share: f64| {
            let rank = (total as f64 * share).ceil() as u64;
            let mut sum = 0;
            let found = counts.iter().position(|count| {
                sum += count;
                sum >= rank && sum > 0
            });
            let upper_ns = found.map_or(0, |index| upper_ns(index as u64));
            upper_ns.min(most_ns) as f64 / 1e3
        };
        Percentiles {
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: most_ns as f64 / 1e3,
        }
    }
}

/// The index of a value.
#[inline]
fn index_of(value: u64) -> usize {
    let octave = u64::from((value | (STEPS - 1)).ilog2() - (STEP_BITS - 1));
    // Low values are exact. For others, the bits after the highest select the step.
    let step = if octave <= 1 {
        value
    } else {
        value >> (octave - 1)
    };
    let index = if octave == 0 {
        value
    } else {
        STEPS * octave + (step & (STEPS - 1))
    };
    index.min(STEPS * (OCTAVES + 1) - 1) as usize
}

/// The largest value of an index.
fn upper_ns(index: u64) -> u64 {
    let (octave, step) = (index / STEPS, index % STEPS);
    if octave <= 1 {
        index
    } else {
        ((STEPS + step + 1) << (octave - 1)) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percentiles_of_a_thousand_packets_are_within_four_percent() {
        let lateness = Lateness::new(u64::MAX);
        for microseconds in 1..=1000u64 {
            lateness.add(microseconds * 1000, 1);
        }
        let percentiles = lateness.percentiles();
        for (found, expected) in [(percentiles.p50, 500.0), (percentiles.p99, 990.0)] {
            assert!(
                (found / expected - 1.0).abs() < 0.04,
                "{found} for {expected}"
            );
        }
        assert_eq!(percentiles.max, 1000.0);
    }

    #[test]
    fn one_late_packet_in_fifty_is_overload_and_one_in_two_hundred_is_not() {
        let lateness = Lateness::new(1000);
        for (on_time, expected) in [(49, true), (199, false)] {
            lateness.add(10, on_time);
            lateness.add(2000, 1);
            assert_eq!(lateness.read_overload(), expected);
            assert!(!lateness.read_overload(), "each call starts a new count");
        }
    }

    proptest! {
        #[test]
        fn the_step_of_a_value_is_at_most_three_percent_wide(value in 0u64..1 << 44) {
            let upper = upper_ns(index_of(value) as u64);
            prop_assert!(upper >= value);
            prop_assert!(upper as f64 <= value as f64 * 1.032 + 1.0);
        }
    }
}
