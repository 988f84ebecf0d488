//! The lateness of packets, which all threads of the server count together.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hdrhistogram::Histogram;

use crate::percentiles::Percentiles;
use perpacket_linux::mailbox::lock;

/// Counts of packets by lateness.
#[derive(Debug)]
pub(super) struct Lateness {
    /// In nanoseconds.
    times: Mutex<Histogram<u64>>,
    /// Packets since the last [`Self::read_overload`], and how many of them were later than the
    /// limit.
    recent: AtomicU64,
    recent_late: AtomicU64,
    limit_ns: u64,
}

impl Default for Lateness {
    /// No packets, and no limit.
    fn default() -> Self {
        Self::new(u64::MAX)
    }
}

impl Lateness {
    /// No packets. Packets later than `limit_ns` will count as overload.
    pub(super) fn new(limit_ns: u64) -> Self {
        /// Five hours. A later packet counts as this late.
        const LATEST_NS: u64 = 1 << 44;
        let times = Histogram::new_with_bounds(1, LATEST_NS, 3);
        Self {
            times: Mutex::new(times.unwrap_or_else(|_| unreachable!("constant bounds"))),
            recent: AtomicU64::new(0),
            recent_late: AtomicU64::new(0),
            limit_ns,
        }
    }

    /// Counts the packets of one send.
    #[inline]
    pub(super) fn add(&self, late_ns: impl Iterator<Item = u64>) {
        let (mut packets, mut late) = (0, 0);
        let mut times = lock(&self.times);
        for late_ns in late_ns {
            times.saturating_record(late_ns);
            packets += 1;
            late += u64::from(late_ns > self.limit_ns);
        }
        drop(times);
        self.recent.fetch_add(packets, Relaxed);
        self.recent_late.fetch_add(late, Relaxed);
    }

    /// Whether more than 1 % of the packets since the last call were later than the limit.
    pub(super) fn read_overload(&self) -> bool {
        let packets = self.recent.swap(0, Relaxed);
        self.recent_late.swap(0, Relaxed) * 100 > packets
    }

    /// The percentiles of all packets.
    pub(super) fn percentiles(&self) -> Percentiles {
        Percentiles::of(&lock(&self.times), 1e-3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_thousand_packets_are_exact_to_a_thousandth() {
        let lateness = Lateness::new(u64::MAX);
        lateness.add((1..=1000).map(|microseconds| microseconds * 1000));
        let percentiles = lateness.percentiles();
        for (measured, expected) in [
            (percentiles.p50, 500.0),
            (percentiles.p99, 990.0),
            (percentiles.max, 1000.0),
        ] {
            assert!(
                (measured / expected - 1.0).abs() < 1e-3,
                "{measured} for {expected}"
            );
        }
    }

    #[test]
    fn one_late_packet_in_fifty_is_overload_and_one_in_two_hundred_is_not() {
        let lateness = Lateness::new(1000);
        for (on_time, expected) in [(49, true), (199, false)] {
            lateness.add(std::iter::repeat_n(10, on_time).chain([2000]));
            assert_eq!(lateness.read_overload(), expected);
            assert!(!lateness.read_overload(), "each call starts a new count");
        }
    }
}
